"""Jobs: one row for each wanted output of a model (docs/rules.md, Jobs).

The rows are the truth; django-q2 carries ids only. Each change of state is a conditional update
guarded by the row's fence, so a worker that lost its lease writes nothing.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import models, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.users import User
from memories.models.generate.backfills import Backfill
from memories.models.generate.job_queries import JobQuerySet
from memories.models.generate.job_states import OPEN, UNFINISHED, JobState
from memories.models.generate.segments import Segment
from memories.models.memory.memories import Memory
from memories.models.memory.versions import MemoryVersion
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import (
    MAX_MODEL_NAME,
    PromptForm,
    Reply,
    RequestStrategy,
    SummariserError,
    Usage,
)

KEEPS_REPLY = ("unexpected", "not_closed")  # faults of the hub: the reply itself is good
REBUILD = "rebuild"  # the trigger of a job that makes a long-term memory anew
MAX_CLOSINGS = 10  # of one saved reply, in case each one ends its worker


class Job(models.Model):
    """A wanted output. The input key is unique: the same inputs are never paid for twice."""

    State = JobState
    UNFINISHED, OPEN = UNFINISHED, OPEN

    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="jobs")
    segment = models.ForeignKey(
        Segment, on_delete=models.CASCADE, related_name="jobs", null=True, blank=True
    )
    base = models.ForeignKey(
        MemoryVersion, on_delete=models.SET_NULL, related_name="+", null=True, blank=True
    )
    inputs = models.ManyToManyField(MemoryVersion, through="JobInput", related_name="merges")
    backfill = models.ForeignKey(
        Backfill, on_delete=models.SET_NULL, related_name="jobs", null=True, blank=True
    )
    provisional = models.BooleanField(_("provisional"), default=False)
    as_of_us = models.BigIntegerField()
    input_key = models.CharField(max_length=64, unique=True)
    trigger = models.JSONField(_("why"), default=dict, blank=True)
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.WAITING)
    fence = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    # Claims that ended without an answer, because the worker died. Such a job runs alone.
    workers_lost = models.PositiveSmallIntegerField(_("workers lost"), default=0)
    # How the next call sends the request: whole, split, or in search of the refused message.
    strategy = models.CharField(
        max_length=10,
        choices=[(w.value, w.value) for w in RequestStrategy],
        default=RequestStrategy.WHOLE.value,
    )
    # The prompt form of the next call; "" is the endpoint's own.
    form = models.CharField(
        max_length=10, choices=[(f.value, f.value) for f in PromptForm], blank=True, default=""
    )
    # When the endpoint last gave no answer. Jobs without such a failure go first.
    failed_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    retry_at = models.DateTimeField(_("next try at"), null=True, blank=True)
    reply = models.JSONField(null=True, blank=True)
    # The keys of the messages behind each reference of the reply, from reference 1 on.
    reply_sources = models.JSONField(default=list, blank=True)
    fault = models.CharField(_("fault"), max_length=40, blank=True)
    fault_text = models.TextField(_("outcome"), blank=True)
    model = models.CharField(_("model"), max_length=MAX_MODEL_NAME, blank=True)
    prompt_version = models.CharField(_("prompt"), max_length=60, blank=True)
    prompt_tokens = models.PositiveIntegerField(_("tokens in"), default=0)
    completion_tokens = models.PositiveIntegerField(_("tokens out"), default=0)
    calls = models.PositiveIntegerField(_("calls"), default=0)
    seconds = models.FloatField(_("seconds"), default=0)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        indexes = [
            # For JobQuerySet.claimable and in_progress.
            models.Index(
                fields=["memory", "state"],
                name="job_unfinished",
                condition=Q(state__in=["waiting", "claimed", "replied"]),
            ),
            # For the counts on every page. With parameters, SQLite takes no index that is limited to
            # a list of states.
            models.Index(fields=["state", "-id"], name="job_state"),
            # For JobQuerySet.over_budget, which the banner of every page reads.
            models.Index(
                fields=["retry_at"],
                name="job_over_budget",
                condition=Q(state="waiting", fault="over_budget"),
            ),
        ]
        verbose_name = _("job")
        verbose_name_plural = _("jobs")

    def __str__(self) -> str:
        return f"job {self.pk}"

    @property
    def is_rebuild(self) -> bool:
        """Whether it makes a long-term memory anew. Such a text is saved with a person's approval."""
        return bool(self.trigger.get("reason") == REBUILD)

    @property
    def saved_reply(self) -> Reply | None:
        data: dict[str, Any] | None = self.reply
        return Reply.from_json(data) if data else None

    def add_inputs(self, versions: Sequence[MemoryVersion]) -> None:
        JobInput.objects.bulk_create(
            JobInput(job=self, version=version, revision=version.revision) for version in versions
        )

    # A worker's changes. The fence guards them: without the lease they change nothing.

    def _own_row(self, *states: JobState) -> JobQuerySet:
        return Job.objects.filter(pk=self.pk, fence=self.fence, state__in=states)

    def claim(self, now: datetime, lease: timedelta) -> bool:
        """Take the job. The attempt counts at once, so that a kill counts. False: it was taken."""
        lost = int(self.state == self.State.CLAIMED)
        rows = Job.objects.claimable(now).filter(pk=self.pk, fence=self.fence, state=self.state)
        is_claimed = rows.order_by().update(
            state=self.State.CLAIMED,
            fence=F("fence") + 1,
            attempts=F("attempts") + 1,
            workers_lost=F("workers_lost") + lost,
            lease_until=now + lease,
            retry_at=None,
        )
        if is_claimed:  # set by hand: refresh_from_db would drop the related rows
            self.state = self.State.CLAIMED
            self.fence += 1
            self.attempts += 1
            self.workers_lost += lost
            self.lease_until, self.retry_at = now + lease, None
        return bool(is_claimed)

    def renew(self, now: datetime, lease: timedelta) -> bool:
        """Extend the lease. False when it was lost."""
        return bool(self._own_row(self.State.CLAIMED).update(lease_until=now + lease))

    def release(
        self, code: str, text: str, until: datetime | None, *, failed_at: datetime | None = None
    ) -> None:
        """Put the job back because no call was possible. The attempt does not count.

        ``failed_at``: when the endpoint gave no answer, so that other jobs go first.
        """
        failure = {"failed_at": failed_at, "workers_lost": 0} if failed_at else {}
        self._wait(code, text, until, attempts=F("attempts") - 1, **failure)

    def retry_later(
        self,
        error: SummariserError,
        at: datetime,
        strategy: RequestStrategy,
        form: PromptForm | None = None,
    ) -> None:
        """Put the job back after a failed call or a bad reply. The attempt counts."""
        values = {} if form is None else {"form": form}
        self._wait(
            error.code, str(error), at, strategy=strategy, reply=None, workers_lost=0, **values
        )

    def _wait(self, code: str, text: str, until: datetime | None, **values: Any) -> None:
        self._own_row(self.State.CLAIMED, self.State.REPLIED).update(
            state=self.State.WAITING,
            retry_at=until,
            fault=code,
            fault_text=text,
            lease_until=None,
            **values,
        )
        self.refresh_from_db()

    def save_reply(self, reply: Reply, sources: Sequence[Sequence[int]]) -> bool:
        """Save a paid reply before anything is made of it. False when the lease was lost.

        ``sources``: the keys of the messages behind each reference, from reference 1 on.
        """
        return bool(
            self._own_row(self.State.CLAIMED).update(
                state=self.State.REPLIED,
                reply=reply.as_json(),
                reply_sources=[list(keys) for keys in sources],
                model=reply.model,
                prompt_version=reply.prompt_version,
                prompt_tokens=F("prompt_tokens") + reply.prompt_tokens,
                completion_tokens=F("completion_tokens") + reply.completion_tokens,
                calls=F("calls") + reply.calls,
                seconds=F("seconds") + reply.seconds,
                lease_until=None,
                workers_lost=0,
                fault="",
                fault_text="",
            )
        )

    def add_usage(self, usage: Usage) -> None:
        """Count what a failed call used, without the fence: it is paid in any case."""
        Job.objects.filter(pk=self.pk).update(
            prompt_tokens=F("prompt_tokens") + usage.prompt_tokens,
            completion_tokens=F("completion_tokens") + usage.completion_tokens,
            calls=F("calls") + usage.calls,
        )

    def replace_reply(self, reply: Reply) -> None:
        """Put the offline summariser's reply in place of a bad one, whose usage stays counted."""
        model_fields = {"model": reply.model, "prompt_version": reply.prompt_version}
        self._own_row(self.State.REPLIED).update(reply=reply.as_json(), **model_fields)
        self.refresh_from_db()

    def start_closing(self) -> bool:
        """Count a try to close, before it begins. False after too many."""
        Job.objects.filter(pk=self.pk).update(workers_lost=F("workers_lost") + 1)
        self.workers_lost += 1
        return self.workers_lost <= MAX_CLOSINGS

    def delay_closing(self, error: SummariserError, until: datetime) -> None:
        """Keep the reply after an error of the hub, and close it later."""
        self._own_row(self.State.REPLIED).update(
            fault=error.code, fault_text=str(error), retry_at=until
        )
        self.refresh_from_db()

    def close(self, state: JobState, now: datetime) -> bool:
        """End as done, superseded or proposed. Call it inside the closing transaction."""
        closed = self._own_row(self.State.CLAIMED, self.State.REPLIED, self.State.PROPOSED).update(
            state=state, lease_until=None, retry_at=None, workers_lost=0, finished_at=now
        )
        if closed and state == self.State.DONE and self.memory.memory_type == MemoryType.LONG_TERM:
            # A version that was rewritten since this job read it is still to be merged.
            read = self.input_rows.filter(revision=F("version__revision"))
            MemoryVersion.objects.filter(pk__in=read.values("version")).update(merged=True)
        return bool(closed)

    def dead_letter(
        self, error: SummariserError, now: datetime, among: JobQuerySet | None = None
    ) -> bool:
        """Give up, with the reason. ``among``: only if the row is still one of these."""
        rows = Job.objects.all() if among is None else among
        states = (self.State.CLAIMED, self.State.REPLIED)
        is_dead = rows.filter(pk=self.pk, fence=self.fence, state__in=states).update(
            state=self.State.DEAD,
            fault=error.code,
            fault_text=str(error),
            lease_until=None,
            retry_at=None,
            fence=F("fence") + 1,
            finished_at=now,
        )
        self.refresh_from_db()
        return bool(is_dead)

    def rebase(self, base: MemoryVersion | None) -> None:
        """Set the text that a proposal replaces."""
        if base is not None and base.pk != self.base_id:
            self.base = base
            Job.objects.filter(pk=self.pk).update(base=base)

    def reject(self, by: User | None) -> bool:
        """Reject the proposed text. What it read is merged by the next job."""
        is_rejected = self._own_row(self.State.PROPOSED).update(
            state=self.State.REJECTED, finished_at=timezone.now()
        )
        if is_rejected:
            self._record("proposal_reject", by)
        return bool(is_rejected)

    # A person's changes, and those of planning

    @transaction.atomic
    def retry(self, by: User | None = None) -> bool:
        """Reopen a dead or cancelled job. A good reply is closed again, not paid again."""
        if self.reply and self.fault in KEEPS_REPLY:
            dead = Job.objects.filter(pk=self.pk, state=self.State.DEAD)
            is_reopened = bool(dead.reopen(self.State.REPLIED)) or self.reopen(self.State.CANCELLED)
        else:
            is_reopened = self.reopen(self.State.DEAD, self.State.CANCELLED)
        if is_reopened:
            self._record("job_retry", by)
        return is_reopened

    def reopen(self, *states: JobState) -> bool:
        """Begin it again without its reply, if it is in one of these states."""
        rows = Job.objects.filter(pk=self.pk, state__in=states)
        return bool(rows.reopen(reply=None, strategy=RequestStrategy.WHOLE, form=""))

    @transaction.atomic
    def cancel(self, by: User | None = None) -> bool:
        """Cancel a waiting job. A running one goes on, as it is paid."""
        is_cancelled = bool(Job.objects.filter(pk=self.pk, state=self.State.WAITING).cancel())
        if is_cancelled:
            self._record("job_cancel", by)
        return is_cancelled

    def _record(self, action: str, by: User | None) -> None:
        workspace = self.memory.workspace
        AuditEvent.objects.record(action, by=by, workspace=workspace, subject=str(self))


class JobInput(models.Model):
    """A version that a merge reads, with its revision at that time."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="input_rows")
    version = models.ForeignKey(MemoryVersion, on_delete=models.CASCADE, related_name="read_by")
    revision = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "version"], name="input_once"),
        ]

    def __str__(self) -> str:
        return f"{self.version_id} in {self.job_id}"
