"""The fields of a note (S4): title, tags, type and date; and the search over them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import Any

from memories.rules.ingest.characters import LINE_BREAK, make_storable

GENERATED_TITLE_LENGTH = 50
MAX_TITLE_LENGTH = 60  # of a title that a file or a form gives
MAX_CONTENT_LENGTH = 20_000  # characters
# The types of a note (S4). The code calls a type ``kind``.
KINDS = ("pattern", "architecture", "solution")


class InvalidNote(ValueError):
    """The note cannot be written. The message has the reason."""


# Fields of a note that change without a new version.
FLAGS = ("is_pinned", "in_context", "review_on")


@dataclass(frozen=True)
class NoteText:
    """A note as contexts and files show it. ``channel_id`` is "" for a note of the workspace.

    ``id`` and ``created_us`` (microseconds since 1970) are None for an unsaved note. ``date`` is
    None only where notes are compared without their dates.
    """

    title: str
    tags: tuple[str, ...]
    date: date | None
    content: str
    channel_id: str = ""
    id: int | None = None
    created_us: int | None = None
    is_pinned: bool = False
    kind: str = ""
    source: str = ""  # ts of the message that was kept as this note; only in files

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "type": self.kind,
            "tags": list(self.tags),
            "date": str(self.date or ""),
            "content": self.content,
            "channel": self.channel_id or None,
        }


def clean_content(text: str) -> str:
    """Return the content with U+FFFD for characters that no database stores.

    Raises InvalidNote for a blank content.
    """
    if not text.strip():
        raise InvalidNote("A note needs a text.")
    return make_storable(text)


def check_length(content: str) -> None:
    """Raise InvalidNote for a content over the limit. Older notes may exceed it."""
    if len(content) > MAX_CONTENT_LENGTH:
        raise InvalidNote(
            f"A note is at most {MAX_CONTENT_LENGTH:,} characters; this one has {len(content):,}."
        )


def one_line(text: str) -> str:
    """Return the text as one line, with a space for each line break."""
    return LINE_BREAK.sub(" ", make_storable(text)).strip()


def title_of(content: str) -> str:
    """Return the first 50 characters of the content, with "..." if it is longer (S4)."""
    line = one_line(content)
    return line if len(line) <= GENERATED_TITLE_LENGTH else f"{line[:GENERATED_TITLE_LENGTH]}..."


def clean_title(title: str, content: str) -> str:
    """Return a title that can be stored. A blank title is made from the content."""
    line = one_line(title)
    if not line:
        return title_of(content)
    return line if len(line) <= MAX_TITLE_LENGTH else title_of(line)


def clean_tags(
    tags: Iterable[str], kind: str = "", kinds: Sequence[str] = KINDS
) -> tuple[str, ...]:
    """Return the type, if given, and the tags without blanks and repetitions (S4).

    A comma in a tag splits it. Raises InvalidNote if the type is not one of ``kinds``.
    """
    if kind and kind not in kinds:
        raise InvalidNote(f"The type must be one of {', '.join(kinds)}, not {kind!r}.")
    words = (one_line(word) for tag in tags for word in tag.split(","))
    return tuple(dict.fromkeys(word for word in (kind, *words) if word))


def kind_of(tags: Iterable[str], kinds: Sequence[str] = KINDS) -> str:
    """Return the first tag if it is a type, else ""."""
    first = next(iter(tags), "")
    return first if first in kinds else ""


def today(now: datetime, zone: tzinfo) -> date:
    """Return the date of ``now`` in the workspace's zone."""
    return now.astimezone(zone).date()


def is_due(review_on: date | None, today: date) -> bool:
    """Return whether the day to review a note has come."""
    return review_on is not None and review_on <= today


def matches(query: str, note: NoteText) -> bool:
    """Return whether title, content or a tag contains the query, ignoring case (S4).

    It uses Unicode case folding, so that both databases give the same result.
    """
    folded_query = query.casefold()
    return any(folded_query in text.casefold() for text in (note.title, note.content, *note.tags))
