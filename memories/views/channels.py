"""A channel: what is remembered of it, what happened lately, and what still waits."""

from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.utils import timezone

from memories.models import Channel, Generation, Memory, MemoryVersion, Message, Note
from memories.rules.memory import MemoryScope, MemoryType
from memories.rules.slacktime import to_micros
from memories.views.access import Place, UserRequest, open_channel
from memories.views.coverage import channels_waiting
from memories.views.messages import first_words
from memories.views.pages import render_page
from memories.views.paths import thread_path
from memories.views.shown import ShownVersion, rail_of, show, with_origin

HISTORY_SHOWN = 10
THREADS_SHOWN = 12
NOTES_SHOWN = 10
JOBS_SHOWN = 5


@dataclass(frozen=True)
class Thread:
    """A thread that has a memory, and the words it began with ("" where its root is not here)."""

    memory: Memory
    path: str
    words: str


@login_required
def detail(request: UserRequest, slug: str, slack_id: str) -> HttpResponse:
    place, channel = open_channel(request, slug, slack_id)
    now = timezone.now()
    memories = {
        memory.memory_type: memory
        for memory in Memory.objects.filter(channel=channel, scope=MemoryScope.CHANNEL)
    }
    long_term = memories.get(MemoryType.LONG_TERM)
    short_term = memories.get(MemoryType.SHORT_TERM)
    share, waiting = channels_waiting(place, [channel], to_micros(now))[channel.pk]
    shown = _shown_by_pk(place, long_term, short_term)
    history = [one for one in shown.values() if one.version.memory_id == _pk(short_term)]
    return render_page(
        request,
        "channels/detail.html",
        {
            "place": place,
            "channel": channel,
            "memory": long_term,
            "shown": shown.get(_current(long_term)),
            "short_term": short_term,
            "short_term_shown": shown.get(_current(short_term)),
            "history": sorted(history, key=_by_period, reverse=True)[:HISTORY_SHOWN],
            "rail": rail_of(long_term),
            "share": share,
            "waiting": waiting,
            "jobs": _jobs(channel),
            "threads": _threads(place, channel),
            "notes": _notes(place, channel),
            "now": now,
        },
    )


def _shown_by_pk(
    place: Place, long_term: Memory | None, short_term: Memory | None
) -> dict[int, ShownVersion]:
    """Both current texts and the short-term history, with all their lines in one go."""
    wanted = {_current(long_term), _current(short_term)}
    if short_term is not None:
        newest = short_term.versions.in_order().reverse()
        wanted |= set(newest.values_list("pk", flat=True)[:HISTORY_SHOWN])
    versions = with_origin(MemoryVersion.objects.filter(pk__in=wanted - {0}))
    return {one.version.pk: one for one in show(versions, place)}


def _by_period(one: ShownVersion) -> tuple[int, int]:
    return (one.version.until_us, one.version.number)


def _pk(memory: Memory | None) -> int:
    return memory.pk if memory else 0


def _current(memory: Memory | None) -> int:
    return (memory.current_id or 0) if memory else 0


def _threads(place: Place, channel: Channel) -> list[Thread]:
    memories = list(
        Memory.objects.filter(channel=channel, scope=MemoryScope.THREAD, current__isnull=False)
        .select_related("current")
        .order_by("-current__until_us", "-pk")[:THREADS_SHOWN]
    )
    roots = Message.objects.filter(
        channel=channel,
        state=Message.State.LIVE,
        ts__in=[memory.thread_ts for memory in memories],
    )
    words = first_words(roots, place)
    return [
        Thread(
            memory,
            thread_path(place.workspace.slug, channel.slack_id, memory.thread_ts),
            words.get(memory.thread_ts, ""),
        )
        for memory in memories
    ]


def _jobs(channel: Channel) -> list[Generation]:
    """What is being made or was given up, oldest first."""
    states = (*Generation.UNFINISHED, Generation.State.DEAD)
    return list(
        Generation.objects.of_channel(channel)
        .filter(state__in=states)
        .select_related("memory", "segment")
        .order_by("pk")[:JOBS_SHOWN]
    )


def _notes(place: Place, channel: Channel) -> list[Note]:
    notes = Note.objects.visible_to(place.reader).in_use(place.workspace).filter(channel=channel)
    return list(notes.select_related("author").order_by("-date", "-pk")[:NOTES_SHOWN])
