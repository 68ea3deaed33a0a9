"""Connections to Slack: set, test and delete a token."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters

from memories.admin.audience import AudienceAdmin, display_value, row_action, user_of
from memories.models import SlackConnection
from memories.pipeline.sync import connecting
from memories.rules.sync import scopes
from memories.rules.sync.bot_token import InvalidBotToken, parse_bot_token

TIMEOUT = 10  # seconds that a page waits for Slack

TOKEN_ERRORS = {
    "empty": _("No token is set."),
    "person": _("This is a user token (xoxp-…). A bot token begins with xoxb-."),
    "app": _("This is an app-level token (xapp-…). A bot token begins with xoxb-."),
    "rotating": _("This token expires after twelve hours. Turn off token rotation in the app."),
    "unknown": _("This is not a bot token. A bot token begins with xoxb-."),
}


class ConnectionForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form for a token. No page shows the token again, also not after an error."""

    new_token = forms.CharField(
        label=_("Bot token"),
        required=False,
        strip=True,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "size": 60}),
        help_text=_(
            "xoxb-…, from the app page in Slack (OAuth & Permissions). It is stored encrypted "
            "and not shown again. A new token replaces it."
        ),
    )

    class Meta:
        model = SlackConnection
        fields = ("workspace",)

    def clean_new_token(self) -> str:
        token = self.cleaned_data["new_token"]
        if not token and self.instance.pk:
            return ""
        try:
            return parse_bot_token(token)
        except InvalidBotToken as error:
            raise forms.ValidationError(TOKEN_ERRORS[error.code]) from None


@admin.register(SlackConnection)
class SlackConnectionAdmin(AudienceAdmin):
    """Tokens and states. Channels are chosen on the Slack page of the workspace."""

    form = ConnectionForm
    status_fields = (
        "ends_in",
        "token_location",
        "state",
        "missing_scopes",
        "slow_plan",
        "checked_at",
        "event_at",
    )
    list_display = ("workspace", *status_fields)
    list_filter = ("state", "slow_plan")
    list_select_related = ("workspace",)
    search_fields = ("workspace__slug", "workspace__name", "token_end", "app_id")
    ordering = ("workspace__slug",)
    actions = (
        "test_connection",
        row_action("delete_token", _("Delete the token"), SlackConnection.remove_token),
    )
    hidden_fields = ("encrypted_token",)
    readonly_fields = (
        *status_fields,
        "trouble",
        "granted_scopes",
        "bot_id",
        "app_id",
        "slack_page",
    )

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        form = ("workspace", "new_token")
        if obj is None:
            return form
        own = form if self.has_change_permission(request, obj) else ()
        return (*own, *self.readonly_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("workspace", *self.readonly_fields) if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False. An action deletes the token, and the row keeps the last state."""
        return False

    @method_decorator(sensitive_post_parameters("new_token"))
    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return super().changeform_view(request, *args, **kwargs)

    def save_model(
        self, request: HttpRequest, obj: SlackConnection, form: Any, change: Any
    ) -> None:
        if not change:
            super().save_model(request, obj, form, change)
        if token := form.cleaned_data.get("new_token"):
            obj.set_token(token, by=user_of(request))

    @admin.display(description=_("token ends in"), ordering="token_end")
    def ends_in(self, connection: SlackConnection) -> str:
        return display_value(connection.token_end and f"…{connection.token_end}")

    @admin.display(description=_("token stored in"))
    def token_location(self, connection: SlackConnection) -> Any:
        if connection.has_token:
            return _("database, encrypted")
        return display_value(_("environment") if settings.SLACK_BOT_TOKEN else None)

    @admin.display(description=_("scopes"))
    def granted_scopes(self, connection: SlackConnection) -> str:
        return display_value(", ".join(connection.scopes))

    @admin.display(description=_("missing scopes"))
    def missing_scopes(self, connection: SlackConnection) -> str:
        if connection.checked_at is None or not connection.scopes:
            return display_value(None)
        workspace = connection.workspace
        missing, _surplus = scopes.compare_scopes(connection.scopes, workspace.memory_settings)
        return display_value(", ".join(missing))

    @admin.display(description=_("test, choose channels"))
    def slack_page(self, connection: SlackConnection) -> str:
        path = reverse("slack-index", args=[connection.workspace.slug])
        return format_html('<a href="{}">{}</a>', path, path)

    @admin.action(description=_("Test the connection"), permissions=["operate"])
    def test_connection(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for connection in queryset.select_related("workspace"):
            name = connection.workspace.slug
            now = timezone.now()
            findings = connecting.check_connection(connection.workspace, now, timeout=TIMEOUT)
            if findings.code:
                self.message_user(request, f"{name}: {findings.error}", messages.ERROR)
            for missing in findings.missing:
                values = {"scope": missing.scope, "fix": missing.remedy}
                text = gettext("%(scope)s is missing. %(fix)s") % values
                self.message_user(request, f"{name}: {text}", messages.WARNING)
            if findings.is_ok:
                text = gettext("The connection works. All required data can be read.")
                self.message_user(request, f"{name}: {text}", messages.SUCCESS)
