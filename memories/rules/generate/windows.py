"""Which waiting messages of a conversation make segments now: before, within and after what was cut."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

from memories.rules.generate.segments import Cut, Due, Trigger, cut, cut_backlog
from memories.rules.settings import MemorySettings


def windows(
    times: Sequence[int],
    cut_from_us: int | None,
    frontier_us: int | None,
    due: Due,
    now_us: int,
    settings: MemorySettings,
    *,
    asked: bool = False,
) -> list[Cut]:
    """Segments of the waiting messages at ``times`` (in order), as ranges of them.

    Three kinds: before everything that was cut (a wider backfill), after it, and late ones in
    between, which are read with the next segment that closes, or alone after the idle time. Cut was
    from ``cut_from_us`` to ``frontier_us``, the last message of any segment (None: nothing yet).

    ``asked``: a person does not want to wait; what would stay open is cut as well, as it is now.
    """
    found = _windows(times, cut_from_us, frontier_us, due, now_us, settings)
    end = found[-1].end if found else 0
    if asked and end < len(times):
        found.append(Cut(end, len(times), Trigger.ASKED, now_us))
    return found


def _windows(
    times: Sequence[int],
    cut_from_us: int | None,
    frontier_us: int | None,
    due: Due,
    now_us: int,
    settings: MemorySettings,
) -> list[Cut]:
    if not times:
        return []
    if not settings.history_enabled:
        return [Cut(0, len(times), Trigger.HISTORY_OFF, now_us)]
    if frontier_us is None:
        return cut(times, now_us, settings)
    from_us = cut_from_us or 0
    late = bisect_left(times, from_us)  # where the late ones begin
    fresh = max(late, bisect_right(times, frontier_us))
    backlog = cut_backlog(times[:late], from_us, settings)
    newest = [
        replace(one, begin=one.begin + fresh, end=one.end + fresh)
        for one in cut(times[fresh:], now_us, settings)
    ]
    if fresh > late and newest:
        newest[0] = replace(newest[0], begin=late)
    elif fresh > late and fresh == len(times) and due.due:
        newest = [Cut(late, fresh, due.reason, now_us)]
    return backlog + newest
