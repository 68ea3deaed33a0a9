"""Catch up: what happened while somebody was away. Reading it marks nothing; a button does."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.db.models import Exists, F, Max, Min, OuterRef, Q, QuerySet
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from memories.models import Channel, Message, Seen
from memories.models.memory.seen import unseen_memories
from memories.pipeline.sync.coverage import TEMPORARY_CODES, Coverage, coverage_of, is_late
from memories.rules.costs.orders import Unreadable
from memories.rules.health import SYNC_MAX_AGE, HealthProblem, find_problems
from memories.rules.memory.catch_up import (
    PERIODS,
    SEEN,
    Since,
    format_cursor,
    parse_cursor,
    parse_since,
)
from memories.views.access.access import (
    UserRequest,
    WorkspaceContext,
    number_or_none,
    open_workspace,
)
from memories.views.generate.health import describe_failed
from memories.views.memory.marks import followed, with_marks
from memories.views.memory.news import catalogue, entries_of, fill, looks_of, with_places
from memories.views.memory.shown import versions_of
from memories.views.pages import render_page_or_part, wants_part
from memories.views.paths import scope_name

AT_ONCE = 20
LOOKED_AT = 50  # changed texts that are looked through for what deserves a look
DAY = "day"  # the radio beside the field for one


@dataclass(frozen=True)
class Selection:
    """What a request wants to see; ``error`` where that was no day."""

    since: Since
    day: str
    cursor: str
    error: str = ""

    @property
    def query(self) -> dict[str, str]:
        kept = {"since": self.since.choice} if not self.since.is_seen else {}
        return {**kept, **({"cursor": self.cursor} if self.cursor else {})}


@login_required
@require_safe
def index(request: UserRequest, slug: str) -> HttpResponse:
    """``?since=`` seen, 24h, 7d or a day (``since=day&day=…`` from the form); ``&cursor=`` goes on.
    As a part: the rest of the list with a cursor, else all of it."""
    place = open_workspace(request, slug)
    now = timezone.now()
    selection = _selection(request.GET, place, now)
    folded = number_or_none(request.GET.get("marked", ""))
    cursor = parse_cursor(selection.cursor)
    most = AT_ONCE if cursor else LOOKED_AT
    listing = catalogue(place, selection.since, folded, cursor=cursor, most=most)
    entries, more = listing.entries[:AT_ONCE], len(listing.keys) > AT_ONCE
    digest = None if cursor else listing.digest
    fill([*([digest] if digest else []), *entries], place, selection.since)
    context: dict[str, Any] = {
        "place": place,
        **_form(selection),
        "entries": entries,
        "digest": digest,
        "goes_on": cursor is not None,
        "more": _more(place, selection, listing.keys[AT_ONCE - 1]) if more else "",
        "left": min(AT_ONCE, len(listing.keys) - AT_ONCE),
    }
    part = "memory/catch_up/_entries.html"
    if cursor is None or not wants_part(request):
        part = "memory/catch_up/_catch_up.html"
        context["looks"] = [] if cursor else looks_of(listing, place, selection.since, now)
        context["from_us"] = _from(place, selection.since)
        context["has_marks"] = marks_of(place).exists()
        context["is_late"] = is_late(place.workspace, now)
        context["behind"] = _behind(place, now)
        context["health"] = _health(place, now)
        context["has_memories"] = place.followed.exists()
        context["has_messages"] = context["has_memories"] or _has_messages(place)
    status = 422 if selection.error else 200
    response = render_page_or_part(
        request, "memory/catch_up/index.html", part, context, status=status
    )
    if selection.error:
        response["HX-Push-Url"] = "false"  # it is no address to come back to
    return response


@login_required
@require_POST
def mark(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """``number``: this version, which was on screen, is seen. With ``undo`` it is not: the mark
    before that one holds again."""
    place = open_workspace(request, slug)
    memory = get_object_or_404(followed(place.workspace, place.reader), pk=pk)
    number = number_or_none(request.POST.get("number", ""))
    if number is None:
        raise Http404
    get_object_or_404(versions_of(memory, place), number=number)
    seen = Seen.objects.of(request.user, memory)
    now = timezone.now()
    where = scope_name(*with_places([memory], place))
    if "undo" in request.POST:
        news = (
            _("%(where)s is unseen again.") % {"where": where}
            if seen.undo(number)
            else _("There is no mark to take back.")
        )
    else:
        seen.mark(number, now)
        news = _("%(where)s is seen up to v%(number)s.") % {"where": where, "number": seen.number}
    selection = _selection(request.POST, place, now)
    if wants_part(request):
        return _entry(request, place, memory.pk, selection, news)
    toasts.success(request, news)
    path = reverse("catch_up-index", args=[slug])
    query = {**selection.query, "marked": str(memory.pk)}
    return redirect(f"{path}?{urlencode(query)}#entry-{memory.pk}")


def _entry(
    request: UserRequest, place: WorkspaceContext, pk: int, selection: Selection, news: str
) -> HttpResponse:
    """One entry as it is now, with the counts beside it."""
    same = followed(place.workspace, place.reader).filter(pk=pk)
    memories = with_marks(same, place.reader)
    entries = entries_of(memories, place, selection.since, folded=pk)
    if not entries:
        raise Http404
    fill(entries, place, selection.since)
    [entry] = entries
    nav = [*place.nav.loud, *place.nav.quiet, *place.nav.archived]
    context = {
        "place": place,
        **_form(selection),
        "entry": entry,
        "rows": [row for row in nav if row.channel.pk == entry.memory.channel_id],
        "news": news,
        "takes_focus": True,
    }
    part = "memory/catch_up/_marked.html"
    return render_page_or_part(request, part, part, context)


def _selection(given: QueryDict, place: WorkspaceContext, now: datetime) -> Selection:
    choice, day = given.get("since", ""), given.get("day", "").strip()
    cursor = given.get("cursor", "") if parse_cursor(given.get("cursor", "")) else ""
    try:
        since = parse_since(day or "-" if choice == DAY else choice, now, place.zone)
    except Unreadable:
        return Selection(Since(), day or choice, "", _("Choose a day that has begun."))
    return Selection(since, since.choice if "-" in since.choice else "", cursor)


def _form(selection: Selection) -> dict[str, Any]:
    is_day = bool(selection.day)
    return {
        "selection": selection,
        "since": selection.since,
        "choice": DAY if is_day else selection.since.choice,
        "choices": [
            (SEEN, _("what I last saw")),
            *zip(PERIODS, (_("24 hours"), _("7 days")), strict=True),
        ],
    }


def _more(place: WorkspaceContext, selection: Selection, last: tuple[int, int]) -> str:
    path = reverse("catch_up-index", args=[place.workspace.slug])
    query = {**selection.query, "cursor": format_cursor(last)}
    return f"{path}?{urlencode(query)}"


def _from(place: WorkspaceContext, since: Since) -> Any:
    """The moment in the title: the asked one, or since when there may be news; None for ever."""
    if since.us is not None:
        return since.us
    marks = marks_of(place)
    if not place.unseen:
        return marks.aggregate(at=Max("at"))["at"]
    behind = marks.filter(number__lt=F("memory__current__number"))
    unmarked = ~Exists(marks.filter(memory=OuterRef("pk")))
    if unseen_memories(place.followed, place.reader.user_id).filter(unmarked).exists():
        return None
    return behind.aggregate(at=Min("at"))["at"]


def marks_of(place: WorkspaceContext) -> QuerySet[Seen]:
    """The reader's marks of what they catch up with."""
    marks = Seen.objects.filter(user=place.reader.user_id, at__isnull=False)
    return marks.filter(Exists(place.followed.filter(pk=OuterRef("memory"))))


def _behind(place: WorkspaceContext, now: datetime) -> list[tuple[Channel, Coverage]]:
    """Chosen channels that are not read up to now, and somebody has to do something about it. Where
    the whole sync is late, the page says that instead."""
    if not place.workspace.connected_at or is_late(place.workspace, now):
        return []
    late = Q(sync__synced_at__lt=now - SYNC_MAX_AGE)
    channels = place.placed(
        place.readable_channels.failing(TEMPORARY_CODES, late).select_related("sync")
    )
    read = ((channel, coverage_of(channel, now)) for channel in channels)
    return [(channel, how) for channel, how in read if how.code not in TEMPORARY_CODES]


def _health(place: WorkspaceContext, now: datetime) -> dict[str, Any]:
    """Why nothing new may have come of what was read. The rest is said elsewhere on the page."""
    signs = place.signs
    problems = [
        problem
        for problem in find_problems(signs, now)
        if problem in (HealthProblem.WORKER, HealthProblem.JOBS)
    ]
    return {
        "problems": problems,
        "worker_at": signs.worker_at,
        "failed": describe_failed(signs.failed_jobs),
    }


def _has_messages(place: WorkspaceContext) -> bool:
    visible = Message.objects.visible_to(place.reader)
    return visible.filter(channel__workspace=place.workspace).exists()
