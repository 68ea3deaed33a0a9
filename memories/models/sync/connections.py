"""Connections of workspaces to Slack: the token, its scopes, and its state."""

from collections.abc import Sequence
from datetime import datetime

from django.conf import settings
from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import AudienceQuerySet
from memories.models.access.users import User
from memories.models.access.workspaces import Workspace
from memories.rules.safety import encryption


class SlackConnectionQuerySet(AudienceQuerySet["SlackConnection"]):
    def stopped(self) -> "SlackConnectionQuerySet":
        """Return connections whose token Slack has rejected."""
        return self.exclude(state=SlackConnection.State.LIVE)

    def with_token(self) -> "SlackConnectionQuerySet":
        """Return connections with a stored token. The others use SLACK_BOT_TOKEN."""
        return self.exclude(encrypted_token="")

    def of(self, workspace: Workspace) -> "SlackConnection":
        """Return the workspace's connection. Create it if it has none."""
        connection, _created = self.get_or_create(workspace=workspace)
        connection.workspace = workspace
        return connection


class SlackConnection(models.Model):
    """The Slack app of one workspace.

    A stored token is encrypted (rules/safety/encryption.py). A token from the environment is not
    stored. ``token_end`` contains the last four characters of the token in use, and all that pages
    show. State, scopes and ids belong to that token.
    """

    class State(models.TextChoices):
        LIVE = "live", _("connected")
        REVOKED = "revoked", _("token revoked")
        UNINSTALLED = "uninstalled", _("app removed from Slack")

    workspace = models.OneToOneField(
        Workspace, on_delete=models.CASCADE, related_name="slack_connection"
    )
    encrypted_token = models.TextField(blank=True, editable=False)
    token_end = models.CharField(_("token ends in"), max_length=4, blank=True)
    app_id = models.CharField(_("app"), max_length=32, blank=True)
    bot_id = models.CharField(_("bot user"), max_length=32, blank=True)
    scopes = models.JSONField(_("scopes"), default=list, blank=True)
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.LIVE)
    trouble = models.TextField(_("problem"), blank=True)
    # Slack allows one page of history a minute, with 15 messages.
    slow_plan = models.BooleanField(_("slow plan"), default=False)
    checked_at = models.DateTimeField(_("checked"), null=True, blank=True)
    event_at = models.DateTimeField(_("last event"), null=True, blank=True)

    objects = SlackConnectionQuerySet.as_manager()

    class Meta:
        ordering = ["workspace"]
        verbose_name = _("Slack connection")
        verbose_name_plural = _("Slack connections")

    def __str__(self) -> str:
        return f"…{self.token_end}"

    @property
    def is_live(self) -> bool:
        return self.state == self.State.LIVE

    @property
    def has_token(self) -> bool:
        return bool(self.encrypted_token)

    def decrypt_token(self) -> str:
        """Return the stored token, "" for none. Raises `DecryptionError` if no key fits."""
        return (
            encryption.decrypt(self.encrypted_token, settings.MEMORYHUB_KEYS)
            if self.has_token
            else ""
        )

    @transaction.atomic
    def set_token(self, token: str, *, by: User | None) -> None:
        """Store the token in place of another one. The audit log has no part of it."""
        self.encrypted_token = encryption.encrypt(token, settings.MEMORYHUB_KEYS)
        self._reset(token)
        AuditEvent.objects.record("slack_token_set", by=by, workspace=self.workspace)

    @transaction.atomic
    def remove_token(self, *, by: User | None) -> bool:
        """Remove the stored token. Return False if there is none."""
        if not self.has_token:
            return False
        self.encrypted_token = ""
        self._reset("")
        AuditEvent.objects.record("slack_token_removed", by=by, workspace=self.workspace)
        return True

    def use_environment_token(self, token: str) -> None:
        """Use this token unless one is stored. Forget the state of another token."""
        if self.has_token or self.token_end == token[-4:]:
            return
        self._reset(token)

    def reencrypt(self) -> bool:
        """Encrypt the stored token with the first key. Raises `DecryptionError`.

        Return False if it is encrypted so already, or if another token was stored meanwhile.
        """
        reencrypted = encryption.reencrypt(self.encrypted_token, settings.MEMORYHUB_KEYS)
        unchanged = SlackConnection.objects.filter(pk=self.pk, encrypted_token=self.encrypted_token)
        return reencrypted != self.encrypted_token and bool(
            unchanged.update(encrypted_token=reencrypted)
        )

    def record_check(
        self, *, scopes: Sequence[str], bot_id: str, app_id: str, now: datetime
    ) -> None:
        """Record that Slack accepts the token, with its scopes and ids."""
        self._hide_if_stopped()
        self.state, self.trouble = self.State.LIVE, ""
        self.scopes, self.bot_id = sorted(scopes), bot_id[:32]
        self.app_id, self.checked_at = app_id[:32] or self.app_id, now
        fields = ["state", "trouble", "scopes", "bot_id", "app_id", "checked_at"]
        self.save(update_fields=fields)

    def record_trouble(self, text: str, now: datetime) -> None:
        """Record why a working token may not be used here. ``text`` is a sentence."""
        self.trouble, self.checked_at = text, now
        self.save(update_fields=["trouble", "checked_at"])

    @transaction.atomic
    def stop(self, state: str, text: str, now: datetime) -> None:
        """Record that Slack rejects the token. The sync waits for a new one."""
        if state != self.state:
            AuditEvent.objects.record(
                "slack_stopped", by=None, workspace=self.workspace, state=str(state)
            )
        self.state, self.trouble, self.checked_at = state, text, now
        # A later token of the environment has another end, and so resets the state.
        self.token_end = self.token_end or settings.SLACK_BOT_TOKEN[-4:]
        self.save(update_fields=["state", "trouble", "checked_at", "token_end"])

    def mark_slow(self) -> None:
        """Record that Slack has the app on its slow plan."""
        if not self.slow_plan:
            self.slow_plan = True
            self.save(update_fields=["slow_plan"])

    def _reset(self, token: str) -> None:
        self._hide_if_stopped()
        self.token_end = token[-4:]
        self.state, self.trouble, self.slow_plan = self.State.LIVE, "", False
        self.scopes, self.bot_id, self.app_id, self.checked_at = [], "", "", None
        self.save()

    def _hide_if_stopped(self) -> None:
        """After a stop everything stays hidden until Slack lists people and channels again."""
        if not self.is_live:
            self.workspace.mark_unlisted()
