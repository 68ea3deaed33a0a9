"""Endpoints of models: when they may be called, shared by all workers (docs/rules.md, Faults)."""

from datetime import datetime
from typing import Any

from django.db import models, transaction
from django.db.models import F
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.users import User
from memories.models.generate.jobs import Job
from memories.rules.generate.circuit_breaker import CircuitBreaker
from memories.rules.generate.probe import LONGEST_PROMPT_TOKENS, ProbeResult
from memories.rules.generate.summariser import PromptForm

LEAST_THINKING = 1_000  # tokens
MOST_THINKING = 16_000


# What another row of the same model at the same address knows already.
LEARNT = (
    "worst_ratio", "thinking_tokens", "probed_at", "form", "cites", "writes_operations", "keeps_language",
    "reasons", "context_tokens", "tokens_per_second",
)  # fmt: skip


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def known_as(self, fingerprint: str, name: str) -> "Endpoint":
        """The one with this fingerprint. A new one of the same name (another key) is the same model,
        so what was learnt of it holds."""
        existing = self.filter(fingerprint=fingerprint).first()
        if existing is not None:
            return existing
        alike = self.filter(name=name[:200]).order_by("-worst_ratio").values(*LEARNT).first()
        endpoint, _made = self.get_or_create(
            fingerprint=fingerprint, defaults={"name": name[:200], **(alike or {})}
        )
        return endpoint

    def answering(self) -> "EndpointQuerySet":
        """Those whose last call was answered."""
        return self.filter(failures=0, needs_person=False, fault="")


class Endpoint(models.Model):
    """One model at one address with one key, known by a digest of the three: another key begins
    with a clean slate, but for how tokens are counted. Its columns are the state of
    `rules.generate.circuit_breaker.CircuitBreaker`."""

    fingerprint = models.CharField(max_length=64, unique=True)
    name = models.CharField(_("endpoint"), max_length=200)
    not_before = models.DateTimeField(_("not before"), null=True, blank=True)
    failures = models.PositiveIntegerField(_("failures in a row"), default=0)
    rate_limits = models.PositiveIntegerField(default=0)
    open_until = models.DateTimeField(_("paused until"), null=True, blank=True)
    openings = models.PositiveIntegerField(default=0)
    needs_person = models.BooleanField(_("waits for a person"), default=False)
    probing_until = models.DateTimeField(null=True, blank=True)
    fault = models.CharField(_("fault"), max_length=40, blank=True)
    fault_text = models.TextField(_("what happened"), blank=True)
    # The worst of (tokens as counted by the endpoint) / (our estimate).
    worst_ratio = models.FloatField(_("tokens beside our estimate"), default=1.0)
    # When it first answered after it had failed.
    answered_at = models.DateTimeField(_("answered again"), null=True, blank=True)
    # Room for what a reasoning model thinks: part of each call's limit and of its reservation.
    thinking_tokens = models.PositiveIntegerField(_("tokens for thinking"), default=0)
    # Jobs in a row of which the replies to both prompt forms only copied messages.
    copied_jobs = models.PositiveIntegerField(_("jobs in a row that it only copied"), default=0)
    # What a probe found out (pipeline.probing); null is not known.
    probed_at = models.DateTimeField(_("probed"), null=True, blank=True)
    form = models.CharField(
        _("prompt form"),
        max_length=10,
        choices=[(f.value, f.value) for f in PromptForm],
        blank=True,
        default="",
    )
    cites = models.BooleanField(_("gives sources"), null=True, blank=True)
    writes_operations = models.BooleanField(_("writes operations"), null=True, blank=True)
    keeps_language = models.BooleanField(_("keeps the language"), null=True, blank=True)
    reasons = models.BooleanField(_("reasons"), null=True, blank=True)
    context_tokens = models.PositiveIntegerField(_("tokens read at once"), null=True, blank=True)
    tokens_per_second = models.FloatField(_("tokens a second"), null=True, blank=True)
    changed_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = EndpointQuerySet.as_manager()

    class Meta:
        verbose_name = _("endpoint")
        verbose_name_plural = _("endpoints")

    def __str__(self) -> str:
        return self.name

    @property
    def breaker(self) -> CircuitBreaker:
        return CircuitBreaker(
            **{name: getattr(self, name) for name in CircuitBreaker.field_names()}
        )

    @property
    def input_limit(self) -> int | None:
        """Estimated tokens of the longest prompt that is not split; None: as long as any. It is what a
        probe showed to be read to its beginning, where a longer text was not."""
        is_short = self.context_tokens and self.context_tokens < LONGEST_PROMPT_TOKENS
        return self.context_tokens if is_short else None

    @transaction.atomic
    def resume(self, by: User | None) -> bool:
        """A person's word that calls may go again (a new key, credit, patience): whatever waits for
        the endpoint is offered. False when nothing held it."""
        endpoint = Endpoint.objects.select_for_update().get(pk=self.pk)
        if endpoint.breaker == CircuitBreaker():
            return False
        AuditEvent.objects.record(
            "endpoint_resume", by=by, subject=endpoint.name, fault=endpoint.fault
        )
        endpoint.becomes(CircuitBreaker())
        Job.objects.refused().ask_again()
        return True

    def record_findings(self, findings: ProbeResult, now: datetime) -> None:
        """Keep what a probe found out."""
        values = findings.as_json() | {"probed_at": now, "copied_jobs": 0}
        Endpoint.objects.filter(pk=self.pk).update(**values)
        self.refresh_from_db()

    def count_copied(self, *, copied: bool) -> None:
        """Note whether the reply to the second prompt form of a job only copied messages too."""
        endpoint = Endpoint.objects.filter(pk=self.pk)
        endpoint.update(copied_jobs=F("copied_jobs") + 1 if copied else 0)

    def give_room(self, thinking_tokens: int) -> None:
        """More room for thoughts: the call had ``known`` tokens of it, and that was not enough. Calls
        that ended so side by side raise it once."""
        more = min(max(2 * thinking_tokens, LEAST_THINKING), MOST_THINKING)
        Endpoint.objects.filter(pk=self.pk, thinking_tokens=thinking_tokens).update(
            thinking_tokens=more, reasons=True
        )

    def becomes(self, breaker: CircuitBreaker, **more: Any) -> None:
        """Save the next state. Call it with the row locked."""
        values = {name: getattr(breaker, name) for name in CircuitBreaker.field_names()} | more
        for name, value in values.items():
            setattr(self, name, value)
        self.save(update_fields=[*values, "changed_at"])
