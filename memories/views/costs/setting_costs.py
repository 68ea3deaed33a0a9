"""The effect of settings on costs, for the help texts of the settings form."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memories.models import ModelCall, ModelServer, Price
from memories.pipeline.costs.usage import Cause, Sums, sum_by_cause, total
from memories.rules.costs.money import MICROS
from memories.rules.generate.segments import Trigger
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.templatetags.backfill import grouped, micros
from memories.views.access.access import WorkspaceAccess
from memories.views.costs.costs import DAYS, budget_uses_of

EFFECTS: dict[str, Promise] = {
    "short_term_window_hours": gettext_lazy(
        "A longer period reads more in the first pass and costs more."
    ),
    "short_term_max_tokens": gettext_lazy(
        "Longer summaries cost more, both to write and to merge."
    ),
    "long_term_max_tokens": gettext_lazy("A longer memory costs more at each merge."),
    "history_enabled": gettext_lazy(
        "Without a history, each pass with new messages calls the model."
    ),
    "max_history_count": gettext_lazy(
        "More versions make contexts longer, which costs their readers more."
    ),
    "conversation_idle_seconds": gettext_lazy(
        "A shorter time means more calls, each with less to read."
    ),
    "message_threshold": gettext_lazy("A lower number means more calls, each with less to read."),
    "thread_memories": gettext_lazy("Threads need additional calls."),
    "thread_min_messages": gettext_lazy("A lower number means more threads and more calls."),
    "workspace_short_term": gettext_lazy("It needs additional calls."),
    "merge_mode": gettext_lazy("Rewriting costs more, because each reply repeats the whole text."),
    "notes_inject": gettext_lazy("Notes make contexts longer, which costs their readers more."),
    "read_private_channels": gettext_lazy("More channels need more calls."),
    "slack_commands": gettext_lazy("With a model, each question needs a call."),
}

# The calls that a setting causes.
_CAUSES: dict[str, Callable[[Cause], bool]] = {
    "long_term_max_tokens": lambda cause: cause.memory_type == MemoryType.LONG_TERM,
    "conversation_idle_seconds": lambda cause: cause.reason == Trigger.IDLE,
    "message_threshold": lambda cause: cause.reason == Trigger.FULL,
    "thread_memories": lambda cause: cause.scope == MemoryScope.THREAD,
    "workspace_short_term": lambda cause: (
        (cause.scope, cause.memory_type) == (MemoryScope.WORKSPACE, MemoryType.SHORT_TERM)
    ),
}


def add_costs(form: forms.Form, access: WorkspaceAccess, now: datetime) -> dict[str, Any]:
    """Add costs to the help texts of the fields. Return the template variables of all settings.

    Only calls for memories count that the user may read.
    """
    today = now.astimezone(UTC).date()
    first = today - timedelta(days=DAYS - 1)
    calls = ModelCall.objects.readable_by(access.reader, first).filter(workspace=access.workspace)
    causes = sum_by_cause(calls, first, today)
    for key, effect in EFFECTS.items():
        field = form.fields[key]
        words = [str(field.help_text), str(effect)]
        if is_cause := _CAUSES.get(key):
            caused = [sums for cause, sums in causes.items() if is_cause(cause)]
            words.append(_recent_costs(total(caused)))
        field.help_text = " ".join(words)
    model = ModelServer.objects.in_use().model
    price = Price.objects.of_model(model) if model else None
    return {
        "model": model,
        "price_in": int(price.input_price * MICROS) if price else None,
        "price_out": int(price.output_price * MICROS) if price else None,
        "lately": total(causes.values()),
        "budgets": budget_uses_of(access, calls),
        "is_whole": access.reader.is_operator,
    }


def _recent_costs(sums: Sums) -> str:
    if not sums.calls:
        return _("Last 30 days: no calls.")
    words = ngettext(
        "Last 30 days: %(n)s call, %(money)s.",
        "Last 30 days: %(n)s calls, %(money)s.",
        sums.calls,
    )
    unpriced = ngettext(
        "%(n)s token without a price", "%(n)s tokens without a price", sums.unpriced_tokens
    ) % {"n": grouped(sums.unpriced_tokens)}
    money = [micros(sums.micros)] if sums.micros is not None else []
    money += [unpriced] if sums.unpriced_tokens or not money else []
    return words % {"n": grouped(sums.calls), "money": _(", ").join(money)}
