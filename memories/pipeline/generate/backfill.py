"""Run a backfill in the foreground, and measure its progress."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Min, Q, Sum
from django.utils import timezone

from memories.models import Backfill, Channel, Job, ModelServer, Price
from memories.pipeline.generate.passes import run_pass
from memories.rules.costs.estimate import Range, estimate_time_left
from memories.rules.costs.money import MICROS
from memories.rules.generate.circuit_breaker import Refusal
from memories.rules.ingest.timestamps import from_micros

MAX_IDLE_SECONDS = 60  # without a call or a version: other workers may have the jobs
RATE_OVER = timedelta(minutes=5)  # the calls of this time give the rate


class NeedsPrice(Exception):
    """A cap in dollars needs a price of the model."""


@dataclass(frozen=True)
class Share:
    """Counts of a channel's jobs for segments and threads."""

    channel: Channel
    finished: int
    failed: int
    total: int


@dataclass(frozen=True)
class Progress:
    """The progress of a backfill.

    ``is_complete``: all its messages are in segments, so ``total`` is final. ``micros`` are millionths of
    a dollar, None without a price. ``reserved_tokens`` are reserved by running calls.
    ``seconds_left`` is None while there is no rate.
    """

    is_complete: bool
    shares: Sequence[Share]
    finished: int
    failed: int
    total: int
    merges: int  # done
    tokens: int
    micros: int | None
    reserved_tokens: int
    seconds_left: Range | None

    @property
    def minutes_left(self) -> dict[str, float] | None:
        return None if self.seconds_left is None else self.seconds_left.times(1 / 60).as_json(2)

    def as_json(self) -> dict[str, Any]:
        return {
            "is_complete": self.is_complete,
            "finished": self.finished,
            "failed": self.failed,
            "total": self.total,
            "merges": self.merges,
            "tokens": self.tokens,
            "dollars": None if self.micros is None else self.micros / MICROS,
            "reserved_tokens": self.reserved_tokens,
            "minutes_left": self.minutes_left,
            "channels": [
                {
                    "channel_id": share.channel.slack_id,
                    "channel_name": share.channel.name,
                    "finished": share.finished,
                    "failed": share.failed,
                    "total": share.total,
                }
                for share in self.shares
            ],
        }


def check_cap(cap_micros: int | None) -> None:
    """Raise NeedsPrice for a cap in dollars while the model has no price."""
    model = ModelServer.objects.in_use().model
    if cap_micros is not None and model and Price.objects.of_model(model) is None:
        raise NeedsPrice


def run_backfill(backfill: Backfill, on_progress: Callable[[], None]) -> str:
    """Run passes until the backfill is not running. Return "", or why it cannot continue now."""
    workspace, idle_seconds = backfill.workspace, 0
    while True:
        now = timezone.now()
        as_of = workspace.synced_until(now) or now
        report = run_pass(workspace, as_of, on_progress=on_progress)
        backfill.refresh_from_db()
        backfill.finish_if_done(timezone.now())
        if backfill.state != Backfill.State.RUNNING:
            return ""
        if report.calls or report.made.total():
            idle_seconds = 0
            continue
        waits_for_long = any(
            refusal["until"] is None or refusal["why"] == Refusal.NEEDS_PERSON
            for refusal in report.refusals
        )
        if waits_for_long or idle_seconds >= MAX_IDLE_SECONDS:
            reasons = dict.fromkeys(refusal["why"] for refusal in report.refusals)
            return ", ".join(reasons) or "waiting"
        time.sleep(1)
        idle_seconds += 1
        on_progress()


def progress_of(backfill: Backfill, now: datetime) -> Progress:
    estimates = {
        channel["channel_id"]: channel for channel in backfill.estimate.get("channels", [])
    }
    uncut = set(backfill.uncut_messages().values_list("channel", flat=True).distinct())
    summaries = backfill.jobs.exclude(segment=None).values_list("memory__channel", "state")
    states: dict[int | None, Counter[str]] = {}
    for channel_id, state, n in summaries.annotate(Count("pk")):
        states.setdefault(channel_id, Counter())[state] = n
    shares = []
    for channel in backfill.channels.order_by("name"):
        counts = states.get(channel.pk, Counter())
        total = counts.total()
        if channel.pk in uncut and channel.slack_id in estimates:
            estimate = estimates[channel.slack_id]
            total = max(total, estimate["segments"] + estimate["threads"])
        finished, failed = counts[Job.State.DONE], counts[Job.State.DEAD]
        shares.append(Share(channel, finished, failed, total))
    spent = backfill.calls.exclude(ended_at=None).aggregate(
        unpriced=Count("pk", filter=Q(micros=None)),
        all_tokens=Sum("tokens"),
        all_micros=Sum("micros"),
    )
    tokens = spent["all_tokens"] or 0
    has_price = not spent["unpriced"] and bool(backfill.estimate.get("priced"))
    return Progress(
        is_complete=not uncut,
        shares=shares,
        finished=sum(share.finished for share in shares),
        failed=sum(share.failed for share in shares),
        total=sum(share.total for share in shares),
        merges=backfill.jobs.filter(segment=None, state=Job.State.DONE).count(),
        tokens=tokens,
        micros=spent["all_micros"] or 0 if has_price else None,
        reserved_tokens=backfill.calls.all().committed()[0] - tokens,
        seconds_left=_estimate_seconds_left(backfill, now),
    )


def _estimate_seconds_left(backfill: Backfill, now: datetime) -> Range | None:
    if backfill.state != Backfill.State.RUNNING:
        return None
    ended = backfill.calls.exclude(ended_at=None).filter(fault="")
    lately = ended.filter(ended_at__gte=now - RATE_OVER).aggregate(
        n=Count("pk"), first=Min("began_at")
    )
    if not lately["n"]:
        return None
    estimated = backfill.estimate.get("total", {}).get("calls", {}).get("middle", 0)
    left = max(estimated - ended.count(), backfill.jobs.unfinished().count())
    return estimate_time_left(lately["n"], left, (now - lately["first"]).total_seconds())


def build_document(
    workspace_slug: str, estimate: dict[str, Any] | None, backfill: Backfill | None, now: datetime
) -> dict[str, Any]:
    """Return the backfill, its estimate and its progress as JSON values; null for what is missing."""
    facts: dict[str, Any] = dict.fromkeys(
        ("id", "state", "pause_reason", "since", "until", "cap_tokens", "cap_dollars", "progress")
    )
    if backfill is not None:
        estimate = backfill.estimate_with_current_names()
        facts |= {
            "id": backfill.pk,
            "state": str(backfill.state),
            "pause_reason": backfill.pause_reason,
            "since": from_micros(backfill.since_us).isoformat() if backfill.since_us else None,
            "until": from_micros(backfill.until_us).isoformat(),
            "cap_tokens": backfill.cap_tokens,
            "cap_dollars": backfill.cap_micros and backfill.cap_micros / MICROS,
            "progress": progress_of(backfill, now).as_json(),
        }
    return {"workspace": workspace_slug, **facts, "estimate": estimate}
