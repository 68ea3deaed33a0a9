"""Index the pending texts for the search. Triggers mark texts as pending."""

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
from memories.rules.search.tokenizer import Audience, audience_key, tokenize_with_stems

logger = logging.getLogger(__name__)

_Read = Callable[[Collection[int]], tuple[set[int], list[SearchDocument]]]

AT_ONCE = 500
MAX_US = 2**52  # the latest time whose key fits into a column
THE_INDEXER = 7_316_001  # PostgreSQL's advisory lock: one process at a time assigns keys
SMALL_PAGES = 4_000  # of an index that is rewritten after every erasure


class _NoNames:
    """Mentions are indexed without names, which depend on the reader and change."""

    def person(self, slack_id: str) -> str | None:
        return " "

    def channel(self, slack_id: str) -> str | None:
        return " "


def is_behind() -> bool:
    """Return whether a text is not indexed yet."""
    return SearchPending.objects.exclude(kind=ERASED).exists()


def has_work() -> bool:
    """Return whether a text is pending, or tokens of deleted texts have to be erased."""
    return SearchPending.objects.exists()


def index_pending(*, seconds: float | None = None, most: int | None = None) -> int:
    """Index pending texts in batches, newest first. Return their number.

    Rows that another transaction changes stay pending.
    """
    until = None if seconds is None else time.monotonic() + seconds
    done, below = 0, None
    while (most is None or done < most) and (until is None or time.monotonic() < until):
        indexed, below = _index_batch(below, AT_ONCE if most is None else min(AT_ONCE, most - done))
        if below is None:
            break
        done += indexed
    if SearchPending.objects.filter(kind=ERASED).exists():
        erase(whole=False)
    return done


def index_pending_or_defer(*, most: int) -> None:
    """Index pending texts after other work. If the database is busy, a task does it later."""
    try:
        index_pending(most=most)
    except DatabaseError:
        logger.warning("the worker will update the search index", exc_info=True)


def erase(*, whole: bool = True) -> None:
    """Rewrite the FTS5 index without deleted tokens, where FTS5 only marks them.

    A large index is rewritten once a day (``whole``). Until then it has deleted tokens without
    order or text.
    """
    if erases_at_once(connection):
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM (SELECT 1 FROM {WORDS}_data LIMIT {SMALL_PAGES + 1})")
        if whole or cursor.fetchone()[0] <= SMALL_PAGES:
            cursor.execute(f"INSERT INTO {WORDS} ({WORDS}) VALUES ('optimize')")
            SearchPending.objects.filter(kind=ERASED).delete()


@transaction.atomic
def _index_batch(below: int | None, most: int) -> tuple[int, int | None]:
    """Index a batch below a key. Return its size and its lowest key, None without pending texts."""
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
    readers: tuple[tuple[str, type[Model], _Read], ...] = (
        (MESSAGE, Message, _messages),
        (VERSION, MemoryVersion, _versions),
        (NOTE, Note, _notes),
    )
    for kind, model, read in readers:
        keys = {row.text_id: row.pk for row in rows if row.kind == kind}
        if not keys:
            continue
        texts_read, made = read(keys)
        SearchDocument.objects.filter(**{f"{kind}__in": keys.keys() & texts_read}).delete()
        documents += made
        existing = set(model._default_manager.filter(pk__in=keys).values_list("pk", flat=True))
        done += [keys[key] for key in keys if key in texts_read or key not in existing]
    _assign_keys(documents)
    SearchDocument.objects.bulk_create(documents)
    SearchPending.objects.filter(pk__in=done).delete()
    return len(documents), rows[-1].pk


def _locked(model: type[Model], keys: Iterable[int] | QuerySet[Any]) -> QuerySet[Any]:
    """Lock these rows until the commit, without those that another transaction has locked."""
    rows = model._default_manager.filter(pk__in=keys)
    if connection.vendor == "postgresql":
        return rows.select_for_update(skip_locked=True, no_key=True, of=("self",))
    return rows


def _channels(keys: QuerySet[Any]) -> dict[int | None, Channel | None]:
    """Return the locked channels of texts by key, with None for texts without a channel."""
    rows = _locked(Channel, keys).only("workspace", "kind")
    return {None: None, **{channel.pk: channel for channel in rows}}


def _keys(
    kind: str, workspace: int, channel: Channel | None, *, for_members: bool
) -> dict[str, str]:
    """Return the keys of a text's audience as fields of its document."""
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
        tokens = tokenize_with_stems(strip_invisible(render_plain(message.text, _NO_NAMES)))
        if tokens:
            index_keys = _keys(
                MESSAGE, channel.workspace_id, channel, for_members=message.was_private
            )
            made.append(
                SearchDocument(id=message.micros, message=message.pk, tokens=tokens, **index_keys)
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
        tokens = tokenize_with_stems(strip_invisible(version.content)) if is_read else ""
        if tokens and not (for_members and memory.channel_id is None):
            at, channel = to_micros(version.created_at), channels[memory.channel_id]
            index_keys = _keys(VERSION, memory.workspace_id, channel, for_members=for_members)
            made.append(SearchDocument(id=at, version=version.pk, tokens=tokens, **index_keys))
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
        tokens = tokenize_with_stems(strip_invisible(text)) if note.deleted_at is None else ""
        if tokens:
            at, channel = to_micros(note.created_at), channels[note.channel_id]
            index_keys = _keys(NOTE, note.workspace_id, channel, for_members=note.was_private)
            made.append(SearchDocument(id=at, note=note.pk, tokens=tokens, **index_keys))
    return seen, made


def _assign_keys(documents: list[SearchDocument]) -> None:
    """Replace the times in ``id`` by unique keys in the order of time.

    The keys ascend, since FTS5 would else write a segment for each document.
    """
    documents.sort(key=lambda document: document.pk)
    firsts = [min(max(document.pk, 0), MAX_US) * SLOTS for document in documents]
    used_keys = set(SearchDocument.objects.filter(pk__in=firsts).values_list("pk", flat=True))
    for first in list(used_keys):
        same_time = SearchDocument.objects.filter(pk__gte=first, pk__lt=first + SLOTS)
        used_keys.update(same_time.values_list("pk", flat=True))
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
