import pytest

from memories.forms import CHOICE_WORDS, SETTING_WORDS, SettingsForm
from memories.rules.settings import KEYS, MemorySettings, choices
from tests.factories import WorkspaceFactory


def posted(**changes: object) -> dict[str, object]:
    """What a browser sends: all values as they stand, switches that are off left out."""
    values = {key: getattr(MemorySettings(), key) for key in KEYS} | changes
    return {key: value for key, value in values.items() if value is not False}


def test_every_setting_has_its_words_and_every_choice_too():
    assert tuple(SETTING_WORDS) == KEYS
    assert {key: tuple(words) for key, words in CHOICE_WORDS.items()} == {
        key: choices(key) for key in KEYS if choices(key)
    }


@pytest.mark.django_db
class TestSettingsForm:
    def test_it_shows_what_is_set(self):
        workspace = WorkspaceFactory(settings={"max_history_count": 7, "notes_inject": "none"})
        form = SettingsForm(workspace=workspace)
        assert form["max_history_count"].value() == 7
        assert form["notes_inject"].value() == "none"
        assert form["message_threshold"].value() == 50

    def test_it_saves_and_tells_what_changed(self):
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
