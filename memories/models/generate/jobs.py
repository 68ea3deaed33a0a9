"""Jobs: one row per wanted model output, the truth about jobs (docs/rules.md, Jobs).

django-q2 only carries ids. Claiming, failing and finishing are conditional updates of this row,
guarded by its fence, so a worker that comes back from the dead writes nothing.
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
from memories.models.generate.job_queries import OPEN, UNFINISHED, JobQuerySet, JobState
from memories.models.generate.segments import Segment
from memories.models.memory.memories import Memory
from memories.models.memory.versions import MemoryVersion
from memories.rules.generate.summariser import (
    PromptForm,
    Reply,
    RequestStrategy,
    SummariserError,
    Usage,
)
from memories.rules.memory.identity import MemoryType

KEEPS_REPLY = ("unexpected", "not_closed")  # faults of ours: the reply itself is good
REBUILD = "rebuild"  # the reason of a job that makes a long-term memory anew
MOST_CLOSINGS = 10  # of one saved reply: what kills its worker each time is not tried for ever


class Job(models.Model):
    """One wanted output. Its input key is unique: the same inputs are never paid for twice."""

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
    # Claims whose worker went away without a word: then it is worked on alone.
    lost = models.PositiveSmallIntegerField(_("workers lost"), default=0)
    # How the next call asks: whole, split, or in search of the message that is refused.
    way = models.CharField(
        max_length=10,
        choices=[(w.value, w.value) for w in RequestStrategy],
        default=RequestStrategy.WHOLE.value,
    )
    # The prompt form of the next call; "" is the one that the endpoint's probe picked.
    form = models.CharField(
        max_length=10, choices=[(f.value, f.value) for f in PromptForm], blank=True, default=""
    )
    # When the endpoint last gave it no answer. Others that failed less lately go first.
    failed_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(_("not before"), null=True, blank=True)
    reply = models.JSONField(null=True, blank=True)
    # What each ref of the reply stands for, as keys of messages: refs count within one request.
    cites = models.JSONField(default=list, blank=True)
    fault = models.CharField(_("fault"), max_length=40, blank=True)
    fault_text = models.TextField(_("what happened"), blank=True)
    model = models.CharField(_("model"), max_length=100, blank=True)
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
            # JobQuerySet.claimable and unsettled.
            models.Index(
                fields=["memory", "state"],
                name="job_unfinished",
                condition=Q(state__in=["waiting", "claimed", "replied"]),
            ),
            # Failed jobs, which every page counts, and what runs or waits. Of several states: with
            # parameters SQLite takes no index that is limited to a list of them.
            models.Index(fields=["state", "-id"], name="job_state"),
            # JobQuerySet.over_cap, which the banner of every page reads.
            models.Index(
                fields=["not_before"],
                name="job_over_cap",
                condition=Q(state="waiting", fault="over_cap"),
            ),
        ]
        verbose_name = _("job")
        verbose_name_plural = _("jobs")

    def __str__(self) -> str:
        return f"job {self.pk}"

    @property
    def is_rebuild(self) -> bool:
        """Whether it makes a long-term memory anew; its text is never saved without a person."""
        return bool(self.trigger.get("reason") == REBUILD)

    def claim(self, now: datetime, lease: timedelta) -> bool:
        """Take it, counting the attempt at once so that a kill counts. False: another has it."""
        lost = int(self.state == self.State.CLAIMED)
        won = (
            Job.objects.claimable(now)
            .filter(pk=self.pk, fence=self.fence, state=self.state)
            .order_by()
            .update(
                state=self.State.CLAIMED,
                fence=F("fence") + 1,
                attempts=F("attempts") + 1,
                lost=F("lost") + lost,
                lease_until=now + lease,
                not_before=None,
            )
        )
        if won:  # as the row is now; reading it again would forget what was read along with it
            self.state = self.State.CLAIMED
            self.fence += 1
            self.attempts += 1
            self.lost += lost
            self.lease_until, self.not_before = now + lease, None
        return bool(won)

    def _own_row(self, *states: JobState) -> JobQuerySet:
        return Job.objects.filter(pk=self.pk, fence=self.fence, state__in=states)

    def renew(self, now: datetime, lease: timedelta) -> bool:
        """Keep it for longer: its worker still waits for an answer. False when it was lost."""
        return bool(self._own_row(self.State.CLAIMED).update(lease_until=now + lease))

    def save_reply(self, reply: Reply, cites: Sequence[Sequence[int]]) -> bool:
        """Keep what was paid for before anything is made of it. False when the lease was lost."""
        return bool(
            self._own_row(self.State.CLAIMED).update(
                state=self.State.REPLIED,
                reply=reply.as_json(),
                cites=[list(keys) for keys in cites],
                model=reply.model,
                prompt_version=reply.prompt_version,
                prompt_tokens=F("prompt_tokens") + reply.prompt_tokens,
                completion_tokens=F("completion_tokens") + reply.completion_tokens,
                calls=F("calls") + reply.calls,
                seconds=F("seconds") + reply.seconds,
                lease_until=None,
                lost=0,
                fault="",
                fault_text="",
            )
        )

    def spent(self, usage: Usage) -> None:
        """What a claim that failed had used: it is paid, whoever holds the row by now."""
        Job.objects.filter(pk=self.pk).update(
            prompt_tokens=F("prompt_tokens") + usage.prompt_tokens,
            completion_tokens=F("completion_tokens") + usage.completion_tokens,
            calls=F("calls") + usage.calls,
        )

    def rebase(self, base: MemoryVersion | None) -> None:
        """The text that its own will replace."""
        if base is not None and base.pk != self.base_id:
            self.base = base
            Job.objects.filter(pk=self.pk).update(base=base)

    def begin_closing(self) -> bool:
        """Count it beforehand, as a claim does. False: too many workers ended over this reply."""
        Job.objects.filter(pk=self.pk).update(lost=F("lost") + 1)
        self.lost += 1
        return self.lost <= MOST_CLOSINGS

    def put_back(self, why: str, text: str, until: datetime | None) -> None:
        """It could not be asked now, and that is not its fault: the attempt does not count."""
        self._wait(why, text, until, attempts=F("attempts") - 1)

    def not_answered(self, error: SummariserError, now: datetime, until: datetime) -> None:
        """The endpoint gave no answer, and that is not its fault: the attempt does not count, and
        others go first."""
        self._wait(error.code, str(error), until, attempts=F("attempts") - 1, failed_at=now, lost=0)

    def try_again(
        self,
        error: SummariserError,
        at: datetime,
        way: RequestStrategy,
        form: PromptForm | None = None,
    ) -> None:
        """The answer failed, or was no good: another try, in this way and form, not before that."""
        values = {} if form is None else {"form": form}
        self._wait(error.code, str(error), at, way=way, reply=None, lost=0, **values)

    def stand_in(self, reply: Reply) -> None:
        """The offline highlights, in place of a model's answer that was no good. What that cost
        stays counted."""
        model_fields = {"model": reply.model, "prompt_version": reply.prompt_version}
        self._own_row(self.State.REPLIED).update(reply=reply.as_json(), **model_fields)
        self.refresh_from_db()

    def _wait(self, why: str, text: str, until: datetime | None, **values: Any) -> None:
        self._own_row(self.State.CLAIMED, self.State.REPLIED).update(
            state=self.State.WAITING,
            not_before=until,
            fault=why,
            fault_text=text,
            lease_until=None,
            **values,
        )
        self.refresh_from_db()

    def keep_reply(self, error: SummariserError, until: datetime) -> None:
        """An error of ours while closing: what was paid for stays, and is tried again later."""
        self._own_row(self.State.REPLIED).update(
            fault=error.code, fault_text=str(error), not_before=until
        )
        self.refresh_from_db()

    def dead_letter(self, error: SummariserError, now: datetime) -> bool:
        """Give up what no worker brought to its end, unless one has come back since it was seen."""
        rows = Job.objects.filter(state=self.state, lost=self.lost)
        if self.state == self.State.CLAIMED:
            rows = Job.objects.exhausted(now)
        return self.give_up(error, now, rows)

    def give_up(
        self, error: SummariserError, now: datetime, among: JobQuerySet | None = None
    ) -> bool:
        """A dead letter, with its reason; `retry` offers it again."""
        rows = Job.objects.all() if among is None else among
        states = (self.State.CLAIMED, self.State.REPLIED)
        done = rows.filter(pk=self.pk, fence=self.fence, state__in=states).update(
            state=self.State.DEAD,
            fault=error.code,
            fault_text=str(error),
            lease_until=None,
            not_before=None,
            fence=F("fence") + 1,
            finished_at=now,
        )
        self.refresh_from_db()
        return bool(done)

    def close(self, state: JobState, now: datetime) -> bool:
        """Done, superseded or proposed, by whoever holds the fence. Call it inside the closing
        transaction."""
        closed = self._own_row(self.State.CLAIMED, self.State.REPLIED, self.State.PROPOSED).update(
            state=state, lease_until=None, not_before=None, lost=0, finished_at=now
        )
        if closed and state == self.State.DONE and self.memory.memory_type == MemoryType.LONG_TERM:
            # What was rewritten since it was read stays owed.
            read = self.read.filter(revision=F("version__revision"))
            MemoryVersion.objects.filter(pk__in=read.values("version")).update(merged=True)
        return bool(closed)

    @transaction.atomic
    def retry(self, by: User | None = None) -> bool:
        """Offer again what was given up or cancelled. A reply that was paid for is closed again,
        not paid again. False when there is nothing of the kind."""
        kept = self.State.REPLIED if self.reply and self.fault in KEEPS_REPLY else None
        done = self._offer_again(self.State.DEAD, to=kept) or self._offer_again(
            self.State.CANCELLED
        )
        if done:
            if self.segment is not None:
                self.segment.settle_read(Segment.Outcome.WAITING, Segment.Outcome.CANCELLED)
            self._record("job_retry", by)
        return done

    def want_again(self) -> bool:
        """Offer a superseded one again: the very same is wanted once more."""
        return self._offer_again(self.State.SUPERSEDED)

    def make_again(self) -> bool:
        """Offer again what was made: its text was taken away, for it rested on something else too."""
        return self.want_again() or self._offer_again(self.State.DONE)

    @transaction.atomic
    def cancel(self, by: User | None = None) -> bool:
        """Do not make it; its messages count as left out by a person until `retry`. False when it
        does not wait: what runs is paid, and is saved."""
        waiting = Job.objects.filter(pk=self.pk, state=self.State.WAITING)
        done = waiting.end(self.State.CANCELLED)
        if done:
            if self.segment is not None:
                self.segment.settle_read(Segment.Outcome.CANCELLED, Segment.Outcome.WAITING)
            self._record("job_cancel", by)
        return bool(done)

    def reject(self, by: User | None) -> bool:
        """The proposed text is not wanted; what it would have taken in stays owed to the next."""
        done = self._own_row(self.State.PROPOSED).update(
            state=self.State.REJECTED, finished_at=timezone.now()
        )
        if done:
            self._record("proposal_reject", by)
        return bool(done)

    def _record(self, action: str, by: User | None) -> None:
        workspace = self.memory.workspace
        AuditEvent.objects.record(action, by=by, workspace=workspace, subject=str(self))

    def _offer_again(self, state: JobState, to: JobState | None = None) -> bool:
        values: dict[str, Any] = (
            {} if to else {"reply": None, "way": RequestStrategy.WHOLE, "form": ""}
        )
        rows = Job.objects.filter(pk=self.pk, state=state)
        return bool(rows.offer(to or self.State.WAITING, **values))

    def take_inputs(self, versions: Sequence[MemoryVersion]) -> None:
        JobInput.objects.bulk_create(
            JobInput(job=self, version=version, revision=version.revision) for version in versions
        )

    @property
    def saved_reply(self) -> Reply | None:
        data: dict[str, Any] | None = self.reply
        return Reply.from_json(data) if data else None


class JobInput(models.Model):
    """A version that a merge reads, in the wording it had then."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="read")
    version = models.ForeignKey(MemoryVersion, on_delete=models.CASCADE, related_name="read_by")
    revision = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "version"], name="input_once"),
        ]

    def __str__(self) -> str:
        return f"{self.version_id} in {self.job_id}"
