"""Conversions of Slack's ``ts``: text such as ``1700000000.123456``, a message's key and its time.

The text is the key. Comparisons and differences use whole microseconds since 1970 (`micros`),
because a float loses digits and breaks permalinks.
"""

import re
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
HOUR = 3600 * SECOND
SLACK_BEGAN = 1_356_998_400 * SECOND  # 2013-01-01: no Slack message is older

_TS = re.compile(r"([0-9]{1,12})\.([0-9]{1,6})")


def micros(ts: str) -> int:
    """Return microseconds since 1970. Raise ValueError unless it is digits, a dot, 1-6 digits."""
    match = _TS.fullmatch(ts)
    if match is None:
        raise ValueError(f"not a Slack ts: {ts!r}")
    return int(match[1]) * SECOND + int(match[2].ljust(6, "0"))


def micros_or_0(ts: str) -> int:
    """Like `micros`, but return 0 for "", which means never."""
    return micros(ts) if ts else 0


def ts_from_micros(us: int) -> str:
    """Return the canonical ``ts`` with six decimals."""
    return f"{us // SECOND}.{us % SECOND:06d}"


def to_micros(moment: datetime) -> int:
    """Convert an aware datetime to microseconds since 1970, without rounding."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def in_utc(moment: datetime) -> datetime:
    """Return an aware time in UTC. Raise ValueError if UTC has no such time."""
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{moment.isoformat()} is not a possible time.") from error


def parse_utc(text: str) -> datetime | None:
    """Parse a time in ISO 8601, in UTC without an offset. Return None if it is not one."""
    try:
        moment = datetime.fromisoformat(text)
        return in_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except ValueError:
        return None


def from_micros(us: int) -> datetime:
    """Convert microseconds since 1970 to an aware datetime in UTC."""
    return EPOCH + timedelta(microseconds=us)
