"""Notes as a file, memories.md (S4's form), and what an import makes of one.

    # Memories

    ## title
    - Id: 12
    - Stamp: 1767603600123456-3f2a1c9d7e55
    - Channel: C0123
    - Tags: pattern, testing
    - Date: 2026-01-05
    - Content: first line
      every further line, behind two spaces

S4's reader finds title, tags, date and the first line; it skips what it does not know. Content
stands behind two spaces, so none of its lines can pass for a heading or a field. Lines end with
a line feed alone: any other line break is part of the text. ``Stamp`` tells when the note was made
and which wording was exported: an import sees whether the file or the note was changed since.
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
LARGE = 10 * 1024 * 1024  # bytes (S4): from here on a warning
_INDENT = "  "
_END = "---"
_BEFORE_CONTENT = ("- Id:", "- Stamp:", "- Channel:")
_ANYWHERE = ("- Tags:", "- Date:")
_CONTENT = "- Content:"


class NotNotes(ValueError):
    """A text that is no memories.md."""


class Fate(StrEnum):
    """What an import makes of one entry of a file."""

    ADDED = "added"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DUPLICATE = "duplicate"  # the same text is there under another id
    KEPT = "kept"  # changed here since the file was written; the file brings nothing new
    DELETED = "deleted"  # deleted here since the file was written; it stays deleted
    CONFLICT = "conflict"  # changed or deleted here, and changed in the file


@dataclass(frozen=True)
class Entry:
    """One note of a file. ``date`` is None where it has none that can be read.

    ``line`` is its heading's number. ``made_us`` and ``mark`` are the two halves of its stamp.
    """

    title: str
    tags: tuple[str, ...]
    date: date | None
    content: str
    line: int
    channel_id: str = ""
    id: int | None = None
    made_us: int | None = None
    mark: str = ""


def write(notes: Iterable[NoteText]) -> str:
    """The file that holds these notes, with their ids."""
    lines = [HEADING, ""]
    for note in notes:
        lines += _entry(note, with_id=True)
    return "\n".join(lines) if len(lines) > 2 else f"{HEADING}\n"


def injection(notes: Iterable[NoteText]) -> str:
    """The text that a context begins with (S4): ends with a ``---`` line; "" without notes."""
    lines = [line for note in notes for line in _entry(_visible(note), with_id=False)]
    return "\n".join([HEADING, "", *lines, _END, ""]) if lines else ""


def _visible(note: NoteText) -> NoteText:
    """The note as a model reads it: every line break begins a line."""
    return replace(
        note,
        title=one_line(visible_text(note.title)),
        tags=tuple(one_line(visible_text(tag)) for tag in note.tags),
        content=visible_text(note.content),
    )


def wordings(notes: Iterable[NoteText]) -> set[str]:
    """The marks under which these notes are found again, with their dates and without."""
    return {mark_of(n) for note in notes for n in (note, replace(note, date=None))}


def mark_of(note: NoteText | Entry) -> str:
    """A short fingerprint of a note's wording."""
    wording = [note.title, note.tags, str(note.date or ""), note.content, note.channel_id]
    return hashlib.sha256(json.dumps(wording).encode()).hexdigest()[:12]


def _entry(note: NoteText, *, with_id: bool) -> Iterator[str]:
    yield f"## {note.title}"
    if with_id and note.id is not None:
        yield f"- Id: {note.id}"
        yield f"- Stamp: {note.created_us}-{mark_of(note)}"
    if note.channel_id:
        yield f"- Channel: {note.channel_id}"
    yield f"- Tags: {', '.join(note.tags)}"
    yield f"- Date: {note.date or ''}"
    first, *rest = note.content.split("\n")
    yield f"{_CONTENT} {first}"
    for line in rest:
        yield f"{_INDENT}{line}"
    yield ""


@dataclass
class _Draft:
    title: str
    line: int
    fields: dict[str, str] = field(default_factory=dict)
    loose: list[str] = field(default_factory=list)  # before any content: S4 drops these
    body: list[str] | None = None

    def read(self, line: str) -> None:
        known = _ANYWHERE if self.body is not None else (*_ANYWHERE, *_BEFORE_CONTENT)
        for name in known:
            if line.startswith(name) and name not in self.fields:
                self.fields[name] = line[len(name) :].strip()
                return
        if self.body is not None:
            self.body.append(line)
        elif line.startswith(_CONTENT):
            self.body = [line[len(_CONTENT) :].removeprefix(" ")]
        else:
            self.loose.append(line)

    def entry(self, *, last: bool) -> Entry | None:
        note_id = _number(self.fields.get("- Id:", ""))
        content = self._content(ours=note_id is not None, last=last)
        title = one_line(self.title)
        if not content.strip():
            content = title
        if not content:
            return None
        content = clean_content(content)
        made, _, mark = self.fields.get("- Stamp:", "").partition("-")
        return Entry(
            title=clean_title(title, content),
            tags=clean_tags([self.fields.get("- Tags:", "")]),
            date=_date(self.fields.get("- Date:", "")),
            content=content,
            line=self.line,
            channel_id=one_line(self.fields.get("- Channel:", "")),
            id=note_id,
            made_us=_number(made),
            mark=mark,
        )

    def _content(self, *, ours: bool, last: bool) -> str:
        lines = self.loose if self.body is None else self.body
        _drop_blank_end(lines)
        if last and lines[0 if self.body is None else 1 :][-1:] == [_END]:
            lines.pop()
            _drop_blank_end(lines)
        # A file of another program holds further lines as they are, or behind a list's indent.
        rest = lines if self.body is None else lines[1:]
        if ours or all(line.startswith(_INDENT) for line in rest if line.strip()):
            rest = [line.removeprefix(_INDENT) for line in rest]
        text = "\n".join(rest if self.body is None else [*lines[:1], *rest])
        return text if ours else text.strip()


def read(text: str) -> list[Entry]:
    """The notes of a memories.md, ours or another program's. NotNotes when it is none at all.

    A blank text holds no notes. Entries without an id are another program's or a person's.
    """
    if text.partition("\n")[0].endswith("\r"):  # saved by something that writes CRLF throughout
        text = text.replace("\r\n", "\n")
    drafts: list[_Draft] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.startswith("## "):
            drafts.append(_Draft(line[3:], number))
        elif drafts:
            drafts[-1].read(line)
    if not drafts and text.strip() and lines[0].rstrip() != HEADING:
        raise NotNotes(f"This is no list of notes: it has neither {HEADING!r} nor a '## ' line.")
    last = len(drafts) - 1
    found = (draft.entry(last=i == last) for i, draft in enumerate(drafts))
    return [entry for entry in found if entry is not None]


def fate(
    entry: Entry,
    known: NoteText | None,
    there: Container[str],
    deleted: Container[tuple[int | None, int | None]] = (),
) -> Fate:
    """What to do with an entry. ``known`` is the note of its id, ``there`` holds the
    `wordings` of all notes, ``deleted`` the id and the time of making of deleted ones. A stamp from
    another database makes the id meaningless: then the wording decides."""
    if (entry.id, entry.made_us) in deleted:
        return Fate.DELETED if entry.mark == mark_of(entry) else Fate.CONFLICT
    if known is None or entry.made_us not in (None, known.created_us):
        return Fate.DUPLICATE if mark_of(entry) in there else Fate.ADDED
    if mark_of(entry) == mark_of(known):
        return Fate.UNCHANGED
    if entry.mark == mark_of(known):
        return Fate.UPDATED
    return Fate.KEPT if entry.mark == mark_of(entry) else Fate.CONFLICT


def deleted_in_file(entries: Iterable[Entry], base: Iterable[Entry]) -> list[Entry]:
    """The entries of the file as it was last synced that are not in it any more."""
    ids = {entry.id for entry in entries}
    return [entry for entry in base if entry.id is not None and entry.id not in ids]


def copy_of(entry: Entry) -> Entry:
    """The wording of a conflict as a note of its own, so that neither side is lost."""
    tags = tuple(dict.fromkeys((*entry.tags, "conflict")))
    return replace(entry, tags=tags, id=None, made_us=None, mark="")


def is_unsaved(entry: Entry, there: Container[str]) -> bool:
    """Written or changed in the file itself and not imported yet: no export may overwrite it."""
    return mark_of(entry) not in there and entry.mark != mark_of(entry)


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
