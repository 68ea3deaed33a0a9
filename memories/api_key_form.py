"""The form for a new API key, which pages and the admin share."""

from datetime import timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from memories.models import ApiKey, Channel, Member, Reader, User, Workspace
from memories.models.access.api_keys import REQUESTS_PER_MINUTE

FOLDED_FIELDS = ("channels", "is_public", "requests_per_minute")


class ApiKeyForm(forms.Form):
    """A form for a key of the signed-in user. Only editors may let it write notes.

    Guests cannot let it propose corrections.
    Operators may set its rate, and create keys that read public channels only.
    """

    name = forms.CharField(
        label=_("Name"),
        max_length=80,
        help_text=_("What the key is for, such as “laptop” or “CI”."),
    )
    channels = forms.CharField(
        label=_("Only these channels"),
        required=False,
        max_length=1_000,
        help_text=_("Names or ids, separated by spaces. Empty: everything you can access."),
    )
    days = forms.TypedChoiceField(
        label=_("Expires"),
        coerce=int,
        choices=[
            (30, _("in 30 days")),
            (90, _("in 90 days")),
            (365, _("in a year")),
            (0, _("no expiry")),
        ],
        initial=90,
    )
    # Named like the values of `ApiKey.Scope`.
    notes = forms.BooleanField(label=_("Can write notes"), required=False)
    propose = forms.BooleanField(
        label=_("Can propose corrections"),
        required=False,
        help_text=_("An editor approves or rejects each of them."),
    )

    is_public = forms.BooleanField(label=_("Reads public channels only"), required=False)
    requests_per_minute = forms.IntegerField(
        label=_("Requests per minute"),
        initial=REQUESTS_PER_MINUTE,
        min_value=1,
        max_value=100_000,
    )

    def __init__(self, *args: Any, workspace: Workspace, reader: Reader, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.key_workspace, self.reader = workspace, reader
        role = workspace.role_of(reader)
        if role not in Member.EDITING:
            del self.fields["notes"]
        if role not in Member.READING:
            del self.fields["propose"]
        if not reader.is_operator:
            del self.fields["is_public"], self.fields["requests_per_minute"]

    @property
    def main_fields(self) -> list[forms.BoundField]:
        return [field for field in self if field.name not in FOLDED_FIELDS]

    @property
    def more_fields(self) -> list[forms.BoundField]:
        return [field for field in self if field.name in FOLDED_FIELDS]

    def clean_channels(self) -> list[Channel]:
        """Return the channels that the form names. Each name must match exactly one readable channel."""
        readable = Channel.objects.visible_to(self.reader).filter(workspace=self.key_workspace)
        channels = []
        for name in self.cleaned_data["channels"].split():
            matches = list(readable.named(name)[:2])
            if len(matches) != 1:
                raise forms.ValidationError(
                    _("No channel %(name)s, or several channels have this name. Use its id."),
                    params={"name": name},
                )
            channels += matches
        return channels

    def limits(self) -> dict[str, Any]:
        """Return the arguments of `ApiKeyQuerySet.issue` that limit the key."""
        days = self.cleaned_data["days"]
        writes = (ApiKey.Scope.NOTES, ApiKey.Scope.PROPOSE)
        return {
            "scopes": [
                ApiKey.Scope.READ.value,
                *(scope.value for scope in writes if self.cleaned_data.get(scope)),
            ],
            "channels": self.cleaned_data["channels"],
            "expires_at": self.reader.now + timedelta(days=days) if days else None,
        }

    def issue(self, *, by: User) -> tuple[ApiKey, str]:
        return ApiKey.objects.issue(
            self.key_workspace,
            name=self.cleaned_data["name"],
            by=by,
            user=None if self.cleaned_data.get("is_public") else by,
            requests_per_minute=self.cleaned_data.get("requests_per_minute", REQUESTS_PER_MINUTE),
            **self.limits(),
        )
