"""The demo with more channels and messages, and a memory with a long history."""

import random
from datetime import datetime, timedelta
from io import StringIO

from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memories.demo.workspace import DEMO_USER
from memories.management.commands.demo import SLUG
from memories.models import ApiKey, Channel, Line, Memory, Message, Person, User, Workspace
from memories.pipeline.search import indexing
from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from memories.rules.memory.identity import MemoryType
from tests.factories import make_version

CHANNELS = 60
VERSIONS = 200  # of one memory; others have FEW
FEW = 3
LINES = 8  # of a memory, each with two sources

Pages = dict[str, tuple[str, bool]]


def make(messages: int) -> tuple[Pages, str, str]:
    """Create the rows. Return the pages for bench/pages.py, a session cookie and the token of a key."""
    call_command("demo", "--no-serve", stdout=StringIO(), stderr=StringIO())
    workspace = Workspace.objects.get(slug=SLUG)
    with transaction.atomic():
        long = _add_rows(workspace, messages, timezone.now(), random.Random(1))
    indexing.index_pending()
    user = User.objects.get(username=DEMO_USER)
    client = Client()
    client.force_login(user)
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.session.session_key}"
    _, token = ApiKey.objects.issue(
        workspace, name="bench", by=None, user=user, requests_per_minute=10**6
    )
    return _pages(workspace, long), cookie, token


def _add_rows(workspace: Workspace, messages: int, now: datetime, chance: random.Random) -> Memory:
    """Add channels with texts of the demo. Return the memory with the long history."""
    texts = list(Message.objects.exclude(text="").values_list("text", flat=True))
    lines = list(Line.objects.values_list("text", flat=True))
    people = list(Person.objects.filter(is_bot=False))
    channels = Channel.objects.bulk_create(
        Channel(workspace=workspace, slack_id=f"C{n:07d}", name=f"team-{n}", kind="public")
        for n in range(CHANNELS)
    )
    each = messages // CHANNELS
    for number, channel in enumerate(channels):
        first_us = to_micros(now - timedelta(days=20)) + number
        apart_us = 20 * 24 * 3600 * 10**6 // each
        Message.objects.insert(
            [
                Message(
                    channel=channel,
                    author=chance.choice(people),
                    ts=ts_from_micros(first_us + i * apart_us),
                    micros=first_us + i * apart_us,
                    text=chance.choice(texts),
                )
                for i in range(each)
            ]
        )
        sources = list(channel.messages.all()[:LINES])
        for memory_type in (MemoryType.SHORT_TERM, MemoryType.LONG_TERM):
            memory = Memory.objects.of_channel(channel, memory_type)
            for _ in range(VERSIONS if (number, memory_type) == (0, MemoryType.LONG_TERM) else FEW):
                make_version(
                    memory=memory,
                    text="\n".join(chance.sample(lines, LINES)),
                    sources=chance.sample(sources, 2),
                    until=now,
                )
    return Memory.objects.of_channel(channels[0], MemoryType.LONG_TERM)


def _pages(workspace: Workspace, long: Memory) -> Pages:
    """Return the URL of each page, and whether only its part is requested."""
    slug, channel = workspace.slug, long.channel
    assert channel is not None
    catch_up = reverse("catch_up-index", args=[slug])
    of_channel = reverse("channels-detail", args=[slug, channel.slack_id])
    messages = reverse("messages-index", args=[slug, channel.slack_id])
    search = f"{reverse('search-index', args=[slug])}?q=CSV"
    newest = channel.messages.order_by("-micros")[60]
    first, last = long.versions.order_by("number").first(), long.versions.order_by("number").last()
    assert first is not None and last is not None
    return {
        "Catch up": (catch_up, False),
        "channel": (of_channel, False),
        "messages": (messages, False),
        f"versions ({VERSIONS})": (reverse("memories-versions", args=[long.pk]), False),
        "search": (search, False),
        "jobs": (reverse("jobs-index", args=[slug]), False),
        f"compare v1 with v{VERSIONS}": (
            reverse("versions-compare", args=[first.pk, last.pk]),
            False,
        ),
        "part: Catch up": (catch_up, True),
        "part: 50 older messages": (f"{messages}?before={newest.ts}", True),
        "part: search results": (search, True),
        "part: jobs": (reverse("jobs-index", args=[slug]), True),
    }
