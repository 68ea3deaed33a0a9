"""How often a method of Slack may be called with a token: shared by all processes."""

from django.db import models

from memories.rules.sync.rate_limits import Bucket


class SlackBudget(models.Model):
    """A bucket of calls for one method and one token (known by a digest, never by itself)."""

    token_key = models.CharField(max_length=16)
    method = models.CharField(max_length=60)
    calls_left = models.FloatField()
    counted_at = models.DateTimeField()
    not_before = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["token_key", "method"], name="slack_budget_once"),
        ]

    def __str__(self) -> str:
        return self.method

    @property
    def bucket(self) -> Bucket:
        return Bucket(self.calls_left, self.counted_at, self.not_before)

    def holds(self, bucket: Bucket) -> None:
        """This is in it now."""
        self.calls_left, self.counted_at = bucket.calls_left, bucket.counted_at
        self.not_before = bucket.not_before
        self.save(update_fields=["calls_left", "counted_at", "not_before"])
