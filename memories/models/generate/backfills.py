"""Backfills: older history taken in on somebody's word, under a cap, with a way to stop."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import AudienceQuerySet
from memories.models.access.users import User
from memories.models.access.workspaces import Workspace
from memories.models.generate.segments import Segment
from memories.models.ingest.channels import Channel
from memories.models.ingest.messages import Message
from memories.rules.costs.money import MICROS
from memories.rules.generate.segments import Trigger
from memories.rules.generate.summary import RequestStrategy
from memories.rules.memory.identity import MemoryScope, MemoryType

if TYPE_CHECKING:
    from memories.models.generate.job_queries import JobQuerySet


class AnotherBackfill(Exception):
    """One backfill of the workspace runs or is paused; a second one would share its channels."""


class BackfillQuerySet(AudienceQuerySet["Backfill"]):
    def unfinished(self) -> "BackfillQuerySet":
        return self.filter(state__in=Backfill.UNFINISHED)

    def of_channel(self, channel: Channel) -> "Backfill | None":
        """The unfinished one that this channel belongs to."""
        return self.unfinished().filter(parts__channel=channel).first()

    @transaction.atomic
    def start(
        self,
        workspace: Workspace,
        channels: Sequence[Channel],
        *,
        since_us: int,
        until_us: int,
        quote: dict[str, Any],
        cap_tokens: int | None = None,
        cap_micros: int | None = None,
        by: User | None,
    ) -> "Backfill":
        """Move the start marks back and let passes do the rest. What an earlier one left out in
        this period is wanted again. Raises AnotherBackfill, ValueError without channels."""
        if not channels:
            raise ValueError("There is no channel to remember.")
        locked = Channel.objects.select_for_update(of=("self",)).filter(
            workspace=workspace, pk__in=[channel.pk for channel in channels]
        )
        locked_channels = list(locked.order_by("pk"))
        try:
            with transaction.atomic():
                backfill = self.create(
                    workspace=workspace,
                    since_us=since_us,
                    until_us=until_us,
                    cap_tokens=cap_tokens,
                    cap_micros=cap_micros,
                    quote=quote,
                    author=by,
                )
        except IntegrityError as error:
            raise AnotherBackfill from error
        BackfillChannel.objects.bulk_create(
            BackfillChannel(backfill=backfill, channel=channel, start_us_before=channel.start_us)
            for channel in locked_channels
        )
        for channel in locked_channels:
            backfill.reach_back(channel)
        backfill.want_again()
        backfill.record("start", by, channels=[c.pk for c in locked_channels], since_us=since_us)
        return backfill

    def finish(self, workspace: Workspace, now: datetime) -> None:
        for backfill in self.filter(workspace=workspace, state=Backfill.State.RUNNING):
            backfill.finish_if_done(now)

    def release(self, workspace: Workspace) -> None:
        """What nobody holds any more: of a finished one, what failed or was retried since is
        everyday work; while one is paused, merges are owed anew without what it made."""
        from memories.models.generate.job_queries import worker_is_gone
        from memories.models.generate.jobs import Job

        finished = self.filter(workspace=workspace).exclude(state__in=Backfill.UNFINISHED)
        fallen_back = Q(state=Job.State.WAITING) | worker_is_gone(timezone.now())
        Job.objects.filter(fallen_back, backfill__in=finished.values("pk")).update(backfill=None)
        for backfill in self.filter(workspace=workspace, state=Backfill.State.PAUSED):
            backfill.release_merges()


class Backfill(models.Model):
    """One order to remember some channels from an earlier moment on.

    ``quote`` is what it was said to cost before it began. Caps are its own; null means none.
    """

    class State(models.TextChoices):
        RUNNING = "running", _("running")
        PAUSED = "paused", _("paused")
        CANCELLED = "cancelled", _("cancelled")
        DONE = "done", _("done")

    UNFINISHED = (State.RUNNING, State.PAUSED)

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="backfills")
    since_us = models.BigIntegerField()  # 0: from each channel's first message on
    # Segments that end before this moment belong to it; later ones are everyday work.
    until_us = models.BigIntegerField()
    channels = models.ManyToManyField(Channel, through="BackfillChannel", related_name="backfills")
    cap_tokens = models.PositiveBigIntegerField(_("cap in tokens"), null=True, blank=True)
    cap_micros = models.PositiveBigIntegerField(null=True, blank=True)
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.RUNNING)
    # Why it was paused: "" by a person, "over_cap" by itself.
    paused_by = models.CharField(max_length=20, blank=True)
    quote = models.JSONField(_("quote"), default=dict, blank=True)
    author = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="backfills", null=True, blank=True
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

    objects = BackfillQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"],
                name="backfill_one_at_a_time",
                condition=Q(state__in=["running", "paused"]),
            ),
        ]
        verbose_name = _("backfill")
        verbose_name_plural = _("backfills")

    def __str__(self) -> str:
        return f"backfill {self.pk}"

    @property
    def cap_words(self) -> str:
        """As a person types it, and `rules.orders` reads it."""
        if self.cap_micros is not None:
            return f"${self.cap_micros / MICROS:.6f}".rstrip("0").rstrip(".")
        return "" if self.cap_tokens is None else str(self.cap_tokens)

    @property
    def is_unfinished(self) -> bool:
        return self.state in self.UNFINISHED

    def owns(self, segment: Segment) -> bool:
        """Whether this segment, newly cut in one of its channels, had ended when it was ordered."""
        if segment.reason == Trigger.HISTORY_OFF:  # closed by each pass
            return segment.last_us <= self.until_us
        return segment.closed_us <= self.until_us

    # Starting

    def reach_back(self, channel: Channel) -> None:
        """Move its start mark to where this backfill begins, if there is anything from there on."""
        messages = channel.messages.rememberable().filter(micros__gte=self.since_us)
        first = messages.in_order().values_list("micros", flat=True).first()
        if first is not None:
            channel.remember_from(self.since_us or first)

    def want_again(self) -> None:
        """What was cancelled in its period, by an earlier backfill or one by one, waits again."""
        from memories.models.generate.jobs import Job

        left_out = Segment.objects.filter(
            channel__in=self.parts.values("channel"),
            outcome=Segment.Outcome.CANCELLED,
            last_us__gte=self.since_us,
            closed_us__lte=self.until_us,
        )
        jobs = Job.objects.filter(segment__in=left_out.values("pk"), state=Job.State.CANCELLED)
        segments = [job.segment for job in jobs.select_related("segment")]
        jobs.offer(backfill=self, reply=None, way=RequestStrategy.WHOLE, fault="", fault_text="")
        for segment in segments:
            if segment is not None:
                segment.settle_read(Segment.Outcome.WAITING, Segment.Outcome.CANCELLED)

    # Stopping, and going on

    @transaction.atomic
    def pause(self, by: User | None) -> bool:
        """No new call of its begins; what runs is paid, and is saved. False: it does not run."""
        return self._stop("", by)

    @transaction.atomic
    def pause_for(self, reason: str) -> bool:
        """Paused by itself, such as ``over_cap``. False: it does not run."""
        return self._stop(reason, None)

    def _stop(self, paused_by: str, by: User | None) -> bool:
        if not self._become(self.State.PAUSED, self.State.RUNNING, paused_by=paused_by):
            return False
        self.release_merges()
        if not paused_by:
            self.record("pause", by)
        return True

    @transaction.atomic
    def resume(self, by: User | None, **caps: int | None) -> bool:
        """Go on; ``cap_tokens``, ``cap_micros``: new caps of the whole. False: it is not paused."""
        if not self._become(self.State.RUNNING, self.State.PAUSED, paused_by="", **caps):
            return False
        # What the cap refused may be asked again.
        self._waiting().update(not_before=None)
        self.record("resume", by, **caps)
        return True

    @transaction.atomic
    def cancel(self, by: User | None) -> bool:
        """What is done stays and is built in as ever; what waits is left out, and what was not
        even cut lies before the start mark again. False: it is finished."""
        channels = Channel.objects.filter(pk__in=self.parts.values("channel"))
        list(channels.select_for_update(of=("self",)).order_by("pk"))  # as planning does
        if not self._become(self.State.CANCELLED, *self.UNFINISHED, finished_at=timezone.now()):
            return False
        self.release_merges()
        self._leave_out()
        for part in self.parts.select_related("channel"):
            part.put_mark_back(self.since_us)
        self.record("cancel", by)
        return True

    def finish_if_done(self, now: datetime) -> bool:
        """Done when every channel was cut back to its mark, nothing of it waits or runs, and what
        it made is merged, or a merge of it was tried."""
        if self.state != self.State.RUNNING:
            return False
        if self.jobs.unfinished().exists() or self._to_cut() or self._to_merge():
            return False
        return self._become(self.State.DONE, self.State.RUNNING, finished_at=now)

    def _become(self, state: str, *before: str, **values: Any) -> bool:
        rows = Backfill.objects.filter(pk=self.pk, state__in=before)
        changed = rows.update(state=state, **values)
        self.refresh_from_db()
        return bool(changed)

    def quote_by_names(self) -> dict[str, Any]:
        """Its quote, with channels as they are called now: an earlier name may have been private."""
        names = Channel.objects.filter(backfills=self).names()
        channels = [
            channel | {"channel_name": names.get(channel["channel_id"], "")}
            for channel in self.quote.get("channels", [])
        ]
        quote: dict[str, Any] = self.quote
        return quote | {"channels": channels} if channels else quote

    def record(self, verb: str, by: User | None, **details: Any) -> None:
        caps = {"cap_tokens": self.cap_tokens, "cap_micros": self.cap_micros}
        AuditEvent.objects.record(
            f"backfill_{verb}", by=by, workspace=self.workspace, subject=str(self), **caps | details
        )

    # What is left of it

    def _waiting(self) -> "JobQuerySet":
        from memories.models.generate.jobs import Job

        return self.jobs.filter(state=Job.State.WAITING)

    def release_merges(self) -> None:
        """Its waiting merges end: what is still owed then is owed anew, by itself or by others."""
        from memories.models.generate.jobs import Job

        merges = self._waiting().filter(segment=None, provisional=False)
        merges.end(Job.State.SUPERSEDED)

    def _leave_out(self) -> None:
        from memories.models.generate.jobs import Job

        waiting = self._waiting()
        segments = [job.segment for job in waiting.select_related("segment")]
        waiting.end(Job.State.CANCELLED)
        of_channels = [s.pk for s in segments if s is not None and not s.thread_ts]
        for begin in range(0, len(of_channels), 500):
            Segment.objects.filter(
                pk__in=of_channels[begin : begin + 500], outcome=Segment.Outcome.WAITING
            ).update(outcome=Segment.Outcome.CANCELLED)
        for segment in segments:
            if segment is not None and segment.thread_ts:
                segment.settle_read(Segment.Outcome.CANCELLED, Segment.Outcome.WAITING)

    def _to_cut(self) -> bool:
        """Whether a channel waits for the pass that cuts its older messages."""
        waiting = Message.objects.waiting().filter(channel__in=self.parts.values("channel"))
        return waiting.filter(self.uncut()).until(self.until_us).exists()

    @staticmethod
    def uncut() -> Q:
        """Messages of channels whose start mark moved back, and no pass has come by since."""
        return Q(channel__cut_from_us=None) | Q(channel__cut_from_us__gt=F("channel__start_us"))

    def _to_merge(self) -> bool:
        """Whether some of what it made is still to be owed to a merge: others may have to settle
        first."""
        from memories.models.memory.versions import MemoryVersion

        unread = MemoryVersion.objects.not_merged().filter(
            job__backfill=self, read_by=None, memory__scope=MemoryScope.CHANNEL
        )
        short = Q(memory__memory_type=MemoryType.SHORT_TERM)
        public = Q(
            memory__memory_type=MemoryType.LONG_TERM,
            current_of__isnull=False,
            memory__channel__kind=Channel.Kind.PUBLIC,
        )
        return unread.filter(short | public).exists()


class BackfillChannel(models.Model):
    """A channel of a backfill, and the start mark it had before (null: none yet)."""

    backfill = models.ForeignKey(Backfill, on_delete=models.CASCADE, related_name="parts")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="+")
    start_us_before = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["backfill", "channel"], name="backfill_channel_once"),
        ]

    def __str__(self) -> str:
        return f"{self.channel_id} of {self.backfill_id}"

    def put_mark_back(self, since_us: int) -> None:
        """Where nothing was cut since the mark was moved, it is where it was before; unless
        somebody moved it further back meanwhile."""
        Channel.objects.filter(
            Q(cut_from_us=None) | Q(cut_from_us__gt=F("start_us")),
            pk=self.channel_id,
            start_us__gte=since_us,
        ).update(start_us=self.start_us_before)
