"""What a line that a model wrote may not bring into a memory (docs/rules.md, messages are data).

A line is held against the texts it may rest on: the messages and lines that its request showed as
data of its own scope, never its references. A message that gives orders to a model is the attack
itself: it is no source for links, addresses and mentions, what it orders is held back even where
it stands word for word, and so is a line that rests on such messages alone.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise

from memories.rules.generate.summariser import Request
from memories.rules.ingest.characters import LINE_BREAK
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.safety import secrets
from memories.rules.safety.prompt_injection import aimed_at_model

LONGEST_LINE = 1_000  # characters: a memory of 500 tokens has no longer one
LONGEST_FOUND = 200
RUN_WORDS = 8
RUN_WIDE = 16  # characters of a script without spaces
_MOST_OF_A_LINE = 0.7  # a shorter run is one too, when it is nearly all of the line …
_SHORT_RUN = 6  # … and this long: words, or pairs of characters
_PIECE = 4  # words, or pairs, by which texts are compared
_MOST_WORDS = 0.6  # of a line: what holds so many of them is where it comes from


class Rule(StrEnum):
    """What was broken."""

    SIZE = "size"
    ORDER = "order"  # words aimed at a model or its tools
    MARKUP = "markup"  # that acts where it is rendered
    SECRET = "secret"  # noqa: S105  the name of a rule
    LINK = "link"
    ADDRESS = "address"
    MENTION = "mention"
    OTHER_SCOPE = "other_scope"
    LED = "led"  # rests on orders to a model, and on nothing else


@dataclass(frozen=True)
class Finding:
    """``found`` is the piece of the line that broke the rule, without secrets."""

    rule: Rule
    found: str = ""


_END = ".,:;!?'\"、。，．：；！？…)]}>*_~`）」』】"
# Letters of other scripts are parts of a name too, but after an end in plain letters a sentence may
# go on without a blank: example.jpを
_DOMAIN = r"(?:[\w-]{1,63}\.){1,6}(?:[a-z0-9-]{1,63}|[^\W\d_]{1,63})"
_LINK = re.compile(
    r"(?:[a-z][a-z0-9+.-]{1,20}://|(?<![a-z0-9_])(?:www\.|mailto:|tel:|file:|//(?=[\w-]{1,60}\.)))"
    rf"(?:{_DOMAIN}[!-~]{{0,2000}}|[!-~]{{1,2000}})",
    re.IGNORECASE,
)
# What a browser reads as two slashes, and as a dot
_SLASHES = re.compile(
    r"(?<![a-z0-9_])(https?:|ftp:|wss?:)(?:[/\\]{1,9}|(?=[\w-]{1,60}\.[\w-]))|(?<![\w:/\\])[/\\]{2,9}(?=[\w-]{1,60}\.)"
)
_WIDE_DOT = re.compile(
    r"(?<=\w)。(?=(?:[a-z0-9-]{1,63}[.。]){0,3}(?:com|net|org|jp|cn|ru|xyz)(?:/|:\d))"
)
_TOP_LEVEL = (
    "com|net|org|edu|gov|mil|int|info|biz|io|ai|dev|app|co|uk|jp|de|fr|nl|ru|cn|eu|us|ca|au|in|kr|tw|br|it|es|ch|se|"
    "no|fi|dk|pl|cz|at|be|ie|nz|za|sg|hk|xyz|site|online|shop|top|club|store|tech|cloud|page|link|live|me|tv|gg|ly|"
    "example|test|invalid|onion|zip|mov|ninja|space|website|pro|blog|wiki|work|works|team|email|click|download"
)
# Ends of files: node.js/express, a.csv/b.csv
_NO_TOP_LEVEL = (
    "js|jsx|ts|tsx|mjs|vue|css|scss|html?|php|py|ipynb|java|kt|go|cpp|hpp|cs|rb|swift|sql|json|jsonl|ya?ml|toml|xml|"
    "ini|cfg|conf|env|lock|log|txt|rst|csv|tsv|xlsx?|docx?|pptx?|pdf|png|jpe?g|gif|svg|mp[34]|exe|dll|jar|gz|tar|bak"
)
# Said so in sentences, of which the one before may end without a blank: done.And/or
_PAIR = (
    "and/or|he/she|she/he|his/her|he/him|she/her|they/them|yes/no|on/off|ui/ux|ci/cd|tcp/ip|input/output|read/write|"
    r"client/server|before/after|km/h|[kmgt]b/s|md/[\w-]{1,60}\.md|rs/[\w-]{1,60}\.rs"
)
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,60}[a-z0-9])?"
# After a digit or a dot it would be a version or a file: main.py, 1.2.io. With a path it is a host
# whatever its end, and so are four numbers; but 10.0.0.0/8 is a network.
_HOST = re.compile(
    rf"(?<![a-z0-9_@./-])(?:(?:{_LABEL}\.){{1,5}}(?:{_TOP_LEVEL})(?![a-z0-9_-]|\.[a-z0-9_])(?::\d{{1,5}})?(?:/[!-~]{{0,500}})?"
    rf"|(?:{_LABEL}\.){{0,4}}(?=[0-9-]{{0,60}}[a-z])[a-z0-9][a-z0-9-]{{1,61}}\."
    rf"(?!(?:{_NO_TOP_LEVEL})[/:]|(?:{_PAIR})(?![a-z0-9_/-]))(?:xn--[a-z0-9-]{{1,59}}|[a-z]{{2,24}})"
    r"(?::\d{1,5})?/[a-z0-9_?#~%-][!-~]{0,500}"
    r"|(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?/(?!\d[\d.]{0,20}(?![a-z0-9_./-]))[a-z0-9_?#~%-][!-~]{0,500})",
    re.IGNORECASE,
)
_EMAIL = re.compile(rf"[\w.+-]{{1,64}}@{_DOMAIN}", re.IGNORECASE)
_MENTION = re.compile(r"<[@!][^<>\s]{1,80}>|(?<![\w.@/+-])[@＠][\w][\w.-]{0,80}")
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
_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_WIDE = re.compile("[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


@dataclass(frozen=True)
class Source:
    """A text that lines may rest on, as the request showed it. ``is_persons``: somebody answers for
    it, word for word. ``mentions`` are the names in it."""

    ref: int
    text: str
    author: str = ""
    is_persons: bool = False
    mentions: tuple[str, ...] = ()

    @property
    def own_words(self) -> str:
        """The text without names: they are no words of its author."""
        text = self.text
        for mention in sorted(self.mentions, key=len, reverse=True):
            text = text.replace(mention, " ")
        return text


@dataclass(frozen=True)
class Sources:
    """All texts of one request. ``background`` are references that belong to another scope."""

    texts: Sequence[Source]
    background: Sequence[str] = ()

    @classmethod
    def of(cls, request: Request) -> "Sources":
        lines = [
            Source(line.ref, line.text, is_persons=line.by_person) for line in request.memory_lines
        ]
        said = [Source(m.ref, m.text, m.author, mentions=m.mentions) for m in request.messages]
        background = [r.text for r in request.references if not r.same_memory]
        return cls([*lines, *said], background)

    @cached_property
    def orders(self) -> dict[int, str]:
        """Refs whose text is aimed at a model, alone or together with what its author said before,
        and what its author said next to such: the words of it."""
        found: dict[int, str] = {}
        beside: dict[int, str] = {}
        by_author: dict[str, list[Source]] = {}
        for source in self.texts:
            if source.is_persons:
                continue
            if words := aimed_at_model(source.text) or aimed_at_model(source.author):
                found[source.ref] = words
            if source.author:
                by_author.setdefault(source.author, []).append(source)
        for said in by_author.values():
            for parts in _neighbours(said, found):
                if words := aimed_at_model(" ".join(part.text for part in parts)):
                    found.update((part.ref, words) for part in parts)
            for one, other in pairwise(said):  # an order may go on in the next message
                if one.ref in found and other.ref not in found and other.ref not in beside:
                    beside[other.ref] = found[one.ref]
                elif other.ref in found and one.ref not in found:
                    beside[one.ref] = found[other.ref]
        return found | beside

    @cached_property
    def _clean(self) -> str:
        """All that may be quoted, as it is compared."""
        return "\n".join(
            _plain(f"{source.author}: {source.text}" if source.author else source.text)
            for source in self.texts
            if source.ref not in self.orders
        )

    @cached_property
    def words(self) -> dict[int, frozenset[str]]:
        """The words of each source. A name is no source."""
        return {source.ref: word_set(source.own_words) for source in self.texts}

    @cached_property
    def links(self) -> frozenset[str]:
        return frozenset(_links(self._clean))

    @cached_property
    def addresses(self) -> frozenset[str]:
        return frozenset(match[0] for match in _EMAIL.finditer(self._clean))

    @cached_property
    def mentions(self) -> frozenset[str]:
        return frozenset(_mentions(self._clean))

    @cached_property
    def runs(self) -> frozenset[str]:
        """Short runs of words that only stand in the background."""
        if not self.background:
            return frozenset()
        own = {run for line in self._clean.split("\n") for run in _runs(_words(line))}
        foreign = {
            run
            for text in self.background
            for line in _plain(text).split("\n")
            for run in _runs(_words(line))
        }
        return frozenset(foreign - own)

    @cached_property
    def foreign_words(self) -> frozenset[str]:
        """Words that only stand in the background."""
        foreign = {word for text in self.background for word in _words(_plain(text))}
        return frozenset(foreign - set(_words(self._clean))) if foreign else frozenset()

    def holds(self, words: str) -> bool:
        """Whether a person answers for these very words."""
        wanted = " ".join(words.split())
        return any(s.is_persons and " ".join(s.text.split()) == wanted for s in self.texts)


def check(text: str, refs: Sequence[int], sources: Sources) -> Finding | None:
    """The first rule that a line breaks, or None. ``refs`` are those it cites; without any it is
    held against the source that it resembles most."""
    if sources.holds(text):
        return None
    if len(text) > LONGEST_LINE:
        return Finding(Rule.SIZE, f"{len(text)}")
    if words := aimed_at_model(text):
        return _finding(Rule.ORDER, words)
    plain = _plain(text)
    for rule, found in _broken(text, plain, sources):
        return _finding(rule, found)
    if sources.orders:
        rests_on = refs or traced(text, sources)
        if rests_on and all(ref in sources.orders for ref in rests_on):
            return _finding(Rule.LED, sources.orders[rests_on[0]])
    return None


def traced(text: str, sources: Sources, most: int = 1) -> list[int]:
    """The refs of the sources that share most words with a text; none that shares none."""
    words = word_set(text)
    scored = [(len(words & known), -ref) for ref, known in sources.words.items()]
    return [-ref for score, ref in sorted(scored, reverse=True)[:most] if score]


def rests_on(text: str, refs: Sequence[int], sources: Sources) -> tuple[int, ...]:
    """The refs that a line cites; where none of them holds most of its words and another source
    does, that one first: a message can tell a model whom to cite."""
    words = word_set(text)
    held = {ref: len(words & known) for ref, known in sources.words.items()}
    most = max(held, key=lambda ref: (held[ref], -ref), default=0)
    enough = max(_PIECE, _MOST_WORDS * len(words))
    if held.get(most, 0) < enough or any(held.get(ref, 0) >= enough for ref in refs):
        return tuple(refs)
    return (most, *refs)


def word_set(text: str) -> frozenset[str]:
    """The words of a text as they are compared: what it is about, whatever the order."""
    return frozenset(_words(_plain(text)))


def _broken(text: str, plain: str, sources: Sources) -> Iterator[tuple[Rule, str]]:
    for pattern in (_IMAGE, _SCRIPT, _TAG, _DEFINITION):
        if match := pattern.search(text):
            yield Rule.MARKUP, match[0]
    if (match := _REFERENCE.search(plain)) and match[0] not in sources._clean:
        yield Rule.MARKUP, match[0]
    if found := secrets.found(text):
        yield Rule.SECRET, found[0]
    for link in _links(plain):
        if not _is_known(link, sources.links, plain):
            yield Rule.LINK, link
    for match in _EMAIL.finditer(plain):
        if not any(_same_address(match[0], known) for known in sources.addresses):
            yield Rule.ADDRESS, match[0]
    for mention in _mentions(plain):
        if not any(_same_mention(mention, known) for known in sources.mentions):
            yield Rule.MENTION, mention
    foreign = sources.background and (
        _foreign_run(plain, sources.runs) or _foreign_words(plain, sources.foreign_words)
    )
    if foreign:
        yield Rule.OTHER_SCOPE, str(foreign)


def _finding(rule: Rule, found: str) -> Finding:
    return Finding(rule, secrets.redacted(found)[:LONGEST_FOUND])


def _neighbours(said: Sequence[Source], found: dict[int, str]) -> Iterator[Sequence[Source]]:
    """Two or three things in a row that one person said, of which none is an order by itself."""
    for count in (2, 3):
        for i in range(len(said) - count + 1):
            parts = said[i : i + count]
            if not any(part.ref in found for part in parts):
                yield parts


def _plain(text: str) -> str:
    """As texts are compared: one form of each character and of a link, small letters, one space."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", strip_invisible(LINE_BREAK.sub("\n", text)))
    text = re.sub(r"[^\S\n]+", " ", text.replace(" ⏎ ", "\n")).casefold()
    return _SLASHES.sub(lambda match: f"{match[1] or ''}//", _WIDE_DOT.sub(".", text))


def _links(plain: str) -> list[str]:
    """Addresses of any scheme, and bare hosts."""
    found = [_stripped(match[0]) for match in _LINK.finditer(plain)]
    rest = _EMAIL.sub(" ", _LINK.sub(" ", plain)) if "@" in plain or found else plain
    if "." in rest:
        found += [_stripped(match[0]) for match in _HOST.finditer(rest)]
    return found


def _stripped(link: str) -> str:
    link = re.split(r"[<>\"`|\\^{}]", link, maxsplit=1)[0].rstrip(_END)
    # Brackets that the link itself opened are its own: en.example/A_(b)
    return link + ")" * (link.count("(") - link.count(")"))


def _is_known(link: str, known: Iterable[str], plain: str) -> bool:
    """As it stands in a source, or a beginning of that: up to one of its own marks, or cut visibly."""
    bare = _bare(link)
    cut = f"{link}…" in plain or f"{link}..." in plain
    for one in known:
        other = _bare(one)
        if other == bare:
            return True
        rest = other.removeprefix(bare)
        if rest != other and bare and (cut or rest[0] in "/?#&" or bare[-1] in "/?#"):
            return True
    return False


def _bare(link: str) -> str:
    return re.sub(r"^(?:https?:)?//|^mailto:", "", link).removeprefix("www.").rstrip("/)")


def _mentions(plain: str) -> list[str]:
    if "@" not in plain and "<!" not in plain:
        return []
    rest = _EMAIL.sub(" ", _LINK.sub(" ", plain))
    return [match[0].rstrip(".-_") for match in _MENTION.finditer(rest)]


def _same_mention(mention: str, known: str) -> bool:
    """The same name; without spaces a sentence goes on behind it: @田中さんに."""
    if mention == known:
        return True
    short, long = sorted((mention, known), key=len)
    return len(short) > 2 and long.startswith(short) and not long[len(short)].isascii()


def _same_address(address: str, known: str) -> bool:
    """The same one; without spaces a sentence may go before it: 連絡はana@example.org."""
    short, long = sorted((address, known), key=len)
    before = long.removesuffix(short)
    return not before or (before != long and bool(_WIDE.match(before[-1])))


def _words(plain: str) -> list[str]:
    """Words, and of a script without spaces pairs of characters."""
    words: list[str] = []
    for match in _WORD.finditer(plain):
        word = match[0]
        if _WIDE.search(word):
            words += [word[i : i + 2] for i in range(len(word) - 1)] or [word]
        else:
            words.append(word)
    return words


def _runs(words: Sequence[str]) -> Iterator[str]:
    for i in range(len(words) - _PIECE + 1):
        yield " ".join(words[i : i + _PIECE])


def _foreign_run(plain: str, runs: frozenset[str]) -> str:
    """The longest stretch of a line that stands in the background alone, if it is long: 8 words, 16
    characters, or most of the line."""
    words = _words(plain)
    best = begin = length = 0
    for i in range(len(words) - _PIECE + 1):
        length = length + 1 if " ".join(words[i : i + _PIECE]) in runs else 0
        if length > best:
            best, begin = length, i - length + 1
    if not best:
        return ""
    stretch = words[begin : begin + best + _PIECE - 1]
    wide = sum(bool(_WIDE.match(word)) for word in stretch)
    is_long = len(stretch) - wide >= RUN_WORDS or wide >= RUN_WIDE - 1
    is_most = len(stretch) >= max(_SHORT_RUN, _MOST_OF_A_LINE * len(words))
    return " ".join(stretch) if is_long or is_most else ""


def _foreign_words(plain: str, foreign: frozenset[str]) -> str:
    """Words of the background alone, in whatever order: names made of letters and digits (one is
    enough), or most of the words of a line."""
    words = _words(plain)
    found = [word for word in words if word in foreign]
    names = [w for w in found if len(w) >= 6 and _has_both(w)]
    is_most = len(found) >= max(_SHORT_RUN, _MOST_OF_A_LINE * len(words))
    return " ".join(names or found) if names or is_most else ""


def _has_both(word: str) -> bool:
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word))
