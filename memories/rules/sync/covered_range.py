"""Detection of deleted messages: the range of time that a page from Slack covers.

A page contains every message in its range. A stored message in the range that the page lacks was
deleted in Slack. A page with an object that has no valid ts covers nothing. A page that lacks many
messages needs confirmation, because Slack may answer wrongly.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from memories.rules.ingest.messages import parse_ts
from memories.rules.ingest.outcomes import Outcome
from memories.rules.ingest.timestamps import ts_from_micros
from memories.rules.json_values import as_dict

# People rarely delete more messages of a page between two syncs, so confirmations cost few calls.
MAX_UNCONFIRMED = 5


@dataclass(frozen=True)
class PageTimes:
    """The times of the messages on a page, in microseconds."""

    moments: tuple[int, ...]
    has_invalid: bool  # an object without a valid ts

    @property
    def ts(self) -> frozenset[str]:
        return frozenset(map(ts_from_micros, self.moments))

    def are_within(self, after_us: int, before_us: int | None) -> bool:
        """Return if every object has a time between the exclusive bounds."""
        return not self.has_invalid and all(
            after_us < us and (before_us is None or us < before_us) for us in self.moments
        )


@dataclass(frozen=True)
class CoveredRange:
    """Exclusive bounds in microseconds. ``before_us`` None: no upper bound."""

    after_us: int
    before_us: int | None


def message_ts(raw: Any, now_us: int) -> str:
    """Return the ts of a raw message, or "" if it has no valid one."""
    us = parse_ts(as_dict(raw).get("ts"), now_us)
    return "" if isinstance(us, Outcome) else ts_from_micros(us)


def page_times(raws: Iterable[Any], now_us: int) -> PageTimes:
    parsed = [parse_ts(as_dict(raw).get("ts"), now_us) for raw in raws]
    moments = tuple(us for us in parsed if not isinstance(us, Outcome))
    return PageTimes(moments, len(moments) < len(parsed))


def history_range(
    times: PageTimes, *, before_us: int | None, end_us: int, is_last: bool, is_limited: bool
) -> CoveredRange | None:
    """Return what a page of history covers, which Slack orders from new to old.

    The request was for messages below ``before_us`` and above ``end_us``. ``is_limited``: the plan
    of the workspace hides old messages, so the page covers nothing below its oldest message.
    """
    if is_last and not is_limited:
        after_us = end_us
    elif times.moments:
        after_us = min(times.moments)
    else:
        return None
    return CoveredRange(after_us, before_us) if times.are_within(end_us, before_us) else None


def thread_range(times: PageTimes, *, after_us: int, is_last: bool) -> CoveredRange | None:
    """Return what a page of a thread covers, which Slack orders from old to new.

    The request was for replies above ``after_us``.
    """
    if is_last:
        before_us = None
    elif times.moments:
        before_us = max(times.moments)
    else:
        return None
    return CoveredRange(after_us, before_us) if times.are_within(after_us, None) else None


def needs_confirmation(missing: int, shown: int) -> bool:
    """Return if a page lacks more stored messages than it shows, or than MAX_UNCONFIRMED."""
    return missing > min(shown, MAX_UNCONFIRMED)
