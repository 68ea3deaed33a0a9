"""Quarantined lines: review, approve and reject them, and revoke their sources."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from memories.models import Message, Person, QuarantinedLine, StaleBase
from memories.models.memory.lines import Audience
from memories.models.memory.new_version import number_and_revision
from memories.models.safety.quarantine import QuarantineQuerySet
from memories.pipeline.safety import revoking
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.safety.guard import Rule
from memories.tasks import schedule_pass
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    must_edit,
    numbers_in,
    open_workspace,
)
from memories.views.pages import render_page_or_part, wants_part
from memories.views.paths import message_path

LINES_SHOWN = 100

RULE_TEXTS = {
    Rule.SIZE: gettext_lazy("too long for a line"),
    Rule.ORDER: gettext_lazy("gives orders to a model"),
    Rule.MARKUP: gettext_lazy("contains active markup"),
    Rule.SECRET: gettext_lazy("contains what looks like a key or password"),
    Rule.LINK: gettext_lazy("contains a link that is in no source"),
    Rule.ADDRESS: gettext_lazy("contains an e-mail address that is in no source"),
    Rule.MENTION: gettext_lazy("contains a mention that is in no source"),
    Rule.OTHER_SCOPE: gettext_lazy("matches text from another channel"),
    Rule.LED: gettext_lazy("is based only on orders to a model"),
}


@dataclass
class ShownLine:
    """A line, with the messages that it probably rests on and the addresses of their pages."""

    line: QuarantinedLine
    text: str
    why: str
    based_on: int
    revision: int
    sources: list[tuple[Message, str]]

    @property
    def excludable(self) -> list[Message]:
        return [message for message, _href in self.sources if not message.is_revoked]

    @property
    def people(self) -> list[Person]:
        authors = (message.author for message, _href in self.sources)
        return list(dict.fromkeys(a for a in authors if a and not a.is_revoked))


@login_required
@require_safe
def index(request: UserRequest, slug: str) -> HttpResponse:
    """List the waiting lines, newest first, and the revoked people."""
    access = open_workspace(request, slug)
    must_edit(access)
    return _page(request, access)


@login_required
@require_POST
def accept(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Add the line, as one by this user, to a new version of the memory.

    ``based_on`` and ``revision`` identify the text on the user's screen. If the memory has another
    text, the response has status 409.
    """
    access, line = _open(request, slug, pk)
    based_on, revision = numbers_in(request, "based_on", "revision")
    if based_on is None or revision is None:
        raise Http404
    try:
        version = line.approve(by=request.user, based_on=based_on, revision=revision)
    except StaleBase:
        conflict = _("Nothing was changed. The memory has a newer text. Check it, then try again.")
        return _page(request, access, conflict=conflict)
    if version is None:
        return _respond(request, access, _why_undecided(line))
    schedule_pass(access.workspace.pk)
    news = (
        _("Approved. It is your line in version %(number)s.")
        if version.audience == Audience.SCOPE
        else _(
            "Approved. It is your line in version %(number)s, which is visible to members of the "
            "channel only and is not the current version."
        )
    ) % {"number": version.number}
    return _respond(request, access, news)


@login_required
@require_POST
def reject(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    access, line = _open(request, slug, pk)
    if not line.reject(by=request.user):
        return _respond(request, access, _why_undecided(line))
    return _respond(request, access, _("Rejected. The line stays out of the memory."))


@login_required
@require_POST
def message(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Revoke or restore a message as a source (``do``)."""
    access = open_workspace(request, slug)
    must_edit(access)
    readable = Message.objects.visible_to(access.reader).select_related("channel__workspace")
    message = get_object_or_404(readable, pk=pk, channel__workspace=access.workspace)
    if _revokes(request):
        done = revoking.revoke_message(message, by=request.user) is not None
        news = _(
            "Excluded. Lines based on this message were removed, and the memories are made again "
            "without it."
        )
    else:
        done = revoking.restore_message(message, by=request.user)
        news = _("Included again. The affected memories are made again.")
    path = message_path(slug, message)
    return _respond_and_schedule(request, access, news, path, done=done)


@login_required
@require_POST
def person(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Revoke or restore all past and future messages of a person as sources (``do``)."""
    access = open_workspace(request, slug)
    must_edit(access)
    person = get_object_or_404(
        Person.objects.visible_to(access.reader), pk=pk, workspace=access.workspace
    )
    if _revokes(request):
        done = revoking.revoke_person(person, by=request.user) is not None
        news = _(
            "Excluded. Lines based on this person's messages were removed, and the memories are "
            "made again."
        )
    else:
        done = revoking.restore_person(person, by=request.user)
        news = _("Included again. This person's messages are used again.")
    return _respond_and_schedule(request, access, news, "", done=done)


def _revokes(request: UserRequest) -> bool:
    action = request.POST.get("do", "")
    if action not in ("revoke", "restore"):
        raise Http404
    return action == "revoke"


def _respond_and_schedule(
    request: UserRequest, access: WorkspaceAccess, news: str, path: str, *, done: bool
) -> HttpResponse:
    if done:
        schedule_pass(access.workspace.pk)
    else:
        news = _("Nothing changed. It was already so.")
    if path and request.POST.get("from") == "message":
        toasts.success(request, news)
        return redirect(path)
    return _respond(request, access, news)


def _open(request: UserRequest, slug: str, pk: int) -> tuple[WorkspaceAccess, QuarantinedLine]:
    access = open_workspace(request, slug)
    must_edit(access)
    return access, get_object_or_404(_of(access).with_memory(), pk=pk)


def _why_undecided(line: QuarantinedLine) -> str:
    """Return why a decision about this line had no effect."""
    line.refresh_from_db(fields=["state"])
    if line.state == QuarantinedLine.State.WAITING:
        return _(
            "Nothing was changed. A message of this line was deleted or edited, so the text of "
            "the line was redacted. It cannot be approved any more."
        )
    return _("Somebody else already decided about this line.")


def _of(access: WorkspaceAccess) -> QuarantineQuerySet:
    lines = QuarantinedLine.objects.visible_to(access.reader)
    return lines.filter(memory__workspace=access.workspace)


def _respond(request: UserRequest, access: WorkspaceAccess, news: str) -> HttpResponse:
    if wants_part(request):
        return _page(request, access, news=news)
    toasts.success(request, news)
    return redirect("quarantine-index", access.workspace.slug)


def _page(
    request: UserRequest, access: WorkspaceAccess, *, news: str = "", conflict: str = ""
) -> HttpResponse:
    waiting = _of(access).waiting().with_memory()
    lines = list(waiting[: LINES_SHOWN + 1])
    people = Person.objects.visible_to(access.reader).filter(
        workspace=access.workspace, is_revoked=True
    )
    return render_page_or_part(
        request,
        "safety/quarantine/index.html",
        "safety/quarantine/_quarantine.html",
        {
            "access": access,
            "lines": _shown(lines[:LINES_SHOWN], access),
            "has_more": len(lines) > LINES_SHOWN,
            "revoked_people": list(people),
            "news": news,
            "conflict": conflict,
        },
        status=409 if conflict else 200,
    )


def _shown(lines: Iterable[QuarantinedLine], access: WorkspaceAccess) -> list[ShownLine]:
    """Return the lines with the sources that the reader may read. Two queries."""
    loaded = list(lines)
    through = QuarantinedLine.sources.through.objects.filter(quarantinedline__in=loaded)
    pairs = list(through.order_by("pk").values_list("quarantinedline_id", "message_id"))
    readable = Message.objects.visible_to(access.reader).select_related("author", "channel")
    rows = readable.in_bulk({message for _, message in pairs})
    slug = access.workspace.slug
    sources: dict[int, list[tuple[Message, str]]] = defaultdict(list)
    for line_id, key in pairs:
        if (row := rows.get(key)) is not None:
            sources[line_id].append((row, message_path(slug, row)))
    shown = []
    for line in loaded:
        current = line.memory.current
        why = str(RULE_TEXTS[Rule(line.rule)]) if line.rule in set(Rule) else line.rule
        based_on, revision = number_and_revision(current)
        text = mark_invisible(line.text)
        shown.append(ShownLine(line, text, why, based_on, revision, sources[line.pk]))
    return shown
