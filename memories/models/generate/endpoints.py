"""Endpoints: model servers, with a breaker that all workers share (docs/rules.md, Faults)."""

from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from django.db import models, transaction
from django.db.models import F
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.users import User
from memories.models.generate.jobs import Job
from memories.rules.generate.circuit_breaker import CircuitBreaker
from memories.rules.generate.probe import LONG_PROMPT_TOKENS, ProbeResult
from memories.rules.summariser import PromptForm

MIN_THINKING_TOKENS = 1_000
MAX_THINKING_TOKENS = 16_000

# Copied from an earlier row of the same model and address, with another key.
COPIED_FIELDS = (
    "worst_ratio", "thinking_tokens", "probed_at", "form", "gives_sources", "writes_operations", "keeps_language",
    "reasons", "context_tokens", "tokens_per_second",
)  # fmt: skip


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def get_or_create_for(self, fingerprint: str, name: str) -> "Endpoint":
        """Return the row of this fingerprint. A new row copies the findings of the same name."""
        existing = self.filter(fingerprint=fingerprint).first()
        if existing is not None:
            return existing
        alike = self.filter(name=name[:200]).order_by("-worst_ratio").values(*COPIED_FIELDS).first()
        endpoint, _made = self.get_or_create(
            fingerprint=fingerprint, defaults={"name": name[:200], **(alike or {})}
        )
        return endpoint

    def answering(self) -> "EndpointQuerySet":
        """Return endpoints whose last call was answered."""
        return self.filter(failures=0, needs_person=False, fault="")


class Endpoint(models.Model):
    """A model at an address with a key. The fingerprint is an HMAC of the three.

    The columns with the names of the fields of `CircuitBreaker` are its state.
    """

    fingerprint = models.CharField(max_length=64, unique=True)
    name = models.CharField(_("endpoint"), max_length=200)
    retry_at = models.DateTimeField(_("next try at"), null=True, blank=True)
    failures = models.PositiveIntegerField(_("failures in a row"), default=0)
    rate_limits = models.PositiveIntegerField(default=0)
    open_until = models.DateTimeField(_("paused until"), null=True, blank=True)
    times_opened = models.PositiveIntegerField(default=0)
    needs_person = models.BooleanField(_("needs a person"), default=False)
    half_open_until = models.DateTimeField(null=True, blank=True)
    fault = models.CharField(_("fault"), max_length=40, blank=True)
    fault_text = models.TextField(_("outcome"), blank=True)
    # The worst of (tokens as counted by the endpoint) / (our estimate).
    worst_ratio = models.FloatField(_("ratio of counted to estimated tokens"), default=1.0)
    # When it first answered after it had failed.
    answered_at = models.DateTimeField(_("last reply"), null=True, blank=True)
    # Tokens for the reasoning of a model: part of each call's limit and of its reservation.
    thinking_tokens = models.PositiveIntegerField(_("tokens for reasoning"), default=0)
    # Jobs in a row whose replies to both prompt forms only copied messages.
    copied_jobs = models.PositiveIntegerField(
        _("jobs in a row with copied messages only"), default=0
    )
    # The findings of a probe (pipeline.generate.probing); null is unknown.
    probed_at = models.DateTimeField(_("probed"), null=True, blank=True)
    form = models.CharField(
        _("prompt form"),
        max_length=10,
        choices=[(f.value, f.value) for f in PromptForm],
        blank=True,
        default="",
    )
    gives_sources = models.BooleanField(_("gives sources"), null=True, blank=True)
    writes_operations = models.BooleanField(_("writes operations"), null=True, blank=True)
    keeps_language = models.BooleanField(_("keeps the language"), null=True, blank=True)
    reasons = models.BooleanField(_("reasoning model"), null=True, blank=True)
    context_tokens = models.PositiveIntegerField(_("input limit in tokens"), null=True, blank=True)
    tokens_per_second = models.FloatField(_("tokens per second"), null=True, blank=True)
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
            **{field.name: getattr(self, field.name) for field in fields(CircuitBreaker)}
        )

    @property
    def input_limit(self) -> int | None:
        """Estimated tokens of the longest prompt that is not split; None without a limit.

        A probe found it: the model did not read a longer text to its beginning.
        """
        is_short = self.context_tokens and self.context_tokens < LONG_PROMPT_TOKENS
        return self.context_tokens if is_short else None

    @transaction.atomic
    def resume(self, by: User | None) -> bool:
        """Reset the breaker and make the refused jobs due. False when it refused no calls."""
        endpoint = Endpoint.objects.select_for_update().get(pk=self.pk)
        if endpoint.breaker == CircuitBreaker():
            return False
        AuditEvent.objects.record(
            "endpoint_resume", by=by, subject=endpoint.name, fault=endpoint.fault
        )
        endpoint.set_breaker(CircuitBreaker())
        Job.objects.refused_by_endpoint().make_due()
        return True

    def record_probe(self, result: ProbeResult, now: datetime) -> None:
        """Save the result of a probe."""
        values = result.as_json() | {"probed_at": now, "copied_jobs": 0}
        Endpoint.objects.filter(pk=self.pk).update(**values)
        self.refresh_from_db()

    def count_copied(self, *, copied: bool) -> None:
        """Count a job whose reply to the second prompt form only copied messages too."""
        endpoint = Endpoint.objects.filter(pk=self.pk)
        endpoint.update(copied_jobs=F("copied_jobs") + 1 if copied else 0)

    def raise_thinking_tokens(self, used: int) -> None:
        """Double the tokens for reasoning after ``used`` were too few, once for parallel calls."""
        raised = min(max(2 * used, MIN_THINKING_TOKENS), MAX_THINKING_TOKENS)
        Endpoint.objects.filter(pk=self.pk, thinking_tokens=used).update(
            thinking_tokens=raised, reasons=True
        )

    def set_breaker(self, breaker: CircuitBreaker, **other_values: Any) -> None:
        """Save the breaker's next state. Call it with the row locked."""
        values = asdict(breaker) | other_values
        for name, value in values.items():
            setattr(self, name, value)
        self.save(update_fields=[*values, "changed_at"])
