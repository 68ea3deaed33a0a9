"""How far a channel is remembered, in the numbers that a person reads (rule 3)."""

from dataclasses import dataclass

from memories.rules.generate.segments import Due, Trigger
from memories.rules.ingest.timestamps import SECOND
from memories.rules.settings import MemorySettings

MINUTE = 60
SHORT_IDLE = 2 * MINUTE  # below this, quiet is told in seconds


@dataclass(frozen=True)
class Waiting:
    """ "12 of 50 new, quiet for 43 of 120 min": what waits, and what it waits for.

    ``quiet`` and ``idle`` are whole minutes, or seconds when ``in_seconds``. ``due``: the rule
    holds already and the next pass reads it; else ``look_again_us`` is when it holds by itself.
    """

    new: int
    threshold: int
    quiet: int
    idle: int
    in_seconds: bool
    due: bool
    reason: Trigger
    look_again_us: int | None = None

    @property
    def seconds(self) -> tuple[int, int]:
        """``quiet`` and ``idle``, both in seconds."""
        unit = 1 if self.in_seconds else MINUTE
        return self.quiet * unit, self.idle * unit


def waiting(due: Due, settings: MemorySettings) -> Waiting | None:
    """The numbers behind an answer of `should_update_short_term_memory`; None: nothing waits."""
    if due.new_count < 1:
        return None
    idle_seconds = settings.conversation_idle_seconds
    in_seconds = idle_seconds < SHORT_IDLE
    unit = 1 if in_seconds else MINUTE
    quiet_seconds = min(due.quiet_us // SECOND, idle_seconds)
    return Waiting(
        new=due.new_count,
        threshold=settings.message_threshold,
        quiet=quiet_seconds // unit,
        idle=idle_seconds // unit,
        in_seconds=in_seconds,
        due=due.due,
        reason=due.reason,
        look_again_us=due.look_again_us,
    )


@dataclass(frozen=True)
class Share:
    """A channel's messages from its start mark on, as far as they were looked at. ``skipped`` held
    nothing to remember, ``left_out`` a person cancelled."""

    remembered: int = 0
    waiting: int = 0
    skipped: int = 0
    left_out: int = 0

    @property
    def total(self) -> int:
        return self.remembered + self.waiting + self.skipped + self.left_out

    def widths(self, full: int) -> tuple[int, int, int]:
        """The three parts of a bar ``full`` wide: remembered, waiting, neither; what exists is at
        least 2 wide."""
        if not self.total:
            return (0, 0, 0)
        parts = (self.remembered, self.waiting, self.skipped + self.left_out)
        _, waiting, skipped = (max(2, full * n // self.total) if n else 0 for n in parts)
        return (max(0, full - waiting - skipped) if self.remembered else 0, waiting, skipped)
