"""Decide when messages become a segment, and where a conversation is cut (rules 1 and 2; S1).

All times are microseconds since 1970. The cuts do not depend on when a pass runs. The rule applies at
the time of each next message, and at ``now_us`` after the last one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from memories.rules.ingest.timestamps import SECOND
from memories.rules.settings import MemorySettings


class Trigger(StrEnum):
    """Why a short-term memory is made, or why it is not made yet."""

    IDLE = "idle"  # no message for `conversation_idle_seconds`
    FULL = "full"  # `message_threshold` messages
    FIRST = "first"  # the channel has no short-term memory yet
    HISTORY_OFF = "history_off"  # history is disabled: a new memory in each pass
    BACKFILL = "backfill"  # the end of a period before the first segment
    REQUESTED = "asked"  # a person requested an update
    EDITED = "edited"  # a message of the segment was edited or deleted
    WAITING = "waiting"
    NOTHING_NEW = "nothing_new"


@dataclass(frozen=True)
class UpdateDecision:
    """The decision with its numbers. ``recheck_us`` is when it changes without a new message."""

    is_due: bool
    reason: Trigger
    new_count: int
    quiet_us: int
    recheck_us: int | None = None


def should_update_short_term_memory(
    latest_us: int | None,
    new_count: int,
    now_us: int,
    settings: MemorySettings,
    *,
    has_memory: bool,
) -> UpdateDecision:
    """Apply S1's OR rule: history off, enough new messages, idle long enough, or no memory yet.

    Nothing is due without a new message (rule 2). Both limits are inclusive.
    """
    idle_us = settings.conversation_idle_seconds * SECOND
    quiet_us = max(0, now_us - latest_us) if latest_us is not None else 0
    recheck_us = None
    if new_count < 1 or latest_us is None:
        reason = Trigger.NOTHING_NEW
    elif not settings.history_enabled:
        reason = Trigger.HISTORY_OFF
    elif new_count >= settings.message_threshold:
        reason = Trigger.FULL
    elif quiet_us >= idle_us:
        reason = Trigger.IDLE
    elif not has_memory:
        reason = Trigger.FIRST
    else:
        reason, recheck_us = Trigger.WAITING, latest_us + idle_us
    is_due = reason not in (Trigger.NOTHING_NEW, Trigger.WAITING)
    return UpdateDecision(is_due, reason, new_count, quiet_us, recheck_us)


def find_waiting_decision(
    first_us: int, latest_us: int, new_count: int, now_us: int, settings: MemorySettings
) -> UpdateDecision | None:
    """Return the decision to wait, or None if the open messages may have to be cut.

    ``first_us`` and ``latest_us`` are the first and the last of them. If the first one is younger than
    the idle time, there is no pause between them at which a conversation ends.
    """
    decision = should_update_short_term_memory(
        latest_us, new_count, now_us, settings, has_memory=True
    )
    is_young = now_us - first_us < settings.conversation_idle_seconds * SECOND
    return decision if is_young and not decision.is_due else None


@dataclass(frozen=True)
class SegmentRange:
    """``times[begin:end]`` is one closed segment. ``closed_us`` is when the rule closed it."""

    begin: int
    end: int
    reason: Trigger
    closed_us: int


def cut_segments(times: Sequence[int], now_us: int, settings: MemorySettings) -> list[SegmentRange]:
    """Return the closed segments of messages in order of time (rule 1). Later messages stay open.

    ``times`` starts after the previous segment. So early and repeated cuts give the same segments as
    one late cut.
    """
    ranges: list[SegmentRange] = []
    begin = 0
    for i, latest_us in enumerate(times):
        next_us = times[i + 1] if i + 1 < len(times) else now_us
        decision = should_update_short_term_memory(
            latest_us, i + 1 - begin, next_us, settings, has_memory=True
        )
        if decision.is_due and decision.reason is not Trigger.HISTORY_OFF:
            idle_us = settings.conversation_idle_seconds * SECOND
            closed_us = latest_us + (0 if decision.reason is Trigger.FULL else idle_us)
            ranges.append(SegmentRange(begin, i + 1, decision.reason, closed_us))
            begin = i + 1
    return ranges


def cut_waiting_messages(
    times: Sequence[int],
    segments_from_us: int | None,
    segments_until_us: int | None,
    decision: UpdateDecision,
    now_us: int,
    settings: MemorySettings,
    *,
    is_requested: bool = False,
) -> list[SegmentRange]:
    """Return the segments of the waiting messages at ``times`` (in order), as ranges of them.

    Earlier segments reach from ``segments_from_us`` to ``segments_until_us``; None means that there
    are none. A waiting message is before them (a wider backfill), after them, or between them. A late
    message between them joins the next segment that closes, or forms its own after the idle time.

    ``is_requested`` cuts the open messages as well.
    """
    ranges = _cut_around(times, segments_from_us, segments_until_us, decision, now_us, settings)
    end = ranges[-1].end if ranges else 0
    if is_requested and end < len(times):
        ranges.append(SegmentRange(end, len(times), Trigger.REQUESTED, now_us))
    return ranges


def _cut_around(
    times: Sequence[int],
    segments_from_us: int | None,
    segments_until_us: int | None,
    decision: UpdateDecision,
    now_us: int,
    settings: MemorySettings,
) -> list[SegmentRange]:
    if not times:
        return []
    if not settings.history_enabled:
        return [SegmentRange(0, len(times), Trigger.HISTORY_OFF, now_us)]
    if segments_until_us is None:
        return cut_segments(times, now_us, settings)
    from_us = segments_from_us or 0
    late = bisect_left(times, from_us)  # index of the first late message
    fresh = max(late, bisect_right(times, segments_until_us))
    backlog = cut_segments(times[:late], from_us, settings)
    end = backlog[-1].end if backlog else 0
    if end < late:
        backlog.append(SegmentRange(end, late, Trigger.BACKFILL, from_us))
    newest = [
        replace(closed, begin=closed.begin + fresh, end=closed.end + fresh)
        for closed in cut_segments(times[fresh:], now_us, settings)
    ]
    if fresh > late and newest:
        newest[0] = replace(newest[0], begin=late)
    elif fresh > late and fresh == len(times) and decision.is_due:
        newest = [SegmentRange(late, fresh, decision.reason, now_us)]
    return backlog + newest
