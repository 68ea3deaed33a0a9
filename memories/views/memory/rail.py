"""The list of versions beside a memory, and the context of a memory's card."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from memories.models import Memory, MemoryVersion
from memories.models.memory.version_queries import MemoryVersionQuerySet
from memories.rules.memory.catch_up import Since
from memories.rules.memory.compare import is_edit_kept
from memories.rules.memory.lines import Origin
from memories.views.access.access import WorkspaceAccess
from memories.views.memory.display import (
    display_version,
    for_display,
    for_list,
    visible_versions,
)
from memories.views.memory.news import mark_new_lines
from memories.views.memory.seen import catch_up_memories, with_marks

VERSIONS_SHOWN = 5


@dataclass(frozen=True)
class EditOutcome:
    """The reader's latest edit, and the first update after it."""

    edit: MemoryVersion
    update: MemoryVersion

    @property
    def is_kept(self) -> bool:
        base = self.edit.base.content if self.edit.base else ""
        return is_edit_kept(base, self.edit.content, self.update.content)


class Rail(list[MemoryVersion]):
    """The newest versions of a memory, and the version before the current one."""

    has_more = False
    previous: MemoryVersion | None = None
    outcome: EditOutcome | None = None


def build_rail(memory: Memory | None, access: WorkspaceAccess) -> Rail:
    """Load the newest versions of a memory, without lines."""
    if memory is None:
        return Rail()
    versions = visible_versions(memory, access)
    newest = list(for_list(versions.newest_first())[: VERSIONS_SHOWN + 1])
    rail = Rail(newest[:VERSIONS_SHOWN])
    rail.has_more = len(newest) > VERSIONS_SHOWN
    # The newest version may cover an older period, or be for members alone.
    current = next((version.number for version in rail if version.pk == memory.current_id), 0)
    rail.previous = next((version for version in rail if version.number < current), None)
    rail.outcome = find_edit_outcome(versions, access)
    return rail


def find_edit_outcome(
    versions: MemoryVersionQuerySet, access: WorkspaceAccess
) -> EditOutcome | None:
    """Return the latest edit by the reader among these versions, if an update followed it."""
    own = versions.filter(author=access.reader.user_id, origin=Origin.PERSON)
    edit = own.select_related("base").newest_first().first()
    if edit is None:
        return None
    # The next version of a short-term memory usually has another segment.
    later = versions.filter(number__gt=edit.number, segment=edit.segment_id, origin=Origin.MODEL)
    update = later.order_by("number").first()
    return EditOutcome(edit, update) if update else None


def find_last_seen(
    memories: Iterable[Memory], access: WorkspaceAccess
) -> dict[int, MemoryVersion | None]:
    """Return the newest visible versions up to the reader's marks, of memories with newer ones.

    The keys are those of the memories. One query, and another for each memory with news.
    """
    followed_memories = catch_up_memories(access.reader, access.workspace.pk).filter(
        pk__in=[memory.pk for memory in memories]
    )
    return {
        memory.pk: visible_versions(memory, access)
        .with_text()
        .filter(number__lte=memory.seen)
        .newest_first()
        .first()
        for memory in with_marks(followed_memories, access.reader)
        if memory.news and memory.seen
    }


def card_context(
    memory: Memory, access: WorkspaceAccess, since: Since | None = None
) -> dict[str, Any]:
    """Return the template context of a memory's card and its rail. ``since`` marks the new lines."""
    current = for_display(memory.versions.filter(current_of=memory)).first()
    shown = display_version(current, access)
    mark_new_lines(shown, access, since)
    return {
        "access": access,
        "memory": memory,
        "shown": shown,
        "rail": build_rail(memory, access),
        "last_seen": find_last_seen([memory], access).get(memory.pk),
    }
