"""Excerpts of texts around the hits of a search."""

from collections.abc import Sequence
from dataclasses import dataclass

from memories.rules.search.tokenizer import Term, spans

BEFORE = 40  # characters shown before the first hit
LENGTH = 200
FEWEST_LATIN = 12  # characters; a cut word that is not longer is omitted


@dataclass(frozen=True)
class Piece:
    """A part of an excerpt. ``hit`` is true for a match of a term."""

    text: str
    hit: bool = False


def snippet(text: str, terms: Sequence[Term], length: int = LENGTH) -> list[Piece]:
    """Return the text from shortly before the first match, on one line.

    Without a match return its beginning.
    """
    line = " ".join(text.split())
    matches = spans(line, terms)
    begin = _word_start(line, max(0, matches[0][0] - BEFORE)) if matches else 0
    end = min(
        len(line), max(begin + length, min(matches[0][1], begin + 2 * length) if matches else 0)
    )
    pieces = [Piece("… ")] if begin else []
    at = begin
    for first, last in matches:
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


def _word_start(line: str, at: int) -> int:
    """Return the next start of a word, at most a few letters on."""
    if at == 0 or not line[at - 1 : at + 1].isascii():
        return at
    space = line.find(" ", at - 1, at + FEWEST_LATIN)
    return at if space < 0 else space + 1
