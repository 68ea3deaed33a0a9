"""The settings (rule 9): defaults, valid and invalid values."""

from dataclasses import asdict
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.settings import (
    KEYS,
    PRESETS,
    InvalidSetting,
    MemorySettings,
    choices,
    find_preset,
    parse_setting,
    parse_settings,
)

DEFAULTS = {
    "short_term_window_hours": 24,
    "short_term_max_tokens": 300,
    "long_term_max_tokens": 500,
    "history_enabled": True,
    "max_history_count": 5,
    "conversation_idle_seconds": 7200,
    "message_threshold": 50,
    "thread_memories": True,
    "thread_min_messages": 5,
    "workspace_short_term": True,
    "merge_mode": "operations",
    "review_merges": "none",
    "notes_enabled": True,
    "notes_inject": "auto",
    "note_types": "",
    "propose_notes": False,
    "time_zone": "UTC",
    "output_language": "conversation",
    "read_private_channels": False,
    "read_emails": False,
    "slack_commands": False,
    "slack_shortcuts": False,
    "slack_home": False,
    "slack_reaction": False,
    "slack_unfurls": False,
    "slack_digests": False,
    "slack_mcp": False,
    "retention_days": 0,
}
COUNTS = [key for key, value in DEFAULTS.items() if type(value) is int]
SWITCHES = [key for key, value in DEFAULTS.items() if type(value) is bool]


def test_the_defaults():
    assert asdict(MemorySettings()) == DEFAULTS
    assert list(KEYS) == list(DEFAULTS)


@pytest.mark.parametrize(
    ("values", "preset"),
    [({}, "busy"), (PRESETS["quiet"], "quiet"), ({"message_threshold": 51}, "custom")]
    + [({"time_zone": "Asia/Tokyo", "retention_days": 30}, "busy")],
)
def test_the_preset_of_values(values, preset):
    assert find_preset(parse_settings(values)) == preset


def test_a_missing_key_has_its_default():
    assert parse_settings({}) == MemorySettings()
    assert parse_settings({"message_threshold": 10}) == MemorySettings(message_threshold=10)


@pytest.mark.parametrize("key", COUNTS)
@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1), ("1", 1), (" 42 ", 42), (10_000_000, 10_000_000), ("007", 7)],
    ids=["one", "text", "white space", "the largest", "leading zeros"],
)
def test_valid_numbers(key, value, expected):
    assert parse_setting(key, value) == expected


@pytest.mark.parametrize("key", COUNTS)
@pytest.mark.parametrize(
    "value",
    [-1, "-1", 1.5, "1.5", "", " ", "many", None, True, [], "1e3", "١", 10_000_001, "9" * 5000],
    ids=str,
)
def test_invalid_numbers(key, value):
    with pytest.raises(InvalidSetting, match=key):
        parse_setting(key, value)


@pytest.mark.parametrize("key", COUNTS)
def test_only_retention_may_be_zero(key):
    if key == "retention_days":
        assert parse_setting(key, "0") == 0
    else:
        with pytest.raises(InvalidSetting, match=key):
            parse_setting(key, 0)


@pytest.mark.parametrize("key", SWITCHES)
@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), (False, False), ("true", True), ("FALSE", False), ("on", True), ("off", False)]
    + [("yes", True), ("no", False), ("1", True), ("0", False), (" True ", True)],
    ids=str,
)
def test_valid_switches(key, value, expected):
    assert parse_setting(key, value) is expected


@pytest.mark.parametrize("key", SWITCHES)
@pytest.mark.parametrize("value", ["", "maybe", 2, None, "truefalse", []], ids=str)
def test_invalid_switches(key, value):
    with pytest.raises(InvalidSetting, match=key):
        parse_setting(key, value)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("notes_inject", ("auto", "manual", "none")),
        ("output_language", ("conversation", "ja", "en")),
        ("merge_mode", ("rewrite", "operations")),
    ],
)
def test_a_choice_accepts_its_words_only(key, words):
    assert choices(key) == words
    assert [parse_setting(key, word) for word in words] == list(words)
    for invalid in ("", "AUTO", "fr", None, 1):
        with pytest.raises(InvalidSetting, match=key):
            parse_setting(key, invalid)


def test_the_settings_with_choices():
    assert {key for key in KEYS if choices(key)} == {
        "merge_mode",
        "notes_inject",
        "output_language",
        "review_merges",
    }


def test_a_valid_time_zone():
    assert parse_setting("time_zone", "Asia/Tokyo") == "Asia/Tokyo"
    assert parse_settings({"time_zone": "Asia/Tokyo"}).zone == ZoneInfo("Asia/Tokyo")


@pytest.mark.parametrize(
    "value", ["", "Tokyo", "../etc/passwd", "/etc/localtime", None, 9, []], ids=str
)
def test_invalid_time_zones(value):
    with pytest.raises(InvalidSetting, match="time_zone"):
        parse_setting("time_zone", value)


def test_the_error_for_an_unknown_key_lists_all_keys():
    with pytest.raises(InvalidSetting, match=r"no setting 'message_treshold'.*message_threshold"):
        parse_setting("message_treshold", 5)
    with pytest.raises(InvalidSetting):
        parse_settings({"zone": "UTC"})


@given(st.sampled_from(KEYS), st.none() | st.booleans() | st.integers() | st.text() | st.floats())
def test_any_value_is_parsed_or_refused(key, value):
    """Parsing a parsed value changes nothing. No other exception is raised."""
    try:
        parsed = parse_setting(key, value)
    except InvalidSetting:
        return
    assert type(parsed) is type(DEFAULTS[key])
    assert parse_setting(key, parsed) == parsed
    assert getattr(parse_settings({key: value}), key) == parsed


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("", ""),
        (" runbook ,decision,, runbook", "runbook, decision"),
        ("pattern, ADR  note", "ADR note"),
        ("決まりごと", "決まりごと"),
    ],
)
def test_note_types(value, names):
    assert parse_setting("note_types", value) == names
    settings = MemorySettings(note_types=names)
    own = [name for name in names.split(", ") if name]
    assert settings.all_note_types == ("pattern", "architecture", "solution", *own)


@pytest.mark.parametrize(
    "value", ["a/b", "x" * 21, "-a", ",".join(f"type{n}" for n in range(21)), "a\0b", ["a"], None]
)
def test_invalid_note_types(value):
    with pytest.raises(InvalidSetting):
        parse_setting("note_types", value)
