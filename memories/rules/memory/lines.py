"""Lines of a memory, and the rules for them in an edit, a merge and a restore (docs/rules.md).

A line keeps its author, first version, messages and pin as long as its words stay the same. A line
that a person wrote or pinned is *protected*: no merge drops it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple, TypeVar

from memories.rules.memory.kinds import Kind
from memories.rules.redaction.shingles import REDACTED

AnyLine = TypeVar("AnyLine")

_BULLET = re.compile(r"^\s*(?:[-*•・]\s+|・)?")
MAX_TEXT_LENGTH = 20_000  # characters that a person writes; memories have a few hundred words
_TEXTS = 5_000  # whose words a process keeps


class Origin(StrEnum):
    MODEL = "model"
    PERSON = "person"
    RESTORE = "restore"


@dataclass(frozen=True)
class Line:
    """A line of a memory as a plain value.

    ``since`` is the number of the first version with the line, None for the version in progress.
    ``sources`` are primary keys of messages. ``at_us`` is the time of the newest source in
    microseconds, 0 if unknown. ``unverified``: a number, a date or a link of the line is in no
    source. ``author`` is the primary key of the account that wrote the words, also after a merge
    copied them to another memory.
    """

    text: str
    origin: Origin
    since: int | None = None
    sources: tuple[int, ...] = ()
    pinned: bool = False
    kind: str = ""
    at_us: int = 0
    unverified: bool = False
    author: int | None = None

    @property
    def is_protected(self) -> bool:
        """Whether every merge keeps the line word for word: a person wrote or pinned it."""
        return self.pinned or self.origin is Origin.PERSON


class MergeResult(NamedTuple):
    """The lines after a merge.

    ``restored`` and ``kept`` are texts of protected lines: those that the model dropped, and those
    that it kept.
    """

    lines: list[Line]
    restored: list[str]
    kept: list[str]


@lru_cache(maxsize=_TEXTS)
def strip_bullet(text: str) -> str:
    """Return a line without its bullet and extra white space.

    Lines with equal words are the same.
    """
    return " ".join(_BULLET.sub("", text, count=1).split())


def split_history(
    lines: Sequence[AnyLine], kind_and_time: Callable[[AnyLine], tuple[str, int]]
) -> tuple[list[AnyLine], list[AnyLine]]:
    """Return the lines that hold now, in their order, and the events, oldest first."""
    keys = [kind_and_time(line) for line in lines]
    events = [i for i, (kind, _) in enumerate(keys) if kind == Kind.EVENT]
    events.sort(key=lambda i: keys[i][1])
    now = [line for line, (kind, _) in zip(lines, keys, strict=True) if kind != Kind.EVENT]
    return now, [lines[i] for i in events]


def group_by_kind(
    lines: Iterable[AnyLine], kind_of: Callable[[AnyLine], str]
) -> list[tuple[Kind, list[AnyLine]]]:
    """Return the lines by kind, in reading order and without empty groups.

    A line without a kind is a status.
    """
    groups: dict[Kind, list[AnyLine]] = {kind: [] for kind in Kind}
    for line in lines:
        groups[Kind(kind_of(line) or Kind.STATUS)].append(line)
    return [(kind, group) for kind, group in groups.items() if group]


def redacted_line(text: str) -> str:
    """Return the bullet of a line with a redaction mark behind it."""
    bullet = _BULLET.match(text)
    return f"{bullet[0] if bullet else ''}{REDACTED}"


def split_text(text: str) -> list[str]:
    """Return the lines of a text that are not empty."""
    return [line.rstrip() for line in text.splitlines() if strip_bullet(line)]


def hash_text(text: str) -> str:
    """Return the SHA-256 of the lines of a text. A form sends it for the text that it showed."""
    return sha256("\n".join(split_text(text)).encode()).hexdigest()


def revise_lines(base: Sequence[Line], text: str, author: int | None = None) -> list[Line]:
    """Return the lines of a person's edit of ``base``.

    A line with the same words keeps its origin, wherever it is now. Any other line is that of
    ``author``. It keeps the sources, kind and pin of the line in its place if the two are similar.
    """
    texts = split_text(text)
    matcher = SequenceMatcher(
        None,
        [strip_bullet(line.text) for line in base],
        [strip_bullet(t) for t in texts],
        autojunk=False,
    )
    base_by_words = _by_words(base)
    lines: list[Line] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        for offset, new in enumerate(texts[j1:j2]):
            same = base_by_words.get(strip_bullet(new))
            if same is not None:
                old = base[i1 + offset] if tag == "equal" else same
                lines.append(replace(old, text=new, pinned=same.pinned))
                continue
            was = base[i1 + offset] if i1 + offset < i2 else None
            line = Line(new, Origin.PERSON, author=author)
            if was is not None and _are_similar(was.text, new):
                line = replace(line, sources=was.sources, pinned=was.pinned, kind=was.kind)
            lines.append(line)
    return lines


def correct_line(lines: Sequence[Line], index: int, text: str, author: int | None) -> list[Line]:
    """Return the lines with the words of ``text`` at ``index``, as a person's line.

    It keeps the bullet, kind, time, pin and sources.
    """
    old = lines[index]
    bullet = _BULLET.match(old.text)
    corrected = replace(
        old,
        text=f"{bullet[0] if bullet else ''}{strip_bullet(text)}",
        origin=Origin.PERSON,
        since=None,
        unverified=False,
        author=author,
    )
    return [*lines[:index], corrected, *lines[index + 1 :]]


def _are_similar(old: str, new: str) -> bool:
    """Return whether the lines share at least half of their letters, in the same order."""
    return (
        SequenceMatcher(None, strip_bullet(old), strip_bullet(new), autojunk=False).ratio() >= 0.5
    )


def merge_lines(
    base: Sequence[Line], made: Sequence[Line], shown_as: Callable[[str], str] = str
) -> MergeResult:
    """Return the lines of a model's merge of ``base``.

    A line with the words of a base line keeps its origin; a protected one also keeps its exact
    text. A dropped protected line is restored behind the last remaining line before it.
    ``shown_as`` returns the words of a base line as the request showed them.
    """
    base_by_words = _by_words(base)
    base_by_shown = {shown_as(words): line for words, line in base_by_words.items()}
    lines: list[Line] = []
    for line in made:
        words = strip_bullet(line.text)
        old = base_by_words.get(words, base_by_shown.get(shown_as(words)))
        if old is None:
            lines.append(line)
        else:
            lines.append(old if old.is_protected else replace(old, text=line.text))
    present = {strip_bullet(line.text) for line in lines}
    restored, kept = [], []
    preceding: set[str] = set()
    for words, line in base_by_words.items():
        if line.is_protected and words in present:
            kept.append(line.text)
        elif line.is_protected:
            positions = (i for i, row in enumerate(lines, 1) if strip_bullet(row.text) in preceding)
            lines.insert(max(positions, default=0), line)
            present.add(words)
            restored.append(line.text)
        preceding.add(words)
    return MergeResult(lines, restored, kept)


def rests_only_on(line: Line, messages: frozenset[int]) -> bool:
    """Return whether a line that no person wrote or pinned has no other sources than these."""
    by_person = line.is_protected or line.author is not None
    return bool(line.sources) and not by_person and messages.issuperset(line.sources)


def restore_lines(current: Sequence[Line], old: Sequence[Line]) -> list[Line]:
    """Return the lines of a restored version.

    A line that is in ``current`` stays as it is there.
    """
    current_by_words = _by_words(current)
    lines = []
    for line in old:
        same = current_by_words.get(strip_bullet(line.text))
        if same is not None:
            lines.append(replace(same, text=line.text))
        elif line.origin is Origin.PERSON:
            lines.append(line)
        else:
            lines.append(replace(line, origin=Origin.RESTORE, since=None))
    return lines


def restore_text(current: Sequence[Line], old: Sequence[Line], text: str) -> list[Line] | None:
    """Return the lines of a text from two versions. Return None if a line is in neither of them."""
    by_words = {**_by_words(old), **_by_words(current)}
    texts = split_text(text)
    if not all(strip_bullet(line) in by_words for line in texts):
        return None
    return restore_lines(
        current, [replace(by_words[strip_bullet(line)], text=line) for line in texts]
    )


def insert_position(lines: Sequence[Line], line: Line) -> int:
    """Return the index for a restored line: before all events, or by time if it is one."""
    events = [i for i, event in enumerate(lines) if event.kind == Kind.EVENT]
    if line.kind == Kind.EVENT:
        events = [i for i in events if lines[i].at_us > line.at_us]
    return min(events, default=len(lines))


def insert_line(text: str, lines: Sequence[Line], index: int) -> str:
    """Insert the line at ``index`` into a text that has all the other lines."""
    rows = text.split("\n")
    follower = lines[index + 1].text if index + 1 < len(lines) else None
    at = next((i for i, row in enumerate(rows) if row.rstrip() == follower), len(rows))
    return "\n".join([*rows[:at], lines[index].text, *rows[at:]])


def _by_words(lines: Iterable[Line]) -> dict[str, Line]:
    """Return the lines by their words, in their order.

    Of equal lines a protected one is used. It is pinned if any of them is.
    """
    by_words: dict[str, Line] = {}
    for line in lines:
        words = strip_bullet(line.text)
        old = by_words.get(words, line)
        better = old if old.is_protected or not line.is_protected else line
        by_words[words] = replace(better, pinned=old.pinned or line.pinned)
    return by_words
