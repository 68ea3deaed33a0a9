"""Lines of a memory and what becomes of them: in an edit, a merge, a restore (docs/rules.md).

A line keeps who wrote it, since which version, and its messages for as long as its words stay.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum

_BULLET = re.compile(r"^\s*(?:[-*•・]\s+|・)?")


class Origin(StrEnum):
    MODEL = "model"
    PERSON = "person"
    RESTORE = "restore"


@dataclass(frozen=True)
class Line:
    """``since`` is the number of the version it first stood in, None for the one being made.
    ``sources`` are keys of messages; a model's line without any shows a mark."""

    text: str
    origin: Origin
    since: int | None = None
    sources: tuple[int, ...] = ()


def words_of(text: str) -> str:
    """A line's words without its bullet and spare white space: what makes two lines the same."""
    return " ".join(_BULLET.sub("", text, count=1).split())


def split_text(text: str) -> list[str]:
    """The lines of a text that say something."""
    return [line.rstrip() for line in text.splitlines() if words_of(line)]


def revised(base: Sequence[Line], text: str) -> list[Line]:
    """The lines of a person's text: those they left alone stay as they were, the rest is theirs.

    A line reworded in place still rests on the messages of the one that stood there; one that
    says something else rests on its author's word.
    """
    texts = split_text(text)
    matcher = SequenceMatcher(
        None, [words_of(line.text) for line in base], [words_of(t) for t in texts], autojunk=False
    )
    lines: list[Line] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            lines += [
                replace(line, text=t) for line, t in zip(base[i1:i2], texts[j1:j2], strict=True)
            ]
            continue
        for offset, new in enumerate(texts[j1:j2]):
            old = base[i1 + offset] if i1 + offset < i2 else None
            reworded = old is not None and _are_alike(old.text, new)
            lines.append(Line(new, Origin.PERSON, sources=old.sources if old and reworded else ()))
    return lines


def _are_alike(old: str, new: str) -> bool:
    """Whether at least half of the letters stand in both, in the same order."""
    return SequenceMatcher(None, words_of(old), words_of(new), autojunk=False).ratio() >= 0.5


def merged(base: Sequence[Line], made: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """A merge's lines over those of its base, and which of a person's lines had to be put back.

    Words that stood in the base keep their origin. A person's line that the merge lost comes back
    behind the last line before it that is still there.
    """
    known = {words_of(line.text): line for line in base}
    lines = []
    for line in made:
        old = known.get(words_of(line.text))
        lines.append(replace(old, text=line.text) if old else line)
    put_back = []
    for i, line in enumerate(base):
        present = [words_of(m.text) for m in lines]
        if line.origin is not Origin.PERSON or words_of(line.text) in present:
            continue
        before = [words_of(b.text) for b in base[:i]]
        at = max((present.index(words) + 1 for words in before if words in present), default=0)
        lines.insert(at, line)
        put_back.append(line.text)
    return lines, put_back


def restored(current: Sequence[Line], old: Sequence[Line]) -> list[Line]:
    """The lines of an older version brought back: what stands now anyway stays as it is."""
    known = {words_of(line.text): line for line in current}
    return [
        known.get(words_of(line.text))
        or (
            line
            if line.origin is Origin.PERSON
            else replace(line, origin=Origin.RESTORE, since=None)
        )
        for line in old
    ]
