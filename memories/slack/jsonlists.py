"""Read the objects of a JSON list one by one, from a file of any size.

One object is in memory at a time. An object over `MAX_VALUE_CHARACTERS` is skipped without being in
memory as a whole, and appears in the stream as `TooLarge`.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Protocol

from memories.rules.ingest.slack_objects import TooLarge

CHUNK_BYTES = 1 << 16  # bytes
MAX_VALUE_CHARACTERS = 8_000_000  # characters
_SPACE = re.compile(r"[ \t\n\r]*")
_STRUCTURE = re.compile(r'["\\{}\[\]]')
_AFTER_NUMBER = re.compile(r"[^0-9eE.+-]")
# The end of the buffer may cut a literal (-Infinity is the longest), a \uXXXX, or a number's
# fraction or exponent in two.
_LITERAL_LENGTH = 12
_EXPONENT_LENGTH = 2


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Unreadable(Exception):
    """A file that is no JSON list, or breaks; the text says how.

    ``line`` is where the broken value begins, 0 when unknown.
    """

    line = 0


def iter_objects(file: Readable) -> Iterator[object]:
    """Yield the objects of the file's list; raise `Unreadable` where it breaks, after the objects
    before the break."""
    text = _Window(file)
    try:
        yield from _list(text)
    except Unreadable as error:
        error.line = text.line
        raise


def _list(text: "_Window") -> Iterator[object]:
    if text.peek() != "[":
        raise Unreadable("not a list" if text.peek() else text.fault or "empty")
    text.position += 1
    if text.peek() == "]":
        text.position += 1
    else:
        while True:
            yield text.value()
            mark = text.peek()
            text.position += 1
            if mark == "]":
                break
            if mark != ",":
                raise Unreadable("not JSON" if mark else text.fault or "cut off")
    if text.peek():
        raise Unreadable("more than one list")


class _Window:
    """A piece of the file as text, with the position of the next value."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._json = json.JSONDecoder()
        self._buffer = ""
        self._ended = False
        self._lines = 1  # the number of the buffer's first line
        self.position = 0
        self.fault = ""  # why the text ends before the end of the file

    @property
    def line(self) -> int:
        return self._lines + self._buffer.count("\n", 0, self.position)

    def peek(self) -> str:
        """Move to the next character that is not space and return it, "" at the end."""
        if self.position < len(self._buffer) and (character := self._buffer[self.position]) > " ":
            return character
        while True:
            space = _SPACE.match(self._buffer, self.position)
            self.position = space.end() if space else self.position
            if self.position < len(self._buffer):
                return self._buffer[self.position]
            if not self._read_more(CHUNK_BYTES):
                return ""

    def value(self) -> object:
        """Parse the value that begins here. Each further read doubles, to stay linear."""
        self.peek()
        size = CHUNK_BYTES
        while True:
            try:
                value, end = self._json.raw_decode(self._buffer, self.position)
            except json.JSONDecodeError as error:
                margin = 0 if self._ended else _LITERAL_LENGTH
                at_the_end = error.pos >= len(self._buffer) - margin
                if not (at_the_end or error.msg.startswith("Unterminated string")):
                    raise Unreadable("not JSON") from error
                if self._ended:
                    raise Unreadable(self.fault or "cut off") from error
            except (ValueError, RecursionError):
                return self._skip_value()  # a number of thousands of digits, or too deep
            else:
                is_whole = isinstance(value, dict | list | str) or self._ended
                if is_whole or end < len(self._buffer) - _EXPONENT_LENGTH:
                    self.position = end
                    return value
            if len(self._buffer) - self.position > MAX_VALUE_CHARACTERS:
                return self._skip_value()
            self._read_more(size)
            size *= 2

    def _skip_value(self) -> TooLarge:
        """Move behind the value that begins here, with one chunk of it in memory."""
        if self._buffer[self.position] not in '{["':
            return self._skip_number()
        depth, in_string, escaped = 0, False, -1
        while True:
            for match in _STRUCTURE.finditer(self._buffer, self.position):
                mark, at = match[0], match.start()
                if at == escaped:
                    continue
                if mark == "\\":
                    escaped = at + 1
                elif mark == '"':
                    in_string = not in_string
                elif not in_string:
                    depth += 1 if mark in "{[" else -1
                if depth <= 0 and not in_string and mark != "\\":
                    self.position = match.end()
                    return TooLarge()
            escaped -= len(self._buffer)
            self.position = len(self._buffer)
            if not self._read_more(CHUNK_BYTES):
                raise Unreadable(self.fault or "cut off")

    def _skip_number(self) -> TooLarge:
        while not (end := _AFTER_NUMBER.search(self._buffer, self.position)):
            self.position = len(self._buffer)
            if not self._read_more(CHUNK_BYTES):
                raise Unreadable(self.fault or "cut off")
        self.position = end.start()
        return TooLarge()

    def _read_more(self, size: int) -> bool:
        """Read this many bytes and drop the text before the position; return False at the end."""
        parts = []
        while size > 0 and not self._ended:
            read = self._file.read(size)
            self._ended = not read
            size -= len(read)
            try:
                parts.append(self._decode(read, self._ended))
            except UnicodeDecodeError as error:
                # The text before the invalid byte is still used.
                parts.append(error.object[: error.start].decode())
                self._ended, self.fault = True, "not UTF-8"
        text = "".join(parts)
        self._lines = self.line
        self._buffer = self._buffer[self.position :] + text
        self.position = 0
        return bool(text)
