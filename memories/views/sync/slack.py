"""Page of the connection to Slack: its check, and the followed channels. For admins."""

from typing import Any

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.paginator import Page, Paginator
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from memories.models import Channel, SlackConnection, SlackDigest
from memories.pipeline.sync import connecting
from memories.pipeline.sync.connecting import Findings
from memories.tasks import schedule_sync
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    must_administer,
    open_workspace,
)
from memories.views.pages import back_to, render_page_or_part, wants_part

PAGE_SIZE = 100  # channels: each posts two fields, and Django accepts a thousand
TIMEOUT = 10  # seconds that a page waits for Slack


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """POST follows the ids in ``channel``. ``was`` lists the followed ids when the page was shown.

    Channels on other pages of the list stay as they are.
    """
    access = open_workspace(request, slug)
    must_administer(access)
    if request.method == "POST":
        return _update_followed(request, access)
    context = {**_channels(access, request.GET), **_connection(access)}
    return render_page_or_part(
        request, "sync/slack/index.html", "sync/slack/_channels.html", context
    )


@login_required
@require_POST
def test(request: UserRequest, slug: str) -> HttpResponse:
    """Check the connection. With ``begin`` a successful check also starts the first sync."""
    access = open_workspace(request, slug)
    must_administer(access)
    now = timezone.now()
    findings = connecting.check_connection(access.workspace, now, timeout=TIMEOUT)
    is_connected = "begin" in request.POST and connecting.connect(access.workspace, findings, now)
    if is_connected:
        schedule_sync(access.workspace.pk)
    if wants_part(request):
        context = {**_connection(access, findings), "is_new": True, "is_connected": is_connected}
        return render_page_or_part(request, "", "sync/slack/_connection.html", context)
    if findings.code:
        toasts.error(request, str(findings.error))
    elif findings.missing:
        toasts.warning(request, _("The connection works, but a required scope is missing."))
    elif is_connected:
        toasts.success(request, _("People and channels are being read. Check again in a minute."))
    else:
        toasts.success(request, _("The connection works. All required data can be read."))
    return redirect("slack-index", slug)


def _update_followed(request: UserRequest, access: WorkspaceAccess) -> HttpResponse:
    followed, unfollowed = connecting.update_followed(
        access.workspace,
        access.reader,
        before=request.POST.getlist("was"),
        after=request.POST.getlist("channel"),
        by=request.user,
    )
    sentences = []
    if followed:
        text = ngettext("%(n)d channel is now read.", "%(n)d channels are now read.", followed)
        sentences.append(text % {"n": followed})
    if unfollowed:
        text = ngettext(
            "%(n)d channel is no longer read. Its stored messages are kept.",
            "%(n)d channels are no longer read. Their stored messages are kept.",
            unfollowed,
        )
        sentences.append(text % {"n": unfollowed})
    toasts.success(request, " ".join(sentences) or _("Nothing changed."))
    path = reverse("slack-index", args=[access.workspace.slug])
    return redirect(f"{back_to(request, path)}#channels")


def _connection(access: WorkspaceAccess, findings: Findings | None = None) -> dict[str, Any]:
    return {
        "access": access,
        "findings": findings or connecting.last_check(access.workspace),
        "connection": SlackConnection.objects.filter(workspace=access.workspace).first(),
        "refused_digests": [
            (digest, connecting.error_text(digest.problem))
            for digest in SlackDigest.objects.refused().filter(channel__in=access.readable_channels)
        ],
    }


def _channels(access: WorkspaceAccess, parameters: Any) -> dict[str, Any]:
    """Return a page of the channels that the reader may follow."""
    rows = connecting.selectable_channels(access.workspace, access.reader)
    query = parameters.get("q", "").strip()
    word = query.removeprefix("#")
    matches = rows.filter(Q(name__icontains=word) | Q(slack_id=word)) if word else rows
    page: Page[Channel] = Paginator(matches, PAGE_SIZE).get_page(parameters.get("page"))
    return {
        "query": query,
        "page": page,
        "known": rows.count(),
        "followed": rows.filter(is_followed=True).count(),
        "reads_private": access.workspace.memory_settings.read_private_channels,
    }
