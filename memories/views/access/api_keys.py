"""API keys: pages to create and revoke them, and to revoke connected apps."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from django import forms
from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from memories import agent as client
from memories.models import ApiKey, Channel
from memories.models.access.api_keys import REQUESTS_PER_MINUTE
from memories.views.access.access import UserRequest, WorkspaceContext, open_workspace
from memories.views.pages import render_page

FOLDED_FIELDS = ("channels", "is_public", "requests_per_minute")


class ApiKeyForm(forms.Form):
    """A form for a key of the signed-in user. Only editors may let it write notes.

    Operators may set its rate, and create keys that read public channels only.
    """

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=80,
        help_text=gettext_lazy("What the key is for, such as “laptop” or “CI”."),
    )
    channels = forms.CharField(
        label=gettext_lazy("Only these channels"),
        required=False,
        max_length=1_000,
        help_text=gettext_lazy(
            "Names or ids, separated by spaces. Empty: everything you can access."
        ),
    )
    days = forms.TypedChoiceField(
        label=gettext_lazy("Expires"),
        coerce=int,
        choices=[
            (30, gettext_lazy("in 30 days")),
            (90, gettext_lazy("in 90 days")),
            (365, gettext_lazy("in a year")),
            (0, gettext_lazy("never")),
        ],
        initial=90,
    )
    notes = forms.BooleanField(label=gettext_lazy("Can write notes"), required=False)
    propose = forms.BooleanField(
        label=gettext_lazy("Can propose corrections"),
        required=False,
        help_text=gettext_lazy("An editor approves or rejects each of them."),
    )

    is_public = forms.BooleanField(label=gettext_lazy("Reads public channels only"), required=False)
    requests_per_minute = forms.IntegerField(
        label=gettext_lazy("Requests per minute"),
        initial=REQUESTS_PER_MINUTE,
        min_value=1,
        max_value=100_000,
    )

    def __init__(self, *args: Any, place: WorkspaceContext, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.place = place
        if not place.can_edit:
            del self.fields["notes"]
        if not place.reader.is_operator:
            del self.fields["is_public"], self.fields["requests_per_minute"]

    @property
    def main_fields(self) -> list[forms.BoundField]:
        return [field for field in self if field.name not in FOLDED_FIELDS]

    @property
    def folded_fields(self) -> list[forms.BoundField]:
        return [field for field in self if field.name in FOLDED_FIELDS]

    def clean_channels(self) -> list[Channel]:
        """Return the readable channels. Each name must belong to exactly one of them."""
        channels = []
        for name in self.cleaned_data["channels"].split():
            matches = list(self.place.readable_channels.named(name)[:2])
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
            "expires_at": self.place.now + timedelta(days=days) if days else None,
        }

    def issue(self, request: UserRequest) -> tuple[ApiKey, str]:
        return ApiKey.objects.issue(
            self.place.workspace,
            name=self.cleaned_data["name"],
            by=request.user,
            user=None if self.cleaned_data.get("is_public") else request.user,
            requests_per_minute=self.cleaned_data.get("requests_per_minute", REQUESTS_PER_MINUTE),
            **self.limits(),
        )


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """List the keys and connected apps that the user may revoke, with a form for a new key.

    Only the response to the form shows the token.
    """
    place = open_workspace(request, slug)
    context: dict[str, Any] = {
        "place": place,
        "token": "",
        "mcp_url": request.build_absolute_uri(reverse("mcp")),
    }
    form = ApiKeyForm(request.POST or None, place=place)
    if request.method == "POST" and form.is_valid():
        context["made"], context["token"] = form.issue(request)
        form = ApiKeyForm(place=place)
    keys = _keys(request, place)
    usable = set(keys.usable(place.now).values_list("pk", flat=True))
    readable = set(place.readable_channels.filter(api_keys__in=keys).values_list("pk", flat=True))
    rows = [
        (key, key.pk in usable, [row for row in key.channels.all() if row.pk in readable])
        for key in keys.select_related("user", "client").prefetch_related("channels")
    ]
    context |= {
        "form": form,
        "keys": [row for row in rows if row[0].client is None],
        "apps": [row for row in rows if row[0].client is not None],
    }
    status = 422 if form.errors else 200
    return render_page(request, "access/api_keys/index.html", context, status=status)


@login_required
@require_POST
def revoke(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    place = open_workspace(request, slug)
    key = get_object_or_404(_keys(request, place), pk=pk)
    key.revoke(by=request.user, now=place.now)
    revoked = _("The key was revoked. It no longer works.")
    toasts.success(request, _("The app was disconnected.") if key.client else revoked)
    return redirect("api_keys-index", slug)


def agent(request: HttpRequest) -> HttpResponse:
    """Send the program memoryhub-agent. It is public, and holds no text and no key."""
    return HttpResponse(Path(client.__file__).read_bytes(), content_type="text/x-python")


def _keys(request: UserRequest, place: WorkspaceContext) -> Any:
    keys = ApiKey.objects.filter(workspace=place.workspace)
    return keys.manageable_by(request.user, is_admin=place.can_administer)
