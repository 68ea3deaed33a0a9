"""Segments: closed time windows of the messages of a channel or thread (rule 1)."""

from collections.abc import Iterable

from django.db import models
from django.utils.translation import gettext_lazy as _

from memories.models.access.readers import AudienceQuerySet
from memories.models.ingest.channels import Channel
from memories.rules.batches import in_batches
from memories.rules.generate.segments import Trigger


class SegmentQuerySet(AudienceQuerySet["Segment"]):
    def of_channel(self) -> "SegmentQuerySet":
        return self.filter(thread_ts="")

    def in_order(self) -> "SegmentQuerySet":
        return self.order_by("channel", "thread_ts", "number")

    def settle_read(self, segments: Iterable["Segment | None"], outcome: str, before: str) -> None:
        """Set the outcome of all that jobs of these segments read, where it is ``before``."""
        of_channels = []
        for segment in filter(None, segments):
            if segment.thread_ts:
                segment.settle_read(outcome, before)
            else:
                of_channels.append(segment.pk)
        for keys in in_batches(of_channels):
            self.filter(pk__in=keys, outcome=before).update(outcome=outcome)


class Segment(models.Model):
    """A window of messages. Its bounds never move; ``number`` counts up in a channel or thread.

    ``closed_us`` is the moment at which the rule closes it, which a pass may notice later.
    """

    class Outcome(models.TextChoices):
        WAITING = "waiting", _("waiting for its summary")
        REMEMBERED = "remembered", _("summarized")
        NOTHING = "nothing", _("nothing to summarize")  # by the summariser
        SKIPPED = "skipped", _("nothing to summarize")  # it has no text
        CANCELLED = "cancelled", _("left out by a person")  # until a retry

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="segments")
    thread_ts = models.CharField(_("thread"), max_length=20, blank=True)
    number = models.PositiveIntegerField(_("number"))
    first_us = models.BigIntegerField()
    last_us = models.BigIntegerField()
    closed_us = models.BigIntegerField()
    # When a pass closed it, 0 if that is not known.
    created_us = models.BigIntegerField(default=0)
    message_count = models.PositiveIntegerField(_("messages"))
    reason = models.CharField(
        _("reason for closing"), max_length=20, choices=[(t.value, t.value) for t in Trigger]
    )
    outcome = models.CharField(
        _("outcome"), max_length=20, choices=Outcome, default=Outcome.WAITING
    )
    # A message was edited or deleted: its version is made again, under the same number.
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
        return f"{self.channel} {self.thread_ts}".strip() + f", segment {self.number}"

    def settle(self, outcome: str) -> None:
        self.outcome = outcome
        self.save(update_fields=["outcome"])

    def settle_read(self, outcome: str, before: str | None) -> None:
        """Set the outcome of this segment or, in a thread, of all its segments so far.

        ``before``: only where the outcome is this one, None for any.
        """
        read = Segment.objects.filter(pk=self.pk)
        if self.thread_ts:
            read = Segment.objects.filter(
                channel=self.channel_id, thread_ts=self.thread_ts, number__lte=self.number
            )
        if before is not None:
            read = read.filter(outcome=before)
        read.update(outcome=outcome)

    def clear_stale(self) -> None:
        self.stale = False
        self.save(update_fields=["stale"])
