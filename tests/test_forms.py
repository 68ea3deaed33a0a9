import pytest

from memories.forms import CHOICE_WORDS, PRESET_WORDS, SETTING_WORDS, SettingsForm, setting_field
from memories.rules.settings import (
    CUSTOM,
    KEYS,
    PRESETS,
    MemorySettings,
    choices,
    parse_settings,
)
from tests.factories import WorkspaceFactory


def shown(settings: MemorySettings) -> dict[str, object]:
    """The values of the fields, in the units of the form."""
    return {key: setting_field(key).prepare_value(getattr(settings, key)) for key in KEYS}


def posted(**changes: object) -> dict[str, object]:
    """Return the data that a browser sends: current values, without unchecked switches."""
    values = shown(MemorySettings()) | changes
    return {key: value for key, value in values.items() if value is not False}


def test_every_setting_has_its_words_and_every_choice_too():
    assert set(PRESET_WORDS) == {*PRESETS, CUSTOM}
    assert tuple(SETTING_WORDS) == KEYS
    assert {key: tuple(words) for key, words in CHOICE_WORDS.items()} == {
        key: choices(key) for key in KEYS if choices(key)
    }


@pytest.mark.django_db
class TestSettingsForm:
    def test_the_form_shows_current_settings(self):
        workspace = WorkspaceFactory(settings={"max_history_count": 7, "notes_inject": "none"})
        form = SettingsForm(workspace=workspace)
        assert form["max_history_count"].value() == 7
        assert form["notes_inject"].value() == "none"
        assert form["message_threshold"].value() == 50

    def test_the_form_saves_and_returns_changes(self):
        workspace = WorkspaceFactory(settings={"max_history_count": 7})
        data = posted(history_enabled=False, time_zone="Asia/Tokyo", message_threshold="9")
        form = SettingsForm(data, workspace=workspace)
        assert form.is_valid(), form.errors
        assert form.save() == {
            "history_enabled": (True, False),
            "max_history_count": (7, 5),
            "time_zone": ("UTC", "Asia/Tokyo"),
            "message_threshold": (50, 9),
        }
        workspace.refresh_from_db()
        assert workspace.settings == {
            "history_enabled": False,
            "time_zone": "Asia/Tokyo",
            "message_threshold": 9,
        }

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("max_history_count", "0"),
            ("message_threshold", ""),
            ("short_term_max_tokens", "9" * 30),
            ("notes_inject", "sometimes"),
            ("time_zone", "Moon/Base"),
        ],
    )
    def test_a_wrong_value_saves_nothing(self, key, value):
        workspace = WorkspaceFactory()
        form = SettingsForm(posted(**{key: value}), workspace=workspace)
        assert not form.is_valid()
        assert list(form.errors) == [key]
        workspace.refresh_from_db()
        assert workspace.settings == {}

    @pytest.mark.parametrize(
        ("key", "value", "typed", "stored"),
        [
            ("conversation_idle_seconds", 7200, "2", 7200),
            ("conversation_idle_seconds", 5400, "1.5", 5400),
            ("short_term_max_tokens", 300, "225", 300),
            ("long_term_max_tokens", 500, "375", 500),
            ("short_term_max_tokens", 301, "226", 301),
            ("message_threshold", 50, 50, 50),
        ],
    )
    def test_a_value_is_shown_in_hours_or_words(self, key, value, typed, stored):
        field = setting_field(key)
        assert (field.prepare_value(value), field.clean(typed)) == (typed, stored)

    @pytest.mark.parametrize("text", ["nan", "inf", "1e308", "-1", "many"])
    def test_a_strange_number_of_hours_is_an_error(self, text):
        form = SettingsForm(posted(conversation_idle_seconds=text), workspace=WorkspaceFactory())
        assert list(form.errors) == ["conversation_idle_seconds"]

    @pytest.mark.parametrize(
        ("before", "preset", "typed", "after"),
        [
            ({}, "quiet", {}, PRESETS["quiet"]),
            ({"message_threshold": 7}, "busy", {}, {}),
            ({}, "busy", {"message_threshold": 9}, {"message_threshold": 9}),
            ({}, "quiet", {"message_threshold": 9}, PRESETS["quiet"] | {"message_threshold": 9}),
            ({"message_threshold": 7}, "custom", {}, {"message_threshold": 7}),
        ],
        ids=["chosen", "back to it", "other values", "both", "custom"],
    )
    def test_a_preset_fills_in_its_values(self, before, preset, typed, after):
        workspace = WorkspaceFactory(settings=before)
        page = SettingsForm(workspace=workspace)
        initial = {f"initial-{key}": page[key].value() for key in KEYS}
        data = shown(workspace.memory_settings) | initial | typed | {"preset": preset}
        form = SettingsForm(
            {key: value for key, value in data.items() if value is not False}, workspace=workspace
        )
        assert form.is_valid(), form.errors
        form.save()
        workspace.refresh_from_db()
        assert parse_settings(workspace.settings) == parse_settings(after)
