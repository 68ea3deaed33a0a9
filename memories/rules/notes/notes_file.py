"""Write and parse memories.md, a file of notes (S4), and decide what an import does with it.

    # Memories

    ## title
    - Id: 12
    - Stamp: 1767603600123456-3f2a1c9d7e55
    - Channel: C0123
    - Source: 1767603600.000100
    - Tags: pattern, testing
    - Date: 2026-01-05
    - Content: first line
      every further line, behind two spaces

S4's reader takes title, tags, date and the first line of the content, and skips other fields.
Further lines are indented, so none of them can look like a heading or a field. Lines end with a
line feed alone: any other line break is part of the text. ``Stamp`` has the creation time of the
note and the fingerprint of the exported wording. With it an import detects whether the file or the
note changed since.
"""

import hashlib
import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum

from memories.rules.generate.prompts import visible_text
from memories.rules.notes.fields import (
    NoteText,
    clean_content,
    clean_tags,
    clean_title,
    one_line,
)

HEADING = "# Memories"
LARGE = 10 * 1024 * 1024  # bytes (S4); larger files get a warning
_INDENT = "  "
_END = "---"
_BEFORE_CONTENT = ("- Id:", "- Stamp:", "- Channel:", "- Source:")
_ANYWHERE = ("- Tags:", "- Date:")
_CONTENT = "- Content:"


class NotANotesFile(ValueError):
    """The text is not a memories.md."""


class Outcome(StrEnum):
    """What an import does with an entry of a file."""

    ADDED = "added"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DUPLICATE = "duplicate"  # another note has the same wording
    KEPT = "kept"  # changed in the hub since the export, unchanged in the file
    DELETED = "deleted"  # deleted in the hub since the export, unchanged in the file
    CONFLICT = "conflict"  # changed or deleted in the hub, and changed in the file; or unreadable


@dataclass(frozen=True)
class Entry:
    """A note in a file. ``date`` is None without a valid date.

    ``line`` is the line number of its heading. ``created_us`` and ``fingerprint`` are its stamp.
    ``source`` is the ts of the message that it keeps.
    """

    title: str
    tags: tuple[str, ...]
    date: date | None
    content: str
    line: int
    channel_id: str = ""
    id: int | None = None
    created_us: int | None = None
    fingerprint: str = ""
    source: str = ""


def write(notes: Iterable[NoteText | Entry]) -> str:
    """Return the file of these notes, with their ids. An entry keeps its stamp."""
    lines = [HEADING, ""]
    for note in notes:
        lines += _entry(note, with_id=True)
    return "\n".join(lines) if len(lines) > 2 else f"{HEADING}\n"


def injection(notes: Iterable[NoteText]) -> str:
    """Return the notes as the beginning of a context (S4), "" without notes.

    It ends with a line ``---``.
    """
    lines = [line for note in notes for line in _entry(_visible(note), with_id=False)]
    return "\n".join([HEADING, "", *lines, _END, ""]) if lines else ""


def _visible(note: NoteText) -> NoteText:
    """Return the note without invisible characters, with a line feed for each line break."""
    return replace(
        note,
        title=one_line(visible_text(note.title)),
        tags=tuple(one_line(visible_text(tag)) for tag in note.tags),
        content=visible_text(note.content),
    )


def fingerprints(notes: Iterable[NoteText]) -> set[str]:
    """Return the fingerprints of these notes, with their dates and without."""
    return {fingerprint_of(n) for note in notes for n in (note, replace(note, date=None))}


def fingerprint_of(note: NoteText | Entry) -> str:
    """Return a short hash of a note's wording."""
    wording = [note.title, note.tags, str(note.date or ""), note.content, note.channel_id]
    return hashlib.sha256(json.dumps(wording).encode()).hexdigest()[:12]


def _entry(note: NoteText | Entry, *, with_id: bool) -> Iterator[str]:
    yield f"## {note.title}"
    if with_id and note.id is not None:
        yield f"- Id: {note.id}"
        fingerprint = note.fingerprint if isinstance(note, Entry) else fingerprint_of(note)
        if note.created_us is not None:
            yield f"- Stamp: {note.created_us}-{fingerprint}"
    if note.channel_id:
        yield f"- Channel: {note.channel_id}"
    if with_id and note.source:
        yield f"- Source: {note.source}"
    yield f"- Tags: {', '.join(note.tags)}"
    yield f"- Date: {note.date or ''}"
    first, *further = note.content.split("\n")
    yield f"{_CONTENT} {first}"
    for line in further:
        yield f"{_INDENT}{line}"
    yield ""


@dataclass
class _Parser:
    """Collects the lines of one note of a file."""

    title: str
    line: int
    fields: dict[str, str] = field(default_factory=dict)
    before_content: list[str] = field(default_factory=list)  # S4 drops these lines
    body: list[str] | None = None

    def add_line(self, line: str) -> None:
        names = _ANYWHERE if self.body is not None else (*_ANYWHERE, *_BEFORE_CONTENT)
        for name in names:
            if line.startswith(name) and name not in self.fields:
                self.fields[name] = line[len(name) :].strip()
                return
        if self.body is not None:
            self.body.append(line)
        elif line.startswith(_CONTENT):
            self.body = [line[len(_CONTENT) :].removeprefix(" ")]
        else:
            self.before_content.append(line)

    def entry(self, *, is_last: bool) -> Entry | None:
        note_id = _number(self.fields.get("- Id:", ""))
        content = self._content(has_id=note_id is not None, is_last=is_last)
        title = one_line(self.title)
        if not content.strip():
            content = title
        if not content:
            return None
        content = clean_content(content)
        created, _, fingerprint = self.fields.get("- Stamp:", "").partition("-")
        return Entry(
            title=clean_title(title, content),
            tags=clean_tags([self.fields.get("- Tags:", "")]),
            date=_date(self.fields.get("- Date:", "")),
            content=content,
            line=self.line,
            channel_id=one_line(self.fields.get("- Channel:", "")),
            id=note_id,
            created_us=_number(created),
            fingerprint=fingerprint,
            source=one_line(self.fields.get("- Source:", "")),
        )

    def _content(self, *, has_id: bool, is_last: bool) -> str:
        lines = self.before_content if self.body is None else self.body
        _drop_blank_end(lines)
        if is_last and lines[0 if self.body is None else 1 :][-1:] == [_END]:
            lines.pop()
            _drop_blank_end(lines)
        # Other programs write further lines without an indent, or all with one.
        further = lines if self.body is None else lines[1:]
        if has_id or all(line.startswith(_INDENT) for line in further if line.strip()):
            further = [line.removeprefix(_INDENT) for line in further]
        text = "\n".join(further if self.body is None else [*lines[:1], *further])
        return text if has_id else text.strip()


def read(text: str) -> list[Entry]:
    """Return the notes of a memories.md of the hub or of another program. Raises NotANotesFile.

    A blank text has no notes. Only notes from the hub have ids.
    """
    if text.partition("\n")[0].endswith("\r"):  # all lines end with CRLF
        text = text.replace("\r\n", "\n")
    parsers: list[_Parser] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.startswith("## "):
            parsers.append(_Parser(line[3:], number))
        elif parsers:
            parsers[-1].add_line(line)
    if not parsers and text.strip() and lines[0].rstrip() != HEADING:
        raise NotANotesFile(
            f"This is not a list of notes: it has neither {HEADING!r} nor a '## ' line."
        )
    entries = (parser.entry(is_last=parser is parsers[-1]) for parser in parsers)
    return [entry for entry in entries if entry is not None]


def import_outcome(
    entry: Entry,
    current: NoteText | None,
    existing: Container[str],
    deleted: Container[tuple[int | None, int | None]] = (),
    hidden: Container[tuple[int | None, int | None]] = (),
) -> Outcome:
    """Return what an import does with an entry.

    ``current`` is the note with its id, ``existing`` the `fingerprints` of all notes. ``deleted``
    and ``hidden`` have the ids and creation times of deleted and of unreadable notes. With a stamp
    from another database the fingerprint decides, not the id.
    """
    if (entry.id, entry.created_us) in deleted:
        return Outcome.DELETED if entry.fingerprint == fingerprint_of(entry) else Outcome.CONFLICT
    if current is None or entry.created_us not in (None, current.created_us):
        if fingerprint_of(entry) in existing:
            return Outcome.DUPLICATE
        return Outcome.CONFLICT if (entry.id, entry.created_us) in hidden else Outcome.ADDED
    if fingerprint_of(entry) == fingerprint_of(current):
        return Outcome.UNCHANGED
    if entry.fingerprint == fingerprint_of(current):
        return Outcome.UPDATED
    return Outcome.KEPT if entry.fingerprint == fingerprint_of(entry) else Outcome.CONFLICT


def find_deleted(entries: Iterable[Entry], base: Iterable[Entry]) -> list[Entry]:
    """Return the entries of the last synced file that are not in the file any more."""
    ids = {entry.id for entry in entries}
    return [entry for entry in base if entry.id is not None and entry.id not in ids]


def as_new_note(entry: Entry) -> Entry:
    """Return the wording of a conflict as a new note, so that no wording is lost."""
    tags = tuple(dict.fromkeys((*entry.tags, "conflict")))
    return replace(entry, tags=tags, id=None, created_us=None, fingerprint="")


def is_unsaved(entry: Entry, existing: Container[str]) -> bool:
    """Return whether an entry was written or changed in the file and is not imported yet."""
    return fingerprint_of(entry) not in existing and entry.fingerprint != fingerprint_of(entry)


def _drop_blank_end(lines: list[str]) -> None:
    while lines and not lines[-1]:
        lines.pop()


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
