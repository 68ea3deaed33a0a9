"""Rate limits of Slack's methods, shared by all processes."""

from django.db import models

from memories.rules.sync.rate_limits import Bucket


class SlackBudget(models.Model):
    """A token bucket for one method and one Slack token. The token is stored as a hash."""

    token_key = models.CharField(max_length=16)
    method = models.CharField(max_length=60)
    calls_left = models.FloatField()
    counted_at = models.DateTimeField()
    paused_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["token_key", "method"], name="slack_budget_once"),
        ]

    def __str__(self) -> str:
        return self.method

    @property
    def bucket(self) -> Bucket:
        return Bucket(self.calls_left, self.counted_at, self.paused_until)

    def save_bucket(self, bucket: Bucket) -> None:
        self.calls_left, self.counted_at = bucket.calls_left, bucket.counted_at
        self.paused_until = bucket.paused_until
        self.save(update_fields=["calls_left", "counted_at", "paused_until"])
