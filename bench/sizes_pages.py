"""The pages that bench/sizes.py asks for, and the client that asks."""

from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client as DjangoClient
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from bench.sizes_rows import WORD, Rows, find
from memories.models import Job, Line, Workspace

Paths = dict[str, str]
LISTS = (
    "modelcall",
    "channel",
    "channelmember",
    "job",
    "member",
    "memory",
    "memoryversion",
    "message",
    "note",
    "person",
    "quarantinedline",
    "segment",
    "user",
    "auditevent",
)


class Client:
    """A signed-in reader."""

    def __init__(self, username: str) -> None:
        self.client = DjangoClient(SERVER_NAME="localhost")
        self.client.force_login(get_user_model().objects.get(username=username))

    def status(self, path: str) -> int:
        return self.client.get(path).status_code

    def ask(self, path: str) -> None:
        if (status := self.status(path)) != 200:
            raise RuntimeError(f"{path} answers {status}")

    def queries_of(self, path: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            self.ask(path)
        return len(queries)


def pages_of(reader: str) -> tuple[Client, Paths]:
    """What this reader may open in the current database, by name."""
    rows = find(Workspace.objects.get())
    client = Client((rows.operator if reader == "operator" else rows.member).username)
    paths = {**_of_workspace(rows), **_of_channel(rows), **_of_memory(rows)}
    if reader == "operator":
        return client, {**paths, **_for_operators(rows)}
    return client, paths


def _of_workspace(rows: Rows) -> Paths:
    slug = rows.workspace.slug
    catch_up, jobs, search, context = (
        reverse(name, args=[slug])
        for name in ("catch_up-index", "jobs-index", "search-index", "context-index")
    )
    done = Job.objects.filter(state=Job.State.DONE).order_by("pk")
    failed = Job.objects.filter(state=Job.State.DEAD, memory__channel=rows.channel)
    old, dead = done[done.count() // 2].pk, failed[0].pk
    note = rows.workspace.notes.all()[0]
    return {
        "catch up": catch_up,
        "catch up, 7 days": f"{catch_up}?since=7d",
        "workspace": reverse("workspaces-detail", args=[slug]),
        "jobs": jobs,
        "jobs, older": f"{jobs}?before={old}",
        "job": reverse("jobs-detail", args=[slug, dead]),
        "costs": reverse("costs-index", args=[slug]),
        "context": context,
        "context of a channel": f"{context}?channel={rows.channel.slack_id}",
        "search": search,
        "search for a word": f"{search}?q={WORD}",
        "notes": reverse("notes-index", args=[slug]),
        "note": reverse("notes-detail", args=[slug, note.pk]),
        "trash": reverse("trash-index", args=[slug]),
        "quarantine": reverse("quarantine-index", args=[slug]),
        "preferences": reverse("preferences-edit"),
        "help": reverse("guide-index"),
    }


def _of_channel(rows: Rows) -> Paths:
    where = [rows.workspace.slug, rows.channel.slack_id]
    messages = reverse("messages-index", args=where)
    said = rows.channel.messages.order_by("micros")
    middle = said[said.count() // 2]
    root = said.exclude(thread_ts="").order_by("-micros")[0].thread_ts
    return {
        "channel": reverse("channels-detail", args=where),
        "messages": messages,
        "messages around one": f"{messages}?around={middle.ts}",
        "threads": reverse("threads-index", args=where),
        "thread": reverse("threads-detail", args=[*where, root]),
    }


def _of_memory(rows: Rows) -> Paths:
    memory = rows.history
    versions = reverse("memories-versions", args=[memory.pk])
    first, last = (memory.versions.get(number=number) for number in (1, memory.head))
    return {
        "memory, edited": reverse("memories-edit", args=[memory.pk]),
        "versions": versions,
        "versions, last page": f"{versions}?page=9999",
        "version": reverse("versions-detail", args=[first.pk]),
        "sources": reverse("versions-sources", args=[last.pk]),
        "compared versions": reverse("versions-compare", args=[first.pk, last.pk]),
    }


def _for_operators(rows: Rows) -> Paths:
    slug = rows.workspace.slug
    people = reverse("people-index", args=[slug])
    slack = reverse("slack-index", args=[slug])
    message = rows.channel.messages.order_by("-micros")[0]
    version = rows.history.versions.get(number=rows.history.head)
    assert Line.objects.filter(version=version).exists()
    return {
        "settings": reverse("settings-edit", args=[slug]),
        "people": people,
        "people, searched": f"{people}?q=person1",
        "slack": slack,
        "slack, searched": f"{slack}?q=channel1",
        "backfill": reverse("backfill-index", args=[slug]),
        "setup": reverse("setup-index"),
        "imports": reverse("imports-index"),
        "admin": reverse("admin:index"),
        **{f"admin: {opts}s": reverse(f"admin:memories_{opts}_changelist") for opts in LISTS},
        "admin: message": reverse("admin:memories_message_change", args=[message.pk]),
        "admin: version": reverse("admin:memories_memoryversion_change", args=[version.pk]),
        "admin: memory": reverse("admin:memories_memory_change", args=[rows.history.pk]),
    }
