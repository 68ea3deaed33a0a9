"""Figures: the numbers, dates, weekdays, times and links of a text, and a check against sources.

A relative date in a source is compared by its calendar date: "Friday" in a message of Wednesday,
4 November, is the 6th.
"""

import calendar
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?P<{}>jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?"
_DATES = (
    re.compile(r"(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?!\d)"),
    re.compile(r"(?:(?P<y>\d{4})年)?(?P<m>\d{1,2})月(?P<d>\d{1,2})日"),
    re.compile(
        rf"\b{_MONTH.format('name')} (?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<y>\d{{4}}))?"
    ),
    re.compile(
        rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH.format('name')}(?:,? (?P<y>\d{{4}})\b)?"
    ),
    re.compile(r"(?<![\d/.])(?P<m>\d{1,2})/(?P<d>\d{1,2})(?![\d/])"),
)
_DAY_OF_MONTH = re.compile(
    r"\b(?P<en>\d{1,2})(?:st|nd|rd|th)\b|(?<![\d月年])(?P<ja>\d{1,2})日(?!間|後|前)"
)
_LINK = re.compile(r"https?://[^\s<>「」（）()]+[^\s<>「」（）().,;:!?。、]")
_TIME = re.compile(
    r"(?P<half>午前|午後)?(?<![\d.])(?P<h>\d{1,2})(?:[:：](?P<min>\d\d)|時(?!間)(?:(?P<jmin>\d{1,2})分|(?P<jhalf>半))?)"
    r"(?: ?(?P<ampm>[ap])\.?m\b)?|(?<![\d.])(?P<h12>\d{1,2}) ?(?P<ap>[ap])\.?m\b"
)
_NUMBER = re.compile(r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)*")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY = re.compile(
    r"\b(mon|tues|wednes|thurs|fri|satur|sun)days?\b|([月火水木金土日])曜", re.IGNORECASE
)
_FROM_NOW = re.compile(r"\b(?:in|within) (\d+|a|an|one|two|three) (day|week)s?\b|(\d+)(日|週間)後")
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3}
_DAYS_FROM_TODAY = (
    (re.compile(r"\b(?:today|tonight|eod|this (?:morning|afternoon|evening))\b|今日|本日|今夜"), 0),
    (re.compile(r"\btomorrow\b|明日"), 1),
    (re.compile(r"\bday after tomorrow\b|明後日|あさって"), 2),
    (re.compile(r"\byesterday\b|昨日"), -1),
)
_NEXT_WEEK = re.compile(r"\bnext week\b|来週")
_THIS_WEEK = re.compile(r"\b(?:this week|weekend)\b|今週|週末")
_MONTH_END = re.compile(r"\b(?:end of (?:the |this )?month|eom|month[- ]end)\b|月末")
_NEXT_MONTH = re.compile(r"\bnext month\b|来月")
_NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_NUMBER_KANJI = "〇一二三四五六七八九十"


@dataclass(frozen=True)
class Figure:
    """A figure of a text. ``key`` is its value, by which figures of a kind are compared.

    ``text`` is the wording. It is at ``start`` to ``end`` of the normalized text.
    """

    kind: str  # link, date, weekday, time, number
    key: Any  # a link, a date or its (month, day), a weekday, (hour, minute), a number
    text: str
    start: int = field(compare=False)
    end: int = field(compare=False)


@dataclass(frozen=True)
class SourceFigures:
    """The figures of a source. ``at`` is the time of its newest message, None if it is unknown."""

    text: str
    at: datetime | None = None

    @cached_property
    def _flat(self) -> str:
        return unicodedata.normalize("NFKC", self.text).casefold()

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(_find_by_kind(self._flat))

    @cached_property
    def _numbers(self) -> frozenset[str]:
        """All numbers, including those in dates, times and links, and small numbers in words."""
        numbers = {_normalize_number(match[0]) for match in _NUMBER.finditer(self._flat)}
        numbers |= {f"{number}000" for number in numbers if f"{number}k" in self._flat}
        numbers |= {
            str(n) for n, word in enumerate(_NUMBER_WORDS) if re.search(rf"\b{word}\b", self._flat)
        }
        numbers |= {str(n) for n, sign in enumerate(_NUMBER_KANJI) if sign in self._flat}
        return frozenset(numbers)

    @cached_property
    def _days(self) -> frozenset[date | tuple[int, int]]:
        """All dates, as (month, day) if they have no year, and what relative dates may mean."""
        days = {figure.key for figure in self.figures if figure.kind == "date"}
        if self.at is not None:
            days.update(_resolve_relative_dates(self._flat, self.at.date()))
        return frozenset(days)

    def has(self, figure: Figure) -> bool:
        """Return whether the source contains a figure, in any wording."""
        keys = {own.key for own in self.figures if own.kind == figure.kind}
        match figure.kind:
            case "link":
                return str(figure.key) in self._flat
            case "date":
                return any(_is_same_day(figure.key, day) for day in self._days)
            case "weekday":
                return figure.key in keys | {
                    day.weekday() for day in self._days if isinstance(day, date)
                }
            case "time":
                keys |= {(self.at.hour, self.at.minute)} if self.at else set()
                return any(_is_same_time(figure.key, time) for time in keys)
        return figure.key in self._numbers


def find_figures(text: str) -> tuple[Figure, ...]:
    return SourceFigures(text).figures


def find_unverified(text: str, sources: Sequence[SourceFigures]) -> tuple[str, ...]:
    """Return the wording of the figures of a line that are in no source."""
    missing = (
        figure.text
        for figure in find_figures(text)
        if not any(source.has(figure) for source in sources)
    )
    return tuple(dict.fromkeys(missing))


def figures_in_order(flat: str) -> list[Figure]:
    """Return the figures of a normalized, case-folded text by their place in it."""
    return sorted(_find_by_kind(flat), key=lambda figure: figure.start)


def _find_by_kind(flat: str) -> Iterator[Figure]:
    """Yield the figures by kind. The text of a link, date or time is not searched for later kinds."""
    for match in _LINK.finditer(flat):
        yield Figure("link", match[0], match[0], *match.span())
    remaining = _LINK.sub(_blank, flat)
    for pattern in _DATES:
        for match in pattern.finditer(remaining):
            if (day := _parse_day(match)) is not None:
                yield Figure("date", day, match[0].rstrip("."), *match.span())
                remaining = f"{remaining[: match.start()]}{_blank(match)}{remaining[match.end() :]}"
    for match in _WEEKDAY.finditer(remaining):
        yield Figure("weekday", _parse_weekday(match), match[0], *match.span())
    for match in _TIME.finditer(remaining):
        if (time := _parse_time(match)) is not None:
            yield Figure("time", time, match[0], *match.span())
    remaining = _TIME.sub(_blank, remaining)
    for match in _NUMBER.finditer(remaining):
        yield Figure("number", _normalize_number(match[0]), match[0], *match.span())


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _normalize_number(text: str) -> str:
    """Return one form for ``1,200`` and ``1200``, ``3.50`` and ``3.5``, ``07`` and ``7``."""
    plain = text.replace(",", "")
    if plain.count(".") == 1:
        plain = plain.rstrip("0").rstrip(".")
    return plain.lstrip("0") or "0"


def _parse_day(match: re.Match[str]) -> date | tuple[int, int] | None:
    groups = match.groupdict()
    name = groups.get("name")
    month = _MONTHS.index(name[:3]) + 1 if name else int(groups["m"])
    day, year = int(groups["d"]), groups.get("y")
    try:
        parsed = date(int(year) if year else 2024, month, day)  # 2024 has a 29 February
    except ValueError:
        return None
    return parsed if year else (month, day)


def _is_same_day(first: object, second: object) -> bool:
    if isinstance(first, date) and isinstance(second, date):
        return first == second
    return month_and_day(first) == month_and_day(second)


def month_and_day(day: object) -> object:
    """Return (month, day) of a date. Such a pair itself is returned as it is."""
    return (day.month, day.day) if isinstance(day, date) else day


def _parse_weekday(match: re.Match[str]) -> int:
    return _WEEKDAYS.index(match[1][:3].lower()) if match[1] else "月火水木金土日".index(match[2])


def _parse_time(match: re.Match[str]) -> tuple[int, int] | None:
    groups = match.groupdict()
    hour = int(groups["h"] or groups["h12"])
    minute = 30 if groups["jhalf"] else int(groups["min"] or groups["jmin"] or 0)
    if hour < 12 and ("p" in (groups["ampm"], groups["ap"]) or groups["half"] == "午後"):
        hour += 12
    return (hour, minute) if hour <= 24 and minute < 60 else None


def _is_same_time(first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Return whether two times may be the same. ``2:30`` may be ``14:30``."""
    (h1, m1), (h2, m2) = first, second
    return m1 == m2 and h1 % 12 == h2 % 12


def _resolve_relative_dates(flat: str, today: date) -> Iterator[date]:
    """Yield the day of a message, and each date that a relative date in the message may mean."""
    yield today
    for pattern, days in _DAYS_FROM_TODAY:
        if pattern.search(flat):
            yield today + timedelta(days=days)
    for match in _FROM_NOW.finditer(flat):
        amount = match[1] or match[3]
        count = _COUNTS.get(amount) or int(amount)
        is_week = match[2] == "week" or match[4] == "週間"
        yield today + timedelta(days=min(count, 400) * (7 if is_week else 1))
    monday = today - timedelta(days=today.weekday())
    for match in _WEEKDAY.finditer(flat):
        for week in (-1, 0, 1, 2):
            yield monday + timedelta(days=_parse_weekday(match) + 7 * week)
    for pattern, week in ((_THIS_WEEK, 0), (_NEXT_WEEK, 1)):
        if pattern.search(flat):
            yield from (monday + timedelta(days=7 * week + day) for day in range(7))
    last = calendar.monthrange(today.year, today.month)[1]
    if _MONTH_END.search(flat):
        yield today.replace(day=last)
    next_month = today.replace(day=last) + timedelta(days=1)
    if _NEXT_MONTH.search(flat):
        days = calendar.monthrange(next_month.year, next_month.month)[1]
        yield from (next_month + timedelta(days=day) for day in range(days))
    for match in _DAY_OF_MONTH.finditer(flat):
        day = int(match["en"] or match["ja"])
        for month in (today.replace(day=1), next_month):
            if 1 <= day <= calendar.monthrange(month.year, month.month)[1]:
                yield month.replace(day=day)
