"""Invitations: links with which a person creates an account with a role in a workspace."""

import hashlib
import secrets
from datetime import datetime, timedelta

from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import Reader
from memories.models.access.users import User
from memories.models.access.workspaces import Member, Workspace

INVITATION_LASTS = timedelta(days=7)


class InvitationExpired(Exception):
    """The invitation was used or revoked, or its time is over."""


class InvitationQuerySet(models.QuerySet["Invitation"]):
    @transaction.atomic
    def issue(
        self, workspace: Workspace, role: str, *, by: User, now: datetime
    ) -> tuple["Invitation", str]:
        """Return an invitation and its token, which is shown once and never stored.

        Raises ValueError if the inviter is no admin.
        """
        if not _may_invite(by, workspace, now):
            raise ValueError("Only an admin may invite.")
        token = secrets.token_urlsafe(32)
        invitation = self.create(
            workspace=workspace,
            role=role,
            digest=_hash_token(token),
            created_by=by,
            expires_at=now + INVITATION_LASTS,
        )
        AuditEvent.objects.record("invitation", by=by, workspace=workspace, role=role)
        return invitation, token

    def open(self, now: datetime) -> "InvitationQuerySet":
        """Filter the invitations that nobody used or revoked, and whose time is not over."""
        return self.filter(closed_at__isnull=True, expires_at__gt=now)

    def find(self, token: str, now: datetime) -> "Invitation | None":
        """Return the open invitation of a token whose inviter is still an admin."""
        rows = self.open(now).select_related("workspace", "created_by")
        invitation = rows.filter(digest=_hash_token(token)).first()
        if invitation is None:
            return None
        inviter, workspace = invitation.created_by, invitation.workspace
        return invitation if _may_invite(inviter, workspace, now) else None


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _may_invite(user: User, workspace: Workspace, now: datetime) -> bool:
    return workspace.role_of(Reader.of(user, now)) == Member.Role.ADMIN


class Invitation(models.Model):
    """A link for one account. ``closed_at`` is set when it is used or revoked."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(_("role"), max_length=10, choices=Member.Role)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires"))
    closed_at = models.DateTimeField(null=True, blank=True)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        verbose_name = _("invitation")
        verbose_name_plural = _("invitations")

    def __str__(self) -> str:
        return f"invitation {self.pk}"

    @transaction.atomic
    def accept(self, user: User, now: datetime) -> None:
        """Save a new account with the role. Raises `InvitationExpired` if it was used meanwhile."""
        if not self._close(now):
            raise InvitationExpired
        user.save()
        self.workspace.members.create(user=user, role=self.role)
        AuditEvent.objects.record(
            "invitation_accept",
            by=user,
            workspace=self.workspace,
            subject=user.get_username(),
            role=self.role,
            invited_by=self.created_by.get_username(),
        )

    @transaction.atomic
    def revoke(self, *, by: User, now: datetime) -> None:
        """Close the invitation, so that its link no longer works."""
        if self._close(now):
            AuditEvent.objects.record(
                "invitation_revoke", by=by, workspace=self.workspace, role=self.role
            )

    def _close(self, now: datetime) -> bool:
        return bool(Invitation.objects.open(now).filter(pk=self.pk).update(closed_at=now))
