"""How a workspace is connected to Slack: whose token, what it may do, and whether it still works."""

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
    def live(self) -> "SlackConnectionQuerySet":
        """Those that Slack still answers, as far as is known."""
        return self.filter(state=SlackConnection.State.LIVE)

    def stopped(self) -> "SlackConnectionQuerySet":
        """Those whose token Slack takes no more, by its own word."""
        return self.exclude(state=SlackConnection.State.LIVE)

    def with_token(self) -> "SlackConnectionQuerySet":
        """Those that keep a token of their own; the others rest on the environment's."""
        return self.exclude(sealed_token="")

    def of(self, workspace: Workspace) -> "SlackConnection":
        """The workspace's, made when there is none yet."""
        connection, _made = self.get_or_create(workspace=workspace)
        connection.workspace = workspace
        return connection


class SlackConnection(models.Model):
    """One workspace's app in Slack. A token that was pasted is kept sealed (rules/encryption.py); one
    from the environment is not kept. ``token_end``: the last four characters of the one in use,
    which is all that pages show; state, scopes and ids tell of that one."""

    class State(models.TextChoices):
        LIVE = "live", _("connected")
        REVOKED = "revoked", _("token revoked")
        UNINSTALLED = "uninstalled", _("app removed from Slack")

    workspace = models.OneToOneField(
        Workspace, on_delete=models.CASCADE, related_name="slack_connection"
    )
    sealed_token = models.TextField(blank=True, editable=False)
    token_end = models.CharField(_("token ends in"), max_length=4, blank=True)
    app_id = models.CharField(_("app"), max_length=32, blank=True)
    bot_id = models.CharField(_("bot user"), max_length=32, blank=True)
    scopes = models.JSONField(_("scopes"), default=list, blank=True)
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.LIVE)
    trouble = models.TextField(_("trouble"), blank=True)
    # Slack gives history one page a minute, and 15 messages a page.
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
        """Whether one is kept here."""
        return bool(self.sealed_token)

    def token(self) -> str:
        """The kept one, "" for none. Raises `rules.sealed.Unsealable` when the keys are not those
        that it was sealed with."""
        return (
            encryption.decrypt(self.sealed_token, settings.MEMORYHUB_KEYS) if self.has_token else ""
        )

    @transaction.atomic
    def keep_token(self, token: str, *, by: User | None) -> None:
        """Keep this one, in place of what was there. On the record, without a letter of it."""
        self.sealed_token = encryption.encrypt(token, settings.MEMORYHUB_KEYS)
        self._begins_anew(token)
        AuditEvent.objects.record("slack_token_set", by=by, workspace=self.workspace)

    @transaction.atomic
    def drop_token(self, *, by: User | None) -> bool:
        """Forget the kept one. False: there was none."""
        if not self.has_token:
            return False
        self.sealed_token = ""
        self._begins_anew("")
        AuditEvent.objects.record("slack_token_removed", by=by, workspace=self.workspace)
        return True

    def uses(self, token: str) -> None:
        """The environment's token serves. What was known of another one is nothing to it."""
        if self.has_token or self.token_end == token[-4:]:
            return
        self._begins_anew(token)

    def reseal(self) -> bool:
        """Seal what is kept with the first key; False: it is, or another token came meanwhile.
        Raises `rules.sealed.Unsealable`."""
        again = encryption.reencrypt(self.sealed_token, settings.MEMORYHUB_KEYS)
        unchanged = SlackConnection.objects.filter(pk=self.pk, sealed_token=self.sealed_token)
        return again != self.sealed_token and bool(unchanged.update(sealed_token=again))

    def was_checked(
        self, *, scopes: Sequence[str], bot_id: str, app_id: str, now: datetime
    ) -> None:
        """Slack has answered: it works, as whom, and what it may do."""
        self._is_live_again()
        self.state, self.trouble = self.State.LIVE, ""
        self.scopes, self.bot_id = sorted(scopes), bot_id[:32]
        self.app_id, self.checked_at = app_id[:32] or self.app_id, now
        fields = ["state", "trouble", "scopes", "bot_id", "app_id", "checked_at"]
        self.save(update_fields=fields)

    def has_trouble(self, why: str, now: datetime) -> None:
        """The token works and may not be used here; ``why`` is a sentence."""
        self.trouble, self.checked_at = why, now
        self.save(update_fields=["trouble", "checked_at"])

    @transaction.atomic
    def stops(self, state: str, why: str, now: datetime) -> None:
        """Slack takes nothing from this token any more; the sync waits until there is a new one."""
        if state != self.state:
            AuditEvent.objects.record(
                "slack_stopped", by=None, workspace=self.workspace, state=str(state)
            )
        self.state, self.trouble, self.checked_at = state, why, now
        # Of which token it is: another one of the environment begins anew.
        self.token_end = self.token_end or settings.SLACK_BOT_TOKEN[-4:]
        self.save(update_fields=["state", "trouble", "checked_at", "token_end"])

    def mark_slow(self) -> None:
        """It shows that Slack has the app on its slow plan."""
        if not self.slow_plan:
            self.slow_plan = True
            self.save(update_fields=["slow_plan"])

    def _begins_anew(self, token: str) -> None:
        self._is_live_again()
        self.token_end = token[-4:]
        self.state, self.trouble, self.slow_plan = self.State.LIVE, "", False
        self.scopes, self.bot_id, self.app_id, self.checked_at = [], "", "", None
        self.save()

    def _is_live_again(self) -> None:
        """After an end all stays hidden until Slack has listed who is there."""
        if not self.is_live:
            self.workspace.must_be_listed_anew()
