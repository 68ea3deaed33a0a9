"""Superseding: older lines that a newer line replaces with another value.

A value is a date, a time or a number with its unit. Its subject is the other words of its clause.
In doubt nothing is superseded: a line with other figures is not always newer information.
"""

import contextlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property, lru_cache

from memories.rules import salience
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.claims import Claim, announces_change, find_claims, subject_words
from memories.rules.memory.figures import find_figures
from memories.rules.memory.kinds import Kind, kind_of
from memories.rules.search.tokenizer import stem_of
from memories.rules.summariser import MemoryLine

_SAME_SUBJECT = 0.6  # the share of the information of the older line that the newer one must have
_HALF = 0.5  # the share of the subject of an older value that the newer line must name
_COMMON = 0.25  # a word in this share of the lines does not distinguish subjects
_SHARED_WORDS = 2  # of the subjects of a proposal and of the decision about it
_MIN_TOTAL = 10  # of a progress such as "14 of 16"
_TEXTS = 5_000  # whose values a process keeps: each new line is compared with the same lines
_AHEAD = timedelta(days=183)  # a date without a year is in the future for this long
_REQUEST = re.compile(
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
# Words before the "who" or "when" of a question. "The person who" and "crashes when" ask nothing.
_ASKS = r"(?:^|[^\w\s'’]\s*|\b(?:and|but|so|until|by|since|know|sure|asks?|asked|wonders?|wondered|unclear|undecided|open) )"
_ASKS_WHO = re.compile(rf"{_ASKS}(?:who|whose|whom)\b|誰|だれ|どなた", re.IGNORECASE)
_ASKS_WHEN = re.compile(
    rf"{_ASKS}when\b|\b(?:what|which) (?:time|date|day|week|month)\b|いつ|何[日時月曜]",
    re.IGNORECASE,
)
_ASKS_AMOUNT = re.compile(
    r"\bhow (?:many|much|long|often|big|large)\b|いくつ|いくら|何[人件個台枚円回本]|どの?[くぐ]らい",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w-]+")
_WHO = re.compile(r"\bwho(?:se|m)?\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?。！？]\s*")
# Not at the start of a sentence.
_NAME = re.compile(r"(?<=[\w,;:)&] )\W?[A-Z][A-Z-]*[a-z][\w-]*|@\w+")
_NOT_NAMES = salience.STOP_WORDS | {"nobody", "somebody", "someone"}
# Also "佐藤が担当". Words such as 仕様 and お客様 are no persons.
_HONORIFIC = re.compile(
    r"(?<=\w)(?<!たく|みな)(?<![皆客])さん|(?<=\w)(?<![仕同多模客ぁ-ん])様(?![々子式])|\w氏(?!名)|\w(?:くん|君)"
    r"|が(?:担当|引き受け)|担当者?は"
)
_MONTH = re.compile(
    r"\b(?:january|february|march|april|june|july|august|september|october|november|december)\b",
    re.IGNORECASE,
)
_NUMBER_WORD = re.compile(
    r"\b(?:none|(?<!no )one(?! of\b)|two|three|four|five|six|seven|eight|nine|ten|twelve|dozens?|half)\b"
    r"|[一二三四五六七八九十百千半]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Statement:
    """A line without its author.

    ``at_us`` is its time in microseconds. ``thread_us`` is the time of the root of its thread, 0 if
    unknown.
    """

    text: str
    at_us: int
    words: salience.Words
    thread_us: int = 0

    @cached_property
    def figures(self) -> salience.Words:
        return frozenset(word for word in self.words if salience.is_figure(word))

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        return _claims_of(self.text)

    @cached_property
    def main_claim(self) -> Claim | None:
        """The first date, else the first value."""
        dates = (claim for claim in self.claims if claim.kind == "date")
        return next(dates, self.claims[0] if self.claims else None)

    @cached_property
    def is_change(self) -> bool:
        return announces_change(self.text)

    @cached_property
    def progress(self) -> tuple[int, int] | None:
        """How many of how many things are done."""
        match = _PROGRESS.search(unicodedata.normalize("NFKC", self.text))
        if match is None:
            return None
        done, total = int(match["done"] or match["ja_done"]), int(match["all"] or match["ja_all"])
        return (done, total) if done <= total >= _MIN_TOTAL else None


@lru_cache(maxsize=_TEXTS)
def _claims_of(text: str) -> tuple[Claim, ...]:
    return tuple(find_claims(text))


def find_successors(lines: Sequence[Statement], first_new: int = 0) -> dict[int, int]:
    """Return the newest replacing line for each superseded line, as indexes.

    The lines are in order of time. Only lines from ``first_new`` on replace others.
    """
    by_word: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        for word in line.words:
            by_word.setdefault(word, []).append(index)
    rare = salience.word_rarity([line.words for line in lines])
    subjects = Counter(
        word for line in lines for word in {word for c in line.claims for word in c.subject}
    )
    common = frozenset(w for w, n in subjects.items() if n > max(3, _COMMON * len(lines)))
    successors: dict[int, int] = {}
    for index, older in enumerate(lines):
        subject = older.words - older.figures
        shared: dict[int, float] = {}  # the information in common with each newer line
        for word in sorted(older.words) if older.figures else ():
            information = rare[word] if word in subject else 0.0
            for newer_index in by_word[word]:
                if newer_index > index and newer_index >= first_new:
                    shared[newer_index] = shared.get(newer_index, 0.0) + information
        enough = _SAME_SUBJECT * salience.total_worth(subject, rare)
        for newer_index in sorted(shared, reverse=True):
            newer = lines[newer_index]
            if salience.has_question(newer.text):
                continue
            has_same_subject = bool(subject) and shared[newer_index] >= enough
            if (
                (has_same_subject and _has_another_value(older, newer))
                or _continues_progress(older, newer)
                or _ends_value(older, newer)
                or _decides_proposal(older, newer)
                or _answers_wish(older, newer)
                or _has_another_date(older, newer, common)
            ):
                successors[index] = newer_index
                break
    return successors


def find_superseded(text: str, at_us: int, old: Sequence[MemoryLine]) -> list[int]:
    """Return the numbers of the older lines that a line supersedes or answers.

    Events are never superseded: a later event does not undo them.
    """
    older = sorted((line for line in old if line.at_us <= at_us), key=lambda line: line.at_us)
    older = [line for line in older if _kind(line) is not Kind.EVENT]
    new = Statement(text, at_us, salience.content_words(text))
    statements = [
        Statement(line.text, line.at_us, salience.content_words(line.text)) for line in older
    ]
    successors = find_successors([*statements, new], first_new=len(statements))
    rare = salience.word_rarity([statement.words for statement in (*statements, new)])
    is_answer = kind_of(text) is not Kind.QUESTION
    return [
        line.ref
        for index, line in enumerate(older)
        if successors.get(index) == len(older)
        or (
            is_answer
            and _kind(line) is Kind.QUESTION
            and _covers_subject(statements[index], new, rare)
            and _has_answer(statements[index], new)
        )
    ]


def _kind(line: MemoryLine) -> Kind:
    return line.kind or kind_of(line.text)


def _covers_subject(older: Statement, newer: Statement, rare: Mapping[str, float]) -> bool:
    subject = older.words - older.figures
    shared = salience.total_worth(subject & newer.words, rare)
    return bool(subject) and shared >= _SAME_SUBJECT * salience.total_worth(subject, rare)


def _has_answer(question: Statement, newer: Statement) -> bool:
    """Return whether a line has the person, the date and the amount that a question asks for.

    A decision answers any question. A question for anything else needs none of these.
    """
    if kind_of(newer.text) is Kind.DECISION:
        return True
    return all(
        has_it(question, newer)
        for pattern, has_it in (
            (_ASKS_WHO, _names_person),
            (_ASKS_WHEN, _names_date),
            (_ASKS_AMOUNT, _names_amount),
        )
        if pattern.search(question.text)
    )


def _names_person(question: Statement, newer: Statement) -> bool:
    """Return whether a line has a name that the question lacks.

    A name has a capital letter. The first word of a sentence is a name if it is the subject of the
    verb in the question.
    """
    if _HONORIFIC.search(newer.text):
        return True
    names = {word for name in _NAME.findall(newer.text) for word in _words_of(name)}
    names -= {word for figure in find_figures(newer.text) for word in _words_of(figure.text)}
    names -= set(_words_of(" ".join(_MONTH.findall(newer.text))))
    verb = _first_content_word(_words_of(_WHO.split(question.text)[-1]))
    for sentence in map(_words_of, _SENTENCE_END.split(newer.text)):
        if verb and _first_content_word(sentence[1:]) == verb:
            names.add(sentence[0])
    return bool(names - _NOT_NAMES - set(_words_of(question.text)))


def _words_of(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _first_content_word(words: Sequence[str]) -> str:
    """Return the stem of the first word that is no stop word, "" without one."""
    return next((stem_of(word) for word in words if word not in salience.STOP_WORDS), "")


def _names_date(question: Statement, newer: Statement) -> bool:
    return salience.has_date(newer.text) or _MONTH.search(newer.text) is not None


def _names_amount(question: Statement, newer: Statement) -> bool:
    has_figure = bool(newer.figures - question.figures)
    return has_figure or _NUMBER_WORD.search(newer.text) is not None


def _has_another_value(older: Statement, newer: Statement) -> bool:
    """Return whether the main value of a line with mostly the same words differs.

    A date in the past is no plan: a weekly event supersedes nothing.
    """
    main = older.main_claim
    if main is None or older.figures <= newer.figures:
        return False
    if not newer.is_change and not _is_ahead(main, newer):
        return False
    values = [claim for claim in newer.claims if claim.kind == main.kind]
    if any(main.is_same(claim) for claim in values):
        return False
    return any(not _have_different_names(main.subject, claim.subject) for claim in values)


def _have_different_names(older: frozenset[str], newer: frozenset[str]) -> bool:
    """Return whether each of two overlapping subjects has a word that the other lacks."""
    return bool(older - newer) and bool(newer - older) and bool(older & newer)


def _continues_progress(older: Statement, newer: Statement) -> bool:
    """Return whether more of the same total is done."""
    before, after = older.progress, newer.progress
    if before is None or after is None or before[1] != after[1] or before[0] >= after[0]:
        return False
    return not _have_different_names(subject_words(older.text), subject_words(newer.text))


def _ends_value(older: Statement, newer: Statement) -> bool:
    """Return whether the newer line says that the main value of the older one is invalid."""
    main = older.main_claim
    return main is not None and any(
        claim.ends and claim.is_same(main) and bool(claim.subject & main.subject)
        for claim in newer.claims
    )


def _decides_proposal(older: Statement, newer: Statement) -> bool:
    """Return whether the newer line decides the proposal in the older one."""
    if not (salience.has_question(older.text) and salience.is_marked(newer.text)):
        return False
    return any(
        proposed.is_same(decided) and len(proposed.subject & decided.subject) >= _SHARED_WORDS
        for proposed in older.claims
        for decided in newer.claims
    )


def _answers_wish(older: Statement, newer: Statement) -> bool:
    """Return whether the newer line decides the wish in the older one, with a value of its kind.

    In the same thread an offer is enough, and the line need not name the subject.
    """
    main = older.main_claim
    if main is None or not _REQUEST.search(older.text) or _REQUEST.search(newer.text):
        return False
    values = [claim for claim in newer.claims if claim.kind == main.kind]
    if older.thread_us and older.thread_us == newer.thread_us:
        is_offer = salience.has_decision(newer.text) or _OFFER.search(newer.text) is not None
        return is_offer and bool(values)
    if not salience.has_decision(newer.text):
        return False
    subject = subject_words(_REQUEST.sub(" ", older.text))
    return any(
        len(subject & claim.subject) >= max(1, _HALF * len(subject))
        and not _have_different_names(subject, claim.subject)
        for claim in values
    )


def _has_another_date(older: Statement, newer: Statement, common: frozenset[str]) -> bool:
    """Return whether the newer line moves the date of the subject.

    It has to announce a change, or to decide while the older date is ahead.
    """
    main = older.main_claim
    if main is None or main.kind != "date":
        return False
    if not newer.is_change and not (salience.has_decision(newer.text) and _is_ahead(main, newer)):
        return False
    if any(claim.is_same(main) and not claim.ends for claim in newer.claims):
        return False
    for claim in newer.claims:
        if claim.kind != "date" or claim.ends:
            continue
        shared = main.subject & claim.subject
        added = claim.subject - main.subject - common
        omitted = main.subject - claim.subject - common
        names_subject = shared and len(shared) >= _HALF * len(main.subject)
        if names_subject and not added and (newer.is_change or not omitted):
            return True
    return False


def _is_ahead(claim: Claim, newer: Statement) -> bool:
    """Return whether a date is not before the newer line. Any other value counts as ahead."""
    today = from_micros(newer.at_us).date()
    if claim.kind != "date":
        return True
    if isinstance(claim.value, date):
        return claim.value >= today
    for year in (today.year, today.year + 1):
        with contextlib.suppress(ValueError):  # 29 February
            if today <= date(year, *claim.value) <= today + _AHEAD:
                return True
    return False
