"""Redaction of the copies of a message that Slack puts into other messages and into events."""

import json
from collections.abc import Collection, Iterable, Sequence, Set
from functools import partial

from django.db.models import Q

from memories.models import Channel, Message, SlackEvent, Workspace
from memories.pipeline.redaction.removed import RemovedMessage
from memories.rules.batches import in_batches
from memories.rules.ingest import references
from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.message_text import message_text
from memories.rules.ingest.timestamps import micros
from memories.rules.redaction.shingles import QuoteMatcher

ROWS_PER_FETCH = 500


def remove_previews(workspace: Workspace, removed: Sequence[RemovedMessage]) -> set[int]:
    """Remove the previews of these messages from later messages that link to or share them.

    Returns the segments of the messages whose text changed.
    """
    if not removed:
        return set()
    links = {references.permalink_path(*address) for address in _by_address(removed)}
    later = Message.objects.filter(
        channel__workspace=workspace,
        micros__gte=min(micros(message.ts) for message in removed),
        raw__contains='"attachments"',
    ).exclude(pk__in={message.pk for message in removed})
    rows = later.select_related("channel").only(
        "text", "raw", "segment", "thread_segment", "channel__slack_id"
    )
    segments: set[int] = set()
    for row in rows.iterator(ROWS_PER_FETCH):
        if links.isdisjoint(references.LINK.findall(row.raw)):
            continue
        before = row.text
        row.replace_content(partial(_without_copies, row.channel.slack_id, links))
        if row.text != before:
            segments |= {pk for pk in (row.segment_id, row.thread_segment_id) if pk}
    return segments


def _without_copies(channel: str, links: Set[str], text: str, raw: str) -> tuple[str, str]:
    message = references.load_object(raw)
    cleaned = references.remove_embedded(message, channel, links)
    if cleaned == message:
        return text, raw
    if text == make_storable(message_text(message)):  # all the text of a share without a comment
        text = make_storable(message_text(cleaned))
    return text, json.dumps(cleaned)


def remove_root_copies(removed: Iterable[RemovedMessage], keys: Collection[int]) -> None:
    """Remove the copy of a thread's root from replies that were also sent to the channel."""
    roots = {(row.channel, row.ts) for row in removed if row.thread_ts == row.ts}
    for batch in in_batches({ts for _, ts in roots}):
        replies = Message.objects.filter(
            channel__in={channel for channel, _ in roots},
            thread_ts__in=batch,
            raw__contains='"root"',
        ).exclude(pk__in=keys)
        for reply in replies.only("channel", "thread_ts", "text", "raw"):
            if (reply.channel_id, reply.thread_ts) in roots:
                reply.replace_content(_without_root)


def _without_root(text: str, raw: str) -> tuple[str, str]:
    message = references.load_object(raw)
    return (text, json.dumps(message)) if message.pop("root", None) else (text, raw)


def remove_copies_of_removed(workspace: Workspace, since_us: int) -> None:
    """Remove the copies of messages without words from the messages since a time."""
    stored = Message.objects.filter(channel__workspace=workspace)
    rows = stored.filter(
        Q(raw__contains='"attachments"') | Q(raw__contains='"root"'),
        state=Message.State.LIVE,
        micros__gte=since_us,
    ).select_related("channel")
    rows = rows.only("text", "raw", "channel__slack_id")
    for batch in in_batches(rows.iterator(ROWS_PER_FETCH), ROWS_PER_FETCH):
        links = {
            link
            for row in batch
            for link in references.embedded_links(
                references.load_object(row.raw), row.channel.slack_id
            )
        }
        keys = stored.removed_among(map(references.parse_permalink_path, links))
        removed_links = {references.permalink_path(*key) for key in keys}
        for row in batch if removed_links else ():
            row.replace_content(partial(_without_copies, row.channel.slack_id, removed_links))


def skip_events(removed: Sequence[RemovedMessage], matcher: QuoteMatcher) -> int:
    """Skip the stored events about these messages, and return their number.

    An event about an edited message is skipped only if it quotes the old text. The next sync
    fetches everything else that the event reported.
    """
    by_address = _by_address(removed)
    times = {ts for _, ts in by_address}
    skipped = 0
    events = SlackEvent.objects.with_body() if times else SlackEvent.objects.none()
    for pk, body in events.values_list("pk", "body").iterator(ROWS_PER_FETCH):
        if times.isdisjoint(references.TS.findall(body)):
            continue
        event = references.load_object(body)
        about = [by_address[key] for key in references.event_messages(event) & by_address.keys()]
        quotes = about and any(map(matcher.spans, references.iter_strings(event)))
        if quotes or not all(message.is_edit for message in about):
            SlackEvent.objects.filter(pk=pk).forget()
            skipped += 1
    return skipped


def _by_address(removed: Iterable[RemovedMessage]) -> dict[tuple[str, str], RemovedMessage]:
    """Return the messages by the Slack id of their channel and their ts."""
    channels = Channel.objects.filter(pk__in={message.channel for message in removed})
    slack_ids = dict(channels.values_list("pk", "slack_id"))
    return {(slack_ids[message.channel], message.ts): message for message in removed}
