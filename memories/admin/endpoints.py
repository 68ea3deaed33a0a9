"""Endpoints: their circuit breaker and what their model can do."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories import tasks
from memories.admin.audience import OperatorAdmin, display_value, row_action, user_of
from memories.models import Endpoint
from memories.pipeline.generate import probing
from memories.rules.generate.circuit_breaker import Refusal

REFUSALS = {
    Refusal.RATE_LIMITED: _("rate limited"),
    Refusal.BREAKER_OPEN: _("not responding"),
    Refusal.NEEDS_PERSON: _("needs a person"),
}


@admin.register(Endpoint)
class EndpointAdmin(OperatorAdmin):
    list_display = ("name", "closed", "until", "fault", "failures", "changed_at")
    search_fields = ("name", "fault")
    ordering = ("-changed_at",)
    actions = (row_action("resume", _("Resume calls"), Endpoint.resume), "probe")
    details = (
        "fault_text",
        "rate_limits",
        "times_opened",
        "worst_ratio",
        "form",
        "gives_sources",
        "writes_operations",
        "keeps_language",
        "reasons",
        "thinking_tokens",
        "context_tokens",
        "tokens_per_second",
        "probed_at",
    )

    @admin.display(description=_("reason for the pause"))
    def closed(self, endpoint: Endpoint) -> Any:
        refusal = endpoint.breaker.find_refusal(timezone.now())
        return display_value(refusal and REFUSALS[refusal[0]])

    @admin.display(description=_("until"))
    def until(self, endpoint: Endpoint) -> Any:
        refusal = endpoint.breaker.find_refusal(timezone.now())
        return display_value(refusal and refusal[1])

    @admin.action(description=_("Check now"), permissions=["operate"])
    def probe(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Queue a probe of the endpoint in the settings. No other can be called."""
        endpoint = queryset.filter(pk__in=probing.configured_endpoints()).first()
        if endpoint is None:
            text = _("The settings name another model.")
            self.message_user(request, text, messages.WARNING)
            return
        tasks.schedule_probe(user_of(request), endpoint.name)
        text = _("The check is queued. A worker gives the model a few small tasks.")
        self.message_user(request, text, messages.SUCCESS)
