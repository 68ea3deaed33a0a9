"""A three-way merge of texts by line, and the choices that a person makes in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memories.rules.memory.compare import match_lines
from memories.rules.memory.lines import split_text, strip_bullet
from memories.rules.redaction.shingles import REDACTED


@dataclass(frozen=True)
class Hunk:
    """The lines of the base text, and of both edits of it."""

    base: tuple[str, ...]
    yours: tuple[str, ...]
    theirs: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether a person has to choose: the edits differ in more than bullets and spaces."""
        return not _are_equal(self.yours, self.theirs)

    @property
    def suggestion(self) -> str:
        """The side that changed the base, or "both". A redaction in ``theirs`` always wins."""
        if REDACTED in "".join(self.theirs) and REDACTED not in "".join(self.yours):
            return "theirs"
        if _are_equal(self.theirs, self.base):
            return "yours"
        return "theirs" if _are_equal(self.yours, self.base) else "both"

    def resolve(self, choice: str) -> tuple[str, ...]:
        """Return the lines for a choice: "yours", "theirs" or "both"."""
        if not self.differs:
            return self.theirs if self.yours == self.base else self.yours
        if choice == "theirs":
            return self.theirs
        return self.yours if choice == "yours" else self.yours + self.theirs


def find_hunks(
    base: str, yours: str, theirs: str, split: Callable[[str], list[str]] = split_text
) -> list[Hunk]:
    """Cut three texts at the lines that are in all of them. Each such line is a hunk too."""
    texts = [split(text) for text in (base, yours, theirs)]
    in_yours, in_theirs = match_lines(texts[0], texts[1]), match_lines(texts[0], texts[2])
    common = [(i, in_yours[i], in_theirs[i]) for i in in_yours if i in in_theirs]
    end = (len(texts[0]), len(texts[1]), len(texts[2]))
    hunks: list[Hunk] = []
    starts = (0, 0, 0)
    for ends in [*common, end]:
        sides = [tuple(lines[i:j]) for lines, i, j in zip(texts, starts, ends, strict=True)]
        if len(set(map(len, sides))) == 1:  # lines were changed in place: one hunk for each
            hunks += [Hunk(*((line,) for line in row)) for row in zip(*sides, strict=True)]
        else:
            hunks.append(Hunk(*sides))
        if ends != end:
            hunks.append(Hunk(*((lines[i],) for lines, i in zip(texts, ends, strict=True))))
        starts = (ends[0] + 1, ends[1] + 1, ends[2] + 1)
    return hunks


def common_lines(yours: str, theirs: str) -> str:
    """Return the lines of both texts: the base of a merge when the real base is lost."""
    lines = split_text(yours)
    return "\n".join(lines[i] for i in match_lines(lines, split_text(theirs)))


def join_choices(hunks: Sequence[Hunk], choices: Sequence[str]) -> str:
    """Return the text for one choice a hunk."""
    return "\n".join(
        line for hunk, choice in zip(hunks, choices, strict=True) for line in hunk.resolve(choice)
    )


def is_saved_already(hunks: Sequence[Hunk]) -> bool:
    """Return whether the merge without any choice is the text of ``theirs``."""
    return all(not hunk.differs and hunk.resolve("") == hunk.theirs for hunk in hunks)


def read_choices(form: Mapping[str, str], hunks: Sequence[Hunk], name: str = "choice") -> list[str]:
    """Return the choices in the fields ``choice-0``, …, or the suggestions for missing ones."""
    return [form.get(f"{name}-{i}", hunk.suggestion) for i, hunk in enumerate(hunks)]


def resolved_text(
    form: Mapping[str, str],
    hunks: Sequence[Hunk],
    typed: str,
    split: Callable[[str], list[str]] = split_text,
) -> str:
    """Return the result of a conflict: the typed text if it was edited, else the choices."""
    if is_edited_by_hand(form, hunks, typed, split):
        return typed
    return join_choices(hunks, read_choices(form, hunks))


def is_edited_by_hand(
    form: Mapping[str, str],
    hunks: Sequence[Hunk],
    typed: str,
    split: Callable[[str], list[str]] = split_text,
) -> bool:
    """Return whether the typed text differs from the choices that it was made from.

    These are in the fields ``made-0``, ….
    """
    return split(typed) != split(join_choices(hunks, read_choices(form, hunks, "made")))


def _are_equal(first: Sequence[str], second: Sequence[str]) -> bool:
    return [strip_bullet(line) for line in first] == [strip_bullet(line) for line in second]
