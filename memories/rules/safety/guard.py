"""Rules for a line that a model wrote: what it may not bring into a memory (docs/rules.md).

A line may rest on the messages and lines that its request shows as data of its own scope, never on
references. A message with orders to a model is the attack itself: it is no source of links, addresses
and mentions. A line that repeats such orders, or rests on nothing else, breaks a rule.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise

from memories.rules.safety import addresses, secrets
from memories.rules.safety.normalized_text import WIDE, normalize, split_words, word_set
from memories.rules.safety.prompt_injection import find_injection
from memories.rules.summariser import Request

MAX_LINE_LENGTH = 1_000  # characters: no line of a memory of 500 tokens is longer
MAX_MATCH_LENGTH = 200
RUN_WORDS = 8
RUN_WIDE = 16  # characters of a script without spaces
_MIN_LINE_SHARE = 0.7  # a shorter run counts if it is this share of the line …
_SHORT_RUN = 6  # … and has so many words, or pairs of characters
_PIECE = 4  # words, or pairs of characters, by which texts are compared
_MIN_WORD_SHARE = 0.6  # share of a line's words that its source contains


class Rule(StrEnum):
    SIZE = "size"
    ORDER = "order"  # an order to a model or its tools
    MARKUP = "markup"  # that acts where it is rendered
    SECRET = "secret"  # noqa: S105  the name of a rule
    LINK = "link"
    ADDRESS = "address"
    MENTION = "mention"
    OTHER_SCOPE = "other_scope"
    LED = "led"  # the line rests on orders to a model only


@dataclass(frozen=True)
class Finding:
    """A broken rule, with the piece of the line that broke it, without secrets."""

    rule: Rule
    match: str = ""


_IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\s?[\[(]")
_SCRIPT = re.compile(
    r"(?:javascript|vbscript|livescript)\s{0,3}:(?=\S)|data:(?:text|image|application)/",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"</?(?:a|img|image|script|iframe|frame|object|embed|applet|svg|math|style|link|meta|base|form|input|button|"
    r"textarea|select|video|audio|source|track|picture|details|marquee|body|html|head|template|portal|isindex)"
    r"(?:[\s/][^<>]{0,500})?>|<[a-z][^<>]{0,200}\son\w{2,20}\s?=",
    re.IGNORECASE,
)
_DEFINITION = re.compile(
    r"^\s{0,9}(?:[-*•]\s{0,9})?\[[^\]\n]{1,100}\]:\s{0,9}<?(?:\S{0,200}[./#:])\S{0,1000}(?:\s{1,9}[\"'(][^\n]{0,200})?\s{0,9}$"
)
_REFERENCE = re.compile(r"(?<!\S)!?\[[^\[\]\n]{2,200}\]\s?\[[^\[\]\n]{0,100}\](?!\w)")


@dataclass(frozen=True)
class Source:
    """A text that lines may rest on, as the request shows it. ``mentions`` are the names in it.

    ``is_persons`` is a line that a person wrote or pinned. It may be repeated word for word.
    """

    ref: int
    text: str
    author: str = ""
    is_persons: bool = False
    mentions: tuple[str, ...] = ()

    @property
    def own_words(self) -> str:
        """The text without names, which its author did not choose."""
        text = self.text
        for mention in sorted(self.mentions, key=len, reverse=True):
            text = text.replace(mention, " ")
        return text


@dataclass(frozen=True)
class Sources:
    """All texts of one request. ``background`` are references of another scope."""

    texts: Sequence[Source]
    background: Sequence[str] = ()

    @classmethod
    def of(cls, request: Request) -> "Sources":
        lines = [
            Source(line.ref, line.text, is_persons=line.by_person) for line in request.memory_lines
        ]
        messages = [Source(m.ref, m.text, m.author, mentions=m.mentions) for m in request.messages]
        background = [r.text for r in request.references if not r.same_memory]
        return cls([*lines, *messages], background)

    @cached_property
    def orders(self) -> dict[int, str]:
        """Ref → order to a model, for texts that give one.

        An order may extend over several messages of an author. The messages next to one count too.
        """
        orders: dict[int, str] = {}
        neighbours: dict[int, str] = {}
        by_author: dict[str, list[Source]] = {}
        for source in self.texts:
            if source.is_persons:
                continue
            if words := find_injection(source.text) or find_injection(source.author):
                orders[source.ref] = words
            if source.author:
                by_author.setdefault(source.author, []).append(source)
        for messages in by_author.values():
            for parts in _sequences(messages, orders):
                if words := find_injection(" ".join(part.text for part in parts)):
                    orders.update((part.ref, words) for part in parts)
            for before, after in pairwise(messages):
                if before.ref in orders and after.ref not in orders:
                    neighbours.setdefault(after.ref, orders[before.ref])
                elif after.ref in orders and before.ref not in orders:
                    neighbours[before.ref] = orders[after.ref]
        return orders | neighbours

    @cached_property
    def normalized(self) -> str:
        """All texts without orders, normalized."""
        return "\n".join(
            normalize(f"{source.author}: {source.text}" if source.author else source.text)
            for source in self.texts
            if source.ref not in self.orders
        )

    @cached_property
    def words(self) -> dict[int, frozenset[str]]:
        """Ref → the words of a source, without names."""
        return {source.ref: word_set(source.own_words) for source in self.texts}

    @cached_property
    def links(self) -> frozenset[str]:
        return frozenset(addresses.find_links(self.normalized))

    @cached_property
    def emails(self) -> frozenset[str]:
        return frozenset(addresses.find_emails(self.normalized))

    @cached_property
    def mentions(self) -> frozenset[str]:
        return frozenset(addresses.find_mentions(self.normalized))

    @cached_property
    def foreign_pieces(self) -> frozenset[str]:
        """Short runs of words that only the background contains."""
        if not self.background:
            return frozenset()
        own = {p for line in self.normalized.split("\n") for p in _pieces(split_words(line))}
        foreign = {
            piece
            for text in self.background
            for line in normalize(text).split("\n")
            for piece in _pieces(split_words(line))
        }
        return frozenset(foreign - own)

    @cached_property
    def foreign_words(self) -> frozenset[str]:
        """Words that only the background contains."""
        foreign = frozenset().union(*map(word_set, self.background))
        return foreign.difference(split_words(self.normalized)) if foreign else foreign

    def has_line_by_person(self, text: str) -> bool:
        """Return whether a person wrote or pinned a line with this text."""
        words = text.split()
        return any(source.is_persons and source.text.split() == words for source in self.texts)


def check(text: str, refs: Sequence[int], sources: Sources) -> Finding | None:
    """Return the first rule that a line with these sources breaks, or None.

    A line without sources is compared with the most similar text.
    """
    if sources.has_line_by_person(text):
        return None
    if len(text) > MAX_LINE_LENGTH:
        return Finding(Rule.SIZE, f"{len(text)}")
    if words := find_injection(text):
        return _finding(Rule.ORDER, words)
    for rule, match in _broken_rules(text, normalize(text), sources):
        return _finding(rule, match)
    if sources.orders:
        origins = refs or most_similar(text, sources)
        if origins and all(ref in sources.orders for ref in origins):
            return _finding(Rule.LED, sources.orders[origins[0]])
    return None


def most_similar(text: str, sources: Sources) -> list[int]:
    """Return the ref of the source that shares most words with a text, if any shares one."""
    words = word_set(text)
    scores = [(len(words & source), -ref) for ref, source in sources.words.items()]
    score, ref = max(scores, default=(0, 0))
    return [-ref] if score else []


def rests_on(text: str, refs: Sequence[int], sources: Sources) -> tuple[int, ...]:
    """Return the sources of a line, given those that the model named.

    If another source contains most of its words, and none of the named ones does, that source is
    first: a message can tell a model which source to name.
    """
    words = word_set(text)
    shared = {ref: len(words & source) for ref, source in sources.words.items()}
    best = max(shared, key=lambda ref: (shared[ref], -ref), default=0)
    enough = max(_PIECE, _MIN_WORD_SHARE * len(words))
    if shared.get(best, 0) < enough or any(shared.get(ref, 0) >= enough for ref in refs):
        return tuple(refs)
    return (best, *refs)


def _broken_rules(text: str, normalized: str, sources: Sources) -> Iterator[tuple[Rule, str]]:
    for pattern in (_IMAGE, _SCRIPT, _TAG, _DEFINITION):
        if match := pattern.search(text):
            yield Rule.MARKUP, match[0]
    if (match := _REFERENCE.search(normalized)) and match[0] not in sources.normalized:
        yield Rule.MARKUP, match[0]
    for secret in secrets.find_secrets(text):
        yield Rule.SECRET, secret
    for link in addresses.find_links(normalized):
        if not addresses.is_source_link(link, sources.links, normalized):
            yield Rule.LINK, link
    for email in addresses.find_emails(normalized):
        if not any(addresses.is_same_email(email, source) for source in sources.emails):
            yield Rule.ADDRESS, email
    for mention in addresses.find_mentions(normalized):
        if not any(addresses.is_same_mention(mention, source) for source in sources.mentions):
            yield Rule.MENTION, mention
    if sources.background:
        words = split_words(normalized)
        if foreign := _foreign_run(words, sources) or _foreign_words(words, sources):
            yield Rule.OTHER_SCOPE, foreign


def _finding(rule: Rule, match: str) -> Finding:
    return Finding(rule, secrets.redact(match)[:MAX_MATCH_LENGTH])


def _sequences(messages: Sequence[Source], orders: dict[int, str]) -> Iterator[Sequence[Source]]:
    """Yield two or three messages in a row of one author, of which none is an order by itself."""
    for count in (2, 3):
        for i in range(len(messages) - count + 1):
            parts = messages[i : i + count]
            if not any(part.ref in orders for part in parts):
                yield parts


def _pieces(words: Sequence[str]) -> list[str]:
    return [" ".join(words[i : i + _PIECE]) for i in range(len(words) - _PIECE + 1)]


def _foreign_run(words: Sequence[str], sources: Sources) -> str:
    """Return the longest run of words that only the background contains, if it is long enough.

    That is 8 words, 16 characters, or most of the line.
    """
    best = begin = length = 0
    for i, piece in enumerate(_pieces(words)):
        length = length + 1 if piece in sources.foreign_pieces else 0
        if length > best:
            best, begin = length, i - length + 1
    if not best:
        return ""
    run = words[begin : begin + best + _PIECE - 1]
    wide = sum(bool(WIDE.match(word)) for word in run)
    is_long = len(run) - wide >= RUN_WORDS or wide >= RUN_WIDE - 1
    is_most = len(run) >= max(_SHORT_RUN, _MIN_LINE_SHARE * len(words))
    return " ".join(run) if is_long or is_most else ""


def _foreign_words(words: Sequence[str], sources: Sources) -> str:
    """Return words that only the background contains, in any order.

    One name of letters and digits is enough, else they must be most of the line.
    """
    foreign = [word for word in words if word in sources.foreign_words]
    names = [word for word in foreign if len(word) >= 6 and _has_letters_and_digits(word)]
    is_most = len(foreign) >= max(_SHORT_RUN, _MIN_LINE_SHARE * len(words))
    return " ".join(names or foreign) if names or is_most else ""


def _has_letters_and_digits(word: str) -> bool:
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word))
