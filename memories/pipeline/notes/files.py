"""Export, import and sync notes with a file, and link the file into worktrees (S4).

No note is lost. An export does not overwrite notes that were written in the file, and an import
removes nothing. An unreadable file stops both before anything is written.
"""

import dataclasses
import logging
import os
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from django.db import transaction
from django.db.models import F

from memories.agent import DEFAULT_FILE, HubError, replace
from memories.models import Channel, Message, Note, NotesDisabled, Reader, User, Workspace
from memories.models.access.audience import notes_with_trash, whole_workspaces
from memories.models.notes.notes import NoteQuerySet
from memories.rules.ingest.timestamps import to_micros
from memories.rules.notes import notes_file
from memories.rules.notes.fields import MAX_CONTENT_LENGTH, NoteText
from memories.rules.notes.notes_file import Entry, Outcome
from memories.rules.redaction.shingles import REDACTED

logger = logging.getLogger(__name__)
_STORED = (Outcome.ADDED, Outcome.UPDATED)
# The reasons of conflicts. The last one is the same for moved, redacted and purged notes.
_CONFLICT = "note {} was changed in the file, and changed or deleted here; "
_SEPARATE = _CONFLICT + "the text of the file is now a separate note with the tag conflict"
_NOT_IMPORTED = _CONFLICT + "remove its Id line to add it as a new note"
_NOT_STORED = (
    "note {} was changed or deleted here, and the text of the file cannot be stored; "
    "remove it from the file"
)


class NotesFileError(Exception):
    """The file cannot be read, written or linked. Nothing was changed."""


@dataclass
class ImportResult:
    """The outcomes of the entries of a file. ``conflicts`` has the line and reason of each."""

    outcomes: Counter[str] = field(default_factory=Counter)
    conflicts: list[str] = field(default_factory=list)
    size: int = 0  # of the file in bytes
    deleted: int = 0  # notes that were deleted in the file
    unstored: list[Entry] = field(default_factory=list)
    text: str = ""  # the file after a sync

    def as_json(self) -> dict[str, object]:
        return {**{x: self.outcomes[x] for x in Outcome}, "conflicts": self.conflicts}


def export_notes(workspace: Workspace, reader: Reader, path: Path) -> tuple[int, int]:
    """Write all notes that the reader may read. Return their number and the bytes of the file.

    A link is followed. The file is replaced in one step. Raises NotesDisabled. Raises
    NotesFileError if the existing file is no list of notes or has notes that were not imported.
    """
    if not workspace.memory_settings.notes_enabled:
        raise NotesDisabled
    notes = _values(Note.objects.in_use(workspace).visible_to(reader), reader)
    target = Path(os.path.realpath(path))
    existing = notes_file.fingerprints(notes)
    entries = _entries(path, _bytes(target) or b"")
    channels = _writable_channels(workspace, reader)
    with_ids = (_with_channel_id(entry, channels) for entry in entries)
    unsaved = [entry for entry in with_ids if notes_file.is_unsaved(entry, existing)]
    if unsaved:
        lines = ", ".join(str(entry.line) for entry in unsaved[:10])
        raise NotesFileError(
            f"{path} has notes that are not imported yet (line {lines}). Import it first."
        )
    text = notes_file.write(notes)
    _replace(target, text)
    return len(notes), len(text.encode())


def import_notes(
    workspace: Workspace, reader: Reader, path: Path, *, author: User | None, now: datetime
) -> ImportResult:
    """Import the notes of a file in one transaction (`notes_file.import_outcome`).

    Raises NotesDisabled, and NotesFileError if the file is missing or unreadable.
    """
    data = _bytes(path)
    if data is None and workspace.memory_settings.notes_enabled:
        raise NotesFileError(f"There is no file {path}.")
    done = _store(workspace, reader, _entries(path, data or b""), author=author, now=now)
    done.size = len(data or b"")
    return done


@transaction.atomic
def sync_text(
    workspace: Workspace,
    reader: Reader,
    text: str,
    base: str,
    *,
    author: User | None,
    now: datetime,
) -> ImportResult:
    """Sync the notes with a file. ``text`` of the result is the new content of the file.

    ``base`` is the file after the last sync. A note in ``base`` and not in the file moves to the
    trash, unless it was changed in the hub. A blank file deletes nothing. If both sides changed a
    note, the file's wording becomes a new note with the tag ``conflict``, unless the note was
    purged or redacted. An entry that cannot be stored stays in the file. Raises NotesDisabled and
    NotesFileError.
    """
    entries = _entries(Path("memories.md"), text.encode())
    before = _entries(Path("the base"), base.encode()) if text.strip() else []
    done = _store(workspace, reader, entries, author=author, now=now, copies_conflicts=True)
    notes = Note.objects.in_use(workspace).visible_to(reader)
    rows = {note.pk: note for note in notes.select_for_update(of=("self",))}
    for entry in notes_file.find_deleted(entries, before):
        note = rows.get(entry.id or 0)
        if note is None or note.value.created_us != entry.created_us:
            continue
        if notes_file.fingerprint_of(note.value) == entry.fingerprint:
            note.remove(by=author, now=now)
            done.deleted += 1
        else:
            done.conflicts.append(
                f"note {note.pk} was deleted in the file and changed here: it was added to the"
                " file again"
            )
    done.text = notes_file.write([*_values(notes.all(), reader), *done.unstored])
    return done


@transaction.atomic
def _store(
    workspace: Workspace,
    reader: Reader,
    entries: Sequence[Entry],
    *,
    author: User | None,
    now: datetime,
    copies_conflicts: bool = False,
) -> ImportResult:
    """Save the new and changed entries in one transaction."""
    if not workspace.memory_settings.notes_enabled:
        raise NotesDisabled
    done = ImportResult()
    channels = _writable_channels(workspace, reader)
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)  # one at a time
    notes = Note.objects.in_use(workspace).visible_to(reader)
    rows = {note.pk: note for note in notes.select_for_update(of=("self",))}
    existing = notes_file.fingerprints(note.value for note in rows.values())
    deleted = Note.objects.deleted_keys(workspace)
    hidden = _find_hidden(workspace, rows)
    for entry in (_with_channel_id(entry, channels) for entry in entries):
        note = rows.get(entry.id) if entry.id is not None else None
        current = note.value if note else None
        outcome = notes_file.import_outcome(entry, current, existing, deleted, hidden)
        problem, was_private = "", False
        if outcome is Outcome.CONFLICT:
            original = _find_original(entry, workspace, reader)
            if original is None:
                problem = _find_problem(entry, channels) or _NOT_STORED.format(entry.id)
            elif copies_conflicts:
                done.conflicts.append(f"line {entry.line}: {_SEPARATE.format(entry.id)}")
                entry = notes_file.as_new_note(entry)
                outcome = notes_file.import_outcome(entry, None, existing)
                was_private = original.was_private
            else:
                problem = _NOT_IMPORTED.format(entry.id)
        if outcome in _STORED:
            problem = _find_problem(entry, channels)
        if problem:
            outcome = Outcome.CONFLICT
            done.conflicts.append(f"line {entry.line}: {problem}")
            done.unstored.append(entry)
        done.outcomes[outcome] += 1
        channel = channels.get(entry.channel_id)
        if outcome is Outcome.ADDED:
            source = _find_source(entry, channel, reader)
            written = _add(
                workspace, entry, channel, source, was_private=was_private, author=author, now=now
            )
            existing |= notes_file.fingerprints([written.value])
        elif outcome is Outcome.UPDATED and note is not None:
            _update(note, entry, channel, author=author, now=now)
    counts = {str(outcome): count for outcome, count in done.outcomes.items()}
    logger.info("workspace %s: notes imported: %s", workspace.pk, counts)
    return done


def _find_hidden(workspace: Workspace, visible: Container[int]) -> set[tuple[int, int]]:
    """Return the ids and creation times of the notes that the reader may not read."""
    keys = Note.objects.live().filter(workspace=workspace).values_list("pk", "created_at")
    return {(pk, to_micros(created_at)) for pk, created_at in keys if pk not in visible}


def _find_original(entry: Entry, workspace: Workspace, reader: Reader) -> Note | None:
    """Return the note of a conflict, also from the trash.

    Return None if the file's text may not become a separate note: the note was purged, redacted or
    moved out of the channel in the file, or the reader may not read it.
    """
    note = notes_with_trash(reader).filter(workspace=workspace, pk=entry.id or 0).first()
    if note is None:
        return None
    versions = note.versions.select_related("channel")
    is_redacted = any(REDACTED in f"{row.title}\n{row.content}" for row in (note, *versions))
    left = {row.channel.slack_id if row.channel else "" for row in versions}
    left.discard(note.value.channel_id)
    return None if is_redacted or entry.channel_id in left else note


def _values(notes: NoteQuerySet, reader: Reader) -> list[NoteText]:
    """Return the notes with their sources, if these are readable and in the note's channel."""
    messages = Message.objects.visible_to(reader)
    rows = messages.filter(notes__in=notes, notes__channel=F("channel")).values_list("notes", "ts")
    sources = dict(rows)
    return [dataclasses.replace(note.value, source=sources.get(note.pk, "")) for note in notes]


def _find_source(entry: Entry, channel: Channel | None, reader: Reader) -> Message | None:
    """Return the message of the channel that a new note keeps, if the reader may read it."""
    if channel is None or not entry.source:
        return None
    return channel.messages.visible_to(reader).filter(ts=entry.source).first()


def _add(
    workspace: Workspace,
    entry: Entry,
    channel: Channel | None,
    source: Message | None,
    *,
    was_private: bool,
    author: User | None,
    now: datetime,
) -> Note:
    return Note.objects.write(
        workspace,
        entry.content,
        tags=entry.tags,
        title=entry.title,
        channel=channel,
        date=entry.date,
        author=author,
        source=source,
        was_private=was_private,
        now=now,
    )


def _update(
    note: Note, entry: Entry, channel: Channel | None, *, author: User | None, now: datetime
) -> None:
    note.channel, note.date = channel, entry.date or note.date
    # With the title of the file a second import changes nothing.
    note.set_wording(entry.content, tags=entry.tags, title=entry.title)
    note.save_wording(by=author, now=now)


def _writable_channels(workspace: Workspace, reader: Reader) -> dict[str, Channel | None]:
    """Return the channels by id, without forgotten ones.

    The id of a note for all who read the workspace is "".
    """
    channels: dict[str, Channel | None] = {}
    if whole_workspaces(reader).filter(pk=workspace.pk).exists():
        channels[""] = None
    readable = workspace.channels.visible_to(reader).filter(forgotten_at__isnull=True)
    channels |= {row.slack_id: row for row in readable}
    return channels


def _with_channel_id(entry: Entry, channels: Mapping[str, Channel | None]) -> Entry:
    """Return an entry that names its channel with the channel's id. A staged note has the name."""
    if entry.channel_id in channels:
        return entry
    name = entry.channel_id.removeprefix("#").casefold()
    named = [row.slack_id for row in channels.values() if row and row.name.casefold() == name]
    return dataclasses.replace(entry, channel_id=named[0]) if len(named) == 1 else entry


def _find_problem(entry: Entry, channels: Container[str]) -> str:
    """Return why an entry cannot be stored, "" if it can."""
    if entry.channel_id not in channels:
        if not entry.channel_id:
            return "the reader may write notes of channels alone: add a line `- Channel:`"
        return f"no such channel: {entry.channel_id}"
    length = len(entry.content)
    if length > MAX_CONTENT_LENGTH:
        return f"a note is at most {MAX_CONTENT_LENGTH:,} characters; this one has {length:,}"
    return ""


def link_worktree(workspace: Workspace, reader: Reader, checkout: Path, worktree: Path) -> bool:
    """Make ``worktree/.agent/memories.md`` a relative link to the checkout's file.

    The file is created if it is missing. Returns False if the link exists. Raises NotesFileError,
    without any change, if something else exists there.
    """
    if not worktree.is_dir():
        raise NotesFileError(f"{worktree} is not a folder.")
    target = Path(os.path.realpath(checkout / DEFAULT_FILE))
    link = Path(os.path.realpath(worktree)) / DEFAULT_FILE
    if not link.is_symlink() and Path(os.path.realpath(link)) == target:
        raise NotesFileError(f"{link} is the main checkout's file itself.")
    if os.path.lexists(link):
        return _check_link(link, target)
    if not target.exists():
        _make_target(workspace, reader, target)
    try:
        link.parent.mkdir(exist_ok=True)
        folder = os.path.realpath(link.parent)
        os.symlink(os.path.relpath(target, folder), link)
    except FileExistsError:  # another process was faster
        return _check_link(link, target)
    except OSError as error:
        raise NotesFileError(f"{link} cannot be made: {error.strerror}.") from error
    return True


def _check_link(link: Path, target: Path) -> bool:
    """Return False for a link to the target. Raise NotesFileError for anything else."""
    if link.is_symlink() and Path(os.path.realpath(link)) == target:
        return False
    what = f"a link to {os.readlink(link)}" if link.is_symlink() else "a file of its own"
    raise NotesFileError(f"{link} already exists ({what}). Nothing was overwritten.")


def _make_target(workspace: Workspace, reader: Reader, target: Path) -> None:
    try:
        export_notes(workspace, reader, target)
    except NotesDisabled:
        _replace(target, notes_file.write([]))


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotesFileError(f"{path} cannot be read: {error.strerror}.") from error


def _entries(path: Path, data: bytes) -> list[Entry]:
    """Return the notes of a file without a conversion of line breaks."""
    try:
        return notes_file.read(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise NotesFileError(f"{path} is not UTF-8 text.") from error
    except notes_file.NotANotesFile as error:
        raise NotesFileError(f"{path}: {error}") from error


def _replace(target: Path, text: str) -> None:
    """Write a temporary file and move it over the target, so that no reader sees a part."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace(target, text)
    except HubError as error:
        raise NotesFileError(f"{error}.") from error
    except OSError as error:
        raise NotesFileError(f"{target} cannot be written: {error.strerror}.") from error
