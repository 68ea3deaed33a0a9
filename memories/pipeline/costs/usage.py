"""calls → sums: what was used, what is promised, what may be lost, and how much of each cap that is.

Money is in millionths of a dollar throughout, so that sums are exact. Days are UTC's.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

from django.db.models import Case, Count, F, Q, Sum, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce

from memories.models import Cap, Channel, Job, ModelCall, Reader, Workspace
from memories.models.costs.model_calls import ModelCallQuerySet

PRIVATE = "private"  # channels that the reader may not see are one row
_WHOLE, _HIDDEN = 0, -1  # in place of a channel's key


class By(StrEnum):
    """What sums are told apart by."""

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
    """Of some calls. ``micros`` is what is known of the price of ``tokens_in`` and ``tokens_out``,
    of which ``unpriced_tokens`` have none. Promised: calls that are under way, at their upper
    bound. Lost: calls whose answer never came, at their upper bound; they may have been charged.

    Micros are None where nothing has a price, never 0.
    """

    calls: int = 0
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    unpriced_tokens: int = 0
    promised_tokens: int = 0
    lost_tokens: int = 0
    micros: int | None = None
    promised_micros: int | None = None
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
    """``key`` is a day in ISO 8601, a model, a slug, or the id of a channel ("" for memories of a
    whole workspace, PRIVATE for what the reader may not see); ``name`` is for people."""

    key: str
    name: str
    sums: Sums


@dataclass(frozen=True)
class CapUse:
    """A cap, and what counts against it since its first day: used, promised and lost."""

    cap: Cap
    first_day: date
    tokens: int
    micros: int
    until: datetime

    @property
    def is_reached(self) -> bool:
        """Nothing more fits. A call that is too long for the rest is refused before that."""
        limit = self.cap.micros
        return (self.cap.tokens is not None and self.tokens >= self.cap.tokens) or (
            limit is not None and self.micros >= limit
        )


def costs(
    reader: Reader, workspace: Workspace | None, first: date, last: date, by: By
) -> list[Row]:
    """Sums from the first to the last day: days in order, all else by tokens, most first."""
    calls = ModelCall.objects.visible_to(reader)
    if workspace is not None:
        calls = calls.filter(workspace=workspace)
    return costs_of(calls, reader, first, last, by)


def costs_of(
    calls: ModelCallQuerySet,
    reader: Reader,
    first: date,
    last: date,
    by: By,
    most: int | None = None,
) -> list[Row]:
    """The same of certain calls; of channels the ``most`` with the most tokens, where that is given."""
    calls = calls.filter(day__gte=first, day__lte=last)
    if by is By.CHANNEL:
        return _by_channel(calls, reader, most)
    groups: Any = calls.values(key=F(_COLUMNS[by])).order_by("key").annotate(**_sums())
    sums = [(group["key"], _sums_of(group)) for group in groups]
    if by is By.DAY:
        return [Row(day.isoformat(), day.isoformat(), daily) for day, daily in sums]
    return sorted((Row(k, k, s) for k, s in sums), key=lambda row: -row.sums.tokens)


def by_day_and_model(
    calls: ModelCallQuerySet, first: date, last: date
) -> dict[tuple[date, str], Sums]:
    groups: Any = calls.filter(day__gte=first, day__lte=last).order_by().values("day", "model")
    return {(group["day"], group["model"]): _sums_of(group) for group in groups.annotate(**_sums())}


@dataclass(frozen=True)
class Cause:
    """What calls were made for: a memory of this scope and type, and why it was due ("" for what
    is gone by now)."""

    scope: str
    memory_type: str
    reason: str


def by_cause(calls: ModelCallQuerySet, first: date, last: date) -> dict[Cause, Sums]:
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


def of_jobs(keys: Collection[int]) -> dict[int, Sums]:
    """What each of these cost; those that went to no model are not among them."""
    groups: Any = ModelCall.objects.filter(job__in=keys).order_by().values("job")
    return {group["job"]: _sums_of(group) for group in groups.annotate(**_sums())}


def this_month(calls: ModelCallQuerySet, now: datetime) -> Sums:
    """What these calls took, of days as they are counted everywhere: UTC's."""
    first = now.astimezone(UTC).date().replace(day=1)
    totals: Any = calls.filter(day__gte=first).aggregate(**_sums())
    return _sums_of(totals)


def total(sums: Iterable[Sums]) -> Sums:
    return sum(sums, Sums())


def cap_uses(reader: Reader, workspace: Workspace | None, now: datetime) -> list[CapUse]:
    """All caps that the reader may know of, or those that bind a workspace."""
    caps = Cap.objects.that_bind(workspace) if workspace else Cap.objects.order_by("pk")
    if not reader.is_operator:
        visible = Workspace.objects.visible_to(reader).values("pk")
        caps = caps.filter(Q(workspace=None) | Q(workspace__in=visible))
    return [cap_use(cap, now) for cap in caps.select_related("workspace")]


def cap_use(cap: Cap, now: datetime, calls: ModelCallQuerySet | None = None) -> CapUse:
    """``calls``: count no others."""
    today = now.astimezone(UTC).date()
    used = (ModelCall.objects.all() if calls is None else calls).under(cap, today).committed()
    return CapUse(cap, cap.first_day(today), *used, cap.ends(today))


def _sums_of(group: dict[str, Any]) -> Sums:
    return Sums(**{name: _sum(name, group[f"sum_{name}"]) for name in NAMES})


def _sum(name: str, value: int | None) -> Any:
    """SQL's sum of nothing is null; of money that is what it is."""
    return value if name in MONEY else value or 0


def _sums() -> dict[str, Any]:
    """The columns of `Sums`, as SQL."""
    is_open = Q(ended_at=None)
    under_way = is_open & Q(job__fence=F("fence"), job__state=Job.State.CLAIMED)
    # An end without an answer leaves the whole bound counted.
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
        "sum_promised_tokens": Sum("tokens", filter=under_way),
        "sum_promised_micros": Sum("micros", filter=under_way),
        "sum_lost_tokens": Sum("tokens", filter=is_lost),
        "sum_lost_micros": Sum("micros", filter=is_lost),
    }


def _by_channel(calls: ModelCallQuerySet, reader: Reader, most: int | None) -> list[Row]:
    """Channels by name; those that the reader may not see are one row."""
    channel = F("job__memory__channel")
    visible = Q(job__memory__channel__in=Channel.objects.visible_to(reader))
    key = Case(
        When(visible, then=channel), When(channel__isnull=True, then=_WHOLE), default=_HIDDEN
    )
    groups: Any = calls.order_by().annotate(channel=channel).values(key=key).annotate(**_sums())
    tokens = Coalesce(F("sum_tokens_in"), 0) + Coalesce(F("sum_tokens_out"), 0)
    ranked = groups.order_by(tokens.desc(), "key")[:most]
    sums = {group["key"]: _sums_of(group) for group in ranked}
    channels = Channel.objects.in_bulk(sums.keys() - {_WHOLE, _HIDDEN})
    names = {pk: (channel.slack_id, f"#{channel.name}") for pk, channel in channels.items()}
    names |= {_WHOLE: ("", "whole workspace"), _HIDDEN: (PRIVATE, PRIVATE)}
    return [Row(*names[pk], row_sums) for pk, row_sums in sums.items()]
