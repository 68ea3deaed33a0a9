"""One version for good, two versions compared, an old one brought back or named, a line pinned."""

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.db.models import Max
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from memories.models import (
    ChangedSince,
    Memory,
    MemoryVersion,
    Message,
    Reader,
    StaleBase,
    Unchanged,
)
from memories.models.memory.versions import MAX_NAME_LENGTH, MemoryVersionQuerySet
from memories.pipeline.costs.usage import Sums, of_jobs
from memories.rules.memory.compare import changed_rows, count_changes, count_kept
from memories.rules.memory.lines import Origin
from memories.views.access.access import (
    UserRequest,
    WorkspaceContext,
    must_edit,
    number_or_none,
    open_version,
    place_of,
)
from memories.views.generate.job_rows import get_visible_jobs
from memories.views.ingest.messages import excerpts
from memories.views.memory.naming import fault_of_name, name_in
from memories.views.memory.scopes import texts_of
from memories.views.memory.shown import card_of, compared, show, show_one, versions_of, with_origin
from memories.views.pages import render_page_or_part, wants_part
from memories.views.paths import card_path
from memories.views.texts import with_words

PAIRS_SHOWN = 100  # of the versions that a pair is chosen from


@login_required
@require_safe
def detail(request: UserRequest, pk: int) -> HttpResponse:
    place, version = open_version(request, pk)
    return _page(request, place, version)


@login_required
@require_POST
def restore(request: UserRequest, pk: int) -> HttpResponse:
    """Make this text the current one again, as a new version. 409 when there is a newer one."""
    place, version = open_version(request, pk)
    must_edit(place)
    memory = version.memory
    given = number_or_none(request.POST.get("based_on", ""))
    based_on = -1 if given is None else given  # no version: stale
    try:
        revision = number_or_none(request.POST.get("revision", ""))
        made = memory.restore(version, by=request.user, based_on=based_on, revision=revision)
    except Unchanged:
        return _answer(request, place, version, _("This is the current text already."))
    except StaleBase:
        memory.refresh_from_db()
        moved_on = _("Nothing was restored: v%(n)s was saved after you opened this page.")
        return _page(request, place, version, moved_on=moved_on, status=409)
    news = (
        _("Version %(old)s is current again, as version %(new)s.")
        if memory.current_id == made.pk
        else _(
            "Version %(old)s is there again as version %(new)s, for members of the channel alone;"
            " it is not the current one."
        )
    ) % {"old": version.number, "new": made.number}
    return _answer(request, place, made, news, has_undo=True)


@login_required
@require_POST
def name(request: UserRequest, pk: int) -> HttpResponse:
    """``name``: what people call this version, empty for nothing. 422 when it is too long."""
    place, version = open_version(request, pk)
    must_edit(place)
    given = name_in(request.POST.get("name", ""))
    if error := fault_of_name(given):
        return _page(
            request, place, version, misnamed=(given, error), takes_focus=False, status=422
        )
    version.rename(given, by=request.user)
    news = with_words(_("Named “%(name)s”."), name=given) if given else _("It has no name.")
    return _answer(request, place, version, news)


@login_required
@require_POST
def undo(request: UserRequest, older: int, newer: int) -> HttpResponse:
    """Take back ``change=``, one of those that the comparison lists, counted from 0. 409 when the
    current text is another than on screen, or what the change left is different by now."""
    place, old = open_version(request, older)
    new = open_version(request, newer)[1]
    if old.memory_id != new.memory_id:
        raise Http404
    must_edit(place)
    given = (number_or_none(request.POST.get(k, "")) for k in ("change", "based_on", "revision"))
    change, based_on, revision = given
    if change is None:
        raise Http404
    memory, on = new.memory, -1 if based_on is None else based_on
    try:
        made = memory.undo(old, new, change, by=request.user, based_on=on, revision=revision)
    except IndexError as error:
        raise Http404 from error
    except StaleBase:
        refused = _("Nothing was undone: v%(n)s was saved after you opened this page.")
    except ChangedSince:
        refused = _("Nothing was undone: in v%(n)s these lines are different by now.")
    except ValueError:
        refused = _("Nothing was undone: v%(n)s says nothing else.")
    else:
        news = (
            _("The change is undone, in version %(number)s.")
            if memory.current_id == made.pk
            else _(
                "The change is undone in version %(number)s, for members of the channel alone;"
                " it is not the current one."
            )
        ) % {"number": made.number}
        return _answer(request, place, made, news, has_undo=True)
    memory.refresh_from_db()
    return _page(request, place, new, moved_on=refused, status=409)


@login_required
@require_POST
def pin(request: UserRequest, pk: int) -> HttpResponse:
    """``pin=`` or ``unpin=`` the position of a line, of the current version in the wording
    (``revision=``) that was on screen. 409 when there is another text by now."""
    place, version = open_version(request, pk)
    must_edit(place)
    pinned = "pin" in request.POST
    position = number_or_none(request.POST.get("pin" if pinned else "unpin", ""))
    revision = number_or_none(request.POST.get("revision", ""))
    if position is None or revision is None:
        raise Http404
    memory = version.memory
    try:
        memory.pin(
            position, by=request.user, based_on=version.number, revision=revision, pinned=pinned
        )
    except LookupError as error:
        raise Http404 from error
    except StaleBase:
        memory.refresh_from_db()
        moved_on = _("Nothing was pinned: v%(n)s was saved after you opened this page.")
        return _pinned(request, place, version, moved_on=moved_on)
    news = (
        _("Pinned: every later update keeps this line word for word.")
        if pinned
        else _("No longer pinned: updates may change this line.")
    )
    return _pinned(request, place, version, news=news)


def _pinned(
    request: UserRequest,
    place: WorkspaceContext,
    version: MemoryVersion,
    *,
    news: str = "",
    moved_on: str = "",
) -> HttpResponse:
    """Back to where the line was pinned: its card, ``on=memory`` or ``on=now``, or ``on=version``."""
    memory, status = version.memory, 409 if moved_on else 200
    on = request.POST.get("on", "")
    on_card = on in ("memory", "now")
    if not wants_part(request):
        if moved_on:
            return _page(request, place, version, moved_on=moved_on, status=status)
        toasts.success(request, news)
        return redirect(
            card_path(memory) if on_card else reverse("versions-detail", args=[version.pk])
        )
    if not on_card:
        return _page(
            request, place, version, news=news, moved_on=moved_on, takes_focus=False, status=status
        )
    card = texts_of(place, None, memory) if on == "now" else card_of(memory, place)
    context = {"place": place, **card, "news": news, "moved_on": _numbered(moved_on, memory)}
    page = "memory/memories/_now.html" if on == "now" else "memory/memories/_saved.html"
    return render_page_or_part(request, page, page, context, status=status)


@login_required
@require_safe
def sources(request: UserRequest, pk: int) -> HttpResponse:
    """The messages that a version rests on, numbered as in its text; of those that the reader may
    read, with their first words."""
    place, version = open_version(request, pk)
    [shown] = show([version], place)
    chips = shown.sources
    readable = Message.objects.visible_to(place.reader).filter(
        pk__in=[chip.message for chip in chips], state=Message.State.LIVE
    )
    words = {message.pk: beginning for message, beginning in excerpts(readable, place)}
    context = {
        "place": place,
        "memory": version.memory,
        "version": version,
        "shown": shown,
        "sources": [(chip, words.get(chip.message)) for chip in chips],
    }
    return render_page_or_part(
        request, "memory/versions/sources.html", "memory/versions/_sources.html", context
    )


@login_required
@require_safe
def compare(request: UserRequest, older: int, newer: int) -> HttpResponse:
    """``?from=&to=`` picks another pair and leads to its own address; ``?view=split`` shows both
    texts side by side, where there is room."""
    is_split = request.GET.get("view") == "split"
    first, second = (number_or_none(request.GET.get(end, "")) for end in ("from", "to"))
    if first is not None and second is not None:
        path = reverse("versions-compare", args=sorted((first, second)))
        return redirect(f"{path}?view=split" if is_split else path)
    visible = with_origin(MemoryVersion.objects.visible_to(Reader.of(request.user)))
    old, new = (get_object_or_404(visible, pk=pk) for pk in (older, newer))
    if old.memory_id != new.memory_id:
        raise Http404
    place = place_of(request, new.memory.workspace)
    before, after = show([old, new], place)
    rows = compared(before, after)
    versions = versions_of(new.memory, place)
    page = "memory/versions/compare.html"
    return render_page_or_part(
        request,
        page,
        page,
        {
            "place": place,
            "memory": new.memory,
            "old": before,
            "new": after,
            "rows": rows,
            "is_split": is_split,
            "changes": changed_rows(rows),
            **count_changes(rows),
            "pairs": _pairs(versions, old, new),
            "previous": versions.filter(number__lt=old.number).order_by("number").last(),
            "next": versions.filter(number__gt=new.number).order_by("number").first(),
        },
    )


def _pairs(
    versions: MemoryVersionQuerySet, old: MemoryVersion, new: MemoryVersion
) -> list[tuple[int, int]]:
    """Number and key of what may be compared instead, newest first: the two themselves, those around
    the newer one, and the newest."""
    around = versions.filter(number__lte=new.number + PAIRS_SHOWN // 2).newest_first()
    numbers = {
        old.number: old.pk,
        new.number: new.pk,
        **dict(around.values_list("number", "pk")[:PAIRS_SHOWN]),
        **dict(versions.newest_first().values_list("number", "pk")[:1]),
    }
    return sorted(numbers.items(), reverse=True)


def _answer(
    request: UserRequest,
    place: WorkspaceContext,
    version: MemoryVersion,
    news: str,
    *,
    has_undo: bool = False,
) -> HttpResponse:
    if not wants_part(request):
        toasts.success(request, news, extra_tags="undo" if has_undo else "")
        return redirect("versions-detail", version.pk)
    version = MemoryVersion.objects.select_related("memory__current").get(pk=version.pk)
    response = _page(request, place, version, news=news, has_undo=has_undo)
    response["HX-Push-Url"] = reverse("versions-detail", args=[version.pk])
    return response


def _page(
    request: UserRequest,
    place: WorkspaceContext,
    version: MemoryVersion,
    *,
    news: str = "",
    moved_on: str = "",
    misnamed: tuple[str, str] | None = None,
    takes_focus: bool = True,
    has_undo: bool = False,
    status: int = 200,
) -> HttpResponse:
    memory = version.memory
    visible = versions_of(memory, place)
    shown_version = with_origin(memory.versions.filter(pk=version.pk)).select_related("base").get()
    base = visible.filter(pk=version.base_id).first() if version.base_id else None
    older = visible.filter(number__lt=version.number).order_by("number").last()
    newer = visible.filter(number__gt=version.number).order_by("number").first()
    # A short-term memory's next version is mostly of another conversation.
    follower = newer if newer and newer.segment_id == version.segment_id else None
    is_current = memory.current_id == version.pk
    is_undoable = is_current and version.origin == Origin.RESTORE and base is not None
    return render_page_or_part(
        request,
        "memory/versions/detail.html",
        "memory/versions/_version.html",
        {
            "place": place,
            "memory": memory,
            "version": shown_version,
            "shown": show_one(shown_version, place),
            "is_current": is_current,
            "older": older,
            "newer": newer,
            "kept": count_kept(version.content, follower.content) if follower else None,
            "built_from": _built_from(place, version),
            "job": _job(place, version),
            "undo": base if is_undoable and (has_undo or not wants_part(request)) else None,
            "base": base,
            "address": request.build_absolute_uri(reverse("versions-detail", args=[version.pk])),
            "newest": visible.aggregate(newest=Max("number"))["newest"] or version.number,
            "news": news,
            "moved_on": _numbered(moved_on, memory),
            "misnamed": misnamed,
            "longest_name": MAX_NAME_LENGTH,
            "takes_focus": takes_focus,
        },
        status=status,
    )


def _job(place: WorkspaceContext, version: MemoryVersion) -> tuple[int, Sums | None] | None:
    """The job that made this text and what it cost, for whom its page is open."""
    pk = version.job_id
    if pk is None or not get_visible_jobs(place).filter(pk=pk).exists():
        return None
    return pk, of_jobs([pk]).get(pk)


def _numbered(words: str, memory: Memory) -> str:
    if words and memory.current is None:
        return _("Nothing was changed: the text was withdrawn after you opened this page.")
    return words % {"n": memory.current.number if memory.current else 0}


def _built_from(place: WorkspaceContext, version: MemoryVersion) -> list[MemoryVersion]:
    """The versions that a merge read, as far as this reader may read them."""
    if version.job_id is None:
        return []
    versions = MemoryVersion.objects.visible_to(place.reader)
    return list(with_origin(versions).filter(read_by__job=version.job_id).order_by("until_us"))
