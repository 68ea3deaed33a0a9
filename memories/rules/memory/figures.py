"""The numbers, dates, times and links of a line, and which of them no source holds.

A date may be resolved from a relative one: "Friday" in a message of 4 November stands for the 6th.
"""

import calendar
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
_DAY_ONLY = re.compile(
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
_IN = re.compile(r"\b(?:in|within) (\d+|a|an|one|two|three) (day|week)s?\b|(\d+)(日|週間)後")
_OFFSETS = (
    (re.compile(r"\b(?:today|tonight|eod|this (?:morning|afternoon|evening))\b|今日|本日|今夜"), 0),
    (re.compile(r"\btomorrow\b|明日"), 1),
    (re.compile(r"\bday after tomorrow\b|明後日|あさって"), 2),
    (re.compile(r"\byesterday\b|昨日"), -1),
)
_NEXT_WEEK = re.compile(r"\bnext week\b|来週")
_THIS_WEEK = re.compile(r"\b(?:this week|weekend)\b|今週|週末")
_MONTH_END = re.compile(r"\b(?:end of (?:the |this )?month|eom|month[- ]end)\b|月末")
_NEXT_MONTH = re.compile(r"\bnext month\b|来月")
_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_KANJI = "〇一二三四五六七八九十"


@dataclass(frozen=True)
class Piece:
    """A figure of a text: ``key`` is what makes two of them the same, ``shown`` is as written."""

    kind: str  # link, date, weekday, time, number
    key: Any  # a link, a date or its (month, day), a weekday, (hour, minute), a number
    shown: str


@dataclass(frozen=True)
class Placed:
    """A figure and where it stands."""

    piece: Piece
    start: int
    end: int


@dataclass(frozen=True)
class Figures:
    """What a source holds. ``at`` is when it was said, None when nobody knows."""

    text: str
    at: datetime | None = None

    @cached_property
    def _flat(self) -> str:
        return unicodedata.normalize("NFKC", self.text).casefold()

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(_pieces(self._flat))

    @cached_property
    def _numbers(self) -> frozenset[str]:
        """Every figure, also of dates, times and links, and small numbers in words."""
        found = {_number(match[0]) for match in _NUMBER.finditer(self._flat)}
        found |= {f"{number}000" for number in found if f"{number}k" in self._flat}
        found |= {str(n) for n, word in enumerate(_WORDS) if re.search(rf"\b{word}\b", self._flat)}
        found |= {str(n) for n, sign in enumerate(_KANJI) if sign in self._flat}
        return frozenset(found)

    @cached_property
    def _days(self) -> frozenset[date | tuple[int, int]]:
        """Dates, and (month, day) of those without a year; relative ones as they were meant."""
        said = {piece.key for piece in self.pieces if piece.kind == "date"}
        if self.at is not None:
            said.update(_resolved(self._flat, self.at.date()))
        return frozenset(said)

    def holds(self, piece: Piece) -> bool:
        """Whether this source says the figure."""
        match piece.kind:
            case "link":
                return str(piece.key) in self._flat
            case "date":
                return any(_same_day(piece.key, day) for day in self._days)
            case "weekday":
                own = {p.key for p in self.pieces if p.kind == "weekday"}
                return piece.key in own | {d.weekday() for d in self._days if isinstance(d, date)}
            case "time":
                own = {p.key for p in self.pieces if p.kind == "time"}
                own |= {(self.at.hour, self.at.minute)} if self.at else set()
                return any(_same_time(piece.key, time) for time in own)
        return piece.key in self._numbers


def pieces(text: str) -> tuple[Piece, ...]:
    """The figures of a line."""
    return Figures(text).pieces


def unverified(text: str, sources: Sequence[Figures]) -> tuple[str, ...]:
    """The figures of a line that no source holds, as they are written."""
    missing = (p.shown for p in pieces(text) if not any(source.holds(p) for source in sources))
    return tuple(dict.fromkeys(missing))


def placed(flat: str) -> list[Placed]:
    """The figures of a text in their order; its letters have one width and case."""
    return sorted(_placed(flat), key=lambda found: found.start)


def _pieces(flat: str) -> Iterator[Piece]:
    return (found.piece for found in _placed(flat))


def _placed(flat: str) -> Iterator[Placed]:
    rest = flat
    for match in _LINK.finditer(flat):
        yield Placed(Piece("link", match[0], match[0]), *match.span())
    rest = _LINK.sub(_blank, rest)
    for pattern in _DATES:
        for match in pattern.finditer(rest):
            if (day := _day(match)) is not None:
                yield Placed(Piece("date", day, match[0].rstrip(".")), *match.span())
                rest = f"{rest[: match.start()]}{_blank(match)}{rest[match.end() :]}"
    for match in _WEEKDAY.finditer(rest):
        yield Placed(Piece("weekday", _weekday(match), match[0]), *match.span())
    for match in _TIME.finditer(rest):
        if (time := _time(match)) is not None:
            yield Placed(Piece("time", time, match[0]), *match.span())
    rest = _TIME.sub(_blank, rest)
    for match in _NUMBER.finditer(rest):
        yield Placed(Piece("number", _number(match[0]), match[0]), *match.span())


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _number(written: str) -> str:
    """``1,200`` and ``1200``, ``3.50`` and ``3.5``, ``07`` and ``7`` are the same."""
    plain = written.replace(",", "")
    if plain.count(".") == 1:
        plain = plain.rstrip("0").rstrip(".")
    return plain.lstrip("0") or "0"


def _day(match: re.Match[str]) -> date | tuple[int, int] | None:
    groups = match.groupdict()
    name = groups.get("name")
    month = _MONTHS.index(name[:3]) + 1 if name else int(groups["m"])
    day, year = int(groups["d"]), groups.get("y")
    try:
        known = date(int(year) if year else 2024, month, day)  # a leap year: 29 February is one
    except ValueError:
        return None
    return known if year else (month, day)


def _same_day(one: object, other: object) -> bool:
    if isinstance(one, date) and isinstance(other, date):
        return one == other
    return _month_and_day(one) == _month_and_day(other)


def _month_and_day(day: object) -> object:
    return (day.month, day.day) if isinstance(day, date) else day


def _weekday(match: re.Match[str]) -> int:
    return _WEEKDAYS.index(match[1][:3].lower()) if match[1] else "月火水木金土日".index(match[2])


def _time(match: re.Match[str]) -> tuple[int, int] | None:
    groups = match.groupdict()
    hour = int(groups["h"] or groups["h12"])
    minute = 30 if groups["jhalf"] else int(groups["min"] or groups["jmin"] or 0)
    if hour < 12 and ("p" in (groups["ampm"], groups["ap"]) or groups["half"] == "午後"):
        hour += 12
    return (hour, minute) if hour < 25 and minute < 60 else None


def _same_time(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """``2:30`` may be ``14:30``."""
    (h1, m1), (h2, m2) = one, other
    return m1 == m2 and h1 % 12 == h2 % 12


def _resolved(flat: str, said: date) -> Iterator[date]:
    """The dates that a message of this day may mean, itself included."""
    yield said
    for pattern, days in _OFFSETS:
        if pattern.search(flat):
            yield said + timedelta(days=days)
    for match in _IN.finditer(flat):
        count = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3}.get(match[1] or "", 0)
        count = count or int(match[1] or match[3]) if (match[1] or match[3]) else 0
        yield said + timedelta(
            days=min(count, 400) * (7 if match[2] == "week" or match[4] == "週間" else 1)
        )
    monday = said - timedelta(days=said.weekday())
    for match in _WEEKDAY.finditer(flat):
        yield from (monday + timedelta(days=_weekday(match) + 7 * week) for week in (-1, 0, 1, 2))
    for pattern, week in ((_THIS_WEEK, 0), (_NEXT_WEEK, 1)):
        if pattern.search(flat):
            yield from (monday + timedelta(days=7 * week + day) for day in range(7))
    last = calendar.monthrange(said.year, said.month)[1]
    if _MONTH_END.search(flat):
        yield said.replace(day=last)
    following = said.replace(day=last) + timedelta(days=1)
    if _NEXT_MONTH.search(flat):
        days = calendar.monthrange(following.year, following.month)[1]
        yield from (following + timedelta(days=day) for day in range(days))
    for match in _DAY_ONLY.finditer(flat):
        day = int(match["en"] or match["ja"])
        for month in (said.replace(day=1), following):
            if 1 <= day <= calendar.monthrange(month.year, month.month)[1]:
                yield month.replace(day=day)
