"""Invitations: admins create links, and the people who open one choose a name and a password."""

from typing import Any

from django.conf import settings
from django.contrib import messages as toasts
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from memories.devices import remember_device
from memories.forms import focus_first_error
from memories.models import Invitation, Member
from memories.models.access.invitations import InvitationExpired
from memories.views.access.access import (
    UserRequest,
    must_administer,
    number_in,
    open_workspace,
)
from memories.views.access.forms import NewAccountForm
from memories.views.pages import render_page
from memories.views.paths import full_url


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """List the open invitations, for admins.

    POST with ``role`` creates one, and POST with ``revoke``, a primary key, revokes one. The link is
    shown once, in the response to the POST that creates it.
    """
    access = open_workspace(request, slug)
    must_administer(access)
    invitations = Invitation.objects.filter(workspace=access.workspace).open(access.now)
    context: dict[str, Any] = {"access": access, "roles": Member.Role.choices}
    if "revoke" in request.POST:
        invitation = get_object_or_404(invitations, pk=number_in(request, "revoke"))
        invitation.revoke(by=request.user, now=access.now)
        toasts.success(request, _("The invitation was revoked. Its link no longer works."))
        return redirect("invitations-index", slug)
    if request.method == "POST":
        role = request.POST.get("role", "")
        if role not in Member.Role.values:
            raise Http404
        context["new_invitation"], token = Invitation.objects.issue(
            access.workspace, role, by=request.user, now=access.now
        )
        path = reverse("invitations-accept", args=[token])
        context["link"] = full_url(path)
    context["invitations"] = invitations.select_related("created_by")
    return render_page(request, "access/invitations/index.html", context)


def accept(request: UserRequest, token: str) -> HttpResponse:
    """Create the account of an invitation.

    404 if the link was used, revoked or has expired, or if its author is no admin any more.
    """
    now = timezone.now()
    invitation = Invitation.objects.find(token, now)
    if invitation is None:
        return render_page(request, "access/invitations/expired.html", {}, status=404)
    if request.user.is_authenticated:
        context: dict[str, Any] = {"invitation": invitation}
        return render_page(request, "access/invitations/accept.html", context)
    form = NewAccountForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        user = form.save(commit=False)
        try:
            invitation.accept(user, now)
        except InvitationExpired:
            return render_page(request, "access/invitations/expired.html", {}, status=404)
        login(request, user, settings.AUTHENTICATION_BACKENDS[0])
        response = redirect("catch_up-index", invitation.workspace.slug)
        remember_device(response, user)
        return response
    focus_first_error(form)
    context = {"invitation": invitation, "form": form}
    status = 422 if form.is_bound else 200
    return render_page(request, "access/invitations/accept.html", context, status=status)
