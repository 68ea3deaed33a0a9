"""The numbers that show how far a channel is remembered (rule 3)."""

from dataclasses import dataclass

from memories.rules.generate.segments import Trigger, UpdateDecision
from memories.rules.ingest.timestamps import SECOND
from memories.rules.settings import MemorySettings

SECONDS_PER_MINUTE = 60
_SHORT_IDLE = 2 * SECONDS_PER_MINUTE  # below this, both times are in seconds


@dataclass(frozen=True)
class Waiting:
    """The waiting messages: "12 of 50 new, quiet for 43 of 120 min".

    ``quiet`` and ``idle`` are whole minutes, or seconds when ``in_seconds``. ``is_due``: the next pass reads
    the messages. Otherwise ``recheck_us`` is when they become due without a new message.
    """

    new: int
    threshold: int
    quiet: int
    idle: int
    in_seconds: bool
    is_due: bool
    reason: Trigger
    recheck_us: int | None = None

    @property
    def messages_until_due(self) -> int:
        """How many more messages close the segment."""
        return max(self.threshold - self.new, 1)

    @property
    def seconds(self) -> tuple[int, int]:
        """``quiet`` and ``idle`` in seconds."""
        unit = 1 if self.in_seconds else SECONDS_PER_MINUTE
        return self.quiet * unit, self.idle * unit


def build_waiting(decision: UpdateDecision, settings: MemorySettings) -> Waiting | None:
    """Return the numbers behind `should_update_short_term_memory`, or None when nothing waits."""
    if decision.new_count < 1:
        return None
    idle_seconds = settings.conversation_idle_seconds
    in_seconds = idle_seconds < _SHORT_IDLE
    unit = 1 if in_seconds else SECONDS_PER_MINUTE
    return Waiting(
        new=decision.new_count,
        threshold=settings.message_threshold,
        quiet=min(decision.quiet_us // SECOND, idle_seconds) // unit,
        idle=idle_seconds // unit,
        in_seconds=in_seconds,
        is_due=decision.is_due,
        reason=decision.reason,
        recheck_us=decision.recheck_us,
    )


@dataclass(frozen=True)
class MessageCounts:
    """Counts of a channel's messages from its start mark on.

    ``skipped`` are messages of segments that gave no text, ``cancelled`` those of cancelled jobs.
    """

    remembered: int = 0
    waiting: int = 0
    skipped: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        return self.remembered + self.waiting + self.skipped + self.cancelled

    def widths(self, full: int) -> tuple[int, int, int]:
        """Return the widths of a bar's parts: remembered, waiting, neither.

        Of ``full``, the last two get at least 2 if they are not empty. ``remembered`` gets the rest.
        """
        if not self.total:
            return (0, 0, 0)
        waiting, skipped = (
            max(2, full * n // self.total) if n else 0
            for n in (self.waiting, self.skipped + self.cancelled)
        )
        return (max(0, full - waiting - skipped) if self.remembered else 0, waiting, skipped)
