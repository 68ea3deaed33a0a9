"""Texts → the index of the search. Triggers say which wait; each is read as it is now."""

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from django.db import DatabaseError, connection, transaction
from django.db.models import Model, QuerySet

from memories.models import Channel, MemoryVersion, Message, Note, SearchDocument, SearchPending
from memories.models.search.documents import MESSAGE, NOTE, SLOTS, VERSION, WORDS
from memories.models.search.search_triggers import ERASED, erases_at_once
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.ingest.markup import render_plain
from memories.rules.ingest.timestamps import to_micros
from memories.rules.search.tokenizer import Audience, audience_key, stored

logger = logging.getLogger(__name__)

_Read = Callable[[Collection[int]], tuple[set[int], list[SearchDocument]]]

AT_ONCE = 500
MOST_US = 2**52  # a moment whose key still fits into a column
THE_INDEXER = 7_316_001  # PostgreSQL's advisory lock: one at a time hands out keys
SMALL_PAGES = 4_000  # of an index that is written anew whenever something was forgotten


class _NoNames:
    """Mentions are searched under no name: it is their reader who sees one, and it changes."""

    def person(self, slack_id: str) -> str | None:
        return " "

    def channel(self, slack_id: str) -> str | None:
        return " "


def waits() -> bool:
    """Whether some text cannot be found yet."""
    return SearchPending.objects.exclude(kind=ERASED).exists()


def has_work() -> bool:
    """Whether a text waits, or tokens of what is gone."""
    return SearchPending.objects.exists()


def catch_up(*, seconds: float | None = None, most: int | None = None) -> int:
    """Put what waits into the index, the newest first, a few at a time; how many it were. What
    somebody else is changing right now is left to the next time."""
    until = None if seconds is None else time.monotonic() + seconds
    done, below = 0, None
    while (most is None or done < most) and (until is None or time.monotonic() < until):
        indexed, below = _some(below, AT_ONCE if most is None else min(AT_ONCE, most - done))
        if below is None:
            break
        done += indexed
    if SearchPending.objects.filter(kind=ERASED).exists():
        erase(whole=False)
    return done


def catch_up_or_wait(*, most: int) -> None:
    """Beside other work: a database that is busy is no reason for that to fail; a task does it later."""
    try:
        catch_up(most=most)
    except DatabaseError:
        logger.warning("the index of the search is left to the worker", exc_info=True)


def erase(*, whole: bool = True) -> None:
    """Where FTS5 only marks deleted tokens as such: write its index anew without them. One that is
    large only once a day (``whole``); in it such tokens stand without their order, and by no text."""
    if erases_at_once(connection):
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM (SELECT 1 FROM {WORDS}_data LIMIT {SMALL_PAGES + 1})")
        if whole or cursor.fetchone()[0] <= SMALL_PAGES:
            cursor.execute(f"INSERT INTO {WORDS} ({WORDS}) VALUES ('optimize')")
            SearchPending.objects.filter(kind=ERASED).delete()


@transaction.atomic
def _some(below: int | None, most: int) -> tuple[int, int | None]:
    """How many were put in, and the lowest key that was looked at: None when none was left."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [THE_INDEXER])
            if not cursor.fetchone()[0]:
                return 0, None
    pending = SearchPending.objects.exclude(kind=ERASED).order_by("-pk")
    if below is not None:
        pending = pending.filter(pk__lt=below)
    rows = list(pending[:most])
    if not rows:
        return 0, None
    documents: list[SearchDocument] = []
    done: list[int] = []
    read_by: tuple[tuple[str, type[Model], _Read], ...] = (
        (MESSAGE, Message, _messages),
        (VERSION, MemoryVersion, _versions),
        (NOTE, Note, _notes),
    )
    for kind, model, read in read_by:
        keys = {row.text_id: row.pk for row in rows if row.kind == kind}
        if not keys:
            continue
        read_now, made = read(keys)
        SearchDocument.objects.filter(**{f"{kind}__in": keys.keys() & read_now}).delete()
        documents += made
        there = set(model._default_manager.filter(pk__in=keys).values_list("pk", flat=True))
        done += [keys[key] for key in keys if key in read_now or key not in there]
    _hand_out_keys(documents)
    SearchDocument.objects.bulk_create(documents)
    SearchPending.objects.filter(pk__in=done).delete()
    return len(documents), rows[-1].pk


def _locked(model: type[Model], keys: Iterable[int] | QuerySet[Any]) -> QuerySet[Any]:
    """These rows, but for those that somebody is changing: nobody forgets one between here and the
    commit, and nobody waits for anybody."""
    rows = model._default_manager.filter(pk__in=keys)
    if connection.vendor == "postgresql":
        return rows.select_for_update(skip_locked=True, no_key=True, of=("self",))
    return rows


def _channels(keys: QuerySet[Any]) -> dict[int | None, Channel | None]:
    """The channels of texts by their key, locked in the same way; None for a text of no channel."""
    rows = _locked(Channel, keys).only("workspace", "kind")
    return {None: None, **{channel.pk: channel for channel in rows}}


def _keys(
    kind: str, workspace: int, channel: Channel | None, *, for_members: bool
) -> dict[str, str]:
    """The keys of a text's audience, as fields of its document."""
    if channel is not None and (for_members or not channel.is_public):
        return {"channel_key": audience_key(kind, Audience.MEMBERS, channel.pk)}
    keys = {"workspace_key": audience_key(kind, Audience.WORKSPACE, workspace)}
    if channel is not None:
        keys["channel_key"] = audience_key(kind, Audience.CHANNEL, channel.pk)
    return keys


def _messages(keys: Collection[int]) -> tuple[set[int], list[SearchDocument]]:
    seen: set[int] = set()
    made: list[SearchDocument] = []
    channels = _channels(Message.objects.filter(pk__in=keys).values("channel"))
    rows = _locked(Message, keys).only(
        "channel", "micros", "text", "state", "is_notice", "was_private"
    )
    for message in rows:
        channel = channels.get(message.channel_id)
        if channel is None:
            continue
        seen.add(message.pk)
        if message.state != Message.State.LIVE or message.is_notice:
            continue
        tokens = stored(strip_invisible(render_plain(message.text, _NO_NAMES)))
        if tokens:
            found_by = _keys(
                MESSAGE, channel.workspace_id, channel, for_members=message.was_private
            )
            made.append(
                SearchDocument(id=message.micros, message=message.pk, tokens=tokens, **found_by)
            )
    return seen, made


def _versions(keys: Collection[int]) -> tuple[set[int], list[SearchDocument]]:
    seen: set[int] = set()
    made: list[SearchDocument] = []
    of_channels = MemoryVersion.objects.filter(pk__in=keys, memory__channel__isnull=False)
    channels = _channels(of_channels.values("memory__channel"))
    rows = _locked(MemoryVersion, keys).select_related("memory")
    for version in rows:
        memory = version.memory
        if memory.channel_id not in channels:
            continue
        seen.add(version.pk)
        for_members = version.audience == MemoryVersion.Audience.MEMBERS
        is_read = version.audience != MemoryVersion.Audience.NOBODY
        tokens = stored(strip_invisible(version.content)) if is_read else ""
        if tokens and not (for_members and memory.channel_id is None):
            at, channel = to_micros(version.created_at), channels[memory.channel_id]
            found_by = _keys(VERSION, memory.workspace_id, channel, for_members=for_members)
            made.append(SearchDocument(id=at, version=version.pk, tokens=tokens, **found_by))
    return seen, made


def _notes(keys: Collection[int]) -> tuple[set[int], list[SearchDocument]]:
    seen: set[int] = set()
    made: list[SearchDocument] = []
    of_channels = Note.objects.filter(pk__in=keys, channel__isnull=False)
    channels = _channels(of_channels.values("channel"))
    for note in _locked(Note, keys):
        if note.channel_id not in channels:
            continue
        seen.add(note.pk)
        text = "\n".join([note.title, note.content, *note.tags])
        tokens = stored(strip_invisible(text)) if note.deleted_at is None else ""
        if tokens:
            at, channel = to_micros(note.created_at), channels[note.channel_id]
            found_by = _keys(NOTE, note.workspace_id, channel, for_members=note.was_private)
            made.append(SearchDocument(id=at, note=note.pk, tokens=tokens, **found_by))
    return seen, made


def _hand_out_keys(documents: list[SearchDocument]) -> None:
    """A key of its own for each, in the order of their moments; so far ``id`` is the moment. In
    ascending order, or FTS5 would write a piece of its index for each."""
    documents.sort(key=lambda document: document.pk)
    firsts = [min(max(document.pk, 0), MOST_US) * SLOTS for document in documents]
    used_keys = set(SearchDocument.objects.filter(pk__in=firsts).values_list("pk", flat=True))
    for first in list(used_keys):
        beside = SearchDocument.objects.filter(pk__gte=first, pk__lt=first + SLOTS)
        used_keys.update(beside.values_list("pk", flat=True))
    for document, first in zip(documents, firsts, strict=True):
        key = first
        while key in used_keys or (
            key >= first + SLOTS and SearchDocument.objects.filter(pk=key).exists()
        ):
            key += 1
        used_keys.add(key)
        document.pk = key
    documents.sort(key=lambda document: document.pk)


_NO_NAMES = _NoNames()
