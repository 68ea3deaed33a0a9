"""A parser of Slack's message markup.

It recognises markup first and unescapes ``&lt; &gt; &amp;`` last, once. So ``<@U1>`` that a person
typed as text is no mention. It looks names up while it parses, because people and channels are
renamed after a message was written.

Every pattern is linear in the length of the text: none may match past its own closing mark.
"""

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Protocol

from memories.rules.ingest.emoji import emoji_character
from memories.rules.ingest.names import safe_name

_MENTIONED = re.compile(r"<([@#])([A-Z0-9]{2,40})")


class NameLookup(Protocol):
    """Look-ups of names by Slack id; None for unknown ids and what the reader may not see."""

    def person(self, slack_id: str) -> str | None: ...

    def channel(self, slack_id: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class SafeNames:
    """The ``names`` in the form of `safe_name`, for texts that a model reads."""

    names: NameLookup

    def person(self, slack_id: str) -> str | None:
        return self._safe(self.names.person(slack_id))

    def channel(self, slack_id: str) -> str | None:
        return self._safe(self.names.channel(slack_id))

    @staticmethod
    def _safe(name: str | None) -> str | None:
        return name and (safe_name(name) or " ")  # not "": the label in the message would be used


class Kind(StrEnum):
    TEXT = "text"
    LINK = "link"
    PERSON = "person"
    CHANNEL = "channel"
    SPECIAL = "special"  # @here, a user group, a date
    EMOJI = "emoji"
    CODE = "code"
    CODE_BLOCK = "code_block"  # a fenced piece of code, its line breaks kept


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a message. ``text`` is readable and not escaped for HTML.

    ``ref`` is a link's address (http, https or mailto only), the id of a person or channel, or the
    name of an emoji.
    ``quoted``: the piece is part of a quotation. ``style`` holds its marks: ``*`` bold, ``_``
    italic, ``~`` struck.
    """

    kind: Kind
    text: str
    ref: str = ""
    quoted: bool = False
    style: str = ""


_MARKUP_CHARACTER = re.compile(r"[<&:`*_~]")
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
_QUOTE = "&gt;"
_FENCE = "```"


def strip_channel_labels(text: str) -> str:
    """Remove the names that Slack writes after the ids of channels: a channel may be private."""
    return _LABEL.sub(r"\1>", text) if "<#" in text else text


def unescape(text: str) -> str:
    """Turn ``&amp; &lt; &gt;`` into characters, once: ``&amp;lt;`` becomes ``&lt;``."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def escape(text: str) -> str:
    """Escape ``& < >`` as Slack does: the reverse of `unescape`."""
    return html.escape(text, quote=False)


def mentions_in(texts: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the Slack ids of the people and of the channels that these messages mention."""
    mentions = {mention for text in texts for mention in _MENTIONED.findall(text)}
    people = {slack_id for sign, slack_id in mentions if sign == "@"}
    return people, {slack_id for sign, slack_id in mentions if sign == "#"}


def render_plain(text: str, names: NameLookup) -> str:
    """Return the message as plain text, for models, search and commands.

    Quoted lines begin with ``> ``.
    """
    if not _MARKUP_CHARACTER.search(text):
        return text
    parts: list[str] = []
    line_begins = True
    for token in _pieces(text, SafeNames(names)):
        if token.quoted and line_begins and token.text != "\n":
            parts.append("> ")
        if token.kind is Kind.LINK:
            parts.append(_link_text(token))
        elif token.kind is Kind.CODE_BLOCK:
            parts.append(f"{_FENCE}{token.text}{_FENCE}")
        elif token.kind is Kind.CODE:
            parts.append(f"`{token.text}`")
        else:
            parts.append(token.text)
        line_begins = token.text.endswith("\n")
    return "".join(parts)


def mention_labels(text: str, names: NameLookup) -> tuple[str, ...]:
    """Return the mentions in a message as `render_plain` writes them: ``@name``, ``#name``."""
    return tuple(
        dict.fromkeys(
            token.text
            for token in _pieces(text, SafeNames(names))
            if token.kind in (Kind.PERSON, Kind.CHANNEL)
        )
    )


def parse(text: str, names: NameLookup) -> list[Token]:
    """Return the message as tokens. Their texts, joined, are the readable message."""
    return list(_merged(_pieces(text, names)))


def _pieces(text: str, names: NameLookup) -> Iterator[Token]:
    begin = 0
    while (fence_start := text.find(_FENCE, begin)) >= 0:
        fence_end = text.find(_FENCE, fence_start + 3)
        if fence_end < 0:
            break
        yield from _lines(text[begin:fence_start], names)
        code = text[fence_start + 3 : fence_end]
        if code:
            yield Token(Kind.CODE_BLOCK, _code_text(code, names))
        else:
            yield Token(Kind.TEXT, _FENCE * 2)
        begin = fence_end + 3
    yield from _lines(text[begin:], names)


def _lines(text: str, names: NameLookup) -> Iterator[Token]:
    quoted_to_the_end = False  # after `>>>`, up to the next code block
    for number, line in enumerate(text.split("\n")):
        if number:
            yield Token(Kind.TEXT, "\n", quoted=quoted_to_the_end)
        quoted = quoted_to_the_end or line.startswith(_QUOTE)
        if line.startswith(_QUOTE * 3):
            quoted_to_the_end = True
            line = line[len(_QUOTE) * 3 :].removeprefix(" ")
        elif quoted and not quoted_to_the_end:
            line = line[len(_QUOTE) :].removeprefix(" ")
        for piece, style in _runs(line):
            for token in _inline(piece, names, quoted):
                yield replace(token, style=style) if style else token


def _runs(line: str) -> Iterator[tuple[str, str]]:
    """Yield (piece of a line, its style). A mark without a partner is text."""
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
    """Yield the positions of opening and closing marks: as in Slack, around whole words only."""
    opened: dict[str, int] = {}
    for match in re.finditer(f"{_UNSTYLED.pattern}|{_STYLE.pattern}", line):
        at, mark = match.start(), match[0]
        if len(mark) > 1:  # a link, code, an emoji's name
            continue
        before, after = line[at - 1] if at else " ", line[at + 1 : at + 2] or " "
        has_text = mark in opened and opened[mark] + 1 < at
        if has_text and not before.isspace() and not after.isalnum():
            yield opened.pop(mark), at
        elif not before.isalnum() and mark not in (before, after) and not after.isspace():
            opened[mark] = at


def _inline(line: str, names: NameLookup, quoted: bool) -> Iterator[Token]:  # noqa: FBT001
    begin = position = 0
    while match := _INLINE.search(line, position):
        token = _token(match, names, quoted)
        if token is None:
            # The second colon may begin an emoji, as in `:+:tada:`.
            position = match.end() - 1 if match["emoji"] else match.end()
            continue
        if begin < match.start():
            yield Token(Kind.TEXT, unescape(line[begin : match.start()]), quoted=quoted)
        yield token
        begin = position = match.end()
    if begin < len(line):
        yield Token(Kind.TEXT, unescape(line[begin:]), quoted=quoted)


def _token(match: re.Match[str], names: NameLookup, quoted: bool) -> Token | None:  # noqa: FBT001
    if ref := match["ref"]:
        return _reference(ref, names, quoted)
    if code := match["code"]:
        return Token(Kind.CODE, _code_text(code, names), quoted=quoted)
    character = emoji_character(match["emoji"], match["tone"])
    return Token(Kind.EMOJI, character, match["emoji"], quoted) if character else None


def _reference(inner: str, names: NameLookup, quoted: bool) -> Token | None:  # noqa: FBT001
    target, _, label = inner.partition("|")
    label = unescape(label).strip()
    sign, identifier = target[:1], target[1:]
    if sign == "@" and _ID.fullmatch(identifier):
        name = names.person(identifier) or safe_name(label) or identifier
        return Token(Kind.PERSON, f"@{name}", identifier, quoted)
    if sign == "#" and _ID.fullmatch(identifier):
        # The label is an old name, possibly of a private channel.
        return Token(Kind.CHANNEL, f"#{names.channel(identifier) or 'private'}", identifier, quoted)
    if sign == "!":
        name = label or f"@{unescape(identifier).partition('^')[0]}"
        return Token(Kind.SPECIAL, name, quoted=quoted)
    address = unescape(target)
    if _LINK.fullmatch(address):
        words = label or re.sub("^mailto:", "", address, flags=re.IGNORECASE)
        return Token(Kind.LINK, words, address, quoted)
    return Token(Kind.TEXT, label, quoted=quoted) if label else None


def _link_text(token: Token) -> str:
    """Return the label with the address in parentheses, unless the label is the address."""
    bare = re.sub("^(https?://|mailto:)", "", token.ref, flags=re.IGNORECASE).rstrip("/")
    if token.text.rstrip("/") in (token.ref.rstrip("/"), bare):
        return token.text
    return f"{token.text} ({token.ref})"


def _code_text(code: str, names: NameLookup) -> str:
    """Return code as it was typed: Slack wraps links and mentions in code too."""
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
    """Join neighbouring text tokens with the same style, so that a page has fewer elements."""
    for (kind, quoted, style), group in groupby(
        tokens, key=lambda token: (token.kind, token.quoted, token.style)
    ):
        if kind is Kind.TEXT:
            text = "".join(token.text for token in group)
            yield Token(Kind.TEXT, text, quoted=quoted, style=style)
        else:
            yield from group
