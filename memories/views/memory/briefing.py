"""The opening lines and entries of Catch up, for the page, the digests and the texts in Slack."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _

from memories.models import Channel, ChannelPreference, Memory, Message, Seen
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.briefing import MIN_OPENING_LINES, choose_opening
from memories.rules.memory.catch_up import Since
from memories.rules.memory.digests import REMEMBERED_WITHIN
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.views.access.access import WorkspaceAccess
from memories.views.memory.display import display_versions
from memories.views.memory.line_display import LineDisplay
from memories.views.memory.news import (
    News,
    NewsEntry,
    load_details,
    load_entries,
    load_news,
    news_line,
)

DIGEST_CHANNELS = 20


@dataclass(frozen=True)
class OpeningLine:
    """A line that Catch up opens with. ``channel`` is None without a single readable channel."""

    line: LineDisplay
    channel: Channel | None

    @property
    def byline(self) -> str:
        """The person who wrote the line, and the channel: "Ann Lee, #launch"."""
        return _(", ").join(filter(None, (self.line.author, str(self.channel or ""))))


@dataclass(frozen=True)
class Briefing:
    """What a digest or a text in Slack shows: opening lines, and entries with new lines in order."""

    news: News
    opening_lines: list[OpeningLine]
    entries: list[NewsEntry]


def load_opening(
    entries: Sequence[NewsEntry], access: WorkspaceAccess, since: Since
) -> list[OpeningLine]:
    """Return the lines that the page opens with, oldest first. Private channels give none.

    They are those of the workspace's short-term memory, if it covers the period and has enough new
    lines. Otherwise the new lines of the entries are candidates, too.
    """
    news_channels = {entry.memory.channel_id for entry in entries if not entry.is_folded}
    short_term, covers_period = _load_short_term(access, since)
    short_term = _with_channels(short_term, access, news_channels if since.us is None else None)
    if covers_period and len(chosen := _choose(short_term)) >= MIN_OPENING_LINES:
        return chosen
    lines = [
        OpeningLine(row.new_line, entry.version.memory.channel)
        for entry in entries
        if not entry.is_folded
        and (entry.version.memory.channel is None or entry.version.memory.channel.is_public)
        for row in entry.new_rows
        if row.new_line and not row.new_line.is_redacted
    ]
    return _choose([*_with_channels(lines, access), *short_term])


def _load_short_term(access: WorkspaceAccess, since: Since) -> tuple[list[OpeningLine], bool]:
    """Return the new lines of the workspace's short-term memory, and whether it covers the period.

    It covers the `short_term_window_hours` before its newest message. Without a period, the period
    begins at the oldest seen mark of a memory that changed later. A message of the day before may be
    news, too, if no version contained it at that time.
    """
    if not access.workspace.memory_settings.workspace_short_term:
        return [], False
    if since.us is None:
        marked_at = access.oldest_mark
        if marked_at is None:
            return [], False
        late_us = to_micros(marked_at - REMEMBERED_WITHIN)
        since = Since(since.choice, to_micros(marked_at), late_us)
    memories = Memory.objects.visible_to(access.reader).filter(
        workspace=access.workspace,
        scope=MemoryScope.WORKSPACE,
        memory_type=MemoryType.SHORT_TERM,
        current__isnull=False,
    )
    for entry in load_entries(memories, access, since):
        [entry.shown] = display_versions([entry.version], access)
        lines = [row.new_line for row in entry.new_rows if row.new_line]
        window_us = access.workspace.memory_settings.window_us
        covers_period = (since.us or 0) >= entry.version.until_us - window_us
        return [OpeningLine(line, None) for line in lines if not line.is_redacted], covers_period
    return [], False


def marks_of(access: WorkspaceAccess) -> QuerySet[Seen]:
    """Return the reader's marks of the memories of Catch up."""
    marks = Seen.objects.filter(user=access.reader.user_id, at__isnull=False)
    return marks.filter(Exists(access.unmuted_memories.filter(pk=OuterRef("memory"))))


def _choose(candidates: Sequence[OpeningLine]) -> list[OpeningLine]:
    values = [
        news_line(item.line, item.channel.pk if item.channel else None) for item in candidates
    ]
    chosen_lines = []
    for number, i in enumerate(choose_opening(values), start=1):
        item = candidates[i]
        # One source is enough to check a sentence. The channel's row has the others.
        chips = [replace(chip, number=number) for chip in item.line.chips[:1]]
        chosen_lines.append(replace(item, line=replace(item.line, chips=chips)))
    return chosen_lines


def _with_channels(
    candidates: list[OpeningLine],
    access: WorkspaceAccess,
    allowed: Collection[int | None] | None = None,
) -> list[OpeningLine]:
    """Leave out lines of the workspace whose sources are all in muted, private or other channels.

    A line of the workspace that rests on one channel gets this channel. ``allowed`` are the channels
    whose lines are new, None for all. Lines without sources stay.
    """
    sources = [chip.message for item in candidates if not item.channel for chip in item.line.chips]
    muted = [
        pk for pk, choice in access.preferences.items() if choice == ChannelPreference.Choice.MUTE
    ]
    messages = Message.objects.filter(pk__in=sources, channel__kind=Channel.Kind.PUBLIC)
    if allowed is not None:
        messages = messages.filter(channel__in=allowed)
    shown = dict(messages.exclude(channel__in=muted).values_list("pk", "channel"))
    channels = access.channels_by_key(set(shown.values()))
    kept = []
    for item in candidates:
        if item.channel or not item.line.chips:
            kept.append(item)
            continue
        keys = {shown[chip.message] for chip in item.line.chips if chip.message in shown}
        if keys:
            channel = channels.get(min(keys)) if len(keys) == 1 else None
            kept.append(replace(item, channel=channel))
    return kept


def load_briefing(access: WorkspaceAccess, since: Since, limit: int) -> Briefing:
    """Load the news of a period with at most ``limit`` channels, for texts outside of the hub."""
    news = load_news(access, since, cursor=None, limit=limit)
    load_details(news.all_entries, access, since)
    opening_lines = load_opening(news.all_entries, access, since)
    return Briefing(news, opening_lines, news.all_entries)


def load_digest(access: WorkspaceAccess, start: datetime) -> Briefing | None:
    """Load what a digest since ``start`` says: channels with counted lines only. None without news.

    Messages that were remembered after ``start`` are included: the digest before could not have them.
    """
    since = Since("digest", to_micros(start), to_micros(start - REMEMBERED_WITHIN))
    briefing = load_briefing(access, since, DIGEST_CHANNELS)
    entries = [entry for entry in briefing.entries if entry.counts]
    return replace(briefing, entries=entries) if briefing.opening_lines or entries else None
