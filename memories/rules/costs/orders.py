"""What a person types to order a backfill: from when on, and how much it may cost."""

import re
from datetime import datetime, timedelta, tzinfo

from memories.rules.costs.money import MICROS
from memories.rules.ingest.timestamps import to_micros

MOST_DAYS = 36_500
LARGEST = 10**15  # tokens, and millionths of a dollar

_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TOKENS = re.compile(r"\d[\d,_]*")
_DOLLARS = re.compile(r"\$\s*(\d[\d,]*)(?:\.(\d{1,6}))?")


class Unreadable(ValueError):
    """Neither a moment nor an amount."""


def read_since(text: str, now: datetime, zone: tzinfo) -> int:
    """``all`` (or nothing) as 0, a number as so many days before ``now``, a date as the beginning
    of that day in ``zone``; in microseconds. Raises Unreadable."""
    text = text.strip()
    if text in ("", "all"):
        return 0
    if match := _DAY.fullmatch(text):
        try:
            day = datetime(*map(int, match.groups()), tzinfo=zone)  # type: ignore[misc, arg-type]
        except ValueError as error:
            raise Unreadable(text) from error
        return max(0, to_micros(day))
    if text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= MOST_DAYS:
        return to_micros(now - timedelta(days=int(text[:6])))
    raise Unreadable(text)


def read_cap(text: str) -> tuple[int | None, int | None]:
    """``200000`` as tokens, ``$2.50`` as millionths of a dollar, nothing as no cap: ``(tokens,
    micros)``. Raises Unreadable."""
    text = text.strip()
    if not text:
        return None, None
    if _TOKENS.fullmatch(text) and text.isascii():
        tokens = int(re.sub("[,_]", "", text))
        if tokens <= LARGEST:
            return tokens, None
    elif (match := _DOLLARS.fullmatch(text)) and text.isascii():
        micros = int(match[1].replace(",", "")) * MICROS + int((match[2] or "").ljust(6, "0"))
        if micros <= LARGEST:
            return None, micros
    raise Unreadable(text)
