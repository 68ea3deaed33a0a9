"""Parse the operations of a merge's reply, in any form that `reply_statements` reads.

Each statement is an operation. ``+ text [n]`` adds a line. ``~ L12 text [n]`` replaces a line, and
``~ L12,L15 text`` replaces several. ``- L12 [n]`` removes a line that is settled. An operation names
a line by its number in the prompt.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from memories.rules.generate.reply_statements import (
    Statement,
    clean_statement,
    says_nothing,
    split_statements,
)

_LINES = r"\[?L\d{1,6}(?:[ \t]*(?:,|、|and|&)[ \t]*L?\d{1,6})*\]?"
_REMOVE = rf"(?P<sign>[-−–—*•]?)[ \t]*(?P<lines>{_LINES})[ \t]*(?P<refs>(?:[\[［][^\[\]［］\n]*[\]］][ \t]*)*)[.。]?[ \t]*"
_REMOVAL = re.compile(_REMOVE)
_REPLACEMENT = re.compile(rf"[~〜～]\s*(?P<lines>{_LINES})\s*[:：]?\s*(?P<text>\S.*)")
_SIGN_AT_END = re.compile(rf"[ \t]*[~〜～][ \t]*{_LINES}[.。]?$")  # a small model copies one
# The beginning of a row with the sign of an operation, also after a bullet or a number.
_SIGNED_ROW = re.compile(
    rf"^[ \t]*(?:(?:[-*•]|\d{{1,3}}[.)])[ \t]+)?(?=[+＋]|[~〜～][ \t]*{_LINES}|(?=[^\w\[]){_REMOVE}$)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Operation:
    """A statement of a reply. Without ``targets`` it is added, else it replaces these line numbers.

    If it removes them, it has references only.
    """

    statement: Statement
    targets: tuple[int, ...] = ()
    removes: bool = False


def parse_operations(text: str) -> list[Operation]:
    """Return the operations of a reply in order. A statement without a sign is added."""
    # With a bullet before each sign, the statements keep their signs.
    operations = map(_parse, split_statements(_SIGNED_ROW.sub("- ", text)))
    return [
        operation
        for operation in operations
        if operation.removes
        or (operation.statement.text and not says_nothing(operation.statement.text))
    ]


def join_operations(texts: Iterable[str]) -> str:
    """Return one reply with the operations of several, one a row."""
    return "\n".join(_format(operation) for text in texts for operation in parse_operations(text))


def _format(operation: Operation) -> str:
    statement = operation.statement
    sign = "-" if operation.removes else "~" if operation.targets else "+"
    targets = ",".join(f"L{number}" for number in operation.targets)
    kind = f"{statement.kind}:" if statement.kind else ""
    refs = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in statement.spans)
    parts = (sign, targets, kind, statement.text, f"[{refs}]" if refs else "")
    return " ".join(part for part in parts if part)


def _parse(statement: Statement) -> Operation:
    text = statement.text.strip()
    if match := _REMOVAL.fullmatch(text):
        refs = clean_statement(replace(statement, text=match["refs"]))
        return Operation(refs, _numbers(match["lines"]), removes=bool(match["sign"]))
    if match := _REPLACEMENT.fullmatch(text):
        words = clean_statement(replace(statement, text=match["text"]))
        return Operation(words, _numbers(match["lines"]))
    text = _SIGN_AT_END.sub("", text.lstrip("+＋"))
    return Operation(clean_statement(replace(statement, text=text)))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(int, re.findall(r"\d+", text))))
