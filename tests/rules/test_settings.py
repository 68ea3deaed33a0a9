"""Settings (rule 9): the seed's defaults, what each may be, and what is refused."""

from dataclasses import asdict
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.settings import (
    KEYS,
    InvalidSetting,
    MemorySettings,
    choices,
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
    "notes_enabled": True,
    "notes_inject": "auto",
    "time_zone": "UTC",
    "output_language": "conversation",
    "read_private_channels": False,
    "read_emails": False,
    "retention_days": 0,
}
COUNTS = [key for key, value in DEFAULTS.items() if type(value) is int]
SWITCHES = [key for key, value in DEFAULTS.items() if type(value) is bool]


def test_defaults_are_the_seeds_and_ours():
    assert asdict(MemorySettings()) == DEFAULTS
    assert list(KEYS) == list(DEFAULTS)


def test_unset_means_default():
    assert parse_settings({}) == MemorySettings()
    assert parse_settings({"message_threshold": 10}) == MemorySettings(message_threshold=10)


@pytest.mark.parametrize("key", COUNTS)
@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1), ("1", 1), (" 42 ", 42), (10_000_000, 10_000_000), ("007", 7)],
    ids=["one", "text", "white space", "the largest", "leading zeros"],
)
def test_a_count_is_read(key, value, expected):
    assert parse_setting(key, value) == expected


@pytest.mark.parametrize("key", COUNTS)
@pytest.mark.parametrize(
    "value",
    [-1, "-1", 1.5, "1.5", "", " ", "many", None, True, [], "1e3", "١", 10_000_001, "9" * 5000],
    ids=str,
)
def test_a_count_is_refused(key, value):
    with pytest.raises(InvalidSetting, match=key):
        parse_setting(key, value)


@pytest.mark.parametrize("key", COUNTS)
def test_only_keeping_for_ever_is_nought(key):
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
def test_a_switch_is_read(key, value, expected):
    assert parse_setting(key, value) is expected


@pytest.mark.parametrize("key", SWITCHES)
@pytest.mark.parametrize("value", ["", "maybe", 2, None, "truefalse", []], ids=str)
def test_a_switch_is_refused(key, value):
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
def test_a_choice_takes_its_words_and_no_others(key, words):
    assert choices(key) == words
    assert [parse_setting(key, word) for word in words] == list(words)
    for wrong in ("", "AUTO", "fr", None, 1):
        with pytest.raises(InvalidSetting, match=key):
            parse_setting(key, wrong)


def test_what_is_not_a_choice_has_none():
    assert {key for key in KEYS if choices(key)} == {
        "merge_mode",
        "notes_inject",
        "output_language",
    }


def test_a_time_zone_is_one_that_exists():
    assert parse_setting("time_zone", "Asia/Tokyo") == "Asia/Tokyo"
    assert parse_settings({"time_zone": "Asia/Tokyo"}).zone == ZoneInfo("Asia/Tokyo")


@pytest.mark.parametrize(
    "value", ["", "Tokyo", "../etc/passwd", "/etc/localtime", None, 9, []], ids=str
)
def test_a_time_zone_is_refused(value):
    with pytest.raises(InvalidSetting, match="time_zone"):
        parse_setting("time_zone", value)


def test_an_unknown_key_is_refused_and_the_known_ones_are_named():
    with pytest.raises(InvalidSetting, match=r"no setting 'message_treshold'.*message_threshold"):
        parse_setting("message_treshold", 5)
    with pytest.raises(InvalidSetting):
        parse_settings({"zone": "UTC"})


@given(st.sampled_from(KEYS), st.none() | st.booleans() | st.integers() | st.text() | st.floats())
def test_whatever_is_given_is_read_for_good_or_refused(key, value):
    """Reading what was read changes nothing, and nothing but InvalidSetting is ever raised."""
    try:
        read = parse_setting(key, value)
    except InvalidSetting:
        return
    assert type(read) is type(DEFAULTS[key])
    assert parse_setting(key, read) == read
    assert getattr(parse_settings({key: value}), key) == read
