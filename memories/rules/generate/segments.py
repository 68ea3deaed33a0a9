"""When a conversation is worth remembering, and where it is cut (rules 1 and 2; S1's triggers).

Everything here is microseconds since 1970. Nothing depends on when a job ran: the seed's rule is
asked at the moment of each next message, and at ``now`` after the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from memories.rules.ingest.timestamps import SECOND
from memories.rules.settings import MemorySettings


class Trigger(StrEnum):
    """Why a short-term memory is made, or why it is not yet."""

    IDLE = "idle"  # the conversation has been quiet long enough
    FULL = "full"  # it holds as many messages as one segment takes
    FIRST = "first"  # the channel has no short-term memory yet
    HISTORY_OFF = "history_off"  # history is disabled: always anew
    BACKFILL = "backfill"  # the rest of a period before the first segment
    ASKED = "asked"  # a person did not want to wait
    EDITED = "edited"  # a message of the segment was edited or deleted
    WAITING = "waiting"
    NOTHING_NEW = "nothing_new"


@dataclass(frozen=True)
class Due:
    """The answer with its numbers: new messages, quiet so far, and when it can change by itself."""

    due: bool
    reason: Trigger
    new_count: int
    quiet_us: int
    look_again_us: int | None = None


def should_update_short_term_memory(
    latest_us: int | None,
    new_count: int,
    now_us: int,
    settings: MemorySettings,
    *,
    has_memory: bool,
) -> Due:
    """S1's OR rule: history off, no memory yet, idle for long enough, or enough new messages.

    Without a new message nothing is due, whatever else holds (rule 2). Both limits are inclusive.
    """
    idle_us = settings.conversation_idle_seconds * SECOND
    quiet_us = max(0, now_us - latest_us) if latest_us is not None else 0

    def answer(reason: Trigger, look_again_us: int | None = None) -> Due:
        due = reason not in (Trigger.NOTHING_NEW, Trigger.WAITING)
        return Due(due, reason, new_count, quiet_us, look_again_us)

    if new_count < 1 or latest_us is None:
        return answer(Trigger.NOTHING_NEW)
    if not settings.history_enabled:
        return answer(Trigger.HISTORY_OFF)
    if new_count >= settings.message_threshold:
        return answer(Trigger.FULL)
    if quiet_us >= idle_us:
        return answer(Trigger.IDLE)
    if not has_memory:
        return answer(Trigger.FIRST)
    return answer(Trigger.WAITING, latest_us + idle_us)


@dataclass(frozen=True)
class Cut:
    """``times[begin:end]`` is one closed segment; ``closed_us`` is when the rule closed it."""

    begin: int
    end: int
    reason: Trigger
    closed_us: int


def cut(times: Sequence[int], now_us: int, settings: MemorySettings) -> list[Cut]:
    """Closed segments of messages in order of time (rule 1); what follows the last one is open.

    ``times`` starts right after the previous segment, so cutting early and often gives the same
    cuts as cutting once.
    """
    cuts: list[Cut] = []
    begin = 0
    for i, latest_us in enumerate(times):
        next_us = times[i + 1] if i + 1 < len(times) else now_us
        due = should_update_short_term_memory(
            latest_us, i + 1 - begin, next_us, settings, has_memory=True
        )
        if due.due and due.reason is not Trigger.HISTORY_OFF:
            full = due.reason is Trigger.FULL
            closed_us = (
                latest_us if full else latest_us + settings.conversation_idle_seconds * SECOND
            )
            cuts.append(Cut(begin, i + 1, due.reason, closed_us))
            begin = i + 1
    return cuts


def cut_backlog(times: Sequence[int], until_us: int, settings: MemorySettings) -> list[Cut]:
    """Segments of a period that ends at ``until_us``, where remembered messages already begin."""
    cuts = cut(times, until_us, settings)
    begin = cuts[-1].end if cuts else 0
    if begin < len(times):
        cuts.append(Cut(begin, len(times), Trigger.BACKFILL, until_us))
    return cuts
