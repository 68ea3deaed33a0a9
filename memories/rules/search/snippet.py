"""A few words of a text around what was found in it."""

from collections.abc import Sequence
from dataclasses import dataclass

from memories.rules.search.tokenizer import Term, spans

BEFORE = 40  # characters shown before the first hit
LENGTH = 200
FEWEST_LATIN = 12  # a word that is cut is left out when it is no longer than this


@dataclass(frozen=True)
class Piece:
    """``hit``: it is what was looked for."""

    text: str
    hit: bool = False


def snippet(text: str, terms: Sequence[Term], length: int = LENGTH) -> list[Piece]:
    """The text from shortly before the first hit on, in pieces, on one line; its beginning when the
    words are in none of what is shown. Joined, the pieces are words of the text as it was written."""
    line = " ".join(text.split())
    found = spans(line, terms)
    begin = _word_begins(line, max(0, found[0][0] - BEFORE)) if found else 0
    end = min(len(line), max(begin + length, min(found[0][1], begin + 2 * length) if found else 0))
    pieces = [Piece("… ")] if begin else []
    at = begin
    for first, last in found:
        if first >= end:
            break
        if at < first:
            pieces.append(Piece(line[at:first]))
        pieces.append(Piece(line[first : min(last, end)], hit=True))
        at = min(last, end)
    if at < end:
        pieces.append(Piece(line[at:end]))
    if end < len(line):
        pieces.append(Piece(" …"))
    return pieces


def _word_begins(line: str, at: int) -> int:
    """No later than a few letters on, where a word begins."""
    if at == 0 or not line[at - 1 : at + 1].isascii():
        return at
    space = line.find(" ", at - 1, at + FEWEST_LATIN)
    return at if space < 0 else space + 1
