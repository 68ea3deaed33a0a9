"""Segments: closed windows of a channel's, or a thread's, messages (rule 1)."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from memories.models.access.readers import AudienceQuerySet
from memories.models.ingest.channels import Channel
from memories.rules.generate.segments import Trigger


class SegmentQuerySet(AudienceQuerySet["Segment"]):
    def of_channel(self) -> "SegmentQuerySet":
        return self.filter(thread_ts="")

    def in_order(self) -> "SegmentQuerySet":
        return self.order_by("channel", "thread_ts", "number")


class Segment(models.Model):
    """One window. Its bounds never move; ``number`` counts them as they were cut.

    ``closed_us`` is the moment at which the rule closed it, whenever a job came to see that.
    """

    class Outcome(models.TextChoices):
        WAITING = "waiting", _("waiting for its summary")
        REMEMBERED = "remembered", _("remembered")
        NOTHING = "nothing", _("nothing to remember")  # the summariser's word
        SKIPPED = "skipped", _("nothing to summarise")  # no text in it: no call was made
        CANCELLED = "cancelled", _("left out by a person")  # until somebody wants it again

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="segments")
    thread_ts = models.CharField(_("thread"), max_length=20, blank=True)
    number = models.PositiveIntegerField(_("number"))
    first_us = models.BigIntegerField()
    last_us = models.BigIntegerField()
    closed_us = models.BigIntegerField()
    message_count = models.PositiveIntegerField(_("messages"))
    reason = models.CharField(
        _("closed because"), max_length=20, choices=[(t.value, t.value) for t in Trigger]
    )
    outcome = models.CharField(
        _("outcome"), max_length=20, choices=Outcome, default=Outcome.WAITING
    )
    # An edit or a deletion inside: its version is to be made again, under the same number.
    stale = models.BooleanField(_("edited since"), default=False)

    objects = SegmentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["channel", "thread_ts", "number"], name="segment_once"),
        ]
        indexes = [
            models.Index(fields=["channel"], name="segment_stale", condition=models.Q(stale=True)),
        ]
        verbose_name = _("segment")
        verbose_name_plural = _("segments")

    def __str__(self) -> str:
        return f"segment {self.pk}"

    def settle(self, outcome: str) -> None:
        self.outcome = outcome
        self.save(update_fields=["outcome"])

    def settle_read(self, outcome: str, before: str | None = None) -> None:
        """What became of all that a job of this segment reads: itself, or the segments of
        its thread so far. ``before``: only of those with this outcome."""
        read = Segment.objects.filter(pk=self.pk)
        if self.thread_ts:
            read = Segment.objects.filter(
                channel=self.channel_id, thread_ts=self.thread_ts, number__lte=self.number
            )
        if before is not None:
            read = read.filter(outcome=before)
        read.update(outcome=outcome)

    def is_read_again(self) -> None:
        """Its edit is taken up: its version is being made again."""
        self.stale = False
        self.save(update_fields=["stale"])
