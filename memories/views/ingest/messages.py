"""Pages of messages in Slack's look, with marks on the sources of a version."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.utils import timezone
from django.utils.text import Truncator

from memories.models import Channel, MemoryVersion, Message, Person
from memories.models.ingest.messages import MessageQuerySet
from memories.models.ingest.names import Names
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.ingest.markup import Token, mentions_in, parse, render_plain
from memories.rules.ingest.permalinks import permalink
from memories.rules.ingest.timestamps import SECOND, from_micros
from memories.rules.json_values import as_dicts, as_text
from memories.views import paths
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    moment_or_404,
    number_or_none,
    open_channel,
)
from memories.views.memory.display import display_version, for_display
from memories.views.pages import render_page_or_part, wants_part

PAGE_SIZE = 50
# Within this time a message of the same person shows no second name and avatar.
CONTINUES_WITHIN_US = 5 * 60 * SECOND


@dataclass
class ShownMessage:
    """A message on a page; ``source`` is its number in the version's text, 0 for none."""

    message: Message
    name: str
    tokens: Sequence[Token]
    files: Sequence[str]
    slack: str
    thread: str
    day: date
    source: int = 0
    continues: bool = False
    begins_day: bool = False

    @property
    def initial(self) -> str:
        return self.name.strip("#@ ")[:1].upper() or "?"


@dataclass(frozen=True)
class MessagePage:
    """Messages in order of time, and whether there are older and newer ones."""

    messages: list[Message]
    has_older: bool
    has_newer: bool


@login_required
def index(request: UserRequest, slug: str, slack_id: str) -> HttpResponse:
    """Show messages ``?around=``, ``?before=`` or ``?after=`` a ts; ``?v=`` marks a version's
    sources, and ``?only=sources`` hides the other messages."""
    access, channel = open_channel(request, slug, slack_id)
    version = _version(request, access)
    numbers = source_numbers(version, channel, access) if version else {}
    only = bool(version) and request.GET.get("only") == "sources"
    messages = Message.objects.visible_to(access.reader).filter(channel=channel)
    messages = messages.select_related("author")
    if only:
        messages = messages.filter(ts__in=numbers)
    around = request.GET.get("around", "")
    before, after = request.GET.get("before", ""), request.GET.get("after", "")
    page = read_page(messages, around=around, before=before, after=after)
    if not page.messages and (before or after) and not wants_part(request):
        # Beyond either end, or after a deletion: show the nearest messages.
        page = read_page(messages, around=before or after)
    path = paths.messages_path(slug, channel.slack_id)
    kept = {"v": str(version.pk)} if version else {}
    here = {**kept, "around": around} if around else kept
    anchor = f"#msg-{around}" if around else ""
    shown = show_messages(page.messages, access, channel, numbers)
    return render_page_or_part(
        request,
        "ingest/messages/index.html",
        "ingest/messages/_messages.html",
        {
            "access": access,
            "channel": channel,
            "shown": shown,
            "around": around,
            "version": version,
            "sources_total": len(numbers),
            "sources_here": sum(1 for message in shown if message.source),
            "sources_read": _messages_read(version, channel) if version else 0,
            "only": only,
            "keeps_days": access.workspace.memory_settings.retention_days,
            "all_path": f"{path}?{urlencode(here)}{anchor}",
            "only_path": f"{path}?{urlencode({**here, 'only': 'sources'})}{anchor}",
            "older": _page_path(path, kept, "before", shown, 0, only) if page.has_older else "",
            "newer": _page_path(path, kept, "after", shown, -1, only) if page.has_newer else "",
            "shows_older": not after,
            "shows_newer": not before,
            "focus": (shown[-1] if before else shown[0]).message.ts if shown else "",
        },
    )


def read_page(
    messages: MessageQuerySet, *, around: str = "", before: str = "", after: str = ""
) -> MessagePage:
    """Return at most 50 messages around, before or after a ts, or the newest ones."""
    if around:
        at = moment_or_404(around)
        half = PAGE_SIZE // 2
        older = list(messages.filter(micros__lt=at).in_order().reverse()[: half + 1])
        newer = list(messages.filter(micros__gte=at).in_order()[: half + 1])
        return MessagePage(
            [*reversed(older[:half]), *newer[:half]], len(older) > half, len(newer) > half
        )
    if after:
        later = messages.filter(micros__gt=moment_or_404(after)).in_order()
        newer = list(later[: PAGE_SIZE + 1])
        return MessagePage(newer[:PAGE_SIZE], has_older=True, has_newer=len(newer) > PAGE_SIZE)
    if before:
        messages = messages.filter(micros__lt=moment_or_404(before))
    older = list(messages.in_order().reverse()[: PAGE_SIZE + 1])
    return MessagePage(list(reversed(older[:PAGE_SIZE])), len(older) > PAGE_SIZE, bool(before))


def show_messages(
    messages: Iterable[Message], access: WorkspaceAccess, channel: Channel, numbers: dict[str, int]
) -> list[ShownMessage]:
    """Return messages with all that a page shows; ``numbers`` are sources by ts."""
    loaded = list(messages)
    names = names_in((message.text for message in loaded), access)
    zone = access.zone
    shown: list[ShownMessage] = []
    for message in loaded:
        is_live = message.state == Message.State.LIVE
        current = ShownMessage(
            message,
            name=message.author_name,
            tokens=parse(mark_invisible(message.text), names) if is_live else (),
            files=files_of(message.raw) if is_live else (),
            slack=permalink(
                access.workspace.domain, channel.slack_id, message.ts, message.thread_ts
            ),
            thread=paths.thread_path(access.workspace.slug, channel.slack_id, message.thread_ts)
            if message.thread_ts
            else "",
            day=timezone.localtime(from_micros(message.micros), zone).date(),
            source=numbers.get(message.ts, 0),
        )
        last = shown[-1] if shown else None
        current.begins_day = last is None or last.day != current.day
        current.continues = last is not None and _continues(last, current)
        shown.append(current)
    return shown


def first_words(messages: Iterable[Message], access: WorkspaceAccess) -> dict[str, str]:
    """Return the excerpts of messages of one channel by ts."""
    return {message.ts: words for message, words in excerpts(messages, access)}


def excerpts(messages: Iterable[Message], access: WorkspaceAccess) -> Iterator[tuple[Message, str]]:
    """Yield messages with their first 80 characters as plain text."""
    loaded = list(messages)
    names = names_in((message.text for message in loaded), access)
    for message in loaded:
        plain = render_plain(mark_invisible(message.text), names).replace("```", "")
        words = " ".join(plain.split())
        yield message, Truncator(words).chars(80)


def topic_words(channel: Channel, access: WorkspaceAccess) -> str:
    """Return the channel's topic, which may have mentions, as plain text."""
    return render_plain(mark_invisible(channel.topic), names_in([channel.topic], access))


def source_numbers(
    version: MemoryVersion, channel: Channel, access: WorkspaceAccess
) -> dict[str, int]:
    """Return the numbers of the version's sources in this channel, by ts."""
    shown = display_version(version, access)
    path = paths.messages_path(access.workspace.slug, channel.slack_id) + "?"
    return {
        chip.ts: chip.number
        for line in (shown.lines if shown else ())
        for chip in line.chips
        if chip.href.startswith(path)
    }


def files_of(raw: str) -> list[str]:
    """Return the names of a message's files. Files deleted in Slack have none."""
    if '"files"' not in raw:
        return []
    files = as_dicts(json.loads(raw).get("files"))
    names = (as_text(file.get("title")) or as_text(file.get("name")) for file in files)
    return [mark_invisible(name) for name in names if name]


def _version(request: UserRequest, access: WorkspaceAccess) -> MemoryVersion | None:
    """Return the version of ``?v=``; raise Http404 unless the reader may read it."""
    if not request.GET.get("v"):
        return None
    if (pk := number_or_none(request.GET["v"])) is None:
        raise Http404
    versions = for_display(MemoryVersion.objects.visible_to(access.reader))
    version = versions.filter(pk=pk, memory__workspace=access.workspace).first()
    if version is None:
        raise Http404
    return version


def _messages_read(version: MemoryVersion, channel: Channel) -> int:
    """Return how many messages of this channel the version was made from, 0 for other scopes."""
    return version.source_message_count if version.memory.channel_id == channel.pk else 0


def names_in(texts: Iterable[str], access: WorkspaceAccess) -> Names:
    """Return the names of the people and channels in these texts that the reader may see."""
    people_ids, channel_ids = mentions_in(texts)
    people = Person.objects.filter(workspace=access.workspace, slack_id__in=people_ids).names()
    channels = access.find_channels(channel_ids)
    return Names(people, {slack_id: channel.name for slack_id, channel in channels.items()})


def _continues(last: ShownMessage, current: ShownMessage) -> bool:
    previous, message = last.message, current.message
    return (
        last.name == current.name
        and previous.author_id == message.author_id
        and previous.thread_ts == message.thread_ts
        and not (previous.is_notice or message.is_notice)
        and not current.begins_day
        and message.micros - previous.micros < CONTINUES_WITHIN_US
    )


def _page_path(
    path: str,
    kept: dict[str, str],
    direction: str,
    shown: list[ShownMessage],
    end: int,
    only: bool,  # noqa: FBT001
) -> str:
    if not shown:
        return ""
    query = {**kept, direction: shown[end].message.ts} | ({"only": "sources"} if only else {})
    return f"{path}?{urlencode(query)}"
