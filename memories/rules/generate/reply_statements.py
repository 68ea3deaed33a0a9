"""Parse the statements of a reply in any form: bullets, headings, bold text, JSON."""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from memories.rules.memory.kinds import Kind, kind_named
from memories.rules.summariser import NOTHING

Spans = tuple[tuple[int, int], ...]  # of refs, each from first to last

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
_RULE_OR_FENCE = re.compile(r"\s*(?:```.*|[-*_=\s]*)")
_LABEL = re.compile(
    r"(?:\*\*|__)?[\[(（【]?(?P<label>[^\W\d_][^:：\[\]()（）【】*]{0,24})[\])）】]?"
    r"(?:(?:\*\*|__)?\s*[:：]\s*(?:\*\*|__)?|(?:\*\*|__)?\s+[–—-]\s+)"
)
_BRACKETED_LABEL = re.compile(r"[\[(（【](?P<label>[^\W\d_][^\[\]()（）【】]{0,24})[\])）】]\s*")
_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*|(?<!\w)__(?=\S)(.+?)(?<=\S)__(?!\w)")
_BOLD_TAG = re.compile(r"<(b|strong)>(.+?)</\1>", re.IGNORECASE)
_TITLE = re.compile(
    r"(?:\*\*|__)(?P<title>[^*_]{1,60}?)(?:[:：](?:\*\*|__)|(?:\*\*|__)\s?[:：])\s*(?=\S)"
)
_WORD = re.compile(r"\w{3,}")
_QUOTED = re.compile(r"[\"“「](?P<inside>[^\"“”「」]*)[\"”」][.。]?")

_DOUBLE_BRACKETS = re.compile(r"[\[［]\s*[\[［]([^\[\]［］]{1,200})[\]］]\s*[\]］]")
_BRACKET = re.compile(
    r"\s?(?:[\[［]([^\[\]［］]{1,200})[\]］]|[(（](?=(?:refs?|messages?|sources?|lines?)\b)([^()（）]{1,200})[)）])\s?[,、]?$",
    re.IGNORECASE,
)
_FRONT = re.compile(r"[\[［]([^\[\]［］]{1,200})[\]］]\s*[:：\-–—]?\s*")
_HIGHLIGHT = re.compile(r"- (?P<text>.+) \[(?P<refs>\d+(?:, \d+)*)\]")
_REF_WORDS = r"(?:refs?|references?|messages?|msgs?|sources?|lines?|numbers?|番号|発言|行|根拠)"
_REFS = re.compile(
    rf"\s*(?:{_REF_WORDS}\.?\s*:?)?(?:[\s\d,、;#~〜–\-]|\band\b|{_REF_WORDS})*",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d\d?(?:-\d\d?)?")
_RANGE = re.compile(r"(\d{1,9})(?:\s*[~〜–\-]\s*#?(\d{1,9}))?")
_MAX_BRACKETS = 20  # at the end of one line

_PREAMBLE = re.compile(
    r"(?:sure|certainly|of course|okay|ok|here(?:'|’)?s|here (?:is|are)|below (?:is|are)|the following|based on|"
    r"i(?:'ve| have) (?:listed|summari)|now,? here|以下|承知|かしこまり|了解しました|こちらが|上記の)",
    re.IGNORECASE,
)
REMARK = re.compile(
    r"(?:(?:these|this|the above|all of these|above)\s(?:\w+\s){0,2}?(?:updates?|bullets?|bullet points?|points?|lines?|items?|"
    r"summary|list|memory|statements?|facts?)\b.{0,40}\b(?:consolidat|captur|cover|summari|reflect|represent|provid|includ|highlight|"
    r"are (?:based|the most)|is based)"
    r"|(?:there (?:is|are|was|were|have been|has been) )?no (?:new|open|further|other|additional|specific|outstanding|pending)\b"
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
_MAX_DEPTH = 6


@dataclass(frozen=True)
class Statement:
    """One statement of a reply with the spans of refs that it cites."""

    text: str
    kind: Kind | None = None
    spans: Spans = ()


def strip_thinking(text: str) -> str:
    """Remove the thinking of a reasoning model, which some endpoints send as text."""
    text = _THINKING.sub("", text)
    return _END_OF_THINKING.sub("", text).strip()


def says_nothing(text: str) -> bool:
    """Return whether a whole text is a form of "nothing worth keeping"."""
    bare = _BULLET.sub("", text, count=1).strip(" \t\n*_.。!\"'`")
    return bare.upper() == NOTHING or _EMPTY.fullmatch(bare) is not None


def parse_statements(text: str) -> list[Statement]:
    """Return the statements of a reply in order, without preamble, closing remark and "none".

    A heading gives its kind to the statements below it.
    """
    statements = map(clean_statement, split_statements(text))
    return [s for s in statements if s.text and not says_nothing(s.text)]


def parse_highlights(text: str) -> list[Statement]:
    """Return the statements of the offline summariser: one a row, with the text word for word."""
    rows = filter(None, map(_HIGHLIGHT.fullmatch, text.split("\n")))
    return [Statement(row["text"], spans=_spans_of([row["refs"]])) for row in rows]


def split_statements(text: str) -> list[Statement]:
    """Return the statements of a reply with their labels, refs and marks as they are."""
    return _from_json(text) or list(_from_rows(text))


def _from_rows(text: str) -> Iterator[Statement]:
    rows = [row for row in text.split("\n") if not _RULE_OR_FENCE.fullmatch(row)]
    bulleted = [n for n, row in enumerate(rows) if _BULLET.match(row)]
    kind: Kind | None = None
    pending = ""
    for n, row in enumerate(rows):
        if (title := _title_of(row, rows[n + 1 : n + 2])) is not None:
            yield from _split_bullets(pending, kind)
            pending, kind = "", kind_named(title)
        elif bullet := _BULLET.match(row):
            yield from _split_bullets(pending, kind)
            pending = row[bullet.end() :]
        elif bulleted and pending and row[:1].isspace():
            pending += f" {row.strip()}"
        elif _is_statement(row, n, rows, bulleted):
            yield from _split_bullets(pending, kind)
            pending = row
    yield from _split_bullets(pending, kind)


def _title_of(row: str, following: list[str]) -> str | None:
    """Return the words of a heading: after ``#``, alone in bold, or before a colon at the end."""
    if heading := _HEADING.fullmatch(row):
        return heading["hash"] or heading["bold"] or ""
    bullet = _BULLET.match(row)
    words = row[bullet.end() :] if bullet else row
    if words.rstrip(" *_").endswith((":", "：")) and len(words) <= 40 and following:
        has_bullets = _BULLET.match(following[0]) is not None
        return words if has_bullets and (not bullet or kind_named(words)) else None
    return words if not bullet and kind_named(words) else None


def _is_statement(row: str, n: int, rows: list[str], bulleted: list[int]) -> bool:
    """Return whether a row without a bullet is a statement.

    Beside bullets it is a comment unless it has refs. Without any bullet each row is a statement, except a
    preamble and a closing remark.
    """
    if split_refs(row)[1]:
        return True
    ends_with_colon = row.rstrip().endswith((":", "："))
    if bulleted:
        return bulleted[0] < n < bulleted[-1] and not ends_with_colon
    is_first = n == 0 and len(rows) > 1
    is_preamble = is_first and (ends_with_colon or _PREAMBLE.match(row.strip()))
    return not is_preamble and not (n == len(rows) - 1 and REMARK.match(row.strip()))


def _split_bullets(row: str, kind: Kind | None) -> Iterator[Statement]:
    """Yield a statement for each of several bullets in one row."""
    for part in _INLINE_BULLET.split(row):
        for piece in _NUMBERED_INLINE.split(part):
            if piece.strip():
                yield Statement(piece, kind)


def clean_statement(statement: Statement) -> Statement:
    """Separate label and refs from the text, and remove marks. Label and refs come in any order."""
    text = _DOUBLE_BRACKETS.sub(r"[\1]", " ".join(statement.text.split()))
    kind, spans = statement.kind, statement.spans
    for _ in range(2):
        text, first_spans = _split_first_refs(text)
        spans += first_spans
        text, label_kind = _split_label(text)
        kind = label_kind or kind
    text, last_spans = split_refs(_without_title(text))
    text = _BOLD_TAG.sub(r"\2", text)
    text = _BOLD.sub(lambda match: match[1] or match[2], text).strip()
    if quoted := _QUOTED.fullmatch(text):
        text = quoted["inside"].strip()
    return replace(statement, text=text, kind=kind, spans=spans + last_spans)


def _without_title(text: str) -> str:
    """Return the text without a bold title in front, if the sentence has one of its words."""
    title = _TITLE.match(text)
    if title is None:
        return text
    sentence = text[title.end() :]
    words = map(str.casefold, _WORD.findall(title["title"]))
    return sentence if any(word in sentence.casefold() for word in words) else text


def _split_label(text: str) -> tuple[str, Kind | None]:
    """Return the text after the name of a kind, and that kind."""
    for pattern in (_LABEL, _BRACKETED_LABEL):
        label = pattern.match(text)
        if label and (kind := kind_named(label["label"])) and text[label.end() :].strip():
            return text[label.end() :].strip(), kind
    return text, None


def _split_first_refs(text: str) -> tuple[str, Spans]:
    front = _FRONT.match(text)
    inside = unicodedata.normalize("NFKC", front[1]) if front else ""
    if front and _are_refs(inside) and (words := text[front.end() :].strip()):
        return words, _spans_of([inside])
    return text, ()


def split_refs(text: str) -> tuple[str, Spans]:
    """Return the text before its closing brackets of refs, and their spans in order."""
    body = text.rstrip()
    stop = body[-1:] if body[-2:-1] in ("]", "］") and body[-1:] in (".", "。") else ""
    body = body.removesuffix(stop)
    brackets: list[str] = []
    while (
        len(brackets) < _MAX_BRACKETS
        and (match := _BRACKET.search(body))
        and _are_refs(inside := unicodedata.normalize("NFKC", match[1] or match[2]))
    ):
        brackets.insert(0, inside)
        body = body[: match.start()]
        if match[0].startswith(" ") and not body.endswith((",", "、")):
            break  # "[3][7]" and "[3], [7]" are refs; in "note [3] [7]" only the last one is
    if not brackets:
        return text.strip(), ()
    return (body + stop).strip(), _spans_of(brackets)


def _spans_of(brackets: list[str]) -> Spans:
    return tuple((int(a), int(b or a)) for inside in brackets for a, b in _RANGE.findall(inside))


def _are_refs(inside: str) -> bool:
    has_digit = any(character.isdigit() for character in inside)
    return has_digit and bool(_REFS.fullmatch(inside)) and not _DATE.fullmatch(inside.strip())


def _from_json(text: str) -> list[Statement]:
    """Return the statements of a reply in JSON, or [] for any other text."""
    body = re.sub(r"\A```\w*\n|\n?```\Z", "", text).strip()
    if body[:1] not in ("{", "["):
        return []
    try:
        return list(_from_value(json.loads(body), None, 0))
    except (ValueError, RecursionError):
        return []


def _from_value(value: Any, kind: Kind | None, depth: int) -> Iterator[Statement]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        yield Statement(value, kind)
    elif isinstance(value, list):
        for item in value:
            yield from _from_value(item, kind, depth + 1)
    elif isinstance(value, dict):
        text = _first_string(value, _TEXT_KEYS)
        if text is None:
            for key, item in value.items():
                yield from _from_value(item, kind_named(key) or kind, depth + 1)
            return
        label = _first_string(value, _KIND_KEYS) or ""
        yield Statement(text, kind_named(label) or kind, tuple(_json_spans(value)))


def _first_string(value: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((value[key] for key in keys if isinstance(value.get(key), str)), None)


def _json_spans(value: dict[str, Any]) -> Iterator[tuple[int, int]]:
    for key in _REF_KEYS:
        numbers = value.get(key)
        for number in numbers if isinstance(numbers, list) else [numbers]:
            if isinstance(number, int) and 0 < number < 10**9:
                yield number, number
