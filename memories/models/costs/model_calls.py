"""Model calls: the reservation of each claim of a job, then its usage."""

from datetime import date, datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import F, Func, Q, Subquery, Sum
from django.utils.translation import gettext_lazy as _

from memories.models.access.readers import AudienceQuerySet, Reader
from memories.models.access.workspaces import Workspace
from memories.models.costs.prices import Budget
from memories.models.generate.backfills import Backfill
from memories.models.generate.job_states import JobState
from memories.models.generate.jobs import Job
from memories.rules.summariser import MAX_MODEL_NAME


class ModelCallQuerySet(AudienceQuerySet["ModelCall"]):
    def readable_by(self, reader: Reader, since: date | None = None) -> "ModelCallQuerySet":
        """Filter calls that a reader may see one by one, since they show how busy a channel is.

        Operators see all calls, others those for memories that they may read. With ``since``, calls
        from that day on.
        """
        calls = self if since is None else self.filter(day__gte=since)
        if reader.is_operator:
            return calls
        jobs = Job.objects.visible_to(reader)
        if since is not None:
            # Without this bound PostgreSQL checks who may read each job, however old.
            first = Func(F("job"), function="MIN", output_field=models.BigIntegerField())
            of_period = ModelCall.objects.filter(day__gte=since).order_by()
            jobs = jobs.filter(pk__gte=Subquery(of_period.annotate(first=first).values("first")))
        readable = jobs.filter(pk=models.OuterRef("job"))
        return calls.visible_to(reader).filter(models.Exists(readable))

    def counting_against(self, budget: Budget, today: date) -> "ModelCallQuerySet":
        since = self.filter(day__gte=budget.first_day(today))
        return since if budget.workspace_id is None else since.filter(workspace=budget.workspace_id)

    def running(self, now: datetime, lease: timedelta) -> "ModelCallQuerySet":
        """Return calls that still wait for a reply. It may use less than is reserved.

        A call without a job (a probe or a question) runs for at most one lease.
        """
        claimed = Q(job__state=JobState.CLAIMED, job__fence=F("fence"), job__lease_until__gte=now)
        return self.filter(claimed | Q(job=None, began_at__gte=now - lease), ended_at=None)

    def committed(self) -> tuple[int, int]:
        """Return the tokens and millionths of a dollar that are spent or reserved.

        A call without a reply stays reserved, since it may have been charged.
        """
        sums = self.aggregate(tokens=Sum("tokens"), micros=Sum("micros"))
        return sums["tokens"] or 0, sums["micros"] or 0


class ModelCall(models.Model):
    """The call of one claim of a job, or of a probe or a question: then ``job`` is null.

    A long input takes several requests.
    ``tokens`` and ``micros`` are the upper bound until the reply is stored, then the usage.
    ``micros`` is null for a model without a price.
    """

    # Also null after the job was deleted: its calls still count.
    job = models.ForeignKey(
        Job,
        on_delete=models.SET_NULL,
        related_name="model_calls",
        verbose_name=_("job"),
        null=True,
    )
    fence = models.PositiveIntegerField()
    workspace = models.ForeignKey(
        Workspace, on_delete=models.SET_NULL, related_name="calls", null=True
    )
    backfill = models.ForeignKey(
        Backfill, on_delete=models.SET_NULL, related_name="calls", null=True, blank=True
    )
    model = models.CharField(_("model"), max_length=MAX_MODEL_NAME)
    day = models.DateField(_("day"))
    began_at = models.DateTimeField(_("began"))
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    tokens = models.PositiveBigIntegerField(_("tokens"))
    micros = models.PositiveBigIntegerField(_("millionths of a dollar"), null=True, blank=True)
    prompt_tokens = models.PositiveIntegerField(_("tokens in"), default=0)
    completion_tokens = models.PositiveIntegerField(_("tokens out"), default=0)
    requests = models.PositiveIntegerField(_("requests"), default=0)
    fault = models.CharField(_("fault"), max_length=40, blank=True)

    objects = ModelCallQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "fence"], name="call_once"),
        ]
        indexes = [
            # ModelCallQuerySet.committed, for each budget before each call.
            models.Index(fields=["workspace", "day"], name="call_of_workspace"),
            models.Index(fields=["day"], name="call_of_day"),
            models.Index(
                fields=["backfill"], name="call_of_backfill", condition=Q(backfill__isnull=False)
            ),
        ]
        verbose_name = _("call")
        verbose_name_plural = _("calls")

    def __str__(self) -> str:
        return f"call {self.pk}"

    def settle(self, now: datetime, **used: Any) -> bool:
        """Replace the reservation by the usage. Return False if that was done before."""
        return bool(
            ModelCall.objects.filter(pk=self.pk, ended_at=None).update(ended_at=now, **used)
        )
