"""Digests: how often a person gets them, their feed, and the link that ends the e-mails."""

from allauth.core.internal import ratelimit
from django.conf import settings
from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.signing import BadSignature, Signer
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.feedgenerator import Atom1Feed
from django.utils.translation import gettext as _
from django.views.decorators.cache import cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memories.digest_mail import (
    UNSUBSCRIBE_SALT,
    build_digest,
    choose_frequency,
    use_locale_of,
    workspaces_for,
    zone_for,
)
from memories.models import AuditEvent, Digest
from memories.rules.memory.digests import DAYS, last_period
from memories.views.access.access import UserRequest, find_only_workspace
from memories.views.access.preferences_form import DigestForm
from memories.views.pages import render_page
from memories.views.paths import full_url


@login_required
@require_POST
def edit(request: UserRequest) -> HttpResponse:
    """Save how often the e-mail is sent."""
    form = DigestForm(request.POST)
    if not form.is_valid():
        toasts.error(request, _("Nothing was saved. Choose how often the digest is sent."))
        return redirect("preferences-edit")
    digest, _created = Digest.objects.get_or_create(user=request.user)
    choose_frequency(digest, form.cleaned_data["frequency"], timezone.now())
    toasts.success(request, _("Settings saved."))
    return redirect("preferences-edit")


@login_required
@require_POST
def feed_address(request: UserRequest) -> HttpResponse:
    """Show new addresses of the feed. With ``do=revoke``, revoke the feed instead."""
    digest, _created = Digest.objects.get_or_create(user=request.user)
    if request.POST.get("do") == "revoke":
        if Digest.objects.filter(pk=digest.pk).revoke_feeds():
            AuditEvent.objects.record("feed_revoke", by=request.user)
        toasts.success(request, _("The feed was revoked. Its address no longer works."))
        return redirect("preferences-edit")
    token = digest.new_feed_token()
    AuditEvent.objects.record("feed_issue", by=request.user)
    address = full_url(reverse("digests-feed", args=[token]))
    addresses = [
        (choice.label, f"{address}?frequency={choice}") for choice in Digest.Frequency if choice
    ]
    context = {"access": find_only_workspace(request), "addresses": addresses}
    return render_page(request, "memory/digests/feed.html", context)


@require_safe
@cache_control(no_store=True, private=True)
def feed(request: HttpRequest, token: str) -> HttpResponse:
    """Send the digest of the last period of each workspace as an Atom feed.

    ``?frequency=`` is daily or weekly. Without it, the choice for e-mail counts, else daily.
    """
    if not ratelimit.consume(request, app="allauth.account", action="feed", limit_get=True):
        return render(request, "429.html", status=429)
    now = timezone.now()
    digest = Digest.objects.find_by_token(token)
    if digest is None:
        raise Http404
    frequency = request.GET.get("frequency", digest.frequency or Digest.Frequency.DAILY)
    if frequency not in DAYS:
        raise Http404
    user = digest.user
    workspaces = workspaces_for(user, now)
    zone = zone_for(user, workspaces)
    start, end = last_period(frequency, now, zone)
    with use_locale_of(user, zone):
        atom = Atom1Feed(
            title="Memory Hub",
            link=settings.MEMORYHUB_URL,
            description="",
            language=user.language or settings.LANGUAGE_CODE,
            feed_guid=f"{settings.MEMORYHUB_URL}/#digest-{digest.pk}-{frequency}",
        )
        for workspace in workspaces:
            text = build_digest(user, workspace, start, now)
            if text is not None:
                atom.add_item(
                    title=text.title,
                    link=text.url,
                    description=text.as_html(),
                    unique_id=f"{text.url}#{frequency}-{end.date().isoformat()}",
                    updateddate=end,
                    pubdate=end,
                )
    return HttpResponse(atom.writeString("utf-8"), content_type=Atom1Feed.content_type)


@csrf_exempt  # mail programs send a POST without a token (RFC 8058)
@require_http_methods(["GET", "HEAD", "POST"])
@cache_control(no_store=True, private=True)
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """End the e-mails of a person on POST. A page with the button answers GET.

    ``token`` is the signed id of the person's digest.
    """
    try:
        pk = Signer(salt=UNSUBSCRIBE_SALT).unsign(token)
    except BadSignature as error:
        raise Http404 from error
    digest = get_object_or_404(Digest, pk=pk)
    if request.method == "POST":
        digest.choose(Digest.Frequency.OFF, None)
    context = {"is_done": not digest.frequency}
    return render(request, "memory/digests/unsubscribe.html", context)
