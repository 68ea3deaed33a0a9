"""The common context of a channel's and a workspace's page: texts, short-term history and notes."""

from typing import Any

from memories.models import Channel, Memory, MemoryVersion, Note
from memories.rules.memory.catch_up import Since
from memories.views.access.access import WorkspaceAccess
from memories.views.memory.display import display_versions, for_display, visible_versions
from memories.views.memory.news import mark_new_lines
from memories.views.memory.rail import build_rail, find_last_seen

HISTORY_SHOWN = 10
NOTES_SHOWN = 10


def texts_context(
    access: WorkspaceAccess,
    long_term: Memory | None,
    short_term: Memory | None,
    since: Since | None = None,
) -> dict[str, Any]:
    """Load both current texts and the short-term history, with the lines of all in one query.

    ``since`` marks the new lines of the long-term text, without one those of the short-term text.
    """
    memories = [memory for memory in (long_term, short_term) if memory]
    newest: list[int] = []
    if short_term is not None:
        visible = visible_versions(short_term, access)
        keys = visible.in_order().reverse().values_list("pk", flat=True)
        newest = list(keys[: HISTORY_SHOWN + 1])
    version_ids = {*newest[:HISTORY_SHOWN], *(memory.current_id or 0 for memory in memories)}
    versions = MemoryVersion.objects.filter(pk__in=version_ids - {0})
    displays = {
        display.version.pk: display
        for display in display_versions(for_display(versions.in_order().reverse()), access)
    }
    shown = displays.get(long_term.current_id or 0) if long_term else None
    short_term_shown = displays.get(short_term.current_id or 0) if short_term else None
    mark_new_lines(shown or short_term_shown, access, since)
    last_seen = find_last_seen(memories, access)
    history = [
        display
        for display in displays.values()
        if short_term and display.version.memory_id == short_term.pk
    ]
    return {
        "memory": long_term,
        "shown": shown,
        "short_term": short_term,
        "short_term_shown": short_term_shown,
        "history": history[:HISTORY_SHOWN],
        "has_more_history": len(newest) > HISTORY_SHOWN,
        "rail": build_rail(long_term, access),
        "last_seen": last_seen.get(long_term.pk) if long_term else None,
        "short_term_last_seen": last_seen.get(short_term.pk) if short_term else None,
    }


def load_notes(access: WorkspaceAccess, channel: Channel | None) -> list[Note]:
    """Return the notes of a channel, or the notes for all channels."""
    notes = Note.objects.visible_to(access.reader).in_use(access.workspace).filter(channel=channel)
    return list(notes.first_pinned()[:NOTES_SHOWN])
