"""What a note is made of (S4): its title, its tags, its date, and whether a search finds it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import Any

from memories.rules.ingest.characters import LINE_BREAK, make_storable

TITLE_LENGTH = 50
LONGEST_TITLE = 60  # of a title that came with the note, out of a file or a form
LONGEST_CONTENT = 20_000  # characters
KINDS = ("pattern", "architecture", "solution")


class InvalidNote(ValueError):
    """A note that cannot be written, and why."""


@dataclass(frozen=True)
class NoteText:
    """A note as contexts and files show it. ``channel_id`` is "" for a note of the workspace.

    ``id`` and ``created_us`` (microseconds since 1970) are None where it is not kept yet; ``date``
    is None only in comparisons that leave it out.
    """

    title: str
    tags: tuple[str, ...]
    date: date | None
    content: str
    channel_id: str = ""
    id: int | None = None
    created_us: int | None = None
    is_pinned: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "type": kind_of(self.tags),
            "tags": list(self.tags),
            "date": str(self.date or ""),
            "content": self.content,
            "channel": self.channel_id or None,
        }


def clean_content(text: str) -> str:
    """The content word for word; what cannot be stored becomes U+FFFD. InvalidNote when blank."""
    if not text.strip():
        raise InvalidNote("A note needs a text.")
    return make_storable(text)


def check_length(content: str) -> None:
    """Raises InvalidNote. Apart from `clean_content`: a file may hold notes of before the limit."""
    if len(content) > LONGEST_CONTENT:
        raise InvalidNote(
            f"A note is at most {LONGEST_CONTENT:,} characters; this one has {len(content):,}."
        )


def one_line(text: str) -> str:
    """Text as one line: every kind of line break becomes a space."""
    return LINE_BREAK.sub(" ", make_storable(text)).strip()


def title_of(content: str) -> str:
    """The first 50 characters of the content, and "..." when it is longer (S4)."""
    line = one_line(content)
    return line if len(line) <= TITLE_LENGTH else f"{line[:TITLE_LENGTH]}..."


def clean_title(title: str, content: str) -> str:
    """A given title as it can be kept; a blank one is made from the content."""
    line = one_line(title)
    return title_of(content) if not line else line if len(line) <= LONGEST_TITLE else title_of(line)


def clean_tags(tags: Iterable[str], kind: str = "") -> tuple[str, ...]:
    """Tags without blanks and repetitions; the type, where given, is the first of them (S4).

    Commas part tags wherever they stand. InvalidNote when the type is none of KINDS.
    """
    if kind and kind not in KINDS:
        raise InvalidNote(f"The type must be one of {', '.join(KINDS)}, not {kind!r}.")
    words = (one_line(word) for tag in tags for word in tag.split(","))
    return tuple(dict.fromkeys(word for word in (kind, *words) if word))


def kind_of(tags: Iterable[str]) -> str:
    """The type that the first tag names, "" when it names none."""
    first = next(iter(tags), "")
    return first if first in KINDS else ""


def today(now: datetime, zone: tzinfo) -> date:
    """The date of a note written at ``now``, in the workspace's zone."""
    return now.astimezone(zone).date()


def is_due(review_on: date | None, today: date) -> bool:
    """Whether a note is to be looked at again: from its day on."""
    return review_on is not None and review_on <= today


def matches(query: str, note: NoteText) -> bool:
    """Whether title, content or any tag holds the query, whatever the case (S4).

    Unicode's rule for cases, so that both databases find the same.
    """
    wanted = query.casefold()
    return any(wanted in text.casefold() for text in (note.title, note.content, *note.tags))
