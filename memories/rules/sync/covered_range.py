"""What a page of Slack's tells of what it does not hold: who is missing there was deleted.

A page tells everything about one stretch of time. Of what we hold in it, what the page lacks is gone
from Slack. Nothing is concluded from a page with an object that cannot be told from the others. Even
a well-formed page may be wrong: one that takes much away is not believed on its word alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from memories.rules.ingest.message_text import as_dict
from memories.rules.ingest.messages import parse_ts
from memories.rules.ingest.outcomes import Outcome
from memories.rules.ingest.timestamps import ts_from_micros

# Messages: people seldom take back more of a page between two looks at it, so that asking about the
# rest costs next to no calls.
HANDFUL = 5


@dataclass(frozen=True)
class Seen:
    """The moments of a page's messages in microseconds; ``has_odd``: some object has none."""

    moments: tuple[int, ...]
    has_odd: bool

    @property
    def ts(self) -> frozenset[str]:
        return frozenset(map(ts_from_micros, self.moments))


@dataclass(frozen=True)
class CoveredRange:
    """Bounds are exclusive; ``before_us`` None: open."""

    after_us: int
    before_us: int | None


def key_of(raw: Any, now_us: int) -> str:
    """The ts of a raw message, "" when it has none."""
    us = parse_ts(as_dict(raw).get("ts"), now_us)
    return "" if isinstance(us, Outcome) else ts_from_micros(us)


def see(raws: Iterable[Any], now_us: int) -> Seen:
    found = [parse_ts(as_dict(raw).get("ts"), now_us) for raw in raws]
    moments = tuple(us for us in found if not isinstance(us, Outcome))
    return Seen(moments, len(moments) < len(found))


def going_down(
    seen: Seen, *, before_us: int | None, end_us: int, is_last: bool, is_limited: bool
) -> CoveredRange | None:
    """Of a page of history, newest first, below ``before_us`` and above ``end_us``. ``is_limited``:
    a plan hides what is old, so that the page tells nothing of what is below its oldest message."""
    if is_last and not is_limited:
        after_us = end_us
    elif seen.moments:
        after_us = min(seen.moments)
    else:
        return None
    stretch = CoveredRange(after_us, before_us)
    return stretch if _fits(seen, CoveredRange(end_us, before_us)) else None


def going_up(seen: Seen, *, after_us: int, is_last: bool) -> CoveredRange | None:
    """Of a page of a thread, oldest first, above ``after_us``."""
    if is_last:
        before_us = None
    elif seen.moments:
        before_us = max(seen.moments)
    else:
        return None
    return CoveredRange(after_us, before_us) if _fits(seen, CoveredRange(after_us, None)) else None


def takes_much(gone: int, shown: int) -> bool:
    """Whether a page lacks more of what we hold than it shows, or more than a handful. An empty one
    always does, where it takes anything."""
    return gone > min(shown, HANDFUL)


def _fits(seen: Seen, asked: CoveredRange) -> bool:
    """Each object is one, and lies where it was asked for."""
    return not seen.has_odd and all(
        asked.after_us < us and (asked.before_us is None or us < asked.before_us)
        for us in seen.moments
    )
