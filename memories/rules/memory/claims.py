"""What a line claims: dates, times and numbers with their units, each with the subject it is of."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from memories.rules.generate import salience
from memories.rules.memory import figures

_SENTENCE = re.compile(r"[\n⏎。！？]|(?<=[.!?])\s+")
_CLAUSE = re.compile(
    r"[;；()（）「」]|、|[,，:：]\s|：|\s[-–—]\s|\s→\s(?=\S+[:：])|\b(?:and|but|while)\b"
)
_ARROW = r"\s?(?:→|->|=>)\s?"
_CHANGE = re.compile(
    r"\b(?:mov(?:e[sd]?|ing)|shift(?:ed|s)?|push(?:ed|es)? back|brought forward|postpone[sd]?|delay(?:ed|s)?|reschedule[sd]?|"
    r"chang(?:e[sd]?|ing)|rais(?:e[sd]?|ing)|lower(?:ed|s)?|grow[sn]?|grew|increase[sd]?|reduce[sd]?|extend(?:ed|s)?|"
    r"slip(?:s|ped)?|instead of|rather than|no longer|replace[sd]?|correction|new (?:\w+ )?(?:date|deadline|day|time|price|plan))\b"
    r"|変更|延期|前倒し|後ろ倒し|繰り(?:下げ|上げ)|ずら[しせ]|改め|訂正|値[上下]げ|引き[上下]げ|新しい|ではなく"
    rf"|\d\w*{_ARROW}[¥$€£]?\d"
)
_CANCELLED = re.compile(
    r"\b(?:is|are|was|were) (?:now )?(?:off|cancell?ed|called off|postponed)\b|\bwon'?t happen\b|中止|取りやめ|白紙|延期"
)
_ENDS_BEFORE = re.compile(r"\b(?:from|instead of|rather than|no longer|not)\s+(?:the )?[¥$€£]?$")
_ENDS_BEHIND = re.compile(
    rf"[日円件人時分個%]?(?:に|の)?(?:予定)?(?:から|ではなく|でなく|だった|でした)|\w*{_ARROW}"
)
_BEGINS_BEFORE = re.compile(r"(?:\b(?:to|until|till|by)\s+(?:the )?|→\s?|->\s?)[¥$€£]?$")
_BEGINS_BEHIND = re.compile(r"[日円件人時分個%]?(?:に|へ|まで)")
_NAME_BEFORE = re.compile(r"(?:[A-Z][\w-]*\s|[\w.][-_]|第|#)$")
_UNIT = re.compile(r"\s*(?P<unit>[a-z]{2,20}|[%円日件人個台回店時分週月年])?")
_NO_UNIT = frozenset({"to", "and", "or", "of", "from", "on", "at", "in", "per", "is", "are"})
_RUN = re.compile(r"[\u30a1-\u30fa\u30fc]{2,}|[\u3400-\u9fff々]{2,}|[a-z][a-z'-]+")
_GENERIC = re.compile(
    r"決定|変更|延期|予定|日程|期限|締め?切り?|中止|前倒し|後ろ倒し|新し|正式|午前|午後|今日|本日|明日|今週|来週|今月|来月"
)
_LITTLE = frozenset(
    "decision decided agreed action todo proposal new date day deadline time plan now move moved moves moving postponed "
    "delayed shifted changed change changes raised grows grew extended pushed back instead rather off cancelled set still "
    "please correction update week month today tomorrow".split()
)
_ENDING = re.compile(r"(?<=...)(?:ing|es|ed|s|e)$")


@dataclass(frozen=True)
class Claim:
    """A value, its kind with its unit, and the subject that the words beside it name. ``ends``: the
    line says that it holds no longer."""

    kind: str
    value: Any
    subject: frozenset[str]
    ends: bool = False

    def is_same(self, other: "Claim") -> bool:
        if self.kind == other.kind == "date":
            same: bool = _month_and_day(self.value) == _month_and_day(other.value)
        else:
            same = self.is_comparable(other) and self.value == other.value
        return same

    def is_comparable(self, other: "Claim") -> bool:
        """Whether both are dates, or numbers of the same thing; "from 30 to 90 days" has one unit."""
        kinds = {self.kind, other.kind}
        return len(kinds) == 1 or ("number" in kinds and all(k.startswith("number") for k in kinds))


def announces_change(text: str) -> bool:
    """Whether a text moves, changes or cancels something."""
    flat = text.casefold()
    return bool(_CHANGE.search(flat) or _CANCELLED.search(flat))


def find_claims(text: str) -> Iterator[Claim]:
    """The claims of a text, in the order of its clauses."""
    for sentence in _SENTENCE.split(unicodedata.normalize("NFKC", text)):
        flat = sentence.casefold()
        is_change = _CHANGE.search(flat) is not None
        is_off = _CANCELLED.search(flat) is not None
        about = _subject(flat) if is_change or is_off else None
        claims: list[tuple[Claim, bool]] = []
        for clause in _CLAUSE.split(sentence):
            claims += _of_clause(clause, about, is_change=is_change, is_off=is_off)
        for claim, may_end in claims:
            # "from 1 May on" ends nothing: what ends a value has another one in its place.
            has_successor = any(
                not ends and other.is_comparable(claim) and not other.is_same(claim)
                for other, ends in claims
            )
            yield Claim(
                claim.kind, claim.value, claim.subject, claim.ends or (may_end and has_successor)
            )


def _of_clause(
    clause: str, about: frozenset[str] | None, *, is_change: bool, is_off: bool
) -> Iterator[tuple[Claim, bool]]:
    """The claims of a clause, and whether each may be a value that was left."""
    flat = clause.casefold()
    if len(flat) != len(clause):
        clause = flat
    subject = about or _subject(flat)
    for one in figures.placed(flat):
        before, behind = flat[: one.start], flat[one.end :]
        kind = one.piece.kind
        if kind == "link" or (kind == "number" and _NAME_BEFORE.search(clause[: one.start])):
            continue  # Kazoe 3, KZ-421, 第1段階
        if kind == "number":
            kind = f"number {_unit(behind)}".rstrip()
        is_new = _BEGINS_BEFORE.search(before) or _BEGINS_BEHIND.match(behind)
        left = _ENDS_BEFORE.search(before) or _ENDS_BEHIND.match(behind)
        yield (
            Claim(kind, one.piece.key, subject, is_off and not is_new and not left),
            bool(is_change and left),
        )


def _unit(behind: str) -> str:
    match = _UNIT.match(behind)
    unit = (match["unit"] or "") if match else ""
    return "" if unit in _NO_UNIT else _ENDING.sub("", unit)


def subject_words(text: str) -> frozenset[str]:
    """The words of a whole text that may name what it is about."""
    return _subject(unicodedata.normalize("NFKC", text).casefold())


def _subject(flat: str) -> frozenset[str]:
    """The words that may name what a value is of."""
    bare = flat
    for one in figures.placed(flat):
        bare = f"{bare[: one.start]}{' ' * (one.end - one.start)}{bare[one.end :]}"
    words = (match[0] for match in _RUN.finditer(_GENERIC.sub(" ", bare)))
    stems = (
        _ENDING.sub("", word) if word.isascii() else word.removesuffix("日")
        for word in words
        if word not in _LITTLE and word not in salience.LITTLE
    )
    return frozenset(stem for stem in stems if len(stem) > 1)


def _month_and_day(value: Any) -> Any:
    return (value.month, value.day) if isinstance(value, date) else value
