"""The audit log, for operators and workspace admins."""

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import ReadOnlyAdmin, ValueFilter
from memories.models import AuditEvent

ACTION_LABELS = {
    "account": _("changed an account's rights"),
    "account_first": _("created the first account"),
    "account_made": _("created an account at a sign-in"),
    "admin_add": _("added in the admin"),
    "admin_change": _("changed in the admin"),
    "admin_delete": _("deleted in the admin"),
    "backfill_cancel": _("cancelled a backfill"),
    "backfill_pause": _("paused a backfill"),
    "backfill_resume": _("resumed a backfill"),
    "backfill_start": _("started a backfill"),
    "backup": _("created a backup"),
    "cap": _("changed a budget"),
    "channel_follow": _("started reading a channel"),
    "channel_forget": _("forgot a channel"),
    "api_key_issue": _("created an API key"),
    "api_key_revoke": _("revoked an API key"),
    "channel_open": _("opened a private channel"),
    "channel_opt_in": _("shared a private channel with the workspace memory"),
    "channel_opt_out": _("stopped sharing a private channel with the workspace memory"),
    "channel_unfollow": _("stopped reading a channel"),
    "demo": _("created the demo workspace"),
    "endpoint_probe": _("requested a check of a model endpoint"),
    "endpoint_resume": _("resumed calls to an endpoint"),
    "event_retry": _("retried an event"),
    "export": _("exported a workspace"),
    "factor_added": _("added a second factor"),
    "factor_failed": _("second factor refused"),
    "factor_removed": _("removed a second factor"),
    "factor_renewed": _("renewed a second factor"),
    "factors_reset": _("removed the second factors of an account"),
    "import": _("imported a workspace"),
    "invitation": _("created an invitation"),
    "invitation_accept": _("accepted an invitation"),
    "invitation_revoke": _("revoked an invitation"),
    "job_cancel": _("cancelled a job"),
    "job_retry": _("retried a job"),
    "line_pin": _("pinned a line"),
    "line_restore": _("restored a line from the archive"),
    "line_unpin": _("unpinned a line"),
    "login": _("signed in"),
    "login_failed": _("sign-in failed"),
    "login_linked": _("linked their account to single sign-on"),
    "login_refused": _("sign-in refused"),
    "logout": _("signed out"),
    "memory_edit": _("edited a memory"),
    "memory_restore": _("restored a version"),
    "memory_undo": _("undid a change"),
    "memory_update": _("requested an update"),
    "message_forget": _("forgot a message"),
    "model": _("changed the model"),
    "note_purge": _("permanently deleted a note"),
    "password_chosen": _("chose their own password"),
    "password_ended": _("password ended at a sign-in with Slack"),
    "password_given": _("set the password of another account"),
    "feed_issue": _("created a feed address"),
    "feed_revoke": _("revoked a feed"),
    "memory_rebuild": _("requested a rebuild of a memory"),
    "person_forget": _("forgot a person"),
    "person_link": _("linked a person to an account"),
    "price": _("changed a price"),
    "proposal_add": _("proposed a correction"),
    "proposal_accept": _("approved a proposal"),
    "proposal_reject": _("rejected a proposal"),
    "quarantine_accept": _("approved a quarantined line"),
    "quarantine_reject": _("rejected a quarantined line"),
    "restore": _("restored a backup"),
    "role": _("gave a role"),
    "settings": _("changed settings"),
    "slack_stopped": _("Slack rejected the token"),
    "slack_token_removed": _("deleted the Slack token"),
    "slack_token_set": _("set a Slack token"),
    "source_restore": _("included a source again"),
    "source_revoke": _("excluded a source"),
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
class AuditAdmin(ReadOnlyAdmin):
    """Read-only for superusers too. The model also refuses changes."""

    list_display = ("at", "actor", "what", "workspace", "subject", "details_text")
    list_filter = (
        ("action", ActionFilter),
        ("at", admin.DateFieldListFilter),
    )
    search_fields = ("actor", "action", "workspace", "subject")
    ordering = ("-pk",)
    details = ("action", "details")
    list_only = ("details_text",)

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
