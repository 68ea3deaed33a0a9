"""Names of people, bots and channels, reduced so that a name cannot give a model instructions."""

import re
import unicodedata
from functools import lru_cache

from memories.rules.ingest.invisible import SHAPELESS, strip_invisible

MAX_NAME_LENGTH = 80  # characters, as in Slack
_NAMES = 5_000  # that a process keeps

# Characters that look like a colon. NFKC turns only some of them into one.
_COLONS = (
    ":\u02d0\u02f8\u0589\u05c3\u0703\u0704\u1361\u16ec\u1803\u1804\u1809\u205a\u205d\u2236\u2982\ua4fd"
    "\ua789\ufe30"
)
_MARKS = frozenset(f"{_COLONS}@/\\#|`⏎")
_SHAPELESS = re.compile(f"[{SHAPELESS}]")
# Shapeless characters as wide as a letter: they become spaces.
_BLANK = re.compile("[\u115f\u1160\u2800\u3164\uffa0]")
_NUMBERED = re.compile(r"\w\.")  # one character for a digit or a letter and its dot
_DOT = re.compile(r"(?<=\w)[.\u2024\u3002\ufe52\uff0e\uff61]+(?=[^\s…])")


@lru_cache(maxsize=_NAMES)
def safe_name(name: str) -> str:
    """Return the name as one line of visible characters without colons, links, mentions and markup.

    Brackets become round ones, and other marks become spaces. A name over 80 characters is cut with
    an ellipsis. The result may be "". The function is idempotent.
    """
    visible = _SHAPELESS.sub("", _BLANK.sub(" ", strip_invisible(" ".join(name.split()))))
    safe = " ".join(_DOT.sub(" ", "".join(map(_neutralise, visible))).split())
    return safe if len(safe) <= MAX_NAME_LENGTH else f"{safe[: MAX_NAME_LENGTH - 1].rstrip()}…"


def _neutralise(character: str) -> str:
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
