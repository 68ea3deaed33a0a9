"""Endpoints of models: when they may be called, shared by all workers (docs/rules.md, Faults)."""

from typing import Any

from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from memories.models.audit import AuditEvent
from memories.models.generations import Generation
from memories.models.users import User
from memories.rules.breaker import Breaker


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def known_as(self, fingerprint: str, name: str) -> "Endpoint":
        """The one with this fingerprint. A new one of the same name (another key) counts tokens as
        the others did."""
        alike = self.filter(name=name[:200]).aggregate(worst=models.Max("worst_ratio"))
        endpoint, _made = self.get_or_create(
            fingerprint=fingerprint,
            defaults={"name": name[:200], "worst_ratio": alike["worst"] or 1.0},
        )
        return endpoint


class Endpoint(models.Model):
    """One model at one address with one key, known by a digest of the three: another key begins
    with a clean slate, but for how tokens are counted. Its columns are the state of
    `rules.breaker.Breaker`."""

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
    changed_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = EndpointQuerySet.as_manager()

    class Meta:
        verbose_name = _("endpoint")
        verbose_name_plural = _("endpoints")

    def __str__(self) -> str:
        return self.name

    @property
    def breaker(self) -> Breaker:
        return Breaker(**{name: getattr(self, name) for name in Breaker.NAMES})

    @transaction.atomic
    def resume(self, by: User | None) -> bool:
        """A person's word that calls may go again (a new key, credit, patience): whatever waits for
        the endpoint is offered. False when nothing held it."""
        endpoint = Endpoint.objects.select_for_update().get(pk=self.pk)
        if endpoint.breaker == Breaker():
            return False
        AuditEvent.objects.record(
            "endpoint_resume", by=by, subject=endpoint.name, fault=endpoint.fault
        )
        endpoint.becomes(Breaker())
        Generation.objects.refused().ask_again()
        return True

    def becomes(self, breaker: Breaker, **more: Any) -> None:
        """Save the next state. Call it with the row locked."""
        values = {name: getattr(breaker, name) for name in Breaker.NAMES} | more
        for name, value in values.items():
            setattr(self, name, value)
        self.save(update_fields=[*values, "changed_at"])
