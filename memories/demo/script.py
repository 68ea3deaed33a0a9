"""Read the scripts of the demo (`channels/*.txt`): conversations in a format for writing by hand.

A file starts with `key: value` lines up to the first empty line. Then:

    == -3                  the third working day before today in Tokyo; `== sat-1` the last Saturday
    09:14 mika: text       a message; lines indented by two spaces continue it
    now-45 mika: text      45 minutes before `now`
    09:14 "Form": text     by a bot that is known only by this name
    > 09:20 tom: text      a reply to the last message without `>`; on another day: `> -2/09:20 …`
    + tada mika tom        a reaction to the message above
    * edited 3m            a mark on the message above: `edited Nm` and `deleted Nm` (N minutes later),
                           `broadcast`, `me`, `join`, `topic TEXT`, `file NAME TYPE BYTES TITLE`,
                           `attach COLOUR TITLE | TEXT`
    # …                    a comment

A date in a text is counted from `now` in working days: `{d+2}` is written as Thu 26 Nov, `{w+2}` as
Thursday, `{j+2}` as 11月26日(木), `{i+2}` as 2026-11-26.
"""

import re
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

TOKYO = timezone(timedelta(hours=9), "JST")  # no summer time, so a fixed offset is exact
MIN_MINUTES_AGO = 20  # of every message, exclusive; some segments are still open then
END_OF_PREVIOUS_DAY = 18  # the hour; messages of today (at most 4 h old) begin a new segment
MAX_MINUTES_AGO = 240

_HEAD = re.compile(r"(channel|kind|topic|purpose|creator|members): (.+)")
_DAY = re.compile(r"== (?:(-\d+)|sat-(\d+))")
_MESSAGE = re.compile(
    r"(?P<reply>> )?(?:(?:(?P<day>-\d+)/)?(?P<hour>\d\d):(?P<minute>\d\d)|now-(?P<ago>\d+)) "
    r"(?:\"(?P<username>[^\"]+)\"|(?P<author>[a-z]+)):(?: (?P<text>.*))?"
)
_MARK = re.compile(r"\* (edited|deleted|broadcast|me|join|topic|file|attach)(?: (.+))?")
_DATE = re.compile(r"\{([dwji])([+-]\d+)\}")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class ScriptError(ValueError):
    """An invalid line: `file:line: reason`."""


@dataclass(frozen=True)
class Moment:
    """A time relative to `now`: minutes ago, or a day and a local time."""

    minutes_ago: int | None = None
    workday_offset: int | None = None
    saturdays_ago: int | None = None
    hour: int = 0
    minute: int = 0

    def at(self, now: datetime) -> datetime:
        """Return the time in Tokyo, to the minute."""
        local = now.astimezone(TOKYO).replace(second=0, microsecond=0)
        if self.minutes_ago is not None:
            return local - timedelta(minutes=self.minutes_ago)
        if self.saturdays_ago is not None:
            day = saturday_before(local.date(), self.saturdays_ago)
        else:
            day = workday(local.date(), self.workday_offset or 0)
        return datetime(day.year, day.month, day.day, self.hour, self.minute, tzinfo=TOKYO)


@dataclass
class ScriptMessage:
    """A message. `author` is a key of people.toml, or None if there is only a `username`."""

    location: str
    moment: Moment
    author: str | None
    username: str | None
    text: str
    root: "ScriptMessage | None" = None
    replies: "list[ScriptMessage]" = field(default_factory=list)
    reactions: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)


@dataclass
class Script:
    """A channel with its header and its messages, in the order of the file."""

    path: Path
    header: dict[str, str]
    messages: list[ScriptMessage]

    @property
    def name(self) -> str:
        return self.header["channel"]

    @property
    def is_private(self) -> bool:
        return self.header["kind"] == "private"


def workday(today: date, offset: int) -> date:
    """Return the day that is `offset` working days (Monday to Friday) after `today`, or before it."""
    day, step = today, 1 if offset > 0 else -1
    for _ in range(abs(offset)):
        day += timedelta(days=step)
        while day.weekday() >= 5:
            day += timedelta(days=step)
    return day


def saturday_before(today: date, count: int) -> date:
    """Return the `count`-th Saturday before `today`."""
    return today - timedelta(days=(today.weekday() + 1) % 7 + 1 + 7 * (count - 1))


def with_dates(text: str, now: datetime) -> str:
    """Replace placeholders such as `{d+2}` by dates for this `now`."""
    today = now.astimezone(TOKYO).date()

    def format_date(match: re.Match[str]) -> str:
        day = workday(today, int(match[2]))
        name = _DAYS[day.weekday()]
        return {
            "d": f"{name[:3]} {day.day} {_MONTHS[day.month - 1]}",
            "w": name,
            "j": f"{day.month}月{day.day}日({'月火水木金土日'[day.weekday()]})",
            "i": day.isoformat(),
        }[match[1]]

    return _DATE.sub(format_date, text)


def read_script(path: Path) -> Script:
    """Read a script. ``ScriptError`` names an invalid line."""
    return _ScriptParser(path).read()


class _ScriptParser:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self.header: dict[str, str] = {}
        self.messages: list[ScriptMessage] = []
        self.day: Moment | None = None
        self.root: ScriptMessage | None = None

    def read(self) -> Script:
        is_header = True
        for line in self.path.read_text("utf-8").splitlines():
            self.number += 1
            if is_header and not line.strip():
                is_header = False
            elif is_header:
                self._read_header(line)
            elif line.strip() and not line.startswith("#"):
                self._read_line(line.rstrip())
        missing = {"channel", "kind", "topic", "purpose", "creator", "members"} - set(self.header)
        if missing:
            raise self._error(f"the header lacks {', '.join(sorted(missing))}")
        if self.header["kind"] not in ("public", "private"):
            raise self._error(f"kind is public or private, not {self.header['kind']!r}")
        return Script(self.path, self.header, self.messages)

    def _error(self, reason: str) -> ScriptError:
        return ScriptError(f"{self.path.name}:{self.number}: {reason}")

    def _read_header(self, line: str) -> None:
        match = _HEAD.fullmatch(line.rstrip())
        if not match:
            raise self._error(
                "a header line is `channel|kind|topic|purpose|creator|members: value`"
            )
        self.header[match[1]] = match[2]

    def _read_line(self, line: str) -> None:
        if line.startswith("  "):
            last = self._last()
            last.text = f"{last.text}\n{line[2:]}" if last.text else line[2:]
        elif line.startswith("+ "):
            name, *people = line[2:].split()
            if not people:
                raise self._error("a reaction is `+ name person person`")
            self._last().reactions.append((name, tuple(people)))
        elif mark := _MARK.fullmatch(line):
            self._last().marks[mark[1]] = mark[2] or ""
        elif day := _DAY.fullmatch(line):
            self.day = Moment(
                workday_offset=int(day[1]) if day[1] else None,
                saturdays_ago=int(day[2]) if day[2] else None,
            )
        elif match := _MESSAGE.fullmatch(line):
            self._read_message(match)
        else:
            raise self._error(f"not understood: {line[:60]!r}")

    def _last(self) -> ScriptMessage:
        if not self.messages:
            raise self._error("nothing has been said yet")
        return self.messages[-1]

    def _read_message(self, match: re.Match[str]) -> None:
        if match["reply"] and self.root is None:
            raise self._error("a reply before any message")
        message = ScriptMessage(
            location=f"{self.path.name}:{self.number}",
            moment=self._moment(match),
            author=match["author"],
            username=match["username"],
            text=match["text"] or "",
            root=self.root if match["reply"] else None,
        )
        if message.root is None:
            self.root = message
        else:
            message.root.replies.append(message)
        self.messages.append(message)

    def _moment(self, match: re.Match[str]) -> Moment:
        if match["ago"]:
            ago = int(match["ago"])
            if not MIN_MINUTES_AGO < ago <= MAX_MINUTES_AGO:
                raise self._error(f"now-{ago} is outside {MIN_MINUTES_AGO + 1}..{MAX_MINUTES_AGO}")
            return Moment(minutes_ago=ago)
        hour, minute = int(match["hour"]), int(match["minute"])
        if hour > 23 or minute > 59:
            raise self._error(f"{hour:02}:{minute:02} is no time")
        day = Moment(workday_offset=int(match["day"])) if match["day"] else self.day
        if day is None:
            raise self._error("a time needs a day (`== -3`) above it")
        if day.workday_offset == -1 and hour >= END_OF_PREVIOUS_DAY:
            raise self._error(f"messages of day -1 end before {END_OF_PREVIOUS_DAY}:00")
        return replace(day, hour=hour, minute=minute)
