"""Digests: the text of Catch up for one person and period, and its e-mails."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, tzinfo
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.core.signing import Signer
from django.db import transaction
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memories.models import Digest, DigestDelivery, Reader, User, Workspace
from memories.models.access.audience import entered_workspaces
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.memory.digests import last_period, next_end, next_try, period_start
from memories.views.access.access import WorkspaceAccess
from memories.views.memory.briefing import OpeningLine, load_digest
from memories.views.memory.news import NewsEntry
from memories.views.paths import full_url

logger = logging.getLogger(__name__)

UNSUBSCRIBE_SALT = "memories.unsubscribe"
MAX_PER_RUN = 100  # digests that are queued, and e-mails that are sent


@dataclass(frozen=True)
class DigestText:
    """What a digest says: the opening lines of Catch up, and the channels with news."""

    workspace: Workspace
    since: datetime
    opening_lines: Sequence[OpeningLine]
    entries: Sequence[NewsEntry]

    @property
    def title(self) -> str:
        when = date_format(timezone.localtime(self.since), _("l j M"))
        words = {"workspace": self.workspace, "when": when}
        return _("%(workspace)s: catch up since %(when)s") % words

    @property
    def url(self) -> str:
        path = reverse("catch_up-index", args=[self.workspace.slug])
        return full_url(path)

    def as_html(self) -> str:
        context = {"text": self, "base": settings.MEMORYHUB_URL}
        return render_to_string("memory/digests/_digest.html", context)

    def as_plain(self, unsubscribe_url: str) -> str:
        context = {
            "text": self,
            "base": settings.MEMORYHUB_URL,
            "unsubscribe_url": unsubscribe_url,
        }
        return render_to_string("memory/digests/digest.txt", context)


def workspaces_for(user: User, now: datetime) -> list[Workspace]:
    reader = Reader.of(user, now).without_operator_rights()
    return list(entered_workspaces(reader).order_by("pk"))


def zone_for(user: User, workspaces: Sequence[Workspace]) -> tzinfo:
    """Return the time zone of the periods: the person's own, or that of their first workspace."""
    if not workspaces:
        return user.zone or timezone.get_default_timezone()
    return workspaces[0].zone_for(user)


def choose_frequency(digest: Digest, frequency: str, now: datetime) -> None:
    """Save how often the e-mail is sent. The first one comes at the end of the current period."""
    zone = zone_for(digest.user, workspaces_for(digest.user, now))
    digest.choose(frequency, next_end(frequency, now, zone) if frequency else None)


def build_digest(
    user: User, workspace: Workspace, since: datetime, now: datetime
) -> DigestText | None:
    """Return the news that the person may read now, None without any.

    Activate the person's language and time zone first.
    """
    reader = Reader.of(user, now).without_operator_rights()
    briefing = load_digest(WorkspaceAccess(workspace, reader, user.zone), since)
    if briefing is None:
        return None
    return DigestText(workspace, since, briefing.opening_lines, briefing.entries)


def use_locale_of(user: User, zone: tzinfo) -> ExitStack:
    """Return a context manager that activates the person's language and the time zone."""
    stack = ExitStack()
    stack.enter_context(translation.override(user.language or settings.LANGUAGE_CODE))
    stack.enter_context(timezone.override(zone))
    return stack


def fill_outbox(now: datetime) -> None:
    """Add a delivery for each person and workspace whose period is over.

    Without a server for e-mail nothing is added. Later only the newest period is.
    """
    if not settings.EMAIL_HOST:
        return
    for digest in Digest.objects.due(now)[:MAX_PER_RUN]:
        workspaces = workspaces_for(digest.user, now)
        zone = zone_for(digest.user, workspaces)
        _start, end = last_period(digest.frequency, now, zone)
        with transaction.atomic():
            DigestDelivery.objects.enqueue(digest, workspaces, end.date(), now)
            unchanged = Digest.objects.filter(pk=digest.pk, frequency=digest.frequency)
            unchanged.update(next_at=next_end(digest.frequency, now, zone))


def send_due(now: datetime) -> int:
    """Send the e-mails that are due, and return how many were sent. Without a server none are."""
    if not settings.EMAIL_HOST:
        return 0
    return sum(_send(delivery, now) for delivery in DigestDelivery.objects.due(now)[:MAX_PER_RUN])


def is_due(now: datetime) -> bool:
    """Return whether e-mails wait for the next run. Without a server none do."""
    if not settings.EMAIL_HOST:
        return False
    return Digest.objects.due(now).exists() or DigestDelivery.objects.due(now).exists()


def _send(delivery: DigestDelivery, now: datetime) -> bool:
    if not delivery.claim(now, next_try(delivery.tries + 1, now)):
        return False
    message = _message(delivery, now)
    if message is None:
        delivery.finish(None)
        return False
    try:
        message.send()
    except OSError as error:  # SMTPException is one, too
        logger.warning("%s was not sent: %s", delivery, type(error).__name__)
        return False
    delivery.finish(now)
    return True


def _message(delivery: DigestDelivery, now: datetime) -> EmailMultiAlternatives | None:
    """Return the e-mail with what the person may read now, None if nothing is sent."""
    digest, workspace = delivery.digest, delivery.workspace
    user = digest.user
    workspaces = workspaces_for(user, now)
    if not (digest.frequency and user.email and workspace in workspaces):
        return None
    zone = zone_for(user, workspaces)
    since = period_start(digest.frequency, delivery.period, zone)
    with use_locale_of(user, zone):
        text = build_digest(user, workspace, since, now)
        if text is None:
            return None
        unsubscribe_url = full_url(unsubscribe_path(digest))
        message = EmailMultiAlternatives(
            " ".join(strip_invisible(text.title).split()),
            text.as_plain(unsubscribe_url),
            to=[user.email],
            headers={
                # The same after a repeated try.
                "Message-ID": f"<digest-{delivery.pk}@{urlsplit(settings.MEMORYHUB_URL).hostname}>",
                "List-Unsubscribe": f"<{unsubscribe_url}>",
                "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
                "Auto-Submitted": "auto-generated",
            },
        )
        message.attach_alternative(text.as_html(), "text/html")
    return message


def unsubscribe_path(digest: Digest) -> str:
    token = Signer(salt=UNSUBSCRIBE_SALT).sign(str(digest.pk))
    return reverse("digests-unsubscribe", args=[token])
