"""Characters that every database and every file can store, and line breaks."""

import re

LINE_BREAK = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
# PostgreSQL refuses NUL. UTF-8 has no form for half a surrogate pair.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ASCII, _OTHERS = bytes(range(128)), bytes(range(128, 256))


def is_storable(text: str) -> bool:
    """Return whether every database stores the text unchanged."""
    return not _UNSTORABLE.search(text)


def make_storable(text: str, length: int | None = None) -> str:
    """Replace each character that cannot be stored by U+FFFD, and cut the text at ``length``."""
    if not text.isascii() or "\0" in text:
        text = _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if length is None else text[:length]


def is_charset(name: str) -> bool:
    """Return whether Python decodes any bytes in this encoding. ASCII must be a part of it."""
    try:
        _OTHERS.decode(name, "replace")
        return _ASCII.decode(name, "replace") == _ASCII.decode()
    except (LookupError, ValueError):
        return False
