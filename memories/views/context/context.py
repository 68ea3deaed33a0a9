"""What a bot or an agent would be given, as far as the reader may read it: nothing is written, and
each look has an address of its own."""

import math
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from memories.forms import focus_first_wrong
from memories.models import Memory, MemoryVersion, Reader
from memories.pipeline.context.build import build_context
from memories.pipeline.generate.job_control import endpoint_in_use
from memories.rules.context.blocks import Block, Part, block_tokens
from memories.rules.context.contents import (
    AS_ASKED,
    DEFAULT_BUDGET,
    LEAVABLE,
    UNREAD_CHANNELS,
    Context,
    NoSuchChannel,
    NoThread,
    UnknownThread,
    find_channel,
    history_limit,
)
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.views.access.access import UserRequest, WorkspaceContext, open_workspace
from memories.views.pages import render_page_or_part
from memories.views.paths import channel_path, messages_path, thread_path

BAR_WIDTH = 640
MOST_TOKENS = 10_000_000
LONGEST_QUESTION = 1000
BOT = "bot"  # a reader of public channels only

_NAMES: dict[str, str | Promise] = {
    Part.PERSONA: gettext_lazy("Persona"),
    Part.NOTES: gettext_lazy("Notes"),
    Part.ZONE: gettext_lazy("Time zone"),
    Part.LONG_TERM: gettext_lazy("Long-term memory"),
    Part.SHORT_TERM: gettext_lazy("Short-term memory"),
    Part.THREADS: gettext_lazy("Threads"),
    Part.CONVERSATION: gettext_lazy("Conversation"),
}
_KINDS: dict[str, str | Promise] = {
    "long_term_memory": gettext_lazy("Long-term memory"),
    "short_term_memory": gettext_lazy("Short-term memory"),
    "thread_memory": gettext_lazy("Thread memory"),
    "archive": gettext_lazy("Archive"),
    "note": gettext_lazy("Note"),
    "message": gettext_lazy("Messages"),
    UNREAD_CHANNELS: gettext_lazy("Channels"),
}


def _moment(given: str) -> datetime | None:
    """None for what is none. The plus of a zone is a blank in an address that was typed."""
    try:
        return parse_datetime(given) or parse_datetime(given.replace(" ", "+"))
    except ValueError:
        return None


class MomentField(forms.CharField):
    """A moment, with its zone or in the reader's own, which is what a browser's control sends."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local"})

    def bound_data(self, data: Any, initial: Any) -> Any:
        """As that control shows it: in the reader's zone, without saying so."""
        moment = _moment(data or "")
        if moment is None or timezone.is_naive(moment):
            return data
        try:
            return timezone.make_naive(moment).isoformat(timespec="seconds")
        except OverflowError:
            return data


class PreviewForm(forms.Form):
    """For whom the context is: a channel's conversation, a thread of it, within a budget, at a moment."""

    channel = forms.CharField(label=gettext_lazy("Channel"), required=False, max_length=200)
    thread = forms.CharField(
        label=gettext_lazy("Thread"),
        required=False,
        max_length=20,
        help_text=gettext_lazy("The ts of its first message, such as 1767603600.000100."),
    )
    budget = forms.IntegerField(
        label=gettext_lazy("Budget"),
        required=False,
        min_value=0,
        max_value=MOST_TOKENS,
        help_text=gettext_lazy("Tokens. Empty: 4,000. 0: all memories, whole."),
    )
    query = forms.CharField(
        label=gettext_lazy("Question"),
        required=False,
        max_length=LONGEST_QUESTION,
        help_text=gettext_lazy("Lines and messages about it come first."),
    )
    at = MomentField(
        label=gettext_lazy("Moment"),
        required=False,
        max_length=40,
        help_text=gettext_lazy("The conversation up to then; memories as they are now."),
    )
    persona = forms.CharField(
        label=gettext_lazy("Persona"),
        required=False,
        max_length=2000,
        help_text=gettext_lazy("Who the bot is: it stands first."),
    )
    notes = forms.BooleanField(label=gettext_lazy("With notes"), required=False)
    archive = forms.BooleanField(label=gettext_lazy("With the archive"), required=False)
    without = forms.MultipleChoiceField(
        choices=[(part, part) for part in LEAVABLE],
        required=False,
        widget=forms.MultipleHiddenInput,
    )

    def __init__(self, data: QueryDict, *, place: WorkspaceContext) -> None:
        super().__init__(data)
        self.place = place
        self.is_local = False  # whether its moment would be another one to another reader
        if place.nav.is_whole:
            none = _("none: the whole workspace")
            rows = ((channel.slack_id, str(channel)) for channel in place.channels)
            self.fields["channel"].widget = forms.Select(choices=[("", none), *rows])
        if place.workspace.memory_settings.notes_inject != "manual":
            del self.fields["notes"]
        if place.reads_workspace:  # guests do not read all that is public
            choices = [("", _("you")), (BOT, _("a bot: public channels only"))]
            self.fields["as"] = forms.ChoiceField(
                label=_("Who reads"), required=False, choices=choices
            )

    def clean_channel(self) -> str:
        """Its id. One that is hidden is as unknown as one that is not there."""
        channel_name = self.cleaned_data["channel"]
        rows = self.place.readable_channels.named(channel_name)
        names = {channel.slack_id: channel.name for channel in rows}
        try:
            return find_channel(names, channel_name) if channel_name else ""
        except NoSuchChannel as error:
            raise forms.ValidationError(_("There is no such channel.")) from error

    def clean_at(self) -> datetime | None:
        """In the reader's zone where none is said, as times are told."""
        given = self.cleaned_data["at"]
        if not given:
            return None
        moment = _moment(given)
        if moment is None:
            raise forms.ValidationError(_("That is no moment."))
        self.is_local = timezone.is_naive(moment)
        if self.is_local:
            moment = timezone.make_aware(moment, self.place.zone)
        try:
            return moment.astimezone(UTC)
        except OverflowError as error:
            raise forms.ValidationError(_("That is no moment.")) from error

    def build(self) -> Context | None:
        """Of what is valid; None, with the reason on the form, when it cannot be."""
        if not self.is_valid():
            return None
        given = self.cleaned_data
        try:
            return build_context(
                self.place.workspace,
                Reader.public(self.place.reader.now) if self.is_bot else self.place.reader,
                channel=given["channel"] or None,
                thread_ts=given["thread"] or None,
                budget=self.tokens,  # the page reads none of the whole texts beside the text
                question=given["query"],
                persona=given["persona"],
                with_notes=given.get("notes", False),
                with_archive=given["archive"],
                without=[Part(part) for part in given["without"]],
                now=given["at"] or timezone.now(),
            )
        except UnknownThread:
            self.add_error("thread", _("There is no such thread in this channel."))
        except NoThread:
            self.add_error(
                "thread",
                _("That is no ts.") if given["channel"] else _("Choose the channel it is in, too."),
            )
        except NoSuchChannel:
            self.add_error("channel", _("A bot reads public channels only."))
        return None

    @property
    def tokens(self) -> int:
        """Tokens that the text may take; 0: as many as there are."""
        given: int | None = self.cleaned_data["budget"]
        return DEFAULT_BUDGET if given is None else given

    @property
    def is_bot(self) -> bool:
        return self.cleaned_data.get("as") == BOT

    def command(self, username: str) -> str:
        """The same request, as it is typed on the server."""
        given = self.cleaned_data
        words = ["manage.py", "context", "--workspace", self.place.workspace.slug]
        words += [] if self.is_bot else ["--as", username]
        for name in ("channel", "thread", "budget", "query", "persona"):
            words += [f"--{name}", str(given[name])] if given[name] not in ("", None) else []
        words += ["--notes"] if given.get("notes") else []
        words += ["--with-archive"] if given["archive"] else []
        words += ["--at", given["at"].isoformat()] if given["at"] else []
        for part in given["without"]:
            words += ["--without", part]
        return shlex.join(words)


@dataclass(frozen=True)
class ShownBlock:
    """A block of the text, its tokens, and where what it says is kept ("" for nowhere)."""

    block: Block
    tokens: int
    path: str


@dataclass(frozen=True)
class Section:
    """A row of the legend, and its stretch of the bar; ``leave`` is the address without it, "" for
    what cannot be left out."""

    part: str
    name: str | Promise
    items: int
    tokens: int
    percent: float
    x: float
    width: float
    leave: str = ""


@dataclass(frozen=True)
class Left:
    """What is not in it, how much of it, and why; ``back`` is the address that has it again."""

    kind: str | Promise
    name: str
    count: int
    why: str
    back: str = ""


@login_required
@require_safe
def index(request: UserRequest, slug: str) -> HttpResponse:
    place = open_workspace(request, slug)
    form = PreviewForm(request.GET, place=place)
    if form.is_valid() and form.is_local:
        exact = form.cleaned_data["at"].isoformat().replace("+00:00", "Z")
        return redirect(_address(request, at=exact))
    built = form.build()
    context: dict[str, Any] = {
        "place": place,
        "form": form,
        "built": built,
        "query": request.GET.urlencode(),
    }
    if built is not None:
        context |= _shown(request, place, form, built)
    else:
        focus_first_wrong(form)
    status = 422 if built is None else 200
    return render_page_or_part(
        request, "context/index.html", "context/_preview.html", context, status=status
    )


@login_required
@require_safe
def download(request: UserRequest, slug: str) -> HttpResponse:
    """The text alone, byte for byte as `manage.py context` prints it."""
    place = open_workspace(request, slug)
    built = PreviewForm(request.GET, place=place).build()
    if built is None:
        return HttpResponse(_("That cannot be."), content_type="text/plain", status=422)
    text = built.text if built.text.endswith("\n") else f"{built.text}\n"
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="context-{slug}.txt"'
    return response


def _shown(
    request: UserRequest, place: WorkspaceContext, form: PreviewForm, built: Context
) -> dict[str, Any]:
    tokens = block_tokens(built.blocks)
    budget = form.tokens
    reserve = _reserve(built.tokens)
    whole = max(budget, built.tokens + reserve, 1)
    paths = _paths(place, form.cleaned_data["channel"], built)
    leave = {part: _address(request, add=part) for part in LEAVABLE}
    sections = _sections(built.blocks, tokens, built.tokens, whole, leave)
    used = sum(section.width for section in sections)
    channel_id = form.cleaned_data["channel"]
    where = place.find_channels([channel_id]).get(channel_id)
    slug = place.workspace.slug
    where_path = (
        channel_path(slug, where.slack_id) if where else reverse("workspaces-detail", args=[slug])
    )
    return {
        "shown_blocks": [
            ShownBlock(block, size, paths.get((block.part, block.place, block.number), ""))
            for block, size in zip(built.blocks, tokens, strict=True)
        ],
        "sections": sections,
        "budget": budget,
        "reserve": reserve,
        "reserve_x": round(used, 1),
        "reserve_width": _width(reserve, whole),
        "free": max(0, budget - built.tokens - reserve) if budget else None,
        "is_over": bool(budget and built.tokens > budget),
        "bar_width": BAR_WIDTH,
        "left_out": _left(request, place, form, built),
        "history_limit": history_limit(place.workspace.memory_settings),
        "is_bare": all(block.part is Part.PERSONA for block in built.blocks),
        "where": where or place.workspace,
        "where_path": where_path,
        "command": form.command(request.user.get_username()),
        "withheld": 0 if form.is_bot else _withheld(place),
    }


def _left(
    request: UserRequest, place: WorkspaceContext, form: PreviewForm, built: Context
) -> list[Left]:
    """First what was not wanted, also where there is nothing of it; then what had no room."""
    unwanted = {
        omission.what: omission.count for omission in built.left_out if omission.reason == AS_ASKED
    }
    by_request = [
        Left(_NAMES[part], "", unwanted.get(part, 0), "", _address(request, take=part))
        for part in form.cleaned_data["without"]
    ]
    limit = number_format(form.tokens, force_grouping=True)
    whys = {UNREAD_CHANNELS: _("their memories changed before those of the others")}
    why = _("over the budget of %(n)s tokens") % {"n": limit}
    over = [omission for omission in built.left_out if omission.reason != AS_ASKED]
    channels = place.find_channels(omission.id for omission in over)
    return by_request + [
        Left(
            _KINDS[omission.what],
            str(channels.get(omission.id, omission.id)),
            omission.count,
            whys.get(omission.what, why),
        )
        for omission in over
    ]


def _address(request: UserRequest, *, add: str = "", take: str = "", at: str = "") -> str:
    """The same request with one section more, or less, to be left out, or a moment said exactly."""
    given = request.GET.copy()
    if at:
        given["at"] = at
    others = [part for part in given.getlist("without") if part not in (add, take)]
    given.setlist("without", [*others, *([add] if add else [])])
    return f"{request.path}?{given.urlencode()}"


def _reserve(tokens: int) -> int:
    """How many more the model may count than we do, going by the worst that it has counted yet."""
    endpoint = endpoint_in_use().first()
    ratio = endpoint.worst_ratio if endpoint else 1.0
    return max(0, math.ceil(tokens * (ratio - 1)))


def _width(tokens: int, whole: int) -> float:
    return round(BAR_WIDTH * tokens / whole, 1)


def _sections(
    blocks: tuple[Block, ...], tokens: list[int], total: int, whole: int, leave: dict[Part, str]
) -> list[Section]:
    """Sums by section, in the order of the text."""
    by_part: dict[Part, tuple[int, int]] = {}
    for block, size in zip(blocks, tokens, strict=True):
        items, sum_ = by_part.get(block.part, (0, 0))
        by_part[block.part] = (items + block.items, sum_ + size)
    sections, x = [], 0.0
    for part, (items, size) in by_part.items():
        width = _width(size, whole)
        percent = 100 * size / max(total, 1)
        sections.append(
            Section(
                part, _NAMES[part], items, size, percent, round(x, 1), width, leave.get(part, "")
            )
        )
        x += width
    return sections


def _paths(
    place: WorkspaceContext, own: str, built: Context
) -> dict[tuple[Part, str, int | None], str]:
    """Where each block comes from: its version, or the page that keeps it. One query."""
    slug = place.workspace.slug
    by_block: dict[tuple[Part, str, int | None], str] = {
        (Part.NOTES, "", None): reverse("notes-index", args=[slug])
    }
    conversations = [block for block in built.blocks if block.part is Part.CONVERSATION]
    channels = place.find_channels(block.place for block in conversations)
    for block in conversations:
        if block.place in channels:
            by_block[Part.CONVERSATION, block.place, None] = messages_path(slug, block.place)
    if own and built.target_thread_ts:
        path = thread_path(slug, own, built.target_thread_ts)
        by_block[Part.CONVERSATION, built.target_thread_ts, None] = path
    history = [block for block in built.blocks if block.number is not None]
    memories = Memory.objects.filter(workspace=place.workspace)
    is_history = Q(
        memory__in=memories.filter(
            scope=MemoryScope.CHANNEL,
            memory_type=MemoryType.SHORT_TERM,
            channel__slack_id__in={block.place for block in history},
        ).values("pk"),
        number__in={block.number for block in history},
    )
    of_place = Q(channel__slack_id__in={block.place for block in built.blocks})
    of_thread = Q(scope=MemoryScope.THREAD, channel__slack_id=own)
    current = memories.filter(
        Q(scope=MemoryScope.WORKSPACE) | Q(of_place, scope=MemoryScope.CHANNEL) | of_thread
    )
    versions = (
        MemoryVersion.objects.visible_to(place.reader)
        .filter(is_history | Q(pk__in=current.values("current")))
        .order_by()
        .select_related("memory__channel")
        .only(
            *("number", "memory__scope", "memory__memory_type", "memory__thread_ts"),
            *("memory__channel__slack_id", "memory__channel__name", "memory__workspace"),
        )
    )
    for version in versions:
        memory = version.memory
        channel = memory.channel.slack_id if memory.channel else ""
        if memory.scope == MemoryScope.THREAD:
            key: tuple[Part, str, int | None] = (Part.THREADS, memory.thread_ts, None)
        elif memory.memory_type == MemoryType.LONG_TERM:
            key = (Part.LONG_TERM, channel, None)
        else:
            key = (Part.SHORT_TERM, channel, version.number if channel else None)
        by_block[key] = reverse("versions-detail", args=[version.pk])
    return by_block


def _withheld(place: WorkspaceContext) -> int:
    """Versions that would be among the newest of what the reader sees, and rest on words which the
    reader may not read, such as those of a channel's days before it was opened. What is not seen at
    all is not counted either."""
    seen = Q(memory__channel__in=place.readable_channels.order_by().values("pk"))
    if place.reads_workspace:
        seen |= Q(memory__scope=MemoryScope.WORKSPACE)
    is_history = Q(memory__scope=MemoryScope.CHANNEL, memory__memory_type=MemoryType.SHORT_TERM)
    newest = (
        MemoryVersion.objects.with_text()
        .filter(seen, memory__workspace=place.workspace)
        # Most memories have none: only where there is one its place among the newest counts.
        .filter(memory__in=MemoryVersion.objects.restricted().values("memory"))
        .exclude(memory__scope=MemoryScope.THREAD)
        .annotate(
            rank=Window(
                RowNumber(),
                partition_by="memory",
                order_by=[F("until_us").desc(), F("number").desc()],
            )
        )
        .filter(
            Q(rank=1) | is_history & Q(rank__lte=history_limit(place.workspace.memory_settings))
        )
    )
    readable = MemoryVersion.objects.visible_to(place.reader).values("pk")
    withheld = MemoryVersion.objects.restricted().filter(pk__in=newest.values("pk"))
    return withheld.exclude(pk__in=readable).count()
