"""A backfill in the foreground, and how far one is: made, spent, and about how long it still takes."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Min, Q, Sum
from django.utils import timezone

from memories.models import Backfill, Channel, Job, Message, Price
from memories.pipeline.generate.passes import run_pass
from memories.rules.costs.estimate import Range, time_left
from memories.rules.costs.money import MICROS
from memories.rules.generate.circuit_breaker import Refusal
from memories.rules.ingest.timestamps import from_micros

PATIENCE = 60  # seconds without anything to do, such as while another worker has the rest
RATE_OVER = timedelta(minutes=5)  # the newest calls tell how fast it goes


class NeedsPrice(Exception):
    """A cap in dollars, and nobody said what the model costs: it could not be kept."""


@dataclass(frozen=True)
class Share:
    """Summaries of a channel's segments and threads: made, given up, and wanted at all."""

    channel: Channel
    made: int
    given_up: int
    total: int


@dataclass(frozen=True)
class Progress:
    """``is_cut``: every channel's older messages are in segments, so ``wanted`` is final.

    Spent are tokens and millionths of a dollar (None: of a model without a price); promised is
    what running calls may use at most. ``seconds_left`` is None before there is a rate.
    """

    is_cut: bool
    shares: Sequence[Share]
    made: int
    given_up: int
    total: int
    merges: int  # made so far
    tokens: int
    micros: int | None
    promised_tokens: int
    seconds_left: Range | None

    @property
    def minutes_left(self) -> dict[str, float] | None:
        return None if self.seconds_left is None else self.seconds_left.times(1 / 60).as_json(2)

    def as_json(self) -> dict[str, Any]:
        return {
            "cut": self.is_cut,
            "made": self.made,
            "given_up": self.given_up,
            "wanted": self.total,
            "merges": self.merges,
            "tokens": self.tokens,
            "dollars": None if self.micros is None else self.micros / MICROS,
            "promised_tokens": self.promised_tokens,
            "minutes_left": self.minutes_left,
            "channels": [
                {
                    "channel_id": share.channel.slack_id,
                    "channel_name": share.channel.name,
                    "made": share.made,
                    "given_up": share.given_up,
                    "wanted": share.total,
                }
                for share in self.shares
            ],
        }


def check_cap(cap_micros: int | None) -> None:
    """Raises NeedsPrice for a cap that nothing could be held against, by the prices of today."""
    model = settings.MEMORYHUB_MODEL
    if cap_micros is not None and model and Price.objects.of_model(model) is None:
        raise NeedsPrice


def carry_out(backfill: Backfill, alive: Callable[[], None]) -> str:
    """Passes until it runs no longer. "" then, else why it cannot go on by itself for now."""
    workspace, idle = backfill.workspace, 0
    while True:
        report = run_pass(workspace, _as_of(backfill), alive=alive)
        backfill.refresh_from_db()
        backfill.finish_if_done(timezone.now())
        if backfill.state != Backfill.State.RUNNING:
            return ""
        if report.calls or report.made.total():
            idle = 0
            continue
        waits_for_long = any(
            held_back["until"] is None or held_back["why"] == Refusal.NEEDS_PERSON
            for held_back in report.held
        )
        if waits_for_long or idle >= PATIENCE:
            return (
                ", ".join(dict.fromkeys(held_back["why"] for held_back in report.held)) or "waiting"
            )
        time.sleep(1)
        idle += 1
        alive()


def _as_of(backfill: Backfill) -> datetime:
    """Later messages of a workspace that is read live are not known yet."""
    now = timezone.now()
    return backfill.workspace.known_until(now) or now


def progress_of(backfill: Backfill, now: datetime) -> Progress:
    """Read from the rows, so it is the same for every page and every process."""
    quoted = {channel["channel_id"]: channel for channel in backfill.quote.get("channels", [])}
    uncut = _uncut(backfill)
    firsts = backfill.jobs.exclude(segment=None)
    states: dict[int | None, Counter[str]] = {}
    for channel, state, n in firsts.values_list("memory__channel", "state").annotate(Count("pk")):
        states.setdefault(channel, Counter())[state] = n
    shares = []
    for channel in backfill.channels.order_by("name"):
        counts = states.get(channel.pk, Counter())
        total = counts.total()
        if channel.pk in uncut and channel.slack_id in quoted:
            quote = quoted[channel.slack_id]
            total = max(total, quote["segments"] + quote["threads"])
        made, dead = counts[Job.State.DONE], counts[Job.State.DEAD]
        shares.append(Share(channel, made, dead, total))
    spent = backfill.calls.exclude(ended_at=None).aggregate(
        unpriced=Count("pk", filter=Q(micros=None)),
        all_tokens=Sum("tokens"),
        all_micros=Sum("micros"),
    )
    tokens = spent["all_tokens"] or 0
    return Progress(
        is_cut=not uncut,
        shares=shares,
        made=sum(share.made for share in shares),
        given_up=sum(share.given_up for share in shares),
        total=sum(share.total for share in shares),
        merges=backfill.jobs.filter(segment=None, state=Job.State.DONE).count(),
        tokens=tokens,
        micros=None if spent["unpriced"] or not _is_priced(backfill) else spent["all_micros"] or 0,
        promised_tokens=backfill.calls.all().committed()[0] - tokens,
        seconds_left=_left(backfill, now),
    )


def _uncut(backfill: Backfill) -> set[int]:
    waiting = Message.objects.waiting().filter(backfill.uncut()).until(backfill.until_us)
    parts = backfill.parts.values("channel")
    return set(waiting.filter(channel__in=parts).values_list("channel", flat=True).distinct())


def _is_priced(backfill: Backfill) -> bool:
    return bool(backfill.quote.get("priced"))


def _left(backfill: Backfill, now: datetime) -> Range | None:
    if backfill.state != Backfill.State.RUNNING:
        return None
    ended = backfill.calls.exclude(ended_at=None).filter(fault="")  # what failed is no progress
    lately = ended.filter(ended_at__gte=now - RATE_OVER).aggregate(
        n=Count("pk"), first=Min("began_at")
    )
    if not lately["n"]:
        return None
    quoted = backfill.quote.get("total", {}).get("calls", {}).get("middle", 0)
    left = max(quoted - ended.count(), backfill.jobs.unfinished().count())
    return time_left(lately["n"], left, (now - lately["first"]).total_seconds())


def document_of(
    workspace_slug: str, quote: dict[str, Any] | None, backfill: Backfill | None, now: datetime
) -> dict[str, Any]:
    """The order, its quote and how far it is; null where there is none."""
    facts: dict[str, Any] = dict.fromkeys(
        ("id", "state", "paused_by", "since", "until", "cap_tokens", "cap_dollars", "progress")
    )
    if backfill is not None:
        quote = backfill.quote_by_names()
        facts |= {
            "id": backfill.pk,
            "state": str(backfill.state),
            "paused_by": backfill.paused_by,
            "since": from_micros(backfill.since_us).isoformat() if backfill.since_us else None,
            "until": from_micros(backfill.until_us).isoformat(),
            "cap_tokens": backfill.cap_tokens,
            "cap_dollars": backfill.cap_micros and backfill.cap_micros / MICROS,
            "progress": progress_of(backfill, now).as_json(),
        }
    return {"workspace": workspace_slug, **facts, "quote": quote}
