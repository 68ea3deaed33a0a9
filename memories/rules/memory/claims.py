"""Claims of a text: its dates, times and numbers with their units, each with its subject."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from memories.rules import salience
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
# Words before the number of one thing among many: bug 421 and bug 430 are two bugs.
_THING_BEFORE = re.compile(
    r"\b(?:bug|issue|ticket|incident|(?:pull|merge) request|pr|build) $|(?:バグ|チケット|課題|不具合|障害) ?$",
    re.IGNORECASE,
)
# An amount, as in "ticket 20 euros".
_AMOUNT = re.compile(
    r"\s*(?:[円%人分時日件個枚本年月週回台€$]|(?:euros?|eur|dollars?|usd|yen|pounds?|percent|seconds?|minutes?|mins?|"
    r"hours?|days?|weeks?|months?|people|times)\b)",
    re.IGNORECASE,
)
_UNIT = re.compile(r"\s*(?P<unit>[a-z]{2,20}|[%円日件人個台回店時分週月年])?")
_NO_UNIT = frozenset({"to", "and", "or", "of", "from", "on", "at", "in", "per", "is", "are"})
_RUN = re.compile(r"[\u30a1-\u30fa\u30fc]{2,}|[\u3400-\u9fff々]{2,}|[a-z][a-z'-]+")
_GENERIC = re.compile(
    r"決定|変更|延期|予定|日程|期限|締め?切り?|中止|前倒し|後ろ倒し|新し|正式|午前|午後|今日|本日|明日|今週|来週|今月|来月"
)
_GENERIC_WORDS = frozenset(
    "decision decided agreed action todo proposal new date day deadline time plan now move moved moves moving postponed "
    "delayed shifted changed change changes raised grows grew extended pushed back instead rather off cancelled set still "
    "please correction update week month today tomorrow".split()
)
_ENDING = re.compile(r"(?<=...)(?:ing|es|ed|s|e)$")


@dataclass(frozen=True)
class Claim:
    """A value of a text.

    ``kind`` includes the unit of a number. ``subject`` are the words of its clause. ``ends``: the
    text says that the value is no longer valid.
    """

    kind: str
    value: Any
    subject: frozenset[str]
    ends: bool = False

    def is_same(self, claim: "Claim") -> bool:
        if self.kind == claim.kind == "date":
            return figures.month_and_day(self.value) == figures.month_and_day(claim.value)
        return self.is_comparable(claim) and bool(self.value == claim.value)

    def is_comparable(self, claim: "Claim") -> bool:
        """Return whether the kinds agree. "From 30 to 90 days" has one unit for two numbers."""
        kinds = {self.kind, claim.kind}
        return len(kinds) == 1 or ("number" in kinds and all(k.startswith("number") for k in kinds))


def announces_change(text: str) -> bool:
    """Return whether a text moves, changes or cancels something."""
    flat = text.casefold()
    return bool(_CHANGE.search(flat) or _CANCELLED.search(flat))


def find_claims(text: str) -> Iterator[Claim]:
    """Yield the claims of a text, in the order of its clauses."""
    for sentence in _SENTENCE.split(unicodedata.normalize("NFKC", text)):
        flat = sentence.casefold()
        is_change = _CHANGE.search(flat) is not None
        is_cancelled = _CANCELLED.search(flat) is not None
        subject = _subject(flat) if is_change or is_cancelled else None
        claims: list[tuple[Claim, bool]] = []
        for clause in _CLAUSE.split(sentence):
            claims += _claims_of_clause(
                clause, subject, is_change=is_change, is_cancelled=is_cancelled
            )
        for claim, may_end in claims:
            # "From 1 May on" ends nothing. A value ends only where another value replaces it.
            has_successor = any(
                not ends and successor.is_comparable(claim) and not successor.is_same(claim)
                for successor, ends in claims
            )
            yield replace(claim, ends=claim.ends or (may_end and has_successor))


def _claims_of_clause(
    clause: str, subject: frozenset[str] | None, *, is_change: bool, is_cancelled: bool
) -> Iterator[tuple[Claim, bool]]:
    """Yield the claims of a clause, each with whether the text may replace its value."""
    flat = clause.casefold()
    if len(flat) != len(clause):
        clause = flat
    subject = subject or _subject(flat)
    for figure in figures.figures_in_order(flat):
        before, behind = flat[: figure.start], flat[figure.end :]
        kind = figure.kind
        is_thing = _THING_BEFORE.search(before) and not _AMOUNT.match(behind)
        is_name = is_thing or _NAME_BEFORE.search(clause[: figure.start])
        if kind == "link" or (kind == "number" and is_name):  # Kazoe 3, KZ-421, 第1段階
            continue
        if kind == "number":
            kind = f"number {_unit(behind)}".rstrip()
        is_new = _BEGINS_BEFORE.search(before) or _BEGINS_BEHIND.match(behind)
        is_old = _ENDS_BEFORE.search(before) or _ENDS_BEHIND.match(behind)
        claim = Claim(kind, figure.key, subject, is_cancelled and not is_new and not is_old)
        yield claim, bool(is_change and is_old)


def _unit(behind: str) -> str:
    match = _UNIT.match(behind)
    unit = (match["unit"] or "") if match else ""
    return "" if unit in _NO_UNIT else _ENDING.sub("", unit)


def subject_words(text: str) -> frozenset[str]:
    """Return the words of a text that may name its subject."""
    return _subject(unicodedata.normalize("NFKC", text).casefold())


def _subject(flat: str) -> frozenset[str]:
    bare = flat
    for figure in figures.figures_in_order(flat):
        blank = " " * (figure.end - figure.start)
        bare = f"{bare[: figure.start]}{blank}{bare[figure.end :]}"
    words = (match[0] for match in _RUN.finditer(_GENERIC.sub(" ", bare)))
    stems = (
        _ENDING.sub("", word) if word.isascii() else word.removesuffix("日")
        for word in words
        if word not in _GENERIC_WORDS and word not in salience.STOP_WORDS
    )
    return frozenset(stem for stem in stems if len(stem) > 1)
