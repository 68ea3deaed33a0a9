"""Endpoints of models: whether they take calls, and a person's word that they may again."""

from typing import Any, cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from memories import tasks
from memories.admin.audience import AudienceAdmin, ReadOnly, spelled
from memories.models import Endpoint, Reader, User
from memories.pipeline.generate import probing
from memories.rules.generate.circuit_breaker import Refusal

WORDS = {
    Refusal.RATE_LIMITED: _("asks for a pause"),
    Refusal.BREAKER_OPEN: _("does not answer"),
    Refusal.NEEDS_PERSON: _("waits for a person"),
}


@admin.register(Endpoint)
class EndpointAdmin(ReadOnly, AudienceAdmin):
    """They are of the whole installation, so only operators see them."""

    list_display = ("name", "closed", "until", "fault", "failures", "changed_at")
    search_fields = ("name", "fault")
    ordering = ("-changed_at",)
    actions = ("resume", "probe")
    fields = (
        "name",
        "closed",
        "until",
        "fault",
        "fault_text",
        "failures",
        "rate_limits",
        "openings",
        "worst_ratio",
        "form",
        "cites",
        "writes_operations",
        "keeps_language",
        "reasons",
        "thinking_tokens",
        "context_tokens",
        "tokens_per_second",
        "probed_at",
        "changed_at",
    )

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows if reader.is_operator else rows.none()

    @admin.display(description=_("takes no calls: why"))
    def closed(self, endpoint: Endpoint) -> Any:
        refused = endpoint.breaker.find_refusal(timezone.now())
        return spelled(refused and WORDS[refused[0]])

    @admin.display(description=_("until"))
    def until(self, endpoint: Endpoint) -> Any:
        refused = endpoint.breaker.find_refusal(timezone.now())
        return spelled(refused and refused[1])

    def has_probe_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memories.change_endpoint")

    @admin.action(description=_("Probe now"), permissions=["probe"])
    def probe(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Queue a probe. Only the endpoint of the settings can be called."""
        endpoint = queryset.filter(pk__in=probing.configured_endpoints()).first()
        if endpoint is None:
            text = _("The settings name another model.")
            self.message_user(request, text, messages.WARNING)
            return
        tasks.schedule_probe(cast(User, request.user), endpoint.name)
        text = _("The probe is queued. A worker asks the model a few small tasks.")
        self.message_user(request, text, messages.SUCCESS)

    def has_resume_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memories.change_endpoint")

    @admin.action(description=_("Allow calls again"), permissions=["resume"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        count = sum(endpoint.resume(cast(User, request.user)) for endpoint in queryset)
        text = ngettext(
            "%(count)d endpoint is called again.", "%(count)d endpoints are called again.", count
        )
        level = messages.SUCCESS if count else messages.WARNING
        self.message_user(request, text % {"count": count}, level)
