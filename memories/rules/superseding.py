"""Which lines newer ones replace, found by code: newer news with another value of the same subject.

A value is a date, a time or a number with its unit; its subject is what else its clause says. Where in
doubt nothing is replaced: a line that merely mentions other figures is no newer news.
"""

import contextlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Any

from memories.rules import figures, salience
from memories.rules.kinds import kind_of
from memories.rules.slacktime import from_micros
from memories.rules.summary import Kind, MemoryLine

_SAME = 0.6  # of the worth of the words of the older of two lines
_HALF = 0.5  # of the subject of an older date, which the newer line names
_COMMON = 0.25  # of the lines: a word in so many of them tells no subject from another
_NAMED = 2  # words of the subject of a proposal, which the decision names
_FEWEST = 10  # things of which some are done: "14 of 16"
_AHEAD = timedelta(days=183)  # a date without a year is to come within so long

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
_PROGRESS = re.compile(
    r"(?<![\d.,])(?P<done>\d{1,6})(?: of (?:the )?| / )(?P<all>\d{1,6})(?![\d.,])"
    r"|(?P<ja_all>\d{1,6})\s?\w?(?:のうち|中の?)、?(?P<ja_done>\d{1,6})"
)
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


@dataclass(frozen=True)
class Statement:
    """A line without its speaker; ``at_us`` is when it was said, in microseconds."""

    text: str
    at_us: int
    words: salience.Words

    @cached_property
    def figures(self) -> salience.Words:
        return frozenset(word for word in self.words if salience.is_figure(word))

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(_claims(self.text))

    @cached_property
    def main(self) -> Claim | None:
        """What the line is about: its first date, else its first value."""
        dates = (claim for claim in self.claims if claim.kind == "date")
        return next(dates, self.claims[0] if self.claims else None)

    @cached_property
    def is_change(self) -> bool:
        flat = self.text.casefold()
        return bool(_CHANGE.search(flat) or _CANCELLED.search(flat))

    @cached_property
    def progress(self) -> tuple[int, int] | None:
        """How many of how many are done."""
        match = _PROGRESS.search(unicodedata.normalize("NFKC", self.text))
        if match is None:
            return None
        done, of = int(match["done"] or match["ja_done"]), int(match["all"] or match["ja_all"])
        return (done, of) if done <= of >= _FEWEST else None


def superseded(lines: Sequence[Statement]) -> dict[int, int]:
    """For each line that a newer one replaces the place of that one, the newest of them. The lines
    are in order of time."""
    by_word: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        for word in line.words:
            by_word.setdefault(word, []).append(index)
    rare = salience.rarity([line.words for line in lines])
    subjects = Counter(word for line in lines for word in _subjects(line))
    common = frozenset(w for w, n in subjects.items() if n > max(3, _COMMON * len(lines)))
    found: dict[int, int] = {}
    for index, older in enumerate(lines):
        subject = older.words - older.figures
        shared: dict[int, float] = {}
        for word in older.words if older.figures else ():
            worth = rare[word] if word in subject else 0.0
            for other in by_word[word]:
                if other > index:
                    shared[other] = shared.get(other, 0.0) + worth
        enough = _SAME * salience.information(subject, rare)
        for other in sorted(shared, reverse=True):
            newer = lines[other]
            if salience.asks(newer.text):
                continue
            is_about_the_same = bool(subject) and shared[other] >= enough
            if (
                (is_about_the_same and _has_another_value(older, newer))
                or _goes_on(older, newer)
                or _ends(older, newer)
                or _settles(older, newer)
                or _has_another_date(older, newer, common)
            ):
                found[index] = other
                break
    return found


def find_superseded(text: str, at_us: int, old: Sequence[MemoryLine]) -> list[int]:
    """The numbers of the older lines that a line with this text replaces, or answers. What happened
    stays: another event does not undo it."""
    older = sorted((line for line in old if line.at_us <= at_us), key=lambda line: line.at_us)
    older = [line for line in older if (line.kind or kind_of(line.text)) is not Kind.EVENT]
    words = [salience.words_in(line.text) for line in older]
    new = Statement(text, at_us, salience.words_in(text))
    lines = [
        Statement(line.text, line.at_us, said) for line, said in zip(older, words, strict=True)
    ]
    replaced = superseded([*lines, new])
    rare = salience.rarity([*words, new.words])
    is_answer = kind_of(text) is not Kind.QUESTION
    return [
        line.ref
        for index, line in enumerate(older)
        if replaced.get(index) == len(older)
        or (
            is_answer
            and (line.kind or kind_of(line.text)) is Kind.QUESTION
            and _is_about(words[index], new.words, rare)
        )
    ]


def _is_about(old: salience.Words, new: salience.Words, rare: Mapping[str, float]) -> bool:
    subject = frozenset(word for word in old if not salience.is_figure(word))
    shared = salience.information(subject & new, rare)
    return bool(subject) and shared >= _SAME * salience.information(subject, rare)


def _subjects(line: Statement) -> set[str]:
    return {word for claim in line.claims for word in claim.subject}


def _has_another_value(older: Statement, newer: Statement) -> bool:
    """Of two lines with mostly the same words. A day that has passed is no plan any more: what comes
    back every week replaces nothing."""
    if older.main is None or older.figures <= newer.figures:
        return False
    if not newer.is_change and not _is_to_come(older.main, newer):
        return False
    values = [claim for claim in newer.claims if claim.kind == older.main.kind]
    return bool(values) and not any(older.main.is_same(claim) for claim in values)


def _goes_on(older: Statement, newer: Statement) -> bool:
    """More of as many things are done."""
    before, now = older.progress, newer.progress
    return before is not None and now is not None and before[1] == now[1] and before[0] < now[0]


def _ends(older: Statement, newer: Statement) -> bool:
    """The newer line itself says that the value of the older one holds no longer."""
    main = older.main
    return main is not None and any(
        claim.ends and claim.is_same(main) and bool(claim.subject & main.subject)
        for claim in newer.claims
    )


def _settles(older: Statement, newer: Statement) -> bool:
    """The newer line decides what the older one proposes."""
    if not (salience.asks(older.text) and salience.is_marked(newer.text)):
        return False
    return any(
        one.is_same(other) and len(one.subject & other.subject) >= _NAMED
        for one in older.claims
        for other in newer.claims
    )


def _has_another_date(older: Statement, newer: Statement, common: frozenset[str]) -> bool:
    """The newer line gives the subject another date: as a change, or as a decision while the older
    date is to come."""
    main = older.main
    if main is None or main.kind != "date":
        return False
    if not newer.is_change and not (salience.decides(newer.text) and _is_to_come(main, newer)):
        return False
    if any(claim.is_same(main) and not claim.ends for claim in newer.claims):
        return False
    for claim in newer.claims:
        if claim.kind != "date" or claim.ends:
            continue
        named = main.subject & claim.subject
        says_more = claim.subject - main.subject - common
        leaves_out = main.subject - claim.subject - common
        if (
            len(named) >= _HALF * len(main.subject)
            and named
            and not says_more
            and (newer.is_change or not leaves_out)
        ):
            return True
    return False


def _month_and_day(value: Any) -> Any:
    return (value.month, value.day) if isinstance(value, date) else value


def _is_to_come(claim: Claim, newer: Statement) -> bool:
    """Whether a date had not passed when the newer line was said; any other value has none."""
    today = from_micros(newer.at_us).date()
    if claim.kind != "date":
        return True
    if isinstance(claim.value, date):
        return claim.value >= today
    for year in (today.year, today.year + 1):
        with contextlib.suppress(ValueError):  # there is no 29 February
            if today <= date(year, *claim.value) <= today + _AHEAD:
                return True
    return False


def _claims(text: str) -> Iterator[Claim]:
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
