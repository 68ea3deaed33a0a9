"""The page of a version, the comparison of two, and their changes: restore, name, undo and pin."""

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
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
from memories.models.memory.version_queries import MemoryVersionQuerySet
from memories.models.memory.versions import MAX_NAME_LENGTH
from memories.pipeline.costs.usage import Sums, sum_by_job
from memories.rules.memory.compare import changed_rows, count_changes, count_kept
from memories.rules.memory.lines import Origin
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    access_to,
    must_edit,
    number_or_none,
    numbers_in,
    open_version,
)
from memories.views.generate.job_rows import get_visible_jobs
from memories.views.ingest.messages import excerpts
from memories.views.memory.display import (
    compare_displayed,
    display_version,
    display_versions,
    for_display,
    visible_versions,
)
from memories.views.memory.naming import clean_name, name_error
from memories.views.memory.rail import card_context
from memories.views.memory.scopes import texts_context
from memories.views.memory.selection import requested_period
from memories.views.pages import render_page_or_part, render_part, wants_part
from memories.views.paths import card_path
from memories.views.texts import with_words

PAIRS_SHOWN = 100  # versions to compare with


@login_required
@require_safe
def detail(request: UserRequest, pk: int) -> HttpResponse:
    access, version = open_version(request, pk)
    return _render(request, access, version)


@login_required
@require_POST
def restore(request: UserRequest, pk: int) -> HttpResponse:
    """Add a version with this text. The status is 409 if there is a newer version."""
    access, version = open_version(request, pk)
    must_edit(access)
    memory = version.memory
    based_on, revision = numbers_in(request, "based_on", "revision")
    try:
        restored = memory.restore(
            version,
            by=request.user,
            based_on=-1 if based_on is None else based_on,  # a missing number is stale
            revision=revision,
        )
    except Unchanged:
        return _answer(request, access, version, _("This is already the current text."))
    except StaleBase:
        memory.refresh_from_db()
        conflict = _("Nothing was restored. v%(n)s was saved after you opened this page.")
        return _render(request, access, version, conflict=conflict, status=409)
    news = (
        _("Version %(old)s was restored as version %(new)s.")
        if memory.current_id == restored.pk
        else _(
            "Version %(old)s was restored as version %(new)s. It is visible to members of the "
            "channel only and is not the current version."
        )
    ) % {"old": version.number, "new": restored.number}
    return _answer(request, access, restored, news, has_undo=True)


@login_required
@require_POST
def name(request: UserRequest, pk: int) -> HttpResponse:
    """Name a version. An empty ``name`` removes the name; a long one has the status 422."""
    access, version = open_version(request, pk)
    must_edit(access)
    new_name = clean_name(request.POST.get("name", ""))
    if error := name_error(new_name):
        return _render(
            request, access, version, misnamed=(new_name, error), takes_focus=False, status=422
        )
    version.rename(new_name, by=request.user)
    news = (
        with_words(_("Named “%(name)s”."), name=new_name)
        if new_name
        else _("The name was removed.")
    )
    return _answer(request, access, version, news)


@login_required
@require_POST
def undo(request: UserRequest, older: int, newer: int) -> HttpResponse:
    """Undo ``change=``, the index of a change in the comparison.

    The status is 409 if there is another current version, or if the lines of the change are
    different now.
    """
    access, old = open_version(request, older)
    new = open_version(request, newer)[1]
    if old.memory_id != new.memory_id:
        raise Http404
    must_edit(access)
    change, based_on, revision = numbers_in(request, "change", "based_on", "revision")
    if change is None:
        raise Http404
    memory = new.memory
    try:
        version = memory.undo(
            old,
            new,
            change,
            by=request.user,
            based_on=-1 if based_on is None else based_on,
            revision=revision,
        )
    except IndexError as error:
        raise Http404 from error
    except StaleBase:
        refusal = _("Nothing was undone. v%(n)s was saved after you opened this page.")
    except ChangedSince:
        refusal = _("Nothing was undone. These lines have changed again in v%(n)s.")
    except ValueError:
        refusal = _("Nothing was undone. v%(n)s contains nothing else.")
    else:
        news = (
            _("The change was undone in version %(number)s.")
            if memory.current_id == version.pk
            else _(
                "The change was undone in version %(number)s. It is visible to members of the "
                "channel only and is not the current version."
            )
        ) % {"number": version.number}
        return _answer(request, access, version, news, has_undo=True)
    memory.refresh_from_db()
    return _render(request, access, new, conflict=refusal, status=409)


@login_required
@require_POST
def pin(request: UserRequest, pk: int) -> HttpResponse:
    """Pin or unpin a line of a revision. ``pin=`` or ``unpin=`` is its position.

    The status is 409 if there is another text now.
    """
    access, version = open_version(request, pk)
    must_edit(access)
    pinned = "pin" in request.POST
    position, revision = numbers_in(request, "pin" if pinned else "unpin", "revision")
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
        conflict = _("Nothing was pinned. v%(n)s was saved after you opened this page.")
        return _answer_pin(request, access, version, conflict=conflict)
    news = (
        _("Pinned. Updates keep this line unchanged.")
        if pinned
        else _("Unpinned. Updates may change this line.")
    )
    return _answer_pin(request, access, version, news=news, position=position)


def _answer_pin(
    request: UserRequest,
    access: WorkspaceAccess,
    version: MemoryVersion,
    *,
    news: str = "",
    conflict: str = "",
    position: int | None = None,
) -> HttpResponse:
    """Answer with the card of the button (``on=memory``, ``on=now``) or the page.

    The line at ``position`` is open.
    """
    memory, status = version.memory, 409 if conflict else 200
    card = request.POST.get("on", "")
    is_on_card = card in ("memory", "now")
    if not wants_part(request):
        if conflict:
            return _render(request, access, version, conflict=conflict, status=status)
        toasts.success(request, news)
        return redirect(
            card_path(memory) if is_on_card else reverse("versions-detail", args=[version.pk])
        )
    if not is_on_card:
        return _render(
            request, access, version, news=news, conflict=conflict, takes_focus=False, status=status
        )
    since = requested_period(request.POST, access)
    if card == "now":
        page, context = "memory/memories/_now.html", texts_context(access, None, memory, since)
    else:
        page, context = "memory/memories/_saved.html", card_context(memory, access, since)
    context |= {"access": access, "news": news, "conflict": _with_number(conflict, memory)}
    context["open_line"] = position
    return render_part(request, page, context, status=status)


@login_required
@require_safe
def sources(request: UserRequest, pk: int) -> HttpResponse:
    """List the sources of a version by number, with the first words of the visible messages."""
    access, version = open_version(request, pk)
    [shown] = display_versions([version], access)
    chips = shown.sources
    readable = Message.objects.visible_to(access.reader).filter(
        pk__in=[chip.message for chip in chips], state=Message.State.LIVE
    )
    words = {message.pk: excerpt for message, excerpt in excerpts(readable, access)}
    context = {
        "access": access,
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
    """Compare two versions, side by side with ``?view=split``.

    ``?from=&to=`` redirects to a pair.
    """
    is_split = request.GET.get("view") == "split"
    first, second = (number_or_none(request.GET.get(end, "")) for end in ("from", "to"))
    if first is not None and second is not None:
        path = reverse("versions-compare", args=sorted((first, second)))
        return redirect(f"{path}?view=split" if is_split else path)
    visible = for_display(MemoryVersion.objects.visible_to(Reader.of(request.user)))
    old, new = (get_object_or_404(visible, pk=pk) for pk in (older, newer))
    if old.memory_id != new.memory_id:
        raise Http404
    access = access_to(request, new.memory.workspace)
    before, after = display_versions([old, new], access)
    rows = compare_displayed(before, after)
    versions = visible_versions(new.memory, access)
    page = "memory/versions/compare.html"
    context = {
        "access": access,
        "memory": new.memory,
        "old": before,
        "new": after,
        "rows": rows,
        "is_split": is_split,
        "changes": changed_rows(rows),
        **count_changes(rows),
        "pairs": _versions_to_compare(versions, old, new),
        "previous": versions.filter(number__lt=old.number).order_by("number").last(),
        "next": versions.filter(number__gt=new.number).order_by("number").first(),
    }
    return render_part(request, page, context)


def _versions_to_compare(
    versions: MemoryVersionQuerySet, old: MemoryVersion, new: MemoryVersion
) -> list[tuple[int, int]]:
    """Return number and key of the pair, of versions around it, and of the newest one."""
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
    access: WorkspaceAccess,
    version: MemoryVersion,
    news: str,
    *,
    has_undo: bool = False,
) -> HttpResponse:
    if not wants_part(request):
        toasts.success(request, news, extra_tags="undo" if has_undo else "")
        return redirect("versions-detail", version.pk)
    version = MemoryVersion.objects.select_related("memory__current").get(pk=version.pk)
    response = _render(request, access, version, news=news, has_undo=has_undo)
    response["HX-Push-Url"] = reverse("versions-detail", args=[version.pk])
    return response


def _render(
    request: UserRequest,
    access: WorkspaceAccess,
    version: MemoryVersion,
    *,
    news: str = "",
    conflict: str = "",
    misnamed: tuple[str, str] | None = None,
    takes_focus: bool = True,
    has_undo: bool = False,
    status: int = 200,
) -> HttpResponse:
    memory = version.memory
    visible = visible_versions(memory, access)
    displayed = for_display(memory.versions.filter(pk=version.pk)).select_related("base").get()
    base = visible.filter(pk=version.base_id).first() if version.base_id else None
    older = visible.filter(number__lt=version.number).order_by("number").last()
    newer = visible.filter(number__gt=version.number).order_by("number").first()
    # Not MAX: that reads all versions of a memory.
    newest = visible.order_by("-number").values_list("number", flat=True).first()
    # The next version of a short-term memory usually has another segment.
    follower = newer if newer and newer.segment_id == version.segment_id else None
    is_current = memory.current_id == version.pk
    is_undoable = is_current and version.origin == Origin.RESTORE and base is not None
    context = {
        "access": access,
        "memory": memory,
        "version": displayed,
        "shown": display_version(displayed, access),
        "is_current": is_current,
        "older": older,
        "newer": newer,
        "kept": count_kept(version.content, follower.content) if follower else None,
        "built_from": _load_merged_versions(access, version),
        "job": _find_job(access, version),
        "undo": base if is_undoable and (has_undo or not wants_part(request)) else None,
        "base": base,
        "address": request.build_absolute_uri(reverse("versions-detail", args=[version.pk])),
        "newest": newest or version.number,
        "news": news,
        "conflict": _with_number(conflict, memory),
        "misnamed": misnamed,
        "longest_name": MAX_NAME_LENGTH,
        "takes_focus": takes_focus,
    }
    page, part = "memory/versions/detail.html", "memory/versions/_version.html"
    return render_page_or_part(request, page, part, context, status=status)


def _find_job(access: WorkspaceAccess, version: MemoryVersion) -> tuple[int, Sums | None] | None:
    """Return the key and the costs of the version's job if the reader may open its page."""
    pk = version.job_id
    if pk is None or not get_visible_jobs(access).filter(pk=pk).exists():
        return None
    return pk, sum_by_job([pk]).get(pk)


def _with_number(text: str, memory: Memory) -> str:
    """Return a text with the number of the current version."""
    if text and memory.current is None:
        return _("Nothing was changed. The text was withdrawn after you opened this page.")
    return text % {"n": memory.current.number if memory.current else 0}


def _load_merged_versions(access: WorkspaceAccess, version: MemoryVersion) -> list[MemoryVersion]:
    """Return the visible versions that the merge read."""
    if version.job_id is None:
        return []
    versions = MemoryVersion.objects.visible_to(access.reader)
    return list(for_display(versions).filter(read_by__job=version.job_id).order_by("until_us"))
