"""API keys: pages to create and revoke them, and to revoke connected apps."""

from functools import partial
from pathlib import Path
from typing import Any

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from memories import agent as client
from memories.api_key_form import ApiKeyForm
from memories.models import ApiKey
from memories.views.access.access import UserRequest, WorkspaceAccess, open_workspace
from memories.views.pages import render_page


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """List the keys and connected apps that the user may revoke, with a form for a new key.

    Only the response to the form shows the token.
    """
    access = open_workspace(request, slug)
    context: dict[str, Any] = {
        "access": access,
        "token": "",
        "mcp_url": request.build_absolute_uri(reverse("mcp")),
    }
    new_form = partial(ApiKeyForm, workspace=access.workspace, reader=access.reader)
    form = new_form(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        context["made"], context["token"] = form.issue(by=request.user)
        form = new_form()
    keys = _keys(request, access)
    usable = set(keys.usable(access.now).values_list("pk", flat=True))
    readable = set(access.readable_channels.filter(api_keys__in=keys).values_list("pk", flat=True))
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
    access = open_workspace(request, slug)
    key = get_object_or_404(_keys(request, access), pk=pk)
    key.revoke(by=request.user, now=access.now)
    revoked = _("The key was revoked. It no longer works.")
    toasts.success(request, _("The app was disconnected.") if key.client else revoked)
    return redirect("api_keys-index", slug)


def agent(request: HttpRequest) -> HttpResponse:
    """Send the program memoryhub-agent. It is public, and holds no text and no key."""
    return HttpResponse(Path(client.__file__).read_bytes(), content_type="text/x-python")


def _keys(request: UserRequest, access: WorkspaceAccess) -> Any:
    keys = ApiKey.objects.filter(workspace=access.workspace)
    return keys.manageable_by(request.user, is_admin=access.can_administer)
