"""Names of people, bots and channels as data: in a prompt, a line or a context a name says nothing."""

import re
import unicodedata

from memories.rules.ingest.invisible import SHAPELESS, clean

LONGEST_NAME = 80  # characters, as in Slack

# Signs that look like a colon. Unicode folds only some of them into one.
_COLONS = ":\u02d0\u02f8\u0589\u05c3\u0703\u0704\u1804\u205a\u2236\ua4fd\ua789\ufe30"
_MARKS = frozenset(f"{_COLONS}@/\\#|`⏎")
_SHAPELESS = re.compile(f"[{SHAPELESS}]")
# They take the room of a letter.
_BLANK = re.compile("[\u115f\u1160\u2800\u3164\uffa0]")
_NUMBERED = re.compile(r"\w\.")  # one character for a digit or a letter and its dot
_DOT = re.compile(r"(?<=\w)[.\u2024\u3002\ufe52\uff0e\uff61]+(?=[^\s…])")


def safe_name(name: str) -> str:
    """The name in one line of visible characters, without colons, links, mentions and markup.

    Brackets become round ones; other marks become spaces. A long name is cut visibly. The result is
    "" when nothing is left, and stays as it is when passed in again.
    """
    visible = _SHAPELESS.sub("", _BLANK.sub(" ", clean(" ".join(name.split()))))
    safe = " ".join(_DOT.sub(" ", "".join(map(_neutral, visible))).split())
    return safe if len(safe) <= LONGEST_NAME else f"{safe[: LONGEST_NAME - 1].rstrip()}…"


def _neutral(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    folded = unicodedata.normalize("NFKC", character)
    if character in _MARKS or not _MARKS.isdisjoint(folded) or _NUMBERED.search(folded):
        return " "
    if category == "Ps" or "<" in folded:
        return "("
    if category == "Pe" or ">" in folded:
        return ")"
    return character
