"""Querysets of jobs: who may read them, which are due, and their order (docs/rules.md, Jobs)."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Case, Exists, F, OuterRef, Q, When
from django.utils import timezone

from memories.models.access.readers import OUTER_ROW, AudienceQuerySet, Reader
from memories.models.access.workspaces import Workspace
from memories.models.generate.backfills import Backfill
from memories.models.generate.job_states import UNFINISHED, JobState
from memories.models.generate.segments import Segment
from memories.models.ingest.channels import Channel
from memories.models.memory.memories import Memory
from memories.rules.generate.circuit_breaker import Refusal
from memories.rules.generate.faults import MAX_ATTEMPTS, POLICIES, Action
from memories.rules.memory.identity import MemoryScope

if TYPE_CHECKING:
    from memories.models.generate.jobs import Job  # noqa: F401  # for the annotation "Job"


def _lease_expired(now: datetime) -> Q:
    return Q(state=JobState.CLAIMED, lease_until__lt=now)


def _is_due(now: datetime) -> Q:
    return Q(retry_at=None) | Q(retry_at__lte=now)


class JobQuerySet(AudienceQuerySet["Job"]):
    def with_is_readable(self, reader: Reader) -> "JobQuerySet":
        """Annotate ``is_readable``: more people may see that a job exists than may read its texts."""
        readable = self.model.objects.visible_to(reader).filter(OUTER_ROW)
        return self.annotate(is_readable=Exists(readable))

    def shown_to(self, reader: Reader) -> "JobQuerySet":
        """Return all jobs for operators, readable jobs for others, with ``is_readable``."""
        if reader.reads_all_public:
            return self.with_is_readable(reader)
        return self.visible_to(reader).annotate(is_readable=models.Value(True))  # noqa: FBT003

    def first_shown_to(self, reader: Reader, limit: int) -> "list[Job]":
        """Return the first jobs of a list in an order that the reader may see, as `shown_to`.

        Who may read a job is an expensive rule, and PostgreSQL checks all rows of a list before it
        sorts them. So the first five times ``limit`` jobs are checked, and all only if too few remain.
        """
        checked = 5 * limit
        keys = list(self.values_list("pk", flat=True)[: checked + 1])
        if not keys:
            return []
        shown = self.shown_to(reader)
        jobs = list(shown.filter(pk__in=keys[:checked])[:limit])
        return list(shown[:limit]) if len(jobs) < limit and len(keys) > checked else jobs

    def of_workspace(self, workspace: Workspace) -> "JobQuerySet":
        return self.filter(memory__workspace=workspace)

    def listed_in(self, workspace: Workspace | int) -> "JobQuerySet":
        """Return the same rows as `of_workspace`, for lists in the order of their keys.

        SQLite begins a join with the memories and sorts all their jobs. An EXISTS leaves it the
        indexes by state and key.
        """
        memories = Memory.objects.filter(pk=OuterRef("memory"), workspace=workspace)
        return self.filter(Exists(memories))

    def of_channel(self, channel: Channel) -> "JobQuerySet":
        return self.filter(memory__channel=channel)

    def with_memory(self) -> "JobQuerySet":
        """Select the related rows that calling a model and closing read."""
        return self.select_related(
            "memory__channel", "memory__current", "memory__workspace", "segment", "base"
        )

    def unfinished(self) -> "JobQuerySet":
        return self.filter(state__in=UNFINISHED)

    def proposed(self) -> "JobQuerySet":
        return self.filter(state=JobState.PROPOSED)

    def rebuilds(self) -> "JobQuerySet":
        return self.filter(trigger__reason="rebuild")

    def without_rebuilds(self) -> "JobQuerySet":
        # A subquery: to `exclude` by a JSON key loses rows that lack it.
        return self.exclude(pk__in=self.model.objects.rebuilds().values("pk"))

    # Which may be claimed or closed now

    def due(self, now: datetime) -> "JobQuerySet":
        """Return jobs without a pause, or whose pause is over."""
        return self.filter(_is_due(now))

    def claimable(self, now: datetime) -> "JobQuerySet":
        """Return waiting jobs that are due, and claimed ones whose lease expired.

        A backfill's jobs come after all others, and jobs that lost a worker last. No join: a claim is
        an update with this filter, and must see each row as it is then.
        """
        running = Backfill.objects.filter(state=Backfill.State.RUNNING)
        return self.filter(
            Q(state=JobState.WAITING) & _is_due(now)
            | _lease_expired(now) & Q(attempts__lt=MAX_ATTEMPTS),
            Q(backfill=None) | Q(backfill__in=running.values("pk")),
        ).order_by(
            F("backfill").asc(nulls_first=True),
            F("workers_lost") + Case(When(state=JobState.CLAIMED, then=1), default=0),
            # A job that always fails is not the breaker's trial call twice in a row.
            F("failed_at").asc(nulls_first=True),
            "pk",
        )

    def next_due_at(self, now: datetime) -> datetime | None:
        """Return when the next paused job becomes due."""
        paused = self.filter(retry_at__gt=now, state__in=UNFINISHED)
        return paused.order_by("retry_at").values_list("retry_at", flat=True).first()

    def exhausted(self, now: datetime) -> "JobQuerySet":
        """Return jobs whose last allowed claim expired: each worker ended without an answer."""
        return self.filter(_lease_expired(now), attempts__gte=MAX_ATTEMPTS)

    def abandoned(self, now: datetime) -> "JobQuerySet":
        """Return claims and replies that no worker works on any more."""
        return self.due(now).filter(_lease_expired(now) | Q(state=JobState.REPLIED))

    def over_budget(self) -> "JobQuerySet":
        return self.filter(state=JobState.WAITING, fault="over_budget")

    def refused_by_endpoint(self) -> "JobQuerySet":
        """Return jobs that wait because the endpoint takes no call at all."""
        faults = [code for code, policy in POLICIES.items() if policy.action is Action.WAIT]
        return self.filter(state=JobState.WAITING, fault__in=[*faults, *Refusal])

    def in_progress(self, now: datetime) -> "JobQuerySet":
        """Return jobs that a merge waits for. Paused jobs are not, nor replies queued behind them."""
        paused = self.model.objects.unfinished().filter(retry_at__gt=now)
        earlier = paused.exclude(fault="over_budget").earlier_in_memory()
        is_behind = Q(state=JobState.REPLIED) & Exists(earlier)
        active = self.unfinished().exclude(retry_at__gt=now).exclude(is_behind)
        return active.exclude(pk__in=self.on_hold(now).values("pk"))

    def on_hold(self, now: datetime) -> "JobQuerySet":
        """Return jobs of a paused backfill or over a budget: no other job waits for them."""
        of_paused_backfill = Q(backfill__state=Backfill.State.PAUSED) & (
            Q(state=JobState.WAITING) | _lease_expired(now)
        )
        over_budget = Q(state=JobState.WAITING, fault="over_budget", retry_at__gt=now)
        return self.filter(of_paused_backfill | over_budget)

    def earlier_in_memory(self) -> "JobQuerySet":
        """Return jobs of the outer row's memory that come before it.

        Earlier segments come first. Within a segment the older job does, so the text after an edit
        is saved last.
        """
        return self.filter(
            Q(segment__number__lt=OuterRef("segment__number"))
            | Q(segment=OuterRef("segment"), pk__lt=OuterRef("pk")),
            memory=OuterRef("memory"),
        )

    def closable(self, now: datetime) -> "JobQuerySet":
        """Return jobs whose turn it is: a channel's segments are saved in their order (rule 4)."""
        on_hold = self.model.objects.on_hold(now).values("pk")
        earlier = self.model.objects.unfinished().exclude(pk__in=on_hold).earlier_in_memory()
        has_no_order = Q(segment=None) | ~Q(memory__scope=MemoryScope.CHANNEL)
        return self.filter(has_no_order | ~Exists(earlier))

    # Changes of several rows. Each raises the fence, so a worker of such a row writes nothing.

    def make_due(self) -> None:
        self.update(retry_at=None)

    def restart(self) -> None:
        """Discard running calls and saved replies, whose prompts held text that is removed now.

        A proposal is superseded: what it read is merged again.
        """
        values = {"fence": F("fence") + 1, "reply": None, "attempts": 0, "lease_until": None}
        called = self.filter(state__in=(JobState.CLAIMED, JobState.REPLIED))
        called.update(state=JobState.WAITING, retry_at=None, **values)
        self.proposed().update(state=JobState.SUPERSEDED, **values)

    def cancel(self) -> int:
        """Cancel these, and leave their segments out until a retry.

        Another process may claim one of them meanwhile. That one keeps its segment.
        """
        keys = list(self.values_list("pk", flat=True))
        count = self.filter(pk__in=keys)._end(JobState.CANCELLED)
        if count:
            cancelled = self.model.objects.filter(pk__in=keys, state=JobState.CANCELLED)
            segments = [job.segment for job in cancelled.select_related("segment")]
            outcome = Segment.Outcome
            Segment.objects.settle_read(segments, outcome.CANCELLED, outcome.WAITING)
        return count

    def supersede(self) -> int:
        return self._end(JobState.SUPERSEDED)

    def _end(self, state: JobState) -> int:
        return self.update(state=state, fence=F("fence") + 1, finished_at=timezone.now())

    def reopen(self, state: JobState = JobState.WAITING, **values: Any) -> int:
        """Begin these and their cancelled segments again, with all their attempts."""
        segments = [job.segment for job in self.select_related("segment")]
        count = self.update(
            state=state,
            attempts=0,
            workers_lost=0,
            retry_at=None,
            finished_at=None,
            fence=F("fence") + 1,
            **values,
        )
        if count:
            outcome = Segment.Outcome
            Segment.objects.settle_read(segments, outcome.WAITING, outcome.CANCELLED)
        return count

    def leave_finished_backfills(self, workspace: Workspace) -> None:
        """Detach jobs that wait though their backfill is over: they failed or were retried since."""
        finished = Backfill.objects.filter(workspace=workspace).exclude(
            state__in=Backfill.UNFINISHED
        )
        waiting = Q(state=JobState.WAITING) | _lease_expired(timezone.now())
        self.filter(waiting, backfill__in=finished.values("pk")).update(backfill=None)
