"""Settings of a workspace (rule 9): names, defaults, and what each may be.

The dataclass is the only list: the command, the page's form and the admin are made from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo, available_timezones

from memories.rules.ingest.timestamps import HOUR

Inject = Literal["auto", "manual", "none"]
OutputLanguage = Literal["conversation", "ja", "en"]
MergeMode = Literal["rewrite", "operations"]


class InvalidSetting(ValueError):
    """A key that does not exist or a value that its setting cannot take."""


@dataclass(frozen=True)
class MemorySettings:
    """Counts are whole numbers from 1 on, of days to keep from 0 on; unset means the seed's default."""

    short_term_window_hours: int = 24
    short_term_max_tokens: int = 300
    long_term_max_tokens: int = 500
    history_enabled: bool = True
    max_history_count: int = 5
    conversation_idle_seconds: int = 7200
    message_threshold: int = 50
    thread_memories: bool = True
    thread_min_messages: int = 5
    workspace_short_term: bool = True
    merge_mode: MergeMode = "operations"
    notes_enabled: bool = True
    notes_inject: Inject = "auto"
    time_zone: str = "UTC"
    output_language: OutputLanguage = "conversation"
    read_private_channels: bool = False
    read_emails: bool = False
    retention_days: int = 0  # for ever

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)

    @property
    def window_us(self) -> int:
        """How far back a first pass and memories without a history reach, in microseconds."""
        return self.short_term_window_hours * HOUR


FIELD_TYPES: dict[str, Any] = get_type_hints(MemorySettings)
KEYS = tuple(field.name for field in fields(MemorySettings))
_BOOLEANS = {"true": True, "on": True, "yes": True, "1": True}
_BOOLEANS |= {"false": False, "off": False, "no": False, "0": False}
MAX_NUMBER = 10_000_000
_FROM_NOUGHT = ("retention_days",)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())  # from many files: too slow for each reading


def choices(key: str) -> tuple[str, ...] | None:
    """The words a setting may be, None where it is a number, a switch or a zone."""
    kind = FIELD_TYPES[key]
    return get_args(kind) if get_origin(kind) is Literal else None


def min_value(key: str) -> int:
    """The smallest number that a setting may be."""
    return 0 if key in _FROM_NOUGHT else 1


def parse_setting(key: str, value: object) -> int | bool | str:
    """One value, from text or JSON, as its setting wants it; raises InvalidSetting with a reason."""
    if key not in FIELD_TYPES:
        raise InvalidSetting(f"There is no setting {key!r}. Known: {', '.join(KEYS)}.")
    if (words := choices(key)) is not None:
        if value not in words:
            raise InvalidSetting(f"{key} must be one of {', '.join(words)}, not {value!r}.")
        return str(value)
    if FIELD_TYPES[key] is bool:
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word not in _BOOLEANS:
            raise InvalidSetting(f"{key} must be true or false, not {value!r}.")
        return _BOOLEANS[word]
    if FIELD_TYPES[key] is int:
        digits = str(value).strip()
        if isinstance(value, bool) or not (digits.isascii() and digits.isdigit()):
            raise InvalidSetting(f"{key} must be a whole number, not {value!r}.")
        if not min_value(key) <= (number := int(digits[:12])) <= MAX_NUMBER:
            raise InvalidSetting(
                f"{key} must be between {min_value(key)} and {MAX_NUMBER}, not {digits}."
            )
        return number
    if not isinstance(value, str) or value not in _zones():
        raise InvalidSetting(f"{key} must be a time zone such as Asia/Tokyo, not {value!r}.")
    return str(value)


def parse_settings(given: Mapping[str, object]) -> MemorySettings:
    """The settings of a workspace from what was set for it; everything else is the default."""
    return MemorySettings(**{key: parse_setting(key, value) for key, value in given.items()})  # type: ignore[arg-type]
