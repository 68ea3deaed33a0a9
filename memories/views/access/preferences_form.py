"""The forms of a person's preferences."""

from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import get_language_info
from django.utils.translation import gettext_lazy as _

from memories.forms import UNKNOWN_ZONE, ZoneInput
from memories.models import Digest, User


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
        languages: list[tuple[str, str | Promise]] = [("", _("Same as the browser"))]
        languages += [
            (code, get_language_info(code)["name_local"]) for code, _name in settings.LANGUAGES
        ]
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
