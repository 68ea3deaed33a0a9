"""Filters and tags of most templates: times, reasons, names, texts, icons and shortcuts."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

from django import template
from django.template import Context
from django.templatetags.static import static
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext_lazy, ngettext
from django.utils.translation import gettext as _

from memories.models import MemoryVersion, User
from memories.models.access.users import user_name
from memories.rules.generate.segments import Trigger
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.lines import hash_text, strip_bullet
from memories.rules.memory.operations import operation_text
from memories.rules.tokens import estimate_tokens
from memories.views import paths
from memories.views.ingest.messages import topic_words
from memories.views.keys import KEYS
from memories.views.memory.display import author_kind, who_wrote
from memories.views.texts import in_its_language, line_text, message_text, text_lang

register = template.Library()

_DAY_SECONDS = 24 * 3600


# Times


@register.simple_tag
def moment(value: datetime | int, style: str = "near") -> SafeString:
    """Return a ``<time>`` in the current time zone.

    ``value`` is an aware datetime or microseconds since 1970. ``style`` is ``near`` (relative
    within 24 hours), ``full``, ``time``, ``day``, ``date``, ``weekday`` ("Tuesday 18:05" within a
    week) or ``margin`` (a date without the current year).
    """
    at = timezone.localtime(from_micros(value) if isinstance(value, int) else value)
    absolute = _absolute(at)
    words = _STYLES[style](at) or absolute
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), absolute, words)


@register.simple_tag
def span(first_us: int, last_us: int) -> SafeString:
    """Return a period. The second time has no date if it is the same day."""
    first, last = (timezone.localtime(from_micros(us)) for us in (first_us, last_us))
    if _absolute(first) == _absolute(last):
        return moment(first_us, "full")
    if first.date() == last.date():
        end = _format(last, "H:i")
    else:
        end = _absolute(last)
    return format_html(
        '<time datetime="{}">{}</time><span aria-hidden="true"> – </span>'
        '<span class="hidden">{}</span><time datetime="{}">{}</time>',
        first.isoformat(),
        _absolute(first),
        _(" to "),
        last.isoformat(),
        end,
    )


def _absolute(at: datetime) -> str:
    return _format(at, _("j M Y, H:i"))


def _format(at: datetime, form: str) -> str:
    return _format_in(get_language(), at.replace(tzinfo=None), form)


@lru_cache(maxsize=5000)  # a page shows hundreds of times, and most of them again tomorrow
def _format_in(_language: str | None, at: datetime, form: str) -> str:
    return date_format(at, form)


def _near(at: datetime) -> str:
    """Return a relative time, "" for more than 24 hours ago and for the future."""
    seconds = int((timezone.now() - at).total_seconds())
    if not 0 <= seconds < _DAY_SECONDS:
        return ""
    if seconds < 60:
        return _("just now")
    if seconds < 3600:
        minutes = seconds // 60
        return ngettext("%(n)s min ago", "%(n)s min ago", minutes) % {"n": minutes}
    hours = seconds // 3600
    return ngettext("%(n)s h ago", "%(n)s h ago", hours) % {"n": hours}


def _weekday(at: datetime) -> str:
    days = (timezone.localtime().date() - at.date()).days
    return _format(at, _("l H:i")) if 0 <= days < 7 else _absolute(at)


_STYLES: dict[str, Callable[[datetime], str]] = {
    "near": _near,
    "full": lambda at: "",
    "time": lambda at: _format(at, "H:i"),
    "day": lambda at: _format(at, _("l, j M Y")),
    "date": lambda at: _format(at, _("j M Y")),
    "margin": lambda at: _format(
        at, _("j M") if at.year == timezone.localtime().year else _("j M Y")
    ),
    "weekday": _weekday,
}

# Reasons

_REASONS = {
    Trigger.IDLE: gettext_lazy("%(messages)s, then %(time)s without a message"),
    Trigger.FULL: gettext_lazy("%(messages)s: message limit of a segment"),
    Trigger.FIRST: gettext_lazy("%(messages)s: first summary of this channel"),
    Trigger.HISTORY_OFF: gettext_lazy("%(messages)s, history is off"),
    Trigger.BACKFILL: gettext_lazy("%(messages)s from backfill"),
    Trigger.REQUESTED: gettext_lazy("%(messages)s, updated by hand"),
    Trigger.EDITED: gettext_lazy("a message was edited or deleted"),
    "merge": gettext_lazy("from %(texts)s"),
    "rebuild": gettext_lazy("rebuilt from %(texts)s"),
}
_DROPS = {
    "unknown_line": gettext_lazy("the line does not exist"),
    "kept_line": gettext_lazy("a person wrote or pinned the line"),
    "older_news": gettext_lazy("the line is newer than the change"),
    "known": gettext_lazy("the memory already contains it"),
}
_FAULTS = {
    "rate_limited": gettext_lazy("rate limit of the model"),
    "out_of_credit": gettext_lazy("the model account has no credit left"),
    "unauthorised": gettext_lazy("the model rejected the API key"),
    "forbidden": gettext_lazy("the model rejected the API key"),
    "server_error": gettext_lazy("the model server had an error"),
    "connection": gettext_lazy("the model could not be reached"),
    "timeout": gettext_lazy("the model did not reply in time"),
    "empty": gettext_lazy("the reply was empty"),
    "blank": gettext_lazy("the reply was empty"),
    "length": gettext_lazy("the reply was cut off"),
    "content_filter": gettext_lazy("the model refused the content"),
    "refusal": gettext_lazy("the model refused"),
    "prompt_echoed": gettext_lazy("the reply repeated its instructions"),
    "too_long": gettext_lazy("the reply was far too long"),
    "too_short": gettext_lazy("the reply was far too short"),
    "unknown_finish": gettext_lazy("the reply ended for an unknown reason"),
    "malformed": gettext_lazy("the reply could not be read"),
    "bad_request": gettext_lazy("the model rejected the request"),
    "not_found": gettext_lazy("the model does not exist at its address"),
    "context_too_long": gettext_lazy("the text was too long for the model"),
    "no_operation": gettext_lazy("none of the changes in the reply could be applied"),
    "wrong_language": gettext_lazy("the reply was in the wrong language"),
    "nothing": gettext_lazy("the model found nothing in messages with content"),
    "copied": gettext_lazy("the reply mostly copied messages"),
    "no_room": gettext_lazy("the model used its whole limit for reasoning"),
    "gave_no_answer": gettext_lazy("the worker stopped each time"),
    "not_closed": gettext_lazy("the worker stopped each time"),
    "quarantined": gettext_lazy("every line of the reply was quarantined"),
    "over_budget": gettext_lazy("budget reached"),
    "over_backfill_cap": gettext_lazy("limit of the backfill reached"),
    "breaker_open": gettext_lazy("repeated failures of the model"),
    "needs_person": gettext_lazy("the model needs a person"),
    "unexpected": gettext_lazy("an error in Memory Hub itself"),
}


@register.simple_tag
def why(version: MemoryVersion) -> str:
    """Return the reason for a version."""
    if version.origin == MemoryVersion.Origin.PERSON:
        return _("edited by a person")
    if version.origin == MemoryVersion.Origin.RESTORE:
        if version.trigger.get("reason") == "undo":
            return _("undid a change of v%(number)s") % {"number": version.trigger.get("of")}
        if version.trigger.get("reason") == "line_restore":
            return _("restored a line from the archive")
        old = version.restored_from
        return _("restored from v%(number)s") % {"number": old.number} if old else _("restored")
    return reason_words(version.trigger)


@register.filter
def reason_words(trigger: dict[str, Any]) -> str:
    """Return the text for ``{"reason": "idle", "new": 12, "quiet_s": 7200}``, "" if unknown."""
    new = trigger.get("new", 0)
    messages = ngettext("%(n)s message", "%(n)s messages", new) % {"n": new}
    texts = ngettext("%(n)s summary", "%(n)s summaries", new) % {"n": new}
    words = _REASONS.get(trigger.get("reason", ""), "")
    if trigger.get("reason") == Trigger.IDLE and not trigger.get("quiet_s"):
        words = "%(messages)s"  # a thread that was closed by its channel
    text = words % {
        "messages": messages,
        "texts": texts,
        "time": duration(trigger.get("quiet_s", 0)),
    }
    if refused := trigger.get("left_out", 0):
        refusals = ngettext(
            "the model refused to read %(n)s message",
            "the model refused to read %(n)s messages",
            refused,
        )
        return f"{text}; {refusals % {'n': refused}}"
    return text


@register.filter
def duration(seconds: int) -> str:
    """Return ``7200`` as "2 h", ``5400`` as "1 h 30 min", ``40`` as "40 s"."""
    hours, remainder = divmod(int(seconds), 3600)
    minutes = remainder // 60
    if not hours and not minutes:
        return _("%(n)s s") % {"n": remainder}
    parts = []
    if hours:
        parts.append(_("%(n)s h") % {"n": hours})
    if minutes:
        parts.append(_("%(n)s min") % {"n": minutes})
    return " ".join(parts)


@register.filter
def fault_words(fault: str) -> str:
    """Return the text for a fault of a job, by default its name."""
    return str(_FAULTS.get(fault) or fault.replace("_", " "))


register.filter("change_text", operation_text)


@register.filter
def drop_reason(dropped: str) -> str:
    return str(_DROPS.get(dropped.partition(": ")[0], ""))


# Memories and their pages


register.filter("page_of", paths.page_of)
register.filter("scope_name", paths.scope_name)
register.filter("type_name", paths.type_name)
register.filter("tokens", estimate_tokens)


# Texts

register.filter(text_lang)
register.filter(in_its_language)
register.filter(line_text)
register.filter("words", strip_bullet)
register.filter("hash", hash_text)
register.simple_tag(message_text)
register.simple_tag(topic_words)


# Icons


@register.simple_tag
@lru_cache(maxsize=500)  # a page shows some hundreds of a few dozens
def icon(name: str, label: str = "") -> SafeString:
    """Return an icon of icons.svg. Without a label it is decoration."""
    hidden = (
        format_html('role="img" aria-label="{}"', label)
        if label
        else mark_safe('aria-hidden="true"')
    )
    return format_html(
        '<svg class="icon" {}><use href="{}#{}"></use></svg>',
        hidden,
        static("memories/icons.svg"),
        name,
    )


@register.simple_tag
@lru_cache(maxsize=50)
def author_icon(kind: str) -> SafeString:
    """Return the icon of a version's author. ``kind`` is from `author_kind`."""
    return format_html(
        '<svg class="author-icon author-icon-{0}" aria-hidden="true"><use href="{1}#author-icon-{0}"></use></svg>',
        kind,
        static("memories/icons.svg"),
    )


register.filter("account_name", user_name)
register.filter(author_kind)
register.filter(who_wrote)


# Keys


@register.simple_tag(takes_context=True)
def key(context: Context, name: str) -> SafeString:
    """Return the attributes of a keyboard shortcut, if the user has enabled shortcuts."""
    assert name in KEYS, name
    if not _has_shortcuts(context):
        return mark_safe("")
    # ARIA has no syntax for a sequence of keys such as "g h".
    attribute = "" if " " in name else format_html(' aria-keyshortcuts="{}"', name)
    return format_html('data-key="{}"{}', name, attribute)


@register.simple_tag(takes_context=True)
def steps(context: Context, forward: str, back: str) -> SafeString:
    """Return the attribute of an element that a pair of shortcuts steps through."""
    assert {forward, back} <= KEYS.keys(), forward + back
    if not _has_shortcuts(context):
        return mark_safe("")
    return format_html('data-steps="{}{}"', forward, back)


@register.simple_tag
def all_keys() -> list[tuple[str, Promise]]:
    return list(KEYS.items())


def _has_shortcuts(context: Context) -> bool:
    user = context["request"].user
    return isinstance(user, User) and user.shortcuts
