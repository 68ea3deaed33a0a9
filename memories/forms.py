"""Forms that pages and the admin share."""

import json
import math
from dataclasses import asdict
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from memories.models import User, Workspace
from memories.rules import settings as rules
from memories.rules.settings import FIELD_TYPES, KEYS, InvalidSetting

_Text = str | Promise

# The label and help text of each setting. A test requires all of them.
SETTING_WORDS: dict[str, tuple[_Text, _Text]] = {
    "short_term_window_hours": (
        _("Look back (hours)"),
        _(
            "How far back the first summary of a channel or thread reaches, and each summary "
            "without a history."
        ),
    ),
    "short_term_max_tokens": (
        _("Maximum length of a summary (words)"),
        _("For the summary of one conversation."),
    ),
    "long_term_max_tokens": (
        _("Maximum length of a long-term memory (words)"),
        _("For each channel and for the workspace."),
    ),
    "history_enabled": (
        _("Keep a history"),
        _(
            "Each conversation adds a version. Without a history, the newest summary is "
            "overwritten."
        ),
    ),
    "max_history_count": (
        _("Versions in a context"),
        _("The number of short-term versions per channel."),
    ),
    "conversation_idle_seconds": (
        _("End of a conversation (hours without a message)"),
        _("Messages are summarized after this time without a new message."),
    ),
    "message_threshold": (
        _("Messages per conversation"),
        _("A conversation is summarized when it reaches this number, even if it continues."),
    ),
    "thread_memories": (
        _("Summarize threads"),
        _("Long threads get their own memory."),
    ),
    "thread_min_messages": (
        _("Minimum messages to summarize a thread"),
        _("Threads with at least this many messages get their own memory."),
    ),
    "workspace_short_term": (
        _("Short-term memory of the workspace"),
        _("A short overview of all public channels."),
    ),
    "merge_mode": (
        _("Updates of long-term memories"),
        _(
            "Changing single lines keeps all other lines unchanged. A rewrite creates the whole "
            "text again."
        ),
    ),
    "review_merges": (
        _("Review before publishing"),
        _(
            "Updates of these memories wait for an editor. If channels are reviewed, contexts "
            "leave out summaries of conversations and threads."
        ),
    ),
    "notes_enabled": (
        _("Use notes"),
        _("If notes are off, existing notes are kept but hidden."),
    ),
    "notes_inject": (
        _("Notes in contexts"),
        _("Include notes in every context, only on request, or never."),
    ),
    "note_types": (
        _("Types of notes"),
        _("Your own names, separated by commas, beside pattern, architecture and solution."),
    ),
    "propose_notes": (
        _("Propose notes from conversations"),
        _(
            "Proposes new lines about ways of working and solutions as notes. An editor approves "
            "or rejects them."
        ),
    ),
    "time_zone": (
        _("Time zone"),
        _("For dates and times in pages and summaries."),
    ),
    "output_language": (
        _("Language of memories"),
        _("The language of summaries."),
    ),
    "read_private_channels": (
        _("Read private channels from Slack"),
        _("For channels that the bot is invited to. The app needs groups:read and groups:history."),
    ),
    "read_emails": (
        _("Read e-mail addresses from Slack"),
        _("Links people to their accounts here. The app needs users:read.email."),
    ),
    "slack_commands": (
        _("Command /memory in Slack"),
        _("Catch up, ask a question, or add a note in any channel."),
    ),
    "slack_shortcuts": (
        _("Message shortcuts in Slack"),
        _("“Remember this” and “This is wrong” in the menu of a message."),
    ),
    "slack_home": (
        _("Home tab in Slack"),
        _("Shows each person what is new."),
    ),
    "slack_reaction": (
        _("Notes by reaction in Slack"),
        _("Members of a channel keep a message as a note with the reaction :memo:."),
    ),
    "slack_unfurls": (
        _("Previews of links in Slack"),
        _("Links to this hub show their text where everybody may read it."),
    ),
    "slack_digests": (
        _("Digests in Slack"),
        _(
            "Catch up as a direct message or in a channel, for those who choose it with /memory digest."
        ),
    ),
    "slack_mcp": (
        _("Slackbot reads memories"),
        _("Slackbot answers a person with what this person may read. It needs a public address."),
    ),
    "retention_days": (
        _("Keep messages for (days)"),
        _(
            "Older messages are deleted every day. Their memories are kept. 0 keeps messages "
            "forever."
        ),
    ),
}

# Settings that forms show in another unit: the stored units in one of these, and the decimal places.
UNITS: dict[str, tuple[float, int]] = {
    "short_term_max_tokens": (4 / 3, 0),  # words
    "long_term_max_tokens": (4 / 3, 0),
    "conversation_idle_seconds": (3600, 2),  # hours
}

# The settings outside of "Advanced".
BASIC_KEYS = (
    "output_language",
    "time_zone",
    "notes_enabled",
    "read_private_channels",
    "read_emails",
    "retention_days",
)

# The label of each preset, and its effect, also on costs.
PRESET_WORDS: dict[str, tuple[_Text, _Text]] = {
    "busy": (
        _("Busy team"),
        _(
            "Channels with dozens of messages a day. Each model call reads up to 50 messages, so "
            "a message costs little."
        ),
    ),
    "quiet": (
        _("Quiet team"),
        _(
            "Channels with a few messages a day. Shorter summaries after 20 messages or 8 quiet "
            "hours: more calls for each message, but few in all."
        ),
    ),
    rules.CUSTOM: (
        _("Custom"),
        _("Your own values under Advanced. Each shows its effect on costs."),
    ),
}

CHOICE_WORDS: dict[str, dict[str, _Text]] = {
    "notes_inject": {
        "auto": _("always"),
        "manual": _("on request"),
        "none": _("not at all"),
    },
    "merge_mode": {
        "rewrite": _("rewrite the whole text"),
        "operations": _("change single lines"),
    },
    "review_merges": {
        "none": _("nothing"),
        "workspace": _("the workspace"),
        "channels": _("channels"),
        "all": _("the workspace and channels"),
    },
    "output_language": {
        "conversation": _("language of the conversation"),
        "ja": _("Japanese"),
        "en": _("English"),
    },
}


def focus_first_error(form: forms.BaseForm) -> None:
    """Set the focus to the first field with an error."""
    for field in form.visible_fields():
        if field.errors:
            field.field.widget.attrs["autofocus"] = True
            return


def is_field_changed(form: forms.Form, name: str) -> bool:
    """Return whether the user changed a field that has ``show_hidden_initial``.

    Other fields keep the values that somebody else saved meanwhile. A field counts as changed if the
    form data lacks its hidden initial value.
    """
    return name in form.changed_data or form.add_initial_prefix(name) not in form.data


class ScaledField(forms.FloatField):
    """A number that is shown in another unit than it is stored in (`UNITS`)."""

    def __init__(self, *, unit: float, places: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unit, self.places = unit, places

    def prepare_value(self, value: Any) -> Any:
        return f"{round(value / self.unit, self.places):g}" if isinstance(value, int) else value

    def to_python(self, value: Any) -> Any:
        number = super().to_python(value)
        if number is None:
            return None
        if not math.isfinite(number * self.unit):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        return round(number * self.unit)


class ZoneInput(forms.TextInput):
    """A text field with a list of all time zones. Browsers filter it while the user types."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> Any:
        field = super().render(name, value, {**(attrs or {}), "list": "zones"}, renderer)
        return format_html('{}<datalist id="zones">{}</datalist>', field, _zone_options())


@cache
def _zone_options() -> SafeString:
    zones = ((zone,) for zone in sorted(available_timezones()))
    return format_html_join("", '<option value="{}"></option>', zones)


UNKNOWN_ZONE = _("Choose a time zone from the list, such as Asia/Tokyo.")


def setting_field(key: str) -> forms.Field:
    """Return the form field of a setting."""
    label, help_text = SETTING_WORDS[key]
    words: dict[str, Any] = {"label": label, "help_text": help_text}
    if (choices := rules.choices(key)) is not None:
        labels = CHOICE_WORDS[key]
        return forms.ChoiceField(choices=[(value, labels[value]) for value in choices], **words)
    if FIELD_TYPES[key] is bool:
        return forms.BooleanField(required=False, **words)
    if key in UNITS:
        unit, places = UNITS[key]
        return ScaledField(unit=unit, places=places, **words)
    if FIELD_TYPES[key] is int:
        least = rules.min_value(key)
        return forms.IntegerField(min_value=least, max_value=rules.MAX_NUMBER, **words)
    if key == "note_types":
        return forms.CharField(max_length=500, required=False, **words)
    return forms.CharField(max_length=64, widget=ZoneInput, **words)


def value_words(key: str, value: Any) -> _Text:
    """Return a value of a setting as text. The setting may be one that no longer exists."""
    if isinstance(value, bool):
        return _("on") if value else _("off")
    if key in UNITS:
        value = setting_field(key).prepare_value(value)
    return CHOICE_WORDS.get(key, {}).get(value, str(value))


class SettingsForm(forms.Form):
    """All settings of a workspace (rule 9), from `rules.settings`, and the choice of a preset."""

    preset = forms.ChoiceField(
        choices=[(name, words[0]) for name, words in PRESET_WORDS.items()], required=False
    )

    def __init__(self, data: Any = None, *, workspace: Workspace) -> None:
        saved = workspace.memory_settings
        super().__init__(data, initial={**asdict(saved), "preset": rules.find_preset(saved)})
        self.workspace = workspace
        for key in KEYS:
            self.fields[key] = setting_field(key)
            self.fields[key].show_hidden_initial = True

    @property
    def presets(self) -> list[tuple[str, _Text, _Text, str]]:
        """The name, label, effect and values of each preset. app.js fills in the values."""
        return [
            (name, label, effect, self._values_of(name))
            for name, (label, effect) in PRESET_WORDS.items()
        ]

    def _values_of(self, preset: str) -> str:
        values = rules.PRESETS.get(preset, {})
        shown = {key: self.fields[key].prepare_value(value) for key, value in values.items()}
        return json.dumps(shown) if shown else ""

    @property
    def basic_fields(self) -> list[forms.BoundField]:
        return [self[key] for key in BASIC_KEYS]

    @property
    def advanced_fields(self) -> list[forms.BoundField]:
        return [self[key] for key in KEYS if key not in BASIC_KEYS]

    @property
    def has_advanced_errors(self) -> bool:
        return any(field.errors for field in self.advanced_fields)

    @property
    def changed_values(self) -> dict[str, Any]:
        """The values of a newly chosen preset, and the fields that the user changed."""
        preset = self.cleaned_data.get("preset", "")
        is_chosen = preset != self.initial["preset"]
        values: dict[str, Any] = dict(rules.PRESETS.get(preset, {})) if is_chosen else {}
        return values | {
            key: value
            for key, value in self.cleaned_data.items()
            if key in KEYS and is_field_changed(self, key)
        }

    @property
    def shorter_retention_days(self) -> int:
        """The new number of days that messages are kept, if it is lower than the current one, else 0."""
        days: int = self.changed_values.get("retention_days", 0)
        kept = self.workspace.memory_settings.retention_days
        return days if days and (not kept or days < kept) else 0

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        for key in [key for key in KEYS if key in cleaned]:
            try:
                cleaned[key] = rules.parse_setting(key, cleaned[key])
            except InvalidSetting:  # its text is in English, for commands
                is_zone = key == "time_zone"
                self.add_error(
                    key, UNKNOWN_ZONE if is_zone else _("This value is not allowed here.")
                )
        return cleaned

    def save(self, *, by: User | None = None) -> dict[str, tuple[Any, Any]]:
        """Save the changed values together. Returns ``{key: (before, after)}``."""
        return self.workspace.change_settings(self.changed_values, by=by)
