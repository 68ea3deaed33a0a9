"""Which lines newer ones replace, found by code: newer news with another value of the same subject.

A value is a date, a time or a number with its unit; its subject is what else its clause says. Where in
doubt nothing is replaced: a line that merely mentions other figures is no newer news.
"""

import contextlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

from memories.rules.generate import salience
from memories.rules.generate.summary import Kind, MemoryLine
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.claims import Claim, announces_change, find_claims, subject_words
from memories.rules.memory.kinds import kind_of

_SAME = 0.6  # of the worth of the words of the older of two lines
_HALF = 0.5  # of the subject of an older date, which the newer line names
_COMMON = 0.25  # of the lines: a word in so many of them tells no subject from another
_NAMED = 2  # words of the subject of a proposal, which the decision names
_FEWEST = 10  # things of which some are done: "14 of 16"
_AHEAD = timedelta(days=183)  # a date without a year is to come within so long
_WISH = re.compile(
    r"\b(?:wants?|wanted|wish(?:es|ed)?|would (?:like|prefer)|prefers?|preferred|(?:ask(?:s|ed|ing)?|hop(?:es?|ed|ing)) for|requested)\b"
    r"|希望|要望|要求|要請|て(?:ほ|欲)し|求めて",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"\b(?:offer(?:s|ed|ing)?|propos(?:e[sd]?|ing)|accept(?:s|ed)?|we (?:can|could|will))\b"
    r"|打診|提案|了承|回答し|お受け",
    re.IGNORECASE,
)

_PROGRESS = re.compile(
    r"(?<![\d.,])(?P<done>\d{1,6})(?: of (?:the )?| / )(?P<all>\d{1,6})(?![\d.,])"
    r"|(?P<ja_all>\d{1,6})\s?\w?(?:のうち|中の?)、?(?P<ja_done>\d{1,6})"
)


@dataclass(frozen=True)
class Statement:
    """A line without its speaker; ``at_us`` is when it was said, in microseconds. ``thread_us``
    is when its thread began; 0 is not known."""

    text: str
    at_us: int
    words: salience.Words
    thread_us: int = 0

    @cached_property
    def figures(self) -> salience.Words:
        return frozenset(word for word in self.words if salience.is_figure(word))

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(find_claims(self.text))

    @cached_property
    def main(self) -> Claim | None:
        """What the line is about: its first date, else its first value."""
        dates = (claim for claim in self.claims if claim.kind == "date")
        return next(dates, self.claims[0] if self.claims else None)

    @cached_property
    def is_change(self) -> bool:
        return announces_change(self.text)

    @cached_property
    def progress(self) -> tuple[int, int] | None:
        """How many of how many are done."""
        match = _PROGRESS.search(unicodedata.normalize("NFKC", self.text))
        if match is None:
            return None
        done, of = int(match["done"] or match["ja_done"]), int(match["all"] or match["ja_all"])
        return (done, of) if done <= of >= _FEWEST else None


def find_successors(lines: Sequence[Statement]) -> dict[int, int]:
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
                or _answers_wish(older, newer)
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
    replaced = find_successors([*lines, new])
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


def _subjects(line: Statement) -> frozenset[str]:
    return frozenset(word for claim in line.claims for word in claim.subject)


def _has_another_value(older: Statement, newer: Statement) -> bool:
    """Of two lines with mostly the same words. A day that has passed is no plan any more: what comes
    back every week replaces nothing."""
    main = older.main
    if main is None or older.figures <= newer.figures:
        return False
    if not newer.is_change and not _is_to_come(main, newer):
        return False
    values = [claim for claim in newer.claims if claim.kind == main.kind]
    if any(main.is_same(claim) for claim in values):
        return False
    return any(not _names_another(main.subject, claim.subject) for claim in values)


def _names_another(older: frozenset[str], newer: frozenset[str]) -> bool:
    """Whether each of two subjects has a word in place of one of the other: another name."""
    return bool(older - newer) and bool(newer - older) and bool(older & newer)


def _goes_on(older: Statement, newer: Statement) -> bool:
    """More of as many things are done."""
    before, now = older.progress, newer.progress
    if before is None or now is None or before[1] != now[1] or before[0] >= now[0]:
        return False
    return not _names_another(subject_words(older.text), subject_words(newer.text))


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


def _answers_wish(older: Statement, newer: Statement) -> bool:
    """The newer line decides what the older one wishes for, with a value of the same kind. In the
    thread of the wish an offer does so too, and the subject need not be named again."""
    main = older.main
    if main is None or not _WISH.search(older.text) or _WISH.search(newer.text):
        return False
    values = [claim for claim in newer.claims if claim.kind == main.kind]
    if older.thread_us and older.thread_us == newer.thread_us:
        is_offer = salience.decides(newer.text) or _OFFER.search(newer.text) is not None
        return is_offer and bool(values)
    if not salience.decides(newer.text):
        return False
    subject = subject_words(_WISH.sub(" ", older.text))
    return any(
        len(subject & claim.subject) >= max(1, _HALF * len(subject))
        and not _names_another(subject, claim.subject)
        for claim in values
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
