"""Forms that pages and the admin share."""

import json
import math
from dataclasses import asdict
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _

from memories.models import Digest, User, Workspace
from memories.rules import settings as rules
from memories.rules.settings import FIELD_TYPES, KEYS, InvalidSetting
from memories.setting_words import (
    BASIC_KEYS,
    CHOICE_WORDS,
    PRESET_WORDS,
    SETTING_WORDS,
    UNITS,
    Text,
)


def focus_first_wrong(form: forms.BaseForm) -> None:
    """Set the focus to the first field with an error. The error describes the field."""
    for field in form.visible_fields():
        if field.errors:
            field.field.widget.attrs["autofocus"] = True
            return


def is_field_changed(form: forms.Form, name: str) -> bool:
    """Return whether the user changed a field with ``show_hidden_initial``.

    Unchanged fields keep what others saved since. A field without its hidden initial is changed.
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
    """A text field that suggests time zones, which browsers search."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> Any:
        field = super().render(name, value, {**(attrs or {}), "list": "zones"}, renderer)
        options = ((zone,) for zone in sorted(available_timezones()))
        zones = format_html_join("", '<option value="{}"></option>', options)
        return format_html('{}<datalist id="zones">{}</datalist>', field, zones)


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
    return forms.CharField(max_length=64, widget=ZoneInput, **words)


def value_words(key: str, value: Any) -> Text:
    """Return the text of a setting's value, also of a former setting."""
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
    def presets(self) -> list[tuple[str, Text, Text, str]]:
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
    def is_advanced_wrong(self) -> bool:
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
    def removes_after(self) -> int:
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
        """Save the changed values at once. Returns ``{key: (before, after)}``."""
        return self.workspace.change_settings(self.changed_values, by=by)


class PreferencesForm(forms.Form):
    """The preferences of a user. ``theme`` is the browser's, until the user saves one."""

    language = forms.ChoiceField(
        label=_("Language"),
        required=False,
        help_text=_("Interface only; memories keep their language"),
    )
    time_zone = forms.CharField(
        label=_("Time zone"),
        required=False,
        max_length=64,
        widget=ZoneInput,
        help_text=_("For the times shown to you. Empty: the time zone of the workspace."),
    )
    theme = forms.ChoiceField(label=_("Theme"), choices=User.Theme.choices)
    density = forms.ChoiceField(
        label=_("Density"),
        choices=User.Density.choices,
        help_text=_("Compact fits more on screen"),
    )
    shortcuts = forms.BooleanField(
        label=_("Keyboard shortcuts"),
        required=False,
        help_text=_(
            "Single keys, such as j for the next item. Press ? for a list. Turn them off if you "
            "use dictation."
        ),
    )

    def __init__(self, data: Any = None, *, user: User, theme: str = "") -> None:
        kept = user.theme or (theme if theme in User.Theme.values else User.Theme.SYSTEM)
        super().__init__(
            data,
            initial={
                "language": user.language,
                "time_zone": user.time_zone,
                "theme": kept,
                "density": user.density,
                "shortcuts": user.shortcuts,
            },
        )
        self.user = user
        languages: list[tuple[str, Text]] = [("", _("Same as the browser"))]
        languages += [(code, _NATIVE_NAMES[code]) for code, _name in settings.LANGUAGES]
        field = self.fields["language"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = languages

    def clean_time_zone(self) -> str:
        zone: str = self.cleaned_data["time_zone"]
        if zone and zone not in available_timezones():
            raise forms.ValidationError(UNKNOWN_ZONE)
        return zone

    def save(self) -> None:
        self.user.save_preferences(**self.cleaned_data)


class DigestForm(forms.Form):
    """How often a person gets Catch up by e-mail."""

    frequency = forms.ChoiceField(
        label=_("Send by e-mail"),
        choices=Digest.Frequency.choices,
        required=False,
        help_text=_("At 7:00 in your time zone. A digest without news is not sent."),
    )


_NATIVE_NAMES = {"en": "English", "ja": "日本語"}
