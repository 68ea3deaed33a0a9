"""Sum up model calls: used, reserved and lost tokens and money, and the use of each budget.

Money is in millionths of a dollar, so that sums are exact. Days are in UTC.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

from django.db.models import Case, Count, F, Q, QuerySet, Sum, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce

from memories.models import Budget, Channel, Job, ModelCall, Reader, Workspace
from memories.models.access.kept_sql import fetch
from memories.models.costs.model_calls import ModelCallQuerySet

PRIVATE = "private"  # the row of all channels that the reader may not read
_WHOLE, _HIDDEN = 0, -1  # keys that are no channel


class By(StrEnum):
    """The groups of calls."""

    DAY = "day"
    MODEL = "model"
    WORKSPACE = "workspace"
    CHANNEL = "channel"


_COLUMNS = {
    By.DAY: "day",
    By.MODEL: "model",
    By.WORKSPACE: "workspace__slug",
}


@dataclass(frozen=True)
class Sums:
    """Sums over calls. Micros are None, never 0, if no call has a price.

    ``micros`` is the price of ``tokens_in`` and ``tokens_out``, without ``unpriced_tokens``.
    Reserved tokens are the upper bounds of open calls. Lost tokens are the upper bounds of calls
    without a reply, which may have been charged.
    """

    calls: int = 0
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    unpriced_tokens: int = 0
    reserved_tokens: int = 0
    lost_tokens: int = 0
    micros: int | None = None
    reserved_micros: int | None = None
    lost_micros: int | None = None

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def __add__(self, other: "Sums") -> "Sums":
        pairs = ((getattr(self, name), getattr(other, name)) for name in NAMES)
        return Sums(*(b if a is None else a if b is None else a + b for a, b in pairs))


NAMES = tuple(field.name for field in fields(Sums))
MONEY = tuple(name for name in NAMES if name.endswith("micros"))


@dataclass(frozen=True)
class Row:
    """The sums of a group. ``name`` is for people.

    ``key`` is a day in ISO 8601, a model, a slug, or the id of a channel. It is "" for memories of
    a whole workspace, and PRIVATE for channels that the reader may not read.
    """

    key: str
    name: str
    sums: Sums


@dataclass(frozen=True)
class BudgetUse:
    """A budget, and the sums that count against it: used, reserved and lost."""

    budget: Budget
    first_day: date
    tokens: int
    micros: int
    until: datetime

    @property
    def is_reached(self) -> bool:
        """Whether no call at all fits. A long call is refused before that."""
        limit = self.budget.micros
        return (self.budget.tokens is not None and self.tokens >= self.budget.tokens) or (
            limit is not None and self.micros >= limit
        )


def costs(
    reader: Reader, workspace: Workspace | None, first: date, last: date, by: By
) -> list[Row]:
    """Return sums from the first to the last day: days in order, other groups by tokens."""
    calls = ModelCall.objects.visible_to(reader)
    if workspace is not None:
        calls = calls.filter(workspace=workspace)
    return sum_calls(calls, reader, first, last, by)


def sum_calls(
    calls: ModelCallQuerySet,
    reader: Reader,
    first: date,
    last: date,
    by: By,
    limit: int | None = None,
) -> list[Row]:
    """Return the sums of certain calls, of at most ``limit`` channels with the most tokens."""
    calls = calls.filter(day__gte=first, day__lte=last)
    if by is By.CHANNEL:
        return _by_channel(calls, reader, limit)
    groups: Any = calls.values(key=F(_COLUMNS[by])).order_by("key").annotate(**_sums())
    sums = [(group["key"], _sums_of(group)) for group in groups]
    if by is By.DAY:
        return [Row(day.isoformat(), day.isoformat(), daily) for day, daily in sums]
    return sorted((Row(k, k, s) for k, s in sums), key=lambda row: -row.sums.tokens)


def sum_by_day_and_model(
    calls: ModelCallQuerySet, first: date, last: date
) -> dict[tuple[date, str], Sums]:
    groups: Any = calls.filter(day__gte=first, day__lte=last).order_by().values("day", "model")
    return {(group["day"], group["model"]): _sums_of(group) for group in groups.annotate(**_sums())}


@dataclass(frozen=True)
class Cause:
    """The purpose of calls: the scope and type of a memory, and the reason of its update.

    Each is "" if the job was deleted.
    """

    scope: str
    memory_type: str
    reason: str


def sum_by_cause(calls: ModelCallQuerySet, first: date, last: date) -> dict[Cause, Sums]:
    groups: Any = (
        calls.filter(day__gte=first, day__lte=last)
        .order_by()
        .values(
            scope=F("job__memory__scope"),
            memory_type=F("job__memory__memory_type"),
            reason=KeyTextTransform("reason", "job__trigger"),
        )
        .annotate(**_sums())
    )
    return {
        Cause(group["scope"] or "", group["memory_type"] or "", group["reason"] or ""): _sums_of(
            group
        )
        for group in groups
    }


def sum_by_job(keys: Collection[int]) -> dict[int, Sums]:
    """Return the sums of each job that called a model."""
    groups: Any = ModelCall.objects.filter(job__in=keys).order_by().values("job")
    return {group["job"]: _sums_of(group) for group in groups.annotate(**_sums())}


def sum_this_month(reader: Reader, now: datetime, **of: Any) -> Sums:
    """Return the sums of readable calls with these values in the current month in UTC."""
    first = now.astimezone(UTC).date().replace(day=1)
    keys = tuple((name, getattr(value, "pk", value)) for name, value in of.items())
    names = [f"sum_{name}" for name in NAMES]
    rows = fetch(_totals, reader, first, keys)
    return total(_sums_of(dict(zip(names, row, strict=True))) for row in rows)


def _totals(
    reader: Reader, first: date, of: tuple[tuple[str, Any], ...]
) -> QuerySet[ModelCall, Any]:
    calls = ModelCall.objects.readable_by(reader, first).filter(**dict(of))
    sums = calls.order_by().values("workspace").annotate(**_sums())
    return sums.values_list(*(f"sum_{name}" for name in NAMES))


def total(sums: Iterable[Sums]) -> Sums:
    return sum(sums, Sums())


def budget_uses(reader: Reader, workspace: Workspace | None, now: datetime) -> list[BudgetUse]:
    """Return the use of all visible budgets, or of those that bind a workspace."""
    budgets = Budget.objects.binding(workspace) if workspace else Budget.objects.order_by("pk")
    if not reader.is_operator:
        visible = Workspace.objects.visible_to(reader).values("pk")
        budgets = budgets.filter(Q(workspace=None) | Q(workspace__in=visible))
    return [
        budget_use(budget, now, ModelCall.objects.all())
        for budget in budgets.select_related("workspace")
    ]


def budget_use(budget: Budget, now: datetime, calls: ModelCallQuerySet) -> BudgetUse:
    """Return the use of a budget by these calls."""
    today = now.astimezone(UTC).date()
    used = calls.counting_against(budget, today).committed()
    return BudgetUse(budget, budget.first_day(today), *used, budget.ends_at(today))


def _sums_of(group: dict[str, Any]) -> Sums:
    """Return the sums of a row. A sum of no values is 0, but None for money."""
    values = {name: group[f"sum_{name}"] for name in NAMES}
    sums: dict[str, Any] = {
        name: None if value is None and name in MONEY else int(value or 0)
        for name, value in values.items()
    }
    return Sums(**sums)


def _sums() -> dict[str, Any]:
    """Return the aggregates for the fields of `Sums`."""
    is_open = Q(ended_at=None)
    under_way = is_open & Q(job__fence=F("fence"), job__state=Job.State.CLAIMED)
    # A call that ended without a reply keeps its whole bound.
    is_lost = (is_open & ~under_way) | Q(
        ended_at__isnull=False, tokens__gt=F("prompt_tokens") + F("completion_tokens")
    )
    is_known = Q(ended_at__isnull=False) & ~is_lost
    return {
        "sum_calls": Count("pk"),
        "sum_requests": Sum("requests"),
        "sum_tokens_in": Sum("prompt_tokens"),
        "sum_tokens_out": Sum("completion_tokens"),
        "sum_micros": Sum("micros", filter=is_known),
        "sum_unpriced_tokens": Sum("tokens", filter=is_known & Q(micros=None)),
        "sum_reserved_tokens": Sum("tokens", filter=under_way),
        "sum_reserved_micros": Sum("micros", filter=under_way),
        "sum_lost_tokens": Sum("tokens", filter=is_lost),
        "sum_lost_micros": Sum("micros", filter=is_lost),
    }


def _by_channel(calls: ModelCallQuerySet, reader: Reader, limit: int | None) -> list[Row]:
    """Return the channels with the most tokens. Unreadable channels are one row."""
    channel = F("job__memory__channel")
    visible = Q(job__memory__channel__in=Channel.objects.visible_to(reader))
    key = Case(
        When(visible, then=channel), When(channel__isnull=True, then=_WHOLE), default=_HIDDEN
    )
    groups: Any = calls.order_by().annotate(channel=channel).values(key=key).annotate(**_sums())
    tokens = Coalesce(F("sum_tokens_in"), 0) + Coalesce(F("sum_tokens_out"), 0)
    ranked = groups.order_by(tokens.desc(), "key")[:limit]
    sums = {group["key"]: _sums_of(group) for group in ranked}
    channels = Channel.objects.in_bulk(sums.keys() - {_WHOLE, _HIDDEN})
    names = {pk: (channel.slack_id, f"#{channel.name}") for pk, channel in channels.items()}
    names |= {_WHOLE: ("", "whole workspace"), _HIDDEN: (PRIVATE, PRIVATE)}
    return [Row(*names[pk], row_sums) for pk, row_sums in sums.items()]
