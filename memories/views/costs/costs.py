"""The costs page: this month and the last 30 days.

It counts calls for memories that the user may read, and all calls for an operator.
"""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, date, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from memories.models import Budget, Member, ModelCall
from memories.models.costs.model_calls import ModelCallQuerySet
from memories.pipeline.costs.usage import (
    PRIVATE,
    BudgetUse,
    By,
    Sums,
    budget_use,
    sum_by_day_and_model,
    sum_calls,
    total,
)
from memories.views.access.access import UserRequest, WorkspaceAccess, open_workspace
from memories.views.pages import render_page

DAYS = 30
SERIES = 6  # colours; all models from the sixth on share one
TOP_CHANNELS = 10
WIDTH, HEIGHT, STEP = 600, 80, 20


@dataclass(frozen=True)
class Bar:
    """The tokens of a model on a day, as a part of the day's bar."""

    day: date
    model: str
    series: int
    tokens: int
    x: int
    y: float
    height: float


@dataclass(frozen=True)
class ModelRow:
    series: int
    model: str
    sums: Sums


@login_required
@require_safe
def index(request: UserRequest, slug: str) -> HttpResponse:
    access = open_workspace(request, slug)
    if access.role not in Member.READING:
        raise PermissionDenied
    now = timezone.now()
    today = now.astimezone(UTC).date()
    first, since = today - timedelta(days=DAYS - 1), today.replace(day=1)
    oldest = min(first, since)
    calls = ModelCall.objects.readable_by(access.reader, oldest).filter(workspace=access.workspace)
    all_days = sum_by_day_and_model(calls, oldest, today)
    days = {key: sums for key, sums in all_days.items() if key[0] >= first}
    models = _models(days)
    top = sum_calls(calls, access.reader, since, today, By.CHANNEL, TOP_CHANNELS)
    channels = access.find_channels(row.key for row in top)
    context: dict[str, Any] = {
        "access": access,
        "month": total(sums for (day, _model), sums in all_days.items() if day >= since),
        "since": since,
        "first": first,
        "today": today,
        "budgets": budget_uses_of(access, calls),
        "models": models,
        "bars": _bars(days, {row.model: row.series for row in models}, first),
        "days": _by_day(days, models),
        "tallest": max(_tokens_by_day(days).values(), default=0),
        "top": [(channels.get(row.key), row) for row in top],
        "private": PRIVATE,
        "width": WIDTH,
        "height": HEIGHT,
        "is_whole": access.reader.is_operator,
    }
    return render_page(request, "costs/index.html", context)


def budget_uses_of(
    access: WorkspaceAccess, calls: ModelCallQuerySet
) -> list[tuple[BudgetUse, int | None]]:
    """Return the use of the budgets that bind this workspace by these calls, and its percentage.

    For an operator all calls count, also those of other workspaces.
    """
    counted = ModelCall.objects.all() if access.reader.is_operator else calls
    gauges = []
    for budget in Budget.objects.binding(access.workspace).select_related("workspace"):
        use = budget_use(budget, timezone.now(), counted)
        shares = [
            100 * used // limit
            for used, limit in ((use.tokens, budget.tokens), (use.micros, budget.micros))
            if limit
        ]
        gauges.append((use, min(100, max(shares)) if shares else None))
    return gauges


def _models(days: dict[tuple[date, str], Sums]) -> list[ModelRow]:
    """Return the sums of each model, most tokens first."""
    sums: dict[str, Sums] = {}
    for (_day, model), day_sums in days.items():
        sums[model] = sums.get(model, Sums()) + day_sums
    ordered = sorted(sums.items(), key=lambda item: (-item[1].tokens, item[0]))
    return [
        ModelRow(min(n, SERIES), model, model_sums)
        for n, (model, model_sums) in enumerate(ordered, 1)
    ]


def _by_day(
    days: dict[tuple[date, str], Sums], models: list[ModelRow]
) -> list[tuple[date, ModelRow]]:
    """Return a row for each day and model with a call, the newest day first."""
    return [
        (day, replace(row, sums=days[day, row.model]))
        for day in sorted({day for day, _model in days}, reverse=True)
        for row in models
        if (day, row.model) in days
    ]


def _tokens_by_day(days: dict[tuple[date, str], Sums]) -> Counter[date]:
    tokens: Counter[date] = Counter()
    for (day, _model), day_sums in days.items():
        tokens[day] += day_sums.tokens
    return tokens


def _bars(days: dict[tuple[date, str], Sums], series: dict[str, int], first: date) -> list[Bar]:
    """Return the stacked bars of each day. The tallest day has the height of the picture."""
    heights = _tokens_by_day(days)
    tallest = max(heights.values(), default=0)
    if not tallest:
        return []
    bars, tops = [], dict.fromkeys(heights, 0.0)
    for (day, model), day_sums in sorted(
        days.items(), key=lambda item: (item[0][0], series[item[0][1]])
    ):
        height = HEIGHT * day_sums.tokens / tallest
        tops[day] += height
        x, y = (day - first).days * STEP, HEIGHT - tops[day]
        bars.append(
            Bar(day, model, series[model], day_sums.tokens, x, round(y, 1), round(height, 1))
        )
    return bars
