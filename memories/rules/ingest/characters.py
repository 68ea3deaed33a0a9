"""What a text may hold: what every database keeps, and where its lines break."""

import re

LINE_BREAK = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
# What no database or no file can hold: NUL (PostgreSQL), halves of a surrogate pair (UTF-8).
_UNFIT = re.compile("[\x00\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Whether every database takes the text as it is."""
    return not _UNFIT.search(text)


def fit(text: str, length: int | None = None) -> str:
    """Text that every database takes: what cannot be stored becomes U+FFFD."""
    if not text.isascii() or "\0" in text:
        text = _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if length is None else text[:length]
