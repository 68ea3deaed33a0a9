"""Access grants: an operator's audited, time-limited access to a private channel."""

from datetime import datetime

from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import Reader
from memories.models.access.users import ACCESS_LASTS, User
from memories.models.access.workspaces import Workspace
from memories.models.ingest.channels import Channel


class AccessGrantQuerySet(models.QuerySet["AccessGrant"]):
    @transaction.atomic
    def open(self, channel: Channel, *, by: User, reason: str, now: datetime) -> "AccessGrant":
        """Let an operator read a private channel for an hour.

        Raises ValueError without a reason, or for another account.
        """
        if not by.is_superuser or not reason.strip():
            raise ValueError("Only an operator opens a channel, with a reason.")
        AuditEvent.objects.record(
            "channel_open",
            by=by,
            workspace=channel.workspace,
            subject=f"channel {channel.pk}",
            reason=reason.strip()[:200],
        )
        return self.create(
            user=by, channel=channel, reason=reason.strip()[:200], until=now + ACCESS_LASTS
        )

    def active_for(self, reader: Reader) -> "AccessGrantQuerySet":
        """Filter the grants that have not ended. Only an operator has any, and no API key."""
        if not reader.is_operator or reader.user_id is None or reader.key_id is not None:
            return self.none()
        return self.filter(user=reader.user_id, until__gt=reader.now)

    def of_workspace(self, workspace: Workspace) -> "AccessGrantQuerySet":
        return self.filter(channel__workspace=workspace).select_related("channel")


class AccessGrant(models.Model):
    """A private channel that an operator may read for a limited time."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="access_grants")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="access_grants")
    reason = models.CharField(_("reason"), max_length=200)
    at = models.DateTimeField(_("opened"), auto_now_add=True)
    until = models.DateTimeField(_("until"))

    objects = AccessGrantQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        verbose_name = _("opened channel")
        verbose_name_plural = _("opened channels")

    def __str__(self) -> str:
        return f"{self.user_id} in {self.channel_id}"
