"""Parse the period and the cap of a backfill, as a person types them."""

import re
from datetime import datetime, timedelta, tzinfo

from memories.rules.costs.money import MICROS
from memories.rules.ingest.timestamps import to_micros

MAX_DAYS = 36_500
LARGEST = 10**15  # tokens, and millionths of a dollar

_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TOKENS = re.compile(r"\d[\d,_]*")
_DOLLARS = re.compile(r"\$\s*(\d[\d,]*)(?:\.(\d{1,6}))?")


class InvalidInput(ValueError):
    """The text is no period, or no amount."""


def parse_since(text: str, now: datetime, zone: tzinfo) -> int:
    """Return the start of a period in microseconds. Raises InvalidInput.

    "all" and "" are 0. A number is so many days before ``now``. A date is the start of that day in
    ``zone``.
    """
    text = text.strip()
    if text in ("", "all"):
        return 0
    if match := _DAY.fullmatch(text):
        try:
            day = datetime(*map(int, match.groups()), tzinfo=zone)  # type: ignore[misc, arg-type]
        except ValueError as error:
            raise InvalidInput(text) from error
        return max(0, to_micros(day))
    if text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= MAX_DAYS:
        return to_micros(now - timedelta(days=int(text[:6])))
    raise InvalidInput(text)


def parse_cap(text: str) -> tuple[int | None, int | None]:
    """Return a cap as (tokens, millionths of a dollar), both None for "". Raises InvalidInput.

    ``200000`` is in tokens, ``$2.50`` in dollars.
    """
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
    raise InvalidInput(text)
