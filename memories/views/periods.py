"""The form field for the start of a period."""

from datetime import tzinfo

from django import forms
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memories.rules.backfill_input import InvalidInput, parse_since
from memories.rules.ingest.timestamps import to_micros


def since_field() -> forms.CharField:
    return forms.CharField(
        label=gettext_lazy("Since"),
        required=False,
        max_length=10,
        help_text=gettext_lazy(
            "A date, such as 2026-01-31, or a number of days. Empty: from the first message."
        ),
    )


def since_us(text: str, zone: tzinfo) -> int:
    """Return microseconds, 0 for the first message. Raise ``ValidationError`` for other texts."""
    now = timezone.now()
    try:
        us = parse_since(text, now, zone)
    except InvalidInput as error:
        raise forms.ValidationError(_("Enter a date or a number of days.")) from error
    if us > to_micros(now):
        raise forms.ValidationError(_("Choose a date that is not in the future."))
    return us
