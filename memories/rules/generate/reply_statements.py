"""The statements of a reply, whatever form a model gave them: bullets, headings, bold, JSON."""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from memories.rules.generate.summariser import NOTHING, Kind
from memories.rules.memory.kinds import kind_named

Spans = tuple[tuple[int, int], ...]

_THINKING = re.compile(
    r"\A\s*<(think|thinking|thought|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE
)
_END_OF_THINKING = re.compile(r"\A.*</(?:think|thinking|thought|reasoning)>", re.DOTALL | re.I)
_BULLET = re.compile(r"\s*(?:[-*•‣◦・–—+]\s+|[・•]|-(?=[^\s\d\-])|\d{1,3}[.)]\s+)")
_INLINE_BULLET = re.compile(r"\s+[•‣◦]\s+|(?<=[.!?。\]])\s+[-*]\s+(?=[A-Z*\u3041-\u9fff])")
_NUMBERED_INLINE = re.compile(r"(?<=[.!?。\]])\s+\d{1,2}[.)]\s+(?=[A-Z*])")
_HEADING = re.compile(
    r"\s*(?:#{1,6}\s+(?P<hash>.*)|(?:\*\*|__)(?P<bold>[^*_]{1,60})(?:\*\*|__)\s*[:：]?)\s*"
)
_NOT_A_LINE = re.compile(r"\s*(?:```.*|[-*_=\s]*)")
_LABEL = re.compile(
    r"(?:\*\*|__)?[\[(（【]?(?P<label>[^\W\d_][^:：\[\]()（）【】*]{0,24})[\])）】]?"
    r"(?:(?:\*\*|__)?\s*[:：]\s*(?:\*\*|__)?|(?:\*\*|__)?\s+[–—-]\s+)"
)
_BRACKETED_LABEL = re.compile(r"[\[(（【](?P<label>[^\W\d_][^\[\]()（）【】]{0,24})[\])）】]\s*")
_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*|(?<!\w)__(?=\S)(.+?)(?<=\S)__(?!\w)")
_QUOTED = re.compile(r"[\"“「](?P<inside>[^\"“”「」]*)[\"”」][.。]?")

_TWICE = re.compile(r"[\[［]\s*[\[［]([^\[\]［］]{1,200})[\]］]\s*[\]］]")
_BRACKET = re.compile(
    r"\s?(?:[\[［]([^\[\]［］]{1,200})[\]］]|[(（](?=(?:refs?|messages?|sources?|lines?)\b)([^()（）]{1,200})[)）])\s?[,、]?$",
    re.IGNORECASE,
)
_FRONT = re.compile(r"[\[［]([^\[\]［］]{1,200})[\]］]\s*[:：\-–—]?\s*")
_WORDS_OF_REFS = r"(?:refs?|references?|messages?|msgs?|sources?|lines?|numbers?|番号|発言|行|根拠)"
_NUMBERS = re.compile(
    rf"\s*(?:{_WORDS_OF_REFS}\.?\s*:?)?(?:[\s\d,、;#~〜–\-]|\band\b|{_WORDS_OF_REFS})*",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d\d?(?:-\d\d?)?")
_RANGE = re.compile(r"(\d{1,9})(?:\s*[~〜–\-]\s*#?(\d{1,9}))?")
_MOST_BRACKETS = 20  # at the end of one line

_PREAMBLE = re.compile(
    r"(?:sure|certainly|of course|okay|ok|here(?:'|’)?s|here (?:is|are)|below (?:is|are)|the following|based on|"
    r"i(?:'ve| have) (?:listed|summari)|now,? here|以下|承知|かしこまり|了解しました|こちらが|上記の)",
    re.IGNORECASE,
)
REMARK = re.compile(
    r"(?:(?:these|this|the above|all of these|above)\s(?:\w+\s){0,2}?(?:updates?|bullets?|bullet points?|points?|lines?|items?|"
    r"summary|list|memory|statements?|facts?)\b.{0,40}\b(?:consolidat|captur|cover|summari|reflect|represent|provid|includ|highlight|"
    r"are (?:based|the most)|is based)"
    r"|let me know\b|(?:i )?hope this\b|feel free\b|if you (?:need|want|have)\b|please let\b|note that (?:these|this|the) (?:bullet|summary|list)"
    r"|以上(?:です|が|の)|ご確認ください|必要(?:であれば|に応じて)|他に(?:ご|何か))",
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"(?:none|n/?a|nothing)(?: (?:yet|mentioned|so far|at this time|worth \w+|found|to report))?|"
    r"no (?:(?:open|new|specific|important) )?(?:decisions?|tasks?|questions?|events?|status|updates?)"
    r"(?: (?:were|was|are|is|have been|yet|made|mentioned|asked|given|found|recorded))*|(?:特に)?(?:なし|ありません)|該当なし",
    re.IGNORECASE,
)
_TEXT_KEYS = (
    "text",
    "sentence",
    "content",
    "line",
    "statement",
    "summary",
    "description",
    "fact",
    "内容",
    "文",
)
_KIND_KEYS = ("kind", "type", "category", "label", "種類")
_REF_KEYS = ("numbers", "refs", "references", "sources", "messages", "ids", "number", "ref", "番号")
_DEEPEST = 6


@dataclass(frozen=True)
class Statement:
    """One line of a reply. ``spans`` are the numbers it cites, each from first to last."""

    text: str
    kind: Kind | None = None
    spans: Spans = ()


def strip_thinking(text: str) -> str:
    """The text without what a reasoning model thought aloud."""
    text = _THINKING.sub("", text)
    return _END_OF_THINKING.sub("", text).strip()


def is_nothing(text: str) -> bool:
    """Whether the whole of it is the word for "nothing worth keeping"."""
    bare = _BULLET.sub("", text, count=1).strip(" \t\n*_.。!\"'`")
    return bare.upper() == NOTHING or _EMPTY.fullmatch(bare) is not None


def parse_statements(text: str) -> list[Statement]:
    """The statements of an answer, in order. Headings name the kind of what stands below them;
    preambles, closing remarks and "none" are no statements."""
    found = _from_json(text) or list(_from_rows(text))
    cleaned = (_cleaned(statement) for statement in found)
    return [s for s in cleaned if s.text and not is_nothing(s.text)]


def _from_rows(text: str) -> Iterator[Statement]:
    rows = [row for row in text.split("\n") if not _NOT_A_LINE.fullmatch(row)]
    bulleted = [n for n, row in enumerate(rows) if _BULLET.match(row)]
    kind: Kind | None = None
    pending = ""
    for n, row in enumerate(rows):
        if (title := _title(row, rows[n + 1 : n + 2])) is not None:
            yield from _split(pending, kind)
            pending, kind = "", kind_named(title)
        elif bullet := _BULLET.match(row):
            yield from _split(pending, kind)
            pending = row[bullet.end() :]
        elif bulleted and pending and row[:1].isspace():
            pending += f" {row.strip()}"
        elif _is_statement(row, n, rows, bulleted):
            yield from _split(pending, kind)
            pending = row
    yield from _split(pending, kind)


def _title(row: str, following: list[str]) -> str | None:
    """The words of a heading: after ``#``, bold alone, or before a colon that ends the row."""
    if heading := _HEADING.fullmatch(row):
        return heading["hash"] or heading["bold"] or ""
    bullet = _BULLET.match(row)
    words = row[bullet.end() :] if bullet else row
    if words.rstrip(" *_").endswith((":", "：")) and len(words) <= 40 and following:
        goes_on = _BULLET.match(following[0]) is not None
        return words if goes_on and (not bullet or kind_named(words)) else None
    return words if not bullet and kind_named(words) else None


def _is_statement(row: str, n: int, rows: list[str], bulleted: list[int]) -> bool:
    """Whether a row without a bullet states something. Before, after and between bullets it is a
    comment, unless it cites; in a reply without any it is one line."""
    if split_refs(row)[1]:
        return True
    if bulleted:
        return bulleted[0] < n < bulleted[-1] and not row.rstrip().endswith((":", "："))
    is_first = n == 0 and len(rows) > 1
    is_preamble = is_first and (row.rstrip().endswith((":", "：")) or _PREAMBLE.match(row.strip()))
    return not is_preamble and not (n == len(rows) - 1 and REMARK.match(row.strip()))


def _split(row: str, kind: Kind | None) -> Iterator[Statement]:
    """Several bullets in one row are several statements."""
    for part in _INLINE_BULLET.split(row):
        for piece in _NUMBERED_INLINE.split(part):
            if piece.strip():
                yield Statement(piece, kind)


def _cleaned(statement: Statement) -> Statement:
    """Without marks, label and references, each of which may stand first."""
    text = _TWICE.sub(r"[\1]", " ".join(statement.text.split()))
    kind, spans = statement.kind, statement.spans
    for _ in range(2):
        text, in_front = _front_refs(text)
        spans += in_front
        text, named = _label(text)
        kind = named or kind
    text, at_end = split_refs(text)
    text = _BOLD.sub(lambda match: match[1] or match[2], text).strip()
    if quoted := _QUOTED.fullmatch(text):
        text = quoted["inside"].strip()
    return replace(statement, text=text, kind=kind, spans=spans + at_end)


def _label(text: str) -> tuple[str, Kind | None]:
    """The text without the name of a kind before it."""
    for pattern in (_LABEL, _BRACKETED_LABEL):
        label = pattern.match(text)
        if label and (kind := kind_named(label["label"])) and text[label.end() :].strip():
            return text[label.end() :].strip(), kind
    return text, None


def _front_refs(text: str) -> tuple[str, Spans]:
    front = _FRONT.match(text)
    inside = unicodedata.normalize("NFKC", front[1]) if front else ""
    if front and _are_numbers(inside) and (rest := text[front.end() :].strip()):
        return rest, _spans([inside])
    return text, ()


def split_refs(text: str) -> tuple[str, Spans]:
    """The text before its closing brackets, and the numbers in them in their order."""
    body = text.rstrip()
    stop = body[-1:] if body[-2:-1] in ("]", "］") and body[-1:] in (".", "。") else ""
    body = body.removesuffix(stop)
    brackets: list[str] = []
    while (
        len(brackets) < _MOST_BRACKETS
        and (found := _BRACKET.search(body))
        and _are_numbers(inside := unicodedata.normalize("NFKC", found[1] or found[2]))
    ):
        brackets.insert(0, inside)
        body = body[: found.start()]
        if found[0].startswith(" ") and not body.endswith((",", "、")):
            break  # "[3][7]" and "[3], [7]" are two; in "note [3] [7]" the first is the line's own
    if not brackets:
        return text.strip(), ()
    return (body + stop).strip(), _spans(brackets)


def _spans(brackets: list[str]) -> Spans:
    return tuple((int(a), int(b or a)) for inside in brackets for a, b in _RANGE.findall(inside))


def _are_numbers(inside: str) -> bool:
    digits = any(character.isdigit() for character in inside)
    return digits and bool(_NUMBERS.fullmatch(inside)) and not _DATE.fullmatch(inside.strip())


def _from_json(text: str) -> list[Statement]:
    """The statements of an answer in JSON; none when it is no JSON."""
    body = re.sub(r"\A```\w*\n|\n?```\Z", "", text).strip()
    if body[:1] not in ("{", "["):
        return []
    try:
        return list(_walk(json.loads(body), None, 0))
    except (ValueError, RecursionError):
        return []


def _walk(value: Any, kind: Kind | None, depth: int) -> Iterator[Statement]:
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        yield Statement(value, kind)
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item, kind, depth + 1)
    elif isinstance(value, dict):
        said = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
        if said is None:
            for key, item in value.items():
                yield from _walk(item, kind_named(key) or kind, depth + 1)
            return
        label = next((value[key] for key in _KIND_KEYS if isinstance(value.get(key), str)), "")
        yield Statement(said, kind_named(label) or kind, tuple(_numbers_in(value)))


def _numbers_in(value: dict[str, Any]) -> Iterator[tuple[int, int]]:
    for key in _REF_KEYS:
        given = value.get(key)
        for number in given if isinstance(given, list) else [given]:
            if isinstance(number, int) and 0 < number < 10**9:
                yield number, number
