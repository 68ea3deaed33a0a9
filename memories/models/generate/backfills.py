"""Backfills: older history, remembered on request, under a cap."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import AudienceQuerySet
from memories.models.access.users import User
from memories.models.access.workspaces import Workspace
from memories.models.generate.job_states import JobState
from memories.models.generate.segments import Segment
from memories.models.ingest.channels import Channel
from memories.models.ingest.messages import Message
from memories.models.memory.versions import MemoryVersion
from memories.rules.costs.money import MICROS
from memories.rules.generate.segments import Trigger
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.summariser import RequestStrategy


class AnotherBackfill(Exception):
    """The workspace has an unfinished backfill."""


class BackfillQuerySet(AudienceQuerySet["Backfill"]):
    def unfinished(self) -> "BackfillQuerySet":
        return self.filter(state__in=Backfill.UNFINISHED)

    def find_unfinished(self, channel: Channel) -> "Backfill | None":
        return self.unfinished().filter(parts__channel=channel).first()

    @transaction.atomic
    def start(
        self,
        workspace: Workspace,
        channels: Sequence[Channel],
        *,
        since_us: int,
        until_us: int,
        estimate: dict[str, Any],
        cap_tokens: int | None = None,
        cap_micros: int | None = None,
        by: User | None,
    ) -> "Backfill":
        """Move the start marks back; the following passes make the memories.

        Jobs of this period that were cancelled wait again. Raises AnotherBackfill, and ValueError
        without channels.
        """
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
                    estimate=estimate,
                    author=by,
                )
        except IntegrityError as error:
            raise AnotherBackfill from error
        BackfillChannel.objects.bulk_create(
            BackfillChannel(backfill=backfill, channel=channel, start_us_before=channel.start_us)
            for channel in locked_channels
        )
        for channel in locked_channels:
            messages = channel.messages.rememberable().filter(micros__gte=since_us)
            first = messages.in_order().values_list("micros", flat=True).first()
            if first is not None:
                channel.remember_from(since_us or first)
        backfill.reopen_cancelled_jobs()
        backfill.record("start", by, channels=[c.pk for c in locked_channels], since_us=since_us)
        return backfill


class Backfill(models.Model):
    """A request to remember some channels from an earlier moment on.

    ``estimate`` is the estimate that was shown before the start. A cap of null is none.
    """

    class State(models.TextChoices):
        RUNNING = "running", _("running")
        PAUSED = "paused", _("paused")
        CANCELLED = "cancelled", _("cancelled")
        DONE = "done", _("done")

    UNFINISHED = (State.RUNNING, State.PAUSED)

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="backfills")
    since_us = models.BigIntegerField()  # 0: from each channel's first message on
    # Segments that end before this moment belong to it.
    until_us = models.BigIntegerField()
    channels = models.ManyToManyField(Channel, through="BackfillChannel", related_name="backfills")
    cap_tokens = models.PositiveBigIntegerField(_("limit in tokens"), null=True, blank=True)
    cap_micros = models.PositiveBigIntegerField(null=True, blank=True)
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.RUNNING)
    # The reason of an automatic pause, such as "over_cap"; "" when a person paused it.
    pause_reason = models.CharField(max_length=20, blank=True)
    estimate = models.JSONField(_("estimate"), default=dict, blank=True)
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
    def cap_text(self) -> str:
        """The cap in the form that `rules.backfill_input.parse_cap` reads."""
        if self.cap_micros is not None:
            return f"${self.cap_micros / MICROS:.6f}".rstrip("0").rstrip(".")
        return "" if self.cap_tokens is None else str(self.cap_tokens)

    @property
    def is_unfinished(self) -> bool:
        return self.state in self.UNFINISHED

    def covers(self, segment: Segment) -> bool:
        """Return whether a new segment of its channels had ended when it was requested."""
        if segment.reason == Trigger.HISTORY_OFF:  # closed by each pass
            return segment.last_us <= self.until_us
        return segment.closed_us <= self.until_us

    def estimate_with_current_names(self) -> dict[str, Any]:
        """Return the estimate with the channels' names of today: an earlier name may be private."""
        names = Channel.objects.filter(backfills=self).names()
        channels = [
            channel | {"channel_name": names.get(channel["channel_id"], "")}
            for channel in self.estimate.get("channels", [])
        ]
        estimate: dict[str, Any] = self.estimate
        return estimate | {"channels": channels} if channels else estimate

    # Changes of its state. Each returns False when the state does not allow it.

    @transaction.atomic
    def pause(self, by: User | None = None, *, reason: str = "") -> bool:
        """Begin no new call. Running calls are paid and saved. ``reason``: of an automatic pause."""
        if not self._change_state(self.State.PAUSED, self.State.RUNNING, pause_reason=reason):
            return False
        self.supersede_merges()
        if not reason:
            self.record("pause", by)
        return True

    @transaction.atomic
    def resume(self, by: User | None, **caps: int | None) -> bool:
        """Continue. ``cap_tokens`` and ``cap_micros`` are new caps of the whole."""
        if not self._change_state(self.State.RUNNING, self.State.PAUSED, pause_reason="", **caps):
            return False
        self.jobs.filter(state=JobState.WAITING).make_due()
        self.record("resume", by, **caps)
        return True

    @transaction.atomic
    def cancel(self, by: User | None) -> bool:
        """Cancel its waiting jobs and take the start marks back. What is made stays."""
        channels = Channel.objects.filter(pk__in=self.parts.values("channel"))
        list(channels.select_for_update(of=("self",)).order_by("pk"))  # as planning does
        if not self._change_state(
            self.State.CANCELLED, *self.UNFINISHED, finished_at=timezone.now()
        ):
            return False
        self.supersede_merges()
        self.jobs.filter(state=JobState.WAITING).cancel()
        for part in self.parts.select_related("channel"):
            part.restore_start_mark(self.since_us)
        self.record("cancel", by)
        return True

    def finish_if_done(self, now: datetime) -> bool:
        """Finish when all messages are in segments, all jobs have ended and all versions are merged."""
        if self.state != self.State.RUNNING or self.jobs.unfinished().exists():
            return False
        if self.uncut_messages().exists() or self._has_unmerged_versions():
            return False
        return self._change_state(self.State.DONE, self.State.RUNNING, finished_at=now)

    def _change_state(self, state: str, *before: str, **values: Any) -> bool:
        rows = Backfill.objects.filter(pk=self.pk, state__in=before)
        changed = rows.update(state=state, **values)
        self.refresh_from_db()
        return bool(changed)

    def record(self, verb: str, by: User | None, **details: Any) -> None:
        caps = {"cap_tokens": self.cap_tokens, "cap_micros": self.cap_micros}
        AuditEvent.objects.record(
            f"backfill_{verb}", by=by, workspace=self.workspace, subject=str(self), **caps | details
        )

    # Its jobs

    def reopen_cancelled_jobs(self) -> None:
        """Take over the cancelled jobs of its period, whoever cancelled them."""
        cancelled = Segment.objects.filter(
            channel__in=self.parts.values("channel"),
            outcome=Segment.Outcome.CANCELLED,
            last_us__gte=self.since_us,
            closed_us__lte=self.until_us,
        )
        jobs = self.jobs.model.objects.filter(
            segment__in=cancelled.values("pk"), state=JobState.CANCELLED
        )
        jobs.reopen(
            backfill=self, reply=None, strategy=RequestStrategy.WHOLE, fault="", fault_text=""
        )

    def supersede_merges(self) -> None:
        """End its waiting merges; the next pass schedules those that are still needed."""
        self.jobs.filter(state=JobState.WAITING, segment=None, provisional=False).supersede()

    def uncut_messages(self) -> models.QuerySet[Message]:
        """Return its messages that no pass has put into segments since the start marks moved."""
        is_uncut = Q(channel__segments_from_us=None) | Q(
            channel__segments_from_us__gt=F("channel__start_us")
        )
        waiting = Message.objects.waiting().filter(is_uncut).until(self.until_us)
        return waiting.filter(channel__in=self.parts.values("channel"))

    def _has_unmerged_versions(self) -> bool:
        """Return whether a merge has not read one of its versions, because other jobs come first."""
        unread = MemoryVersion.objects.not_merged().filter(
            job__backfill=self, read_by=None, memory__scope=MemoryScope.CHANNEL
        )
        short = Q(memory__memory_type=MemoryType.SHORT_TERM)
        flowing = Q(
            memory__memory_type=MemoryType.LONG_TERM,
            current_of__isnull=False,
            memory__channel__in=Channel.objects.feeding_workspace_memory().values("pk"),
        )
        return unread.filter(short | flowing).exists()


class BackfillChannel(models.Model):
    """A channel of a backfill, and the start mark it had before (null: none)."""

    backfill = models.ForeignKey(Backfill, on_delete=models.CASCADE, related_name="parts")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="+")
    start_us_before = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["backfill", "channel"], name="backfill_channel_once"),
        ]

    def __str__(self) -> str:
        return f"{self.channel_id} of {self.backfill_id}"

    def restore_start_mark(self, since_us: int) -> None:
        """Put the start mark back, unless a pass has used it or it moved further back since."""
        Channel.objects.filter(
            Q(segments_from_us=None) | Q(segments_from_us__gt=F("start_us")),
            pk=self.channel_id,
            start_us__gte=since_us,
        ).update(start_us=self.start_us_before)
