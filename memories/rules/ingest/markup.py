"""Slack's message markup, read in one pass.

Markup is recognised first and ``&lt; &gt; &amp;`` are turned back last and once, so a person who
typed ``<@U1>`` as words is never taken for a mention. Names are looked up while reading, because
people and channels are renamed after a message was written.

Every pattern here is linear in the length of the text: none may look past its own closing mark.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from memories.rules.ingest.emoji import emoji_character
from memories.rules.ingest.names import safe_name

_MENTIONED = re.compile(r"<([@#])([A-Z0-9]{2,40})")


class Names(Protocol):
    """Who and what the reader may see by name; None where unknown or not theirs to read."""

    def person(self, slack_id: str) -> str | None: ...

    def channel(self, slack_id: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class SafeNames:
    """Names as data, for texts that a model reads."""

    names: Names

    def person(self, slack_id: str) -> str | None:
        name = self.names.person(slack_id)
        return name and (safe_name(name) or " ")

    def channel(self, slack_id: str) -> str | None:
        name = self.names.channel(slack_id)
        return name and (safe_name(name) or " ")


class Kind(StrEnum):
    TEXT = "text"
    LINK = "link"
    PERSON = "person"
    CHANNEL = "channel"
    SPECIAL = "special"  # @here, a user group, a date
    EMOJI = "emoji"
    CODE = "code"
    BLOCK = "block"  # a fenced piece of code, its line breaks kept


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a message. ``text`` is what a person reads, not yet escaped for HTML.

    ``ref`` is a link's address (http, https or mailto only), or the id of a person or channel.
    ``quoted`` tells that the piece stands in a quotation; ``style`` holds its marks: ``*`` bold,
    ``_`` italic, ``~`` struck.
    """

    kind: Kind
    text: str
    ref: str = ""
    quoted: bool = False
    style: str = ""


_SPECIAL = re.compile(r"[<&:`*_~]")
_INLINE = re.compile(
    r"<(?P<ref>[^<>\n]+)>"
    r"|`(?P<code>[^`\n]+)`"
    r"|(?<![0-9A-Za-z]):(?P<emoji>[a-z0-9_+'-]{1,80}):(?::skin-tone-(?P<tone>[2-6]):)?"
)
_UNSTYLED = re.compile(r"<[^<>\n]*>|`[^`\n]+`|:[a-z0-9_+'-]{1,80}:")
_STYLE = re.compile(r"[*_~]")
_LABEL = re.compile(r"(<#[^<>|]*)\|[^<>]*>")
_REF_IN_CODE = re.compile(r"<([^<>\n]+)>")
_ID = re.compile(r"[A-Z0-9]{2,40}")
_LINK = re.compile(r"(?:https?://|mailto:)[^\s]+", re.IGNORECASE)
_ENTITY = re.compile(r"&(amp|lt|gt);")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">"}
_QUOTE = "&gt;"
_FENCE = "```"


def without_labels(text: str) -> str:
    """The markup as sent, without the names that Slack puts beside the ids of channels: one of
    them may be a private channel's."""
    return _LABEL.sub(r"\1>", text) if "<#" in text else text


def unescape(text: str) -> str:
    """``&amp; &lt; &gt;`` as characters, once: ``&amp;lt;`` becomes ``&lt;``."""
    return _ENTITY.sub(lambda match: _ENTITIES[match[1]], text) if "&" in text else text


def escape(text: str) -> str:
    """Words as Slack would have sent them: the opposite of `unescape`."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mentions_in(texts: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the Slack ids of the people and of the channels that these messages mention."""
    mentions = {mention for text in texts for mention in _MENTIONED.findall(text)}
    people = {slack_id for sign, slack_id in mentions if sign == "@"}
    return people, {slack_id for sign, slack_id in mentions if sign == "#"}


def plain(text: str, names: Names) -> str:
    """The message as readable words, for models, search and commands; quoted lines begin ``> ``."""
    if not _SPECIAL.search(text):
        return text
    parts: list[str] = []
    line_begins = True
    for token in _pieces(text, SafeNames(names)):
        if token.quoted and line_begins and token.text != "\n":
            parts.append("> ")
        if token.kind is Kind.LINK:
            parts.append(_link_words(token))
        elif token.kind is Kind.BLOCK:
            parts.append(f"{_FENCE}{token.text}{_FENCE}")
        elif token.kind is Kind.CODE:
            parts.append(f"`{token.text}`")
        else:
            parts.append(token.text)
        line_begins = token.text.endswith("\n")
    return "".join(parts)


def mentioned(text: str, names: Names) -> tuple[str, ...]:
    """The mentions in a message as `plain` writes them: ``@name`` and ``#name``."""
    return tuple(
        dict.fromkeys(
            token.text
            for token in _pieces(text, SafeNames(names))
            if token.kind in (Kind.PERSON, Kind.CHANNEL)
        )
    )


def parse(text: str, names: Names) -> list[Token]:
    """The message in pieces, in order; joined, their texts are the message as read."""
    return list(_merged(_pieces(text, names)))


def _pieces(text: str, names: Names) -> Iterator[Token]:
    begin = 0
    while (opening := text.find(_FENCE, begin)) >= 0:
        closing = text.find(_FENCE, opening + 3)
        if closing < 0:
            break
        yield from _lines(text[begin:opening], names)
        code = text[opening + 3 : closing]
        if code:
            yield Token(Kind.BLOCK, _code_words(code, names))
        else:
            yield Token(Kind.TEXT, _FENCE * 2)
        begin = closing + 3
    yield from _lines(text[begin:], names)


def _lines(text: str, names: Names) -> Iterator[Token]:
    quoted_to_the_end = False
    for number, line in enumerate(text.split("\n")):
        if number:
            yield Token(Kind.TEXT, "\n", quoted=quoted_to_the_end)
        if line.startswith(_QUOTE * 3):
            quoted_to_the_end = True
            line = line[len(_QUOTE) * 3 :].removeprefix(" ")
        quoted = quoted_to_the_end or line.startswith(_QUOTE)
        if quoted and not quoted_to_the_end:
            line = line[len(_QUOTE) :].removeprefix(" ")
        for piece, style in _runs(line):
            for token in _inline(piece, names, quoted):
                yield replace(token, style=style) if style else token


def _runs(line: str) -> Iterator[tuple[str, str]]:
    """Pieces of a line with the marks they stand between; marks that make no pair are words."""
    pairs = list(_pairs(line)) if _STYLE.search(line) else []
    begin, style = 0, ""
    for at in sorted(position for pair in pairs for position in pair):
        if begin < at:
            yield line[begin:at], style
        mark = line[at]
        style = style.replace(mark, "") if mark in style else style + mark
        begin = at + 1
    if begin < len(line):
        yield line[begin:], style


def _pairs(line: str) -> Iterator[tuple[int, int]]:
    """Where a mark opens and where it closes: as in Slack, around whole words only."""
    opened: dict[str, int] = {}
    for match in re.finditer(f"{_UNSTYLED.pattern}|{_STYLE.pattern}", line):
        at, mark = match.start(), match[0]
        if len(mark) > 1:  # a link, code, an emoji's name
            continue
        before, after = line[at - 1 : at] or " ", line[at + 1 : at + 2] or " "
        begun = opened.get(mark, at)
        if begun + 1 < at and not before.isspace() and not after.isalnum():
            yield opened.pop(mark), at
        elif not before.isalnum() and mark not in (before, after) and not after.isspace():
            opened[mark] = at


def _inline(line: str, names: Names, quoted: bool) -> Iterator[Token]:  # noqa: FBT001
    begin = position = 0
    while match := _INLINE.search(line, position):
        token = _token(match, names, quoted)
        if token is None:
            # A colon that closes no emoji may open the next one.
            position = match.end() - 1 if match["emoji"] else match.end()
            continue
        if begin < match.start():
            yield Token(Kind.TEXT, unescape(line[begin : match.start()]), quoted=quoted)
        yield token
        begin = position = match.end()
    if begin < len(line):
        yield Token(Kind.TEXT, unescape(line[begin:]), quoted=quoted)


def _token(match: re.Match[str], names: Names, quoted: bool) -> Token | None:  # noqa: FBT001
    if ref := match["ref"]:
        return _reference(ref, names, quoted)
    if code := match["code"]:
        return Token(Kind.CODE, _code_words(code, names), quoted=quoted)
    character = emoji_character(match["emoji"], match["tone"])
    return Token(Kind.EMOJI, character, match["emoji"], quoted) if character else None


def _reference(inner: str, names: Names, quoted: bool) -> Token | None:  # noqa: FBT001
    target, _, label = inner.partition("|")
    label = unescape(label).strip()
    mark, rest = target[:1], target[1:]
    if mark == "@" and _ID.fullmatch(rest):
        name = names.person(rest) or safe_name(label) or rest
        return Token(Kind.PERSON, f"@{name}", rest, quoted)
    if mark == "#" and _ID.fullmatch(rest):
        # The label is the name of long ago, and may be that of a private channel.
        return Token(Kind.CHANNEL, f"#{names.channel(rest) or 'private'}", rest, quoted)
    if mark == "!":
        return Token(Kind.SPECIAL, label or f"@{unescape(rest).partition('^')[0]}", quoted=quoted)
    address = unescape(target)
    if _LINK.fullmatch(address):
        words = label or re.sub("^mailto:", "", address, flags=re.IGNORECASE)
        return Token(Kind.LINK, words, address, quoted)
    return Token(Kind.TEXT, label, quoted=quoted) if label else None


def _link_words(token: Token) -> str:
    """The label with the address behind it, unless the label already is the address."""
    bare = re.sub("^(https?://|mailto:)", "", token.ref, flags=re.IGNORECASE).rstrip("/")
    if token.text.rstrip("/") in (token.ref.rstrip("/"), bare):
        return token.text
    return f"{token.text} ({token.ref})"


def _code_words(code: str, names: Names) -> str:
    """Code as typed: Slack wraps links and mentions even there; emoji names stay names."""

    parts: list[str] = []
    begin = 0
    for match in _REF_IN_CODE.finditer(code):
        token = _reference(match[1], names, quoted=False)
        if token is None:
            continue
        parts += (unescape(code[begin : match.start()]), token.text)
        begin = match.end()
    parts.append(unescape(code[begin:]))
    return "".join(parts)


def _merged(tokens: Iterator[Token]) -> Iterator[Token]:
    """Neighbouring plain pieces as one, so that a page makes few elements."""
    held: list[str] = []
    look = (False, "")  # of what is held: quoted, style
    for token in tokens:
        if token.kind is Kind.TEXT and (not held or (token.quoted, token.style) == look):
            held.append(token.text)
            look = token.quoted, token.style
            continue
        if held:
            yield Token(Kind.TEXT, "".join(held), quoted=look[0], style=look[1])
            held = []
        if token.kind is Kind.TEXT:
            held, look = [token.text], (token.quoted, token.style)
        else:
            yield token
    if held:
        yield Token(Kind.TEXT, "".join(held), quoted=look[0], style=look[1])
