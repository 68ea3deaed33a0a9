"""What a channel's page and a workspace's have in common: both current texts, the short-term
history, and notes."""

from typing import Any

from memories.models import Channel, Memory, MemoryVersion, Note
from memories.views.access.access import WorkspaceContext
from memories.views.memory.shown import (
    ShownVersion,
    last_seen_of,
    rail_of,
    show,
    versions_of,
    with_origin,
)

HISTORY_SHOWN = 10
NOTES_SHOWN = 10


def texts_of(
    place: WorkspaceContext, long_term: Memory | None, short_term: Memory | None
) -> dict[str, Any]:
    """For the templates, with all lines in one go."""
    shown = _shown_by_pk(place, long_term, short_term)
    history = [
        shown_version
        for shown_version in shown.values()
        if shown_version.version.memory_id == _pk(short_term)
    ]
    return {
        "memory": long_term,
        "shown": shown.get(_current(long_term)),
        "short_term": short_term,
        "short_term_shown": shown.get(_current(short_term)),
        "history": sorted(history, key=_by_period, reverse=True)[:HISTORY_SHOWN],
        "history_total": versions_of(short_term, place).count() if short_term else 0,
        "rail": rail_of(long_term, place),
        "last_seen": last_seen_of(long_term, place),
        "short_term_last_seen": last_seen_of(short_term, place),
    }


def notes_of(place: WorkspaceContext, channel: Channel | None) -> list[Note]:
    """Of a channel, or those that hold in every channel."""
    notes = Note.objects.visible_to(place.reader).in_use(place.workspace).filter(channel=channel)
    return list(notes.first_pinned()[:NOTES_SHOWN])


def _shown_by_pk(
    place: WorkspaceContext, long_term: Memory | None, short_term: Memory | None
) -> dict[int, ShownVersion]:
    """Both current texts and the short-term history, with all their lines in one go."""
    version_ids = {_current(long_term), _current(short_term)}
    if short_term is not None:
        newest = versions_of(short_term, place).in_order().reverse()
        version_ids |= set(newest.values_list("pk", flat=True)[:HISTORY_SHOWN])
    versions = with_origin(MemoryVersion.objects.filter(pk__in=version_ids - {0}))
    return {shown_version.version.pk: shown_version for shown_version in show(versions, place)}


def _by_period(shown_version: ShownVersion) -> tuple[int, int]:
    return (shown_version.version.until_us, shown_version.version.number)


def _pk(memory: Memory | None) -> int:
    return memory.pk if memory else 0


def _current(memory: Memory | None) -> int:
    return (memory.current_id or 0) if memory else 0
