"""The settings of a workspace (rule 9): names, types, defaults and valid values.

The command, the form and the admin are built from the fields of `MemorySettings`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo, available_timezones

from memories.rules.ingest.timestamps import HOUR
from memories.rules.notes.fields import KINDS

Inject = Literal["auto", "manual", "none"]
OutputLanguage = Literal["conversation", "ja", "en"]
MergeMode = Literal["rewrite", "operations"]
ReviewMerges = Literal["none", "workspace", "channels", "all"]


class InvalidSetting(ValueError):
    """An unknown key, or an invalid value for a key."""


@dataclass(frozen=True)
class MemorySettings:
    """The defaults are those of the seed. Numbers are at least 1, or 0 for ``retention_days``."""

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
    review_merges: ReviewMerges = "none"
    notes_enabled: bool = True
    notes_inject: Inject = "auto"
    note_types: str = ""  # names beside those of S4, separated by commas
    propose_notes: bool = False
    time_zone: str = "UTC"
    output_language: OutputLanguage = "conversation"
    read_private_channels: bool = False
    read_emails: bool = False
    slack_commands: bool = False
    slack_shortcuts: bool = False
    slack_home: bool = False
    slack_reaction: bool = False
    slack_unfurls: bool = False
    slack_digests: bool = False
    slack_mcp: bool = False
    retention_days: int = 0  # 0 keeps everything

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)

    @property
    def window_us(self) -> int:
        """The reach of a first pass, and of memories without a history, in microseconds."""
        return self.short_term_window_hours * HOUR

    @property
    def all_note_types(self) -> tuple[str, ...]:
        return (*KINDS, *filter(None, self.note_types.split(", ")))

    @property
    def reviews_workspace(self) -> bool:
        """Whether merges into the workspace's memories wait for approval."""
        return self.review_merges in ("workspace", "all")

    @property
    def reviews_channels(self) -> bool:
        """Whether merges into the long-term memories of channels wait for approval."""
        return self.review_merges in ("channels", "all")


# Named sets of values. "custom" means any other values.
PRESETS: dict[str, dict[str, int]] = {
    "busy": {
        "short_term_window_hours": 24,
        "short_term_max_tokens": 300,
        "long_term_max_tokens": 500,
        "conversation_idle_seconds": 7200,
        "message_threshold": 50,
        "thread_min_messages": 5,
    },
    "quiet": {
        "short_term_window_hours": 168,
        "short_term_max_tokens": 200,
        "long_term_max_tokens": 500,
        "conversation_idle_seconds": 28_800,
        "message_threshold": 20,
        "thread_min_messages": 3,
    },
}
CUSTOM = "custom"


def find_preset(settings: MemorySettings) -> str:
    """Return the name of the preset with these values, or "custom"."""
    for name, values in PRESETS.items():
        if all(getattr(settings, key) == value for key, value in values.items()):
            return name
    return CUSTOM


FIELD_TYPES: dict[str, Any] = get_type_hints(MemorySettings)
KEYS = tuple(field.name for field in fields(MemorySettings))
_BOOLEANS = {"true": True, "on": True, "yes": True, "1": True}
_BOOLEANS |= {"false": False, "off": False, "no": False, "0": False}
MAX_NUMBER = 10_000_000
MAX_NOTE_TYPES = 20
_NOTE_TYPE = re.compile(r"\w(?:[\w -]{0,18}\w)?")


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())  # cached, because it reads many files


def choices(key: str) -> tuple[str, ...] | None:
    """Return the valid words of a setting, or None for a number, a switch or a zone."""
    field_type = FIELD_TYPES[key]
    return get_args(field_type) if get_origin(field_type) is Literal else None


def min_value(key: str) -> int:
    return 0 if key == "retention_days" else 1


def parse_note_types(value: object) -> str:
    """Return the names of types separated by ", ". Raises InvalidSetting."""
    if not isinstance(value, str):
        raise InvalidSetting(f"note_types must be names separated by commas, not {value!r}.")
    parts = (" ".join(name.split()) for name in value.split(","))
    names = list(dict.fromkeys(name for name in parts if name and name not in KINDS))
    for name in names:
        if not _NOTE_TYPE.fullmatch(name):
            raise InvalidSetting(
                f"note_types: {name!r} is not a name of at most 20 letters, digits, blanks and hyphens."
            )
    if len(names) > MAX_NOTE_TYPES:
        raise InvalidSetting(f"note_types has more than {MAX_NOTE_TYPES} names.")
    return ", ".join(names)


def parse_setting(key: str, value: object) -> int | bool | str:
    """Convert a value from text or JSON to the type of its setting; raise InvalidSetting."""
    if key not in FIELD_TYPES:
        raise InvalidSetting(f"There is no setting {key!r}. Known: {', '.join(KEYS)}.")
    if (words := choices(key)) is not None:
        if value not in words:
            raise InvalidSetting(f"{key} must be one of {', '.join(words)}, not {value!r}.")
        return str(value)
    if key == "note_types":
        return parse_note_types(value)
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


def parse_settings(values: Mapping[str, object]) -> MemorySettings:
    """Return the settings of a workspace: the given values, and defaults for all others."""
    return MemorySettings(**{key: parse_setting(key, value) for key, value in values.items()})  # type: ignore[arg-type]
