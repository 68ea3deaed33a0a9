"""Which jobs are open, whose turn it is, and what waits for what (docs/rules.md, Jobs)."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Case, F, Q, When
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.access.readers import AudienceQuerySet, Reader
from memories.models.access.workspaces import Workspace
from memories.models.generate.backfills import Backfill
from memories.models.ingest.channels import Channel
from memories.models.memory.memories import Memory
from memories.rules.generate.breaker import Refusal
from memories.rules.generate.faults import MOST_ATTEMPTS, POLICIES, Then
from memories.rules.memory.identity import MemoryScope

if TYPE_CHECKING:
    from memories.models.generate.jobs import Job  # noqa: F401  # named in a string


class JobState(models.TextChoices):
    WAITING = "waiting", _("waiting")
    CLAIMED = "claimed", _("running")
    REPLIED = "replied", _("answered, not yet saved")
    DONE = "done", _("done")
    SUPERSEDED = "superseded", _("made again from a newer text")
    PROPOSED = "proposed", _("waits for a person's word")
    REJECTED = "rejected", _("rejected by a person")
    CANCELLED = "cancelled", _("cancelled")
    DEAD = "dead", _("given up")


UNFINISHED = (JobState.WAITING, JobState.CLAIMED, JobState.REPLIED)
OPEN = (*UNFINISHED, JobState.PROPOSED)


def worker_is_gone(now: datetime) -> Q:
    """Claimed, and the lease ran out."""
    return Q(state=JobState.CLAIMED, lease_until__lt=now)


def _not_held(now: datetime) -> Q:
    return Q(not_before=None) | Q(not_before__lte=now)


class JobQuerySet(AudienceQuerySet["Job"]):
    def saying_who_reads(self, reader: Reader) -> "JobQuerySet":
        """All rows, with ``is_readable``: facts of operation are for more people than texts are."""
        readable = self.model.objects.visible_to(reader).filter(pk=models.OuterRef("pk"))
        return self.annotate(is_readable=models.Exists(readable))

    def shown_to(self, reader: Reader) -> "JobQuerySet":
        """Whoever runs the installation sees that a job is there, others only what they may read;
        each row says ``is_readable``."""
        if reader.reads_all_public:
            return self.saying_who_reads(reader)
        return self.visible_to(reader).annotate(is_readable=models.Value(True))  # noqa: FBT003

    def of_workspace(self, workspace: Workspace) -> "JobQuerySet":
        return self.filter(memory__workspace=workspace)

    def listed_in(self, workspace: Workspace) -> "JobQuerySet":
        """The same, for lists in the order of their keys. SQLite begins a join with the memories and
        then sorts all their jobs; an EXISTS leaves it the indexes by state and key."""
        memories = Memory.objects.filter(pk=models.OuterRef("memory"), workspace=workspace)
        return self.filter(models.Exists(memories))

    def of_channel(self, channel: Channel) -> "JobQuerySet":
        return self.filter(memory__channel=channel)

    def with_memory(self) -> "JobQuerySet":
        """With all that asking and closing read of what the row belongs to."""
        return self.select_related(
            "memory__channel", "memory__current", "memory__workspace", "segment", "base"
        )

    def unfinished(self) -> "JobQuerySet":
        return self.filter(state__in=UNFINISHED)

    def rebuilds(self) -> "JobQuerySet":
        return self.filter(trigger__reason="rebuild")

    def without_rebuilds(self) -> "JobQuerySet":
        """A subquery: to `exclude` by a JSON key loses rows that lack it."""
        return self.exclude(pk__in=self.model.objects.rebuilds().values("pk"))

    def not_held(self, now: datetime) -> "JobQuerySet":
        return self.filter(_not_held(now))

    def claimable(self, now: datetime) -> "JobQuerySet":
        """Waiting and not held back, or claimed by a worker whose lease ran out. Everyday
        work comes before a backfill's, and what lost a worker last.

        No join: a claim is an update with this filter, and must see each row as it is then.
        """
        running = Backfill.objects.filter(state=Backfill.State.RUNNING)
        return self.filter(
            Q(state=JobState.WAITING) & _not_held(now)
            | worker_is_gone(now) & Q(attempts__lt=MOST_ATTEMPTS),
            Q(backfill=None) | Q(backfill__in=running.values("pk")),
        ).order_by(
            F("backfill").asc(nulls_first=True),
            F("lost") + Case(When(state=JobState.CLAIMED, then=1), default=0),
            F("failed_at").asc(
                nulls_first=True
            ),  # so one that cannot be answered is no probe twice
            "pk",
        )

    def soonest(self, now: datetime) -> datetime | None:
        """When the next one may be asked or closed that is held back now."""
        held_back = self.filter(not_before__gt=now, state__in=UNFINISHED)
        return held_back.order_by("not_before").values_list("not_before", flat=True).first()

    def exhausted(self, now: datetime) -> "JobQuerySet":
        """Claimed as often as allowed, and each worker went away without a word."""
        return self.filter(worker_is_gone(now), attempts__gte=MOST_ATTEMPTS)

    def left_behind(self, now: datetime) -> "JobQuerySet":
        """Claims and replies that a worker did not bring to their end, and that are nobody's now."""
        replied = Q(state=JobState.REPLIED)
        return self.not_held(now).filter(worker_is_gone(now) | replied)

    def over_cap(self) -> "JobQuerySet":
        return self.filter(state=JobState.WAITING, fault="over_cap")

    def refused(self) -> "JobQuerySet":
        """What the endpoint would not take, whatever it was."""
        waits = [code for code, policy in POLICIES.items() if policy.then is Then.WAIT] + [*Refusal]
        return self.filter(state=JobState.WAITING, fault__in=waits)

    def ask_again(self) -> int:
        """Whatever held these back is gone."""
        return self.update(not_before=None)

    def take_back(self) -> int:
        """Ask anew, for what these were shown is gone: the answer that is under way, or was saved, is
        for nobody. What waits for a person's word is owed again by what it would have taken in."""
        anew = {"fence": F("fence") + 1, "reply": None, "attempts": 0, "lease_until": None}
        states = (JobState.CLAIMED, JobState.REPLIED)
        done = self.filter(state__in=states).update(state=JobState.WAITING, not_before=None, **anew)
        done += self.filter(state=JobState.PROPOSED).update(state=JobState.SUPERSEDED, **anew)
        return done

    def proposed(self) -> "JobQuerySet":
        return self.filter(state=JobState.PROPOSED)

    def unsettled(self, now: datetime) -> "JobQuerySet":
        """Will go on by itself soon: merges wait for it. What is held back is not waited for, nor
        what waits for its turn behind such."""
        held_back = (
            self.model.objects.unfinished().filter(not_before__gt=now).exclude(fault="over_cap")
        )
        behind = Q(state=JobState.REPLIED) & models.Exists(held_back.before_in_memory())
        going_on = self.unfinished().exclude(not_before__gt=now).exclude(behind)
        return going_on.exclude(pk__in=self.set_aside(now).values("pk"))

    def set_aside(self, now: datetime) -> "JobQuerySet":
        """Waits for a person's word or for money, perhaps for long: nothing waits for it."""
        paused = Q(backfill__state=Backfill.State.PAUSED) & (
            Q(state=JobState.WAITING) | worker_is_gone(now)
        )
        over_cap = Q(state=JobState.WAITING, fault="over_cap", not_before__gt=now)
        return self.filter(paused | over_cap)

    # Changes of several rows at once; the fence lets nobody go on who worked on one of them.

    def end(self, state: JobState) -> int:
        """These are not made any more: cancelled, or superseded by what is owed instead."""
        return self.update(state=state, fence=F("fence") + 1, finished_at=timezone.now())

    def offer(self, state: JobState = JobState.WAITING, **values: Any) -> int:
        """Begin these again, with all their attempts."""
        return self.update(
            state=state,
            attempts=0,
            lost=0,
            not_before=None,
            finished_at=None,
            fence=F("fence") + 1,
            **values,
        )

    def before_in_memory(self) -> "JobQuerySet":
        """Those of an outer row's memory whose segments come before its own; of the same segment,
        those asked earlier: what was asked before an edit is never the last word."""
        return self.filter(
            Q(segment__number__lt=models.OuterRef("segment__number"))
            | Q(segment=models.OuterRef("segment"), pk__lt=models.OuterRef("pk")),
            memory=models.OuterRef("memory"),
        )

    def in_turn(self, now: datetime) -> "JobQuerySet":
        """Short-term replies of a channel are saved in the order of their segments (rule 4): those
        for which it is the turn. Merges and threads always are."""
        aside = self.model.objects.set_aside(now).values("pk")
        earlier = self.model.objects.unfinished().exclude(pk__in=aside).before_in_memory()
        free = Q(segment=None) | ~Q(memory__scope=MemoryScope.CHANNEL)
        return self.filter(free | ~models.Exists(earlier))
