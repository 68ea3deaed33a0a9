"""The audit log: an append-only record of changes and sign-ins."""

from typing import TYPE_CHECKING, Any, NoReturn

from django.db import models
from django.utils.translation import gettext_lazy as _

from memories.models.access.readers import AudienceQuerySet
from memories.models.access.users import User

if TYPE_CHECKING:
    from memories.models.access.workspaces import Workspace


class AppendOnly(Exception):
    """An audit event may not be changed or deleted."""


class AuditQuerySet(AudienceQuerySet["AuditEvent"]):
    def record(
        self,
        action: str,
        *,
        by: User | None,
        workspace: "Workspace | None" = None,
        subject: str = "",
        **details: Any,
    ) -> "AuditEvent":
        """Add an event in the transaction of the change.

        ``by`` is None for a command, for a failed sign-in, and for a change that the hub makes itself.
        ``details`` hold names, numbers and settings, never texts of people.
        """
        return self.create(
            action=action,
            actor=by.get_username() if by else "",
            workspace=workspace.slug if workspace else "",
            subject=subject[:200],
            details=details,
        )

    # Rows are only created one by one. (`update_or_create` calls `save`.)

    def update(self, **kwargs: Any) -> NoReturn:
        raise AppendOnly

    def delete(self) -> NoReturn:
        raise AppendOnly

    def _raw_delete(self, using: str | None) -> NoReturn:
        raise AppendOnly

    def bulk_update(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly

    def bulk_create(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse, because it can update existing rows."""
        raise AppendOnly


class AuditEvent(models.Model):
    """An action of an account. It holds names instead of keys, because it outlives the rows."""

    at = models.DateTimeField(_("when"), auto_now_add=True)
    actor = models.CharField(_("who"), max_length=150, blank=True)
    action = models.CharField(_("what"), max_length=40)
    workspace = models.CharField(_("workspace"), max_length=50, blank=True)
    subject = models.CharField(_("of"), max_length=200, blank=True)
    details = models.JSONField(_("details"), default=dict, blank=True)

    objects = AuditQuerySet.as_manager()

    class Meta:
        base_manager_name = "objects"
        ordering = ["-pk"]
        indexes = [
            models.Index(fields=["workspace", "-id"], name="audit_of_workspace"),
        ]
        verbose_name = _("audit event")
        verbose_name_plural = _("audit log")

    def __str__(self) -> str:
        return f"{self.action} {self.subject}".strip()

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise AppendOnly
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly
