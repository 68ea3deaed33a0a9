"""Texts of an import in templates: reasons for skipped parts, the time left, and days of files."""

import math
from datetime import date

from django import template
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memories.rules.costs.estimate import Range

register = template.Library()

# The reasons for skipped objects and files. A test checks that none is missing.
REASONS = {
    "notice": gettext_lazy("notices of Slack, such as that somebody joined"),
    "direct messages": gettext_lazy("direct messages"),
    "not chosen": gettext_lazy("not chosen"),
    "not a message": gettext_lazy("something else than a message"),
    "reply notice": gettext_lazy("only notes that there was a reply"),
    "placeholder author U00": gettext_lazy("placeholders of Slack, without an author"),
    "forgotten": gettext_lazy("said before its channel or its author was forgotten"),
    "older than messages are kept": gettext_lazy("older than messages are kept"),
    "posted by the hub": gettext_lazy("posted by this hub"),
    "left by the system": gettext_lazy("left behind by the computer that packed it"),
    "canvas": gettext_lazy("canvases"),
    "no messages": gettext_lazy("neither a list nor a day of messages"),
    "beside the export": gettext_lazy("lies beside the export"),
    "an archive inside": gettext_lazy("an archive inside the archive"),
    "no id": gettext_lazy("without an id"),
    "not an object": gettext_lazy("not an object of Slack's"),
    "too large": gettext_lazy("too large"),
    "no ts": gettext_lazy("without a time"),
    "ts is not text": gettext_lazy("with a time that is no text"),
    "ts is not a number": gettext_lazy("with a time that is no number"),
    "ts out of range": gettext_lazy("with a time that cannot be"),
    "a change without its message": gettext_lazy("a change without its message"),
    "of a channel in no list": gettext_lazy("of a channel that no list names"),
    "not a list": gettext_lazy("it is not a list"),
    "empty": gettext_lazy("it is empty"),
    "not JSON": gettext_lazy("from here on it is not JSON"),
    "not UTF-8": gettext_lazy("from here on it is not UTF-8"),
    "more than one list": gettext_lazy("something follows after its list"),
    "cut off": gettext_lazy("it is cut off"),
    "damaged": gettext_lazy("it is damaged"),
    "compressed in an unknown way": gettext_lazy("it is compressed in an unknown way"),
    "encrypted": gettext_lazy("it is protected by a password"),
    "a link": gettext_lazy("it is a link"),
    "no file": gettext_lazy("it is no ordinary file"),
    "a name that is no text": gettext_lazy("its name is no text"),
    "in no channel's folder": gettext_lazy("it lies in no channel's folder"),
    "hardly any objects": gettext_lazy("it holds hardly any objects of Slack's"),
    "after more than an export may hold": gettext_lazy(
        "the files before it hold as much as an export may"
    ),
}


@register.filter
def outcome_words(reason: str) -> str:
    """Return the text for a reason, such as ``cut off`` or ``skipped: not chosen``."""
    words = REASONS.get(reason.rpartition(": ")[2])
    return reason if words is None else str(words)


@register.filter
def time_left_words(seconds: Range) -> str:
    """Return ``Range(400, 500, 650)`` as "about 7 – 11 min left"."""
    if seconds.high < 60:
        return _("less than a minute left")
    low, high = max(1, round(seconds.low / 60)), math.ceil(seconds.high / 60)
    numbers = str(high) if low >= high else f"{low} – {high}"
    return _("about %(minutes)s min left") % {"minutes": numbers}


@register.filter
def day(name: str) -> SafeString | str:
    """Return a day of an export file, such as ``2023-11-14``, in words.

    It has no time zone. A name that is no day is returned as it is.
    """
    try:
        parsed = date.fromisoformat(name)
    except ValueError:
        return name
    return format_html('<time datetime="{}">{}</time>', name, date_format(parsed, _("j M Y")))
