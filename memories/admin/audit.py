"""The audit log, for operators and workspace admins."""

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import AudienceAdmin, ReadOnly, ValueFilter
from memories.models import AuditEvent

ACTION_LABELS = {
    "account": _("changed an account's rights"),
    "account_made": _("account made at a login with Slack"),
    "admin_add": _("added in the admin"),
    "admin_change": _("changed in the admin"),
    "admin_delete": _("deleted in the admin"),
    "backfill_cancel": _("cancelled a backfill"),
    "backfill_pause": _("paused a backfill"),
    "backfill_resume": _("resumed a backfill"),
    "backfill_start": _("started a backfill"),
    "backup": _("made a backup"),
    "cap": _("changed a cap"),
    "channel_follow": _("let a channel be read"),
    "channel_forget": _("forgot a channel"),
    "api_key_issue": _("made an API key"),
    "api_key_revoke": _("revoked an API key"),
    "channel_open": _("opened a private channel"),
    "channel_opt_in": _("let a private channel into the workspace's memory"),
    "channel_opt_out": _("took a private channel out of the workspace's memory"),
    "channel_unfollow": _("let a channel be read no more"),
    "demo": _("made the demo workspace"),
    "endpoint_probe": _("asked for a probe of an endpoint"),
    "endpoint_resume": _("allowed calls to an endpoint again"),
    "event_retry": _("retried an event"),
    "export": _("wrote a bundle"),
    "factor_added": _("added a second factor"),
    "factor_failed": _("second factor refused"),
    "factor_removed": _("removed a second factor"),
    "factor_renewed": _("renewed a second factor"),
    "factors_reset": _("took away second factors"),
    "import": _("read a bundle"),
    "job_cancel": _("cancelled a job"),
    "job_retry": _("retried a job"),
    "line_pin": _("pinned a line"),
    "line_restore": _("brought a line back from an archive"),
    "line_unpin": _("unpinned a line"),
    "login": _("signed in"),
    "login_failed": _("login failed"),
    "login_refused": _("login with Slack refused"),
    "logout": _("signed out"),
    "memory_edit": _("edited a memory"),
    "memory_restore": _("restored a version"),
    "memory_undo": _("undid a change"),
    "memory_update": _("asked for an update"),
    "message_forget": _("forgot a message"),
    "note_purge": _("deleted a note for good"),
    "password_chosen": _("chose their own password"),
    "password_ended": _("password ended at a login with Slack"),
    "password_given": _("set somebody's password"),
    "memory_rebuild": _("asked for a memory to be made anew"),
    "person_forget": _("forgot a person"),
    "person_link": _("linked a person to an account"),
    "price": _("changed a price"),
    "proposal_accept": _("accepted a proposal"),
    "proposal_reject": _("rejected a proposal"),
    "quarantine_accept": _("accepted a line that was held back"),
    "quarantine_reject": _("rejected a line that was held back"),
    "restore": _("restored a backup"),
    "role": _("gave a role"),
    "settings": _("changed settings"),
    "slack_stopped": _("Slack stopped taking the token"),
    "slack_token_removed": _("forgot the Slack token"),
    "slack_token_set": _("set a Slack token"),
    "source_restore": _("made a source again"),
    "source_revoke": _("revoked a source"),
    "upload": _("uploaded an export"),
    "upload_cancel": _("cancelled an import"),
    "upload_pause": _("paused an import"),
    "upload_resume": _("resumed an import"),
    "upload_retry": _("retried an import"),
    "upload_start": _("started an import"),
    "version_name": _("named a version"),
    "workspace": _("changed a workspace"),
}


class ActionFilter(ValueFilter):
    labels = ACTION_LABELS


@admin.register(AuditEvent)
class AuditAdmin(ReadOnly, AudienceAdmin):
    """Read-only for superusers too. The model also refuses changes."""

    list_display = ("at", "actor", "what", "workspace", "subject", "details_text")
    list_filter = (
        ("action", ActionFilter),
        ("at", admin.DateFieldListFilter),
    )
    search_fields = ("actor", "action", "workspace", "subject")
    ordering = ("-pk",)
    fields = ("at", "actor", "what", "action", "workspace", "subject", "details")

    @admin.display(description=_("what"), ordering="action")
    def what(self, event: AuditEvent) -> Any:
        return ACTION_LABELS.get(event.action, event.action)

    @admin.display(description=_("details"))
    def details_text(self, event: AuditEvent) -> str:
        return ", ".join(f"{name}: {_format(value)}" for name, value in event.details.items())


def _format(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name} {_format(item)}" for name, item in value.items())
    if isinstance(value, list):
        return " ".join(map(_format, value))
    return "–" if value is None else str(value)
