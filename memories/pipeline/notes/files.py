"""Notes ↔ files: export, import, and the link that shares one file between worktrees (S4).

Nothing here ever loses a note: an export does not overwrite what was written in the file itself,
an import removes nothing, and a file that cannot be read stops either before a word is written.
"""

import logging
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from django.db import transaction

from memories.models import Channel, Note, NotesDisabled, Reader, User, Workspace
from memories.rules.notes import notes_file
from memories.rules.notes.fields import LONGEST_CONTENT, NoteText
from memories.rules.notes.notes_file import Entry, Fate

logger = logging.getLogger(__name__)

DEFAULT_FILE = Path(".agent") / "memories.md"


class NotesFileError(Exception):
    """A file that cannot be read, written or linked, and why. Nothing was changed."""


@dataclass
class Imported:
    """How many entries of a file met which fate; ``conflicts`` says line and reason of each."""

    fates: Counter[str] = field(default_factory=Counter)
    conflicts: list[str] = field(default_factory=list)
    size: int = 0  # of the file, in bytes
    deleted: int = 0  # notes that the file does not hold any more
    unstored: list[Entry] = field(default_factory=list)
    text: str = ""  # of the file after a sync

    def as_json(self) -> dict[str, object]:
        return {**{fate: self.fates[fate] for fate in Fate}, "conflicts": self.conflicts}


def export_notes(workspace: Workspace, reader: Reader, path: Path) -> tuple[int, int]:
    """Write all notes that the reader may see; returns how many, and the file's bytes.

    A link is followed. The file is replaced in one step. Raises NotesDisabled, and NotesFileError
    when the file that is there is no list of notes or holds notes that were not imported.
    """
    if not workspace.memory_settings.notes_enabled:
        raise NotesDisabled
    notes = [note.value for note in Note.objects.in_use(workspace).visible_to(reader)]
    target = Path(os.path.realpath(path))
    there = notes_file.wordings(notes)
    entries = _entries(path, _bytes(target) or b"")
    unsaved = [entry for entry in entries if notes_file.is_unsaved(entry, there)]
    if unsaved:
        lines = ", ".join(str(entry.line) for entry in unsaved[:10])
        raise NotesFileError(
            f"{path} holds notes that were written there and not imported (line {lines}): "
            "import it first."
        )
    data = notes_file.write(notes).encode()
    _replace(target, data)
    return len(notes), len(data)


def import_notes(
    workspace: Workspace, reader: Reader, path: Path, *, author: User | None, now: datetime
) -> Imported:
    """Take in a file's notes, all or none; see `rules.notes_file.fate` for what becomes of each.

    Raises NotesDisabled, and NotesFileError when the file is missing or cannot be read.
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
) -> Imported:
    """Make the notes and a file equal; ``text`` of the result is what the file has to hold.

    ``base`` is the file after the last sync: a note that is in it and no longer in the file is put
    into the trash, unless somebody has changed it since. A blank file is one that is missing: it
    deletes nothing. Where both sides changed a note, the file's wording becomes a note of its own
    with the tag ``conflict``. An entry that cannot be stored stays in the file. Raises NotesDisabled
    and NotesFileError.
    """
    entries = _entries(Path("memories.md"), text.encode())
    before = _entries(Path("the base"), base.encode()) if text.strip() else []
    done = _store(workspace, reader, entries, author=author, now=now, copies_conflicts=True)
    notes = Note.objects.in_use(workspace).visible_to(reader)
    rows = {note.pk: note for note in notes.select_for_update(of=("self",))}
    for entry in notes_file.deleted_in_file(entries, before):
        note = rows.get(entry.id or 0)
        if note is None or note.value.created_us != entry.made_us:
            continue
        if notes_file.mark_of(note.value) == entry.mark:
            note.remove(by=author, now=now)
            done.deleted += 1
        else:
            done.conflicts.append(
                f"note {note.pk} was deleted in the file and changed here: it is in the file again"
            )
    current = [note.value for note in notes.all()]
    kept = [
        NoteText(entry.title, entry.tags, entry.date, entry.content, entry.channel_id)
        for entry in done.unstored
    ]
    done.text = notes_file.write([*current, *kept])
    return done


def _store(
    workspace: Workspace,
    reader: Reader,
    entries: Sequence[Entry],
    *,
    author: User | None,
    now: datetime,
    copies_conflicts: bool = False,
) -> Imported:
    """Write the entries that are new or changed, all or none."""
    if not workspace.memory_settings.notes_enabled:
        raise NotesDisabled
    done = Imported()
    channels = {
        channel.slack_id: channel
        for channel in Channel.objects.filter(workspace=workspace).visible_to(reader)
    }
    with transaction.atomic():
        rows = {
            note.pk: note
            for note in Note.objects.in_use(workspace)
            .visible_to(reader)
            .select_for_update(of=("self",))
        }
        there = notes_file.wordings(note.value for note in rows.values())
        deleted = Note.objects.deleted_keys(workspace)
        for entry in entries:
            note = rows.get(entry.id) if entry.id is not None else None
            fate = notes_file.fate(entry, note.value if note else None, there, deleted)
            if fate is Fate.CONFLICT and copies_conflicts:
                done.conflicts.append(
                    f"line {entry.line}: note {entry.id} was changed in the file, and changed or "
                    "deleted here; the file's wording is a note of its own now, tagged conflict"
                )
                entry = notes_file.copy_of(entry)
                fate = notes_file.fate(entry, None, there, deleted)
            if fate in (Fate.ADDED, Fate.UPDATED) and entry.channel_id not in {"", *channels}:
                fate = Fate.CONFLICT
                done.conflicts.append(f"line {entry.line}: no such channel: {entry.channel_id}")
            elif fate is Fate.CONFLICT:
                done.conflicts.append(
                    f"line {entry.line}: note {entry.id} was changed in the file, and changed or "
                    "deleted here; take its Id line out to add it as a new note"
                )
            if fate in (Fate.ADDED, Fate.UPDATED) and len(entry.content) > LONGEST_CONTENT:
                fate = Fate.CONFLICT
                done.conflicts.append(
                    f"line {entry.line}: a note is at most {LONGEST_CONTENT:,} characters; this one "
                    f"has {len(entry.content):,}"
                )
            if fate is Fate.CONFLICT:
                done.unstored.append(entry)
            done.fates[fate] += 1
            if fate is Fate.ADDED:
                written = Note.objects.write(
                    workspace,
                    entry.content,
                    tags=entry.tags,
                    title=entry.title,
                    channel=channels.get(entry.channel_id),
                    date=entry.date,
                    author=author,
                    now=now,
                )
                there |= notes_file.wordings([written.value])
            elif fate is Fate.UPDATED and note is not None:
                note.channel = channels.get(entry.channel_id)
                note.date = entry.date or note.date
                # Its title as it stands there, so that the same file changes nothing once more.
                note.word(entry.content, tags=entry.tags, title=entry.title)
                note.save_wording(by=author, now=now)
    logger.info(
        "workspace %s: notes imported: %s",
        workspace.pk,
        {str(fate): many for fate, many in done.fates.items()},
    )
    return done


def link_worktree(workspace: Workspace, reader: Reader, checkout: Path, worktree: Path) -> bool:
    """Make ``worktree/.agent/memories.md`` a relative link to the checkout's file.

    That file is made first where it is missing. False when the right link is there already.
    Raises NotesFileError, overwriting nothing, when anything else is.
    """
    if not worktree.is_dir():
        raise NotesFileError(f"{worktree} is no folder.")
    target = Path(os.path.realpath(checkout / DEFAULT_FILE))
    link = Path(os.path.realpath(worktree)) / DEFAULT_FILE
    if not link.is_symlink() and Path(os.path.realpath(link)) == target:
        raise NotesFileError(f"{link} is the main checkout's file itself.")
    if os.path.lexists(link):
        return _right_link(link, target)
    if not target.exists():
        _make_target(workspace, reader, target)
    try:
        link.parent.mkdir(exist_ok=True)
        folder = os.path.realpath(link.parent)
        os.symlink(os.path.relpath(target, folder), link)
    except FileExistsError:  # somebody was faster
        return _right_link(link, target)
    except OSError as error:
        raise NotesFileError(f"{link} cannot be made: {error.strerror}.") from error
    return True


def _right_link(link: Path, target: Path) -> bool:
    """False ("nothing made") for a link to the target; anything else is a conflict."""
    if link.is_symlink() and Path(os.path.realpath(link)) == target:
        return False
    what = f"a link to {os.readlink(link)}" if link.is_symlink() else "a file of its own"
    raise NotesFileError(f"{link} is there already, {what}; nothing was overwritten.")


def _make_target(workspace: Workspace, reader: Reader, target: Path) -> None:
    try:
        export_notes(workspace, reader, target)
    except NotesDisabled:
        _replace(target, notes_file.write([]).encode())


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotesFileError(f"{path} cannot be read: {error.strerror}.") from error


def _entries(path: Path, data: bytes) -> list[Entry]:
    """The notes of a file, its line breaks as they are."""
    try:
        return notes_file.read(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise NotesFileError(f"{path} is not UTF-8 text.") from error
    except notes_file.NotNotes as error:
        raise NotesFileError(f"{path}: {error}") from error


def _replace(target: Path, data: bytes) -> None:
    """Write beside the file and move over it, so that no reader ever sees a half."""
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o644)
        os.replace(temporary, target)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise NotesFileError(f"{target} cannot be written: {error.strerror}.") from error
