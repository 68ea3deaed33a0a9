"""The work for an unreadable id or word equals the work for one that does not exist.

Work is counted in SQLite's virtual machine steps, which are the same on every machine. A check of
one row takes some hundred steps, a few microseconds. The existence of a row is no secret, because
keys count up. The content of a channel is secret, and would take thousands of steps.
"""

from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import reverse

from memories.models import Channel, Job, Memory, MemoryVersion, Message, Note
from memories.pipeline.search import indexing
from tests.leaks.attacked import PRIVATE, AttackedTeam
from tests.work import steps_of

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.slow,
    pytest.mark.sqlite("counts the steps of SQLite"),
]

MESSAGES = 500
ONE_ROW = 1_000  # steps
WORD, UNKNOWN_WORD = "quicksilver", "quicksalmon"  # of one length
UNKNOWN = 999_999


@pytest.fixture(scope="module")
def world(module_transaction: None) -> AttackedTeam:
    world = AttackedTeam().build()
    channel = world.channels[PRIVATE]
    Message.objects.bulk_create(
        Message(channel=channel, ts=f"{n}.000000", micros=n * 10**6, text=f"{WORD} {n}")
        for n in range(1, MESSAGES + 1)
    )
    indexing.index_pending()
    return world


def of_channel(name: str) -> Any:
    def paths(channel: Channel) -> tuple[str, str]:
        slug, slack_id = channel.workspace.slug, channel.slack_id
        return reverse(name, args=[slug, slack_id]), reverse(name, args=[slug, "C" * len(slack_id)])

    return paths


def of_row(name: str, model: Any, path: str, *, in_workspace: bool = False) -> Any:
    def paths(channel: Channel) -> tuple[str, str]:
        key = model.objects.filter(**{path: channel}).order_by("pk").values_list("pk", flat=True)[0]
        slug = [channel.workspace.slug] if in_workspace else []
        return reverse(name, args=[*slug, key]), reverse(name, args=[*slug, UNKNOWN])

    return paths


def of_query(name: str, seen: str, missing: str) -> Any:
    def paths(channel: Channel) -> tuple[str, str]:
        path = reverse(name, args=[channel.workspace.slug])
        return f"{path}?{quote(seen, safe='=&')}", f"{path}?{quote(missing, safe='=&')}"

    return paths


PROBES = {
    "channel": of_channel("channels-detail"),
    "messages": of_channel("messages-index"),
    "threads": of_channel("threads-index"),
    "memory": of_row("memories-versions", Memory, "channel"),
    "edit a memory": of_row("memories-edit", Memory, "channel"),
    "version": of_row("versions-detail", MemoryVersion, "memory__channel"),
    "note": of_row("notes-detail", Note, "channel", in_workspace=True),
    "job": of_row("jobs-detail", Job, "memory__channel", in_workspace=True),
    "people": of_query("people-index", "q=secret", "q=sucret"),
    "notes": of_query("notes-index", f"q={WORD}", f"q={UNKNOWN_WORD}"),
    "context": of_query("context-index", "channel=CSECRET", "channel=CSUCRET"),
    "search in a channel": of_query("search-index", "q=text in:CSECRET", "q=text in:CSUCRET"),
    "search by word": of_query("search-index", f"q={WORD}", f"q={UNKNOWN_WORD}"),
}


others = pytest.mark.nightly("members and operators see most")


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize(
    "role",
    [
        *("member", "operator"),
        *(pytest.param(role, marks=others) for role in ("outsider", "editor", "staff", "clerk")),
    ],
)
def test_work_is_the_same_for_hidden_and_missing_objects(
    world: AttackedTeam, role: str, name: str
) -> None:
    if name == "job" and role == "operator":
        return  # operators see every job, without its text
    paths = PROBES[name](world.channels[PRIVATE])
    client = Client(SERVER_NAME="localhost")
    client.force_login(world.users[role])
    answers = [client.get(path) for path in paths]
    assert answers[0].status_code == answers[1].status_code
    hidden, missing = (steps_of(partial(client.get, path)) for path in paths)
    assert abs(hidden - missing) <= missing * 0.1 + ONE_ROW, (hidden, missing)
