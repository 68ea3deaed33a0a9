"""What clients with an API key receive and write: webhooks, memoryhub-agent and the tools of MCP.

Each reader of the matrix has a key of the same workspace. "public" has one without an account.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.models import Max
from django.test import Client
from django.utils import timezone
from mcp.server.mcpserver.exceptions import ToolError
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from memories import agent
from memories.api.mcp import build_server
from memories.models import (
    ApiKey,
    Channel,
    Line,
    MemoryVersion,
    Message,
    Note,
    Proposal,
    Webhook,
    WebhookDelivery,
)
from memories.pipeline.access import webhooks
from memories.rules.memory.identity import MemoryType
from tests.leaks.probes import TYPED
from tests.leaks.world import ELSEWHERE, NOTICE, ROLES, WORKSPACE, World, word
from tests.processes import PATIENCE

READERS = (*ROLES, "public")
ONE_OF_EACH_KIND = {"plaza", "ember", "secret", "harbor", WORKSPACE, NOTICE, ELSEWHERE}
Rows = set[tuple[str, int]]  # a reader, and the primary key of a version
Pairs = set[tuple[str, str]]  # a reader, and a place


def issue_keys(world: World) -> dict[str, tuple[ApiKey, str]]:
    """Return a key and its token for each reader. None of them reads another workspace."""
    world.audiences[ELSEWHERE] = set()
    return {
        role: ApiKey.objects.issue(
            world.team,
            name=role,
            by=None,
            user=world.users.get(role),
            scopes=list(ApiKey.Scope),
            requests_per_minute=10**6,
        )
        for role in READERS
    }


def readable_places(world: World, what: str = "said") -> Pairs:
    return {
        (role, place)
        for role in READERS
        for place in world.audiences
        if not world.leaks(word(place, what), role)
    }


def channel_readers(world: World, channel: Channel) -> set[str]:
    """Return the readers of a channel, which has two places after it turned public."""
    places = {place for place, row in world.channels.items() if row == channel}
    return {role for role, place in readable_places(world) if place in places}


def stages(world: World, *, is_full: bool) -> Iterator[tuple[str, Pairs]]:
    """Make all changes. Yield the pairs to try first, and after each change.

    If not ``is_full``, these are a place of each kind first, and then what a change concerns.
    Else they are all places, of all readers first and then of those whom a change concerns.
    """
    yield "at first", {pair for pair in all_pairs(world) if is_full or pair[1] in ONE_OF_EACH_KIND}
    for change in World.CHANGES:
        before = [readable_places(world, what) for what in ("said", "channel")]
        world.change(change)
        after = [readable_places(world, what) for what in ("said", "channel")]
        changed = {pair for old, new in zip(before, after, strict=True) for pair in old ^ new}
        roles = {role for role, _ in changed} if is_full else set()
        yield change, changed | {pair for pair in all_pairs(world) if pair[0] in roles}


def all_pairs(world: World) -> Pairs:
    return {(role, place) for role in READERS for place in world.audiences}


class WebhookReceiver:
    """A local server, and a webhook of each reader that calls it. ``is_full``: all versions are
    sent, else one of each place."""

    def __init__(self, server: HTTPServer, world: World, *, is_full: bool) -> None:
        self.world, self.is_full = world, is_full
        self.requests: list[tuple[str, str, str]] = []  # reader, headers, body
        server.expect_request("/", method="POST").respond_with_handler(self._answer)
        for role, (key, _) in issue_keys(world).items():
            Webhook.objects.register(key, server.url_for(f"/?{role}"))

    def _answer(self, request: Request) -> Response:
        role, body = request.query_string.decode(), request.get_data(as_text=True)
        self.requests.append((role, str(request.headers), body))
        return Response(status=204)

    def readable_rows(self) -> Rows:
        """Return the versions of each reader, by the words in their texts."""
        versions = MemoryVersion.objects.with_text()
        if not self.is_full:
            versions = versions.filter(
                memory__memory_type=MemoryType.LONG_TERM, content__contains="kqwvnew"
            )
        self.chosen = dict(versions.values_list("pk", "content"))
        return {
            (role, pk)
            for pk, text in self.chosen.items()
            for role in READERS
            if not self.world.leaks(text, role)
        }

    def enqueue(self) -> Rows:
        """Fill the outbox from the first version on, and return its rows."""
        WebhookDelivery.objects.all().delete()
        Webhook.objects.update(cursor=0)
        before: list[int] = []
        while before != (cursors := list(Webhook.objects.values_list("cursor", flat=True))):
            before = cursors
            webhooks.fill_outbox(_soon())
        WebhookDelivery.objects.exclude(version__in=self.chosen).delete()
        return set(WebhookDelivery.objects.values_list("webhook__key__name", "version"))

    def send(self) -> Rows:
        """Send what is in the outbox, and return what arrived."""
        self.requests.clear()
        while WebhookDelivery.objects.due(_soon()).exists():
            webhooks.send_due(_soon())
        return {(role, json.loads(body)["data"]["version_id"]) for role, _, body in self.requests}


def _soon() -> datetime:
    return timezone.now() + 2 * webhooks.SETTLED_AFTER


# Readers whose keys may call the tools that write, where they may read. Guests never may.
WRITERS = {
    "add_note": {"editor", "admin", "operator", "public"},
    "propose_correction": {"member", "editor", "admin", "operator", "public"},
}
UNKNOWN = 10**9  # a primary key of no row


def allowed_writers(world: World, tool: str, readers: set[str]) -> set[str]:
    """Return which of these readers of something may write to it with the tool."""
    guests = {role for role in world.people if world.is_guest(role)}
    return (WRITERS[tool] & readers) - guests


@dataclass(frozen=True)
class Write:
    """A call of a tool that writes to a place. ``unknown``: the call with an id that does not exist."""

    tool: str
    arguments: dict[str, Any]
    unknown: dict[str, Any]
    readers: set[str]


class McpWriter:
    """Calls the tools of MCP that write, with the key of each reader. Each call is undone.

    ``is_full``: over HTTP, else in the server alone.
    """

    def __init__(self, world: World, *, is_full: bool) -> None:
        self.world, self.keys = world, issue_keys(world)
        self._send = self._send_over_http if is_full else self._send_to_server
        self.servers = {
            role: build_server(partial(ApiKey.objects.get, pk=key.pk), key.scopes)
            for role, (key, _) in self.keys.items()
        }

    def writes(self, place: str) -> Iterator[Write]:
        readers = {role for role, name in readable_places(self.world) if name == place}
        note = {"text": "A note."}
        if place == NOTICE:
            yield Write("add_note", note, note, readers)
        if channel := self.world.channels.get(place):
            named, unknown = ({"channel": slack_id} for slack_id in (channel.slack_id, "CNOWHERE"))
            readers_of_channel = channel_readers(self.world, channel)
            yield Write("add_note", note | named, note | unknown, readers_of_channel)
        for message in Message.objects.filter(text__contains=word(place, "said"))[:1]:
            sources = [note | {"source": f"message-{pk}"} for pk in (message.pk, UNKNOWN)]
            yield Write("add_note", *sources, readers)
        lines = Line.objects.filter(version__in=MemoryVersion.objects.current())
        for line in lines.filter(text__contains=word(place, "new"))[:1]:
            change = {"text": "Other words.", "reason": "They are wrong."}
            ids = [change | {"line_id": f"line-{pk}"} for pk in (line.pk, UNKNOWN)]
            yield Write("propose_correction", *ids, readers)

    def call(self, role: str, tool: str, arguments: dict[str, Any]) -> tuple[str, list[Any]]:
        """Return the text of the answer, and the channels of the notes and proposals it wrote."""
        with transaction.atomic():
            last = [model.objects.aggregate(pk=Max("pk"))["pk"] or 0 for model in (Note, Proposal)]
            answer = self._send(role, tool, arguments)
            notes = Note.objects.filter(pk__gt=last[0])
            proposals = Proposal.objects.filter(pk__gt=last[1])
            channels = [note.channel for note in notes.select_related("channel")]
            channels += [row.memory.channel for row in proposals.select_related("memory__channel")]
            transaction.set_rollback(True)
        return answer, channels

    def _send_to_server(self, role: str, tool: str, arguments: dict[str, Any]) -> str:
        try:
            return str(async_to_sync(self.servers[role].call_tool)(tool, arguments))
        except ToolError as error:
            return str(error)

    def _send_over_http(self, role: str, tool: str, arguments: dict[str, Any]) -> str:
        headers = {
            "Authorization": f"Bearer {self.keys[role][1]}",
            "Accept": "application/json, text/event-stream",
            "Host": "localhost",
        }
        params = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        client = Client(SERVER_NAME="localhost")
        return client.post("/mcp", body, "application/json", headers=headers).content.decode()


# Commands of memoryhub-agent: of the whole hub, and of the channel whose id is added.
SYNC = ("sync",)
COMMANDS = (
    ("context", "--query", TYPED, "--budget", "20000"),
    ("search", TYPED, "--limit", "50"),
    ("list",),
    SYNC,
)
CHANNEL_COMMANDS = (("context", "--channel"), ("add", "A note.", "--channel"))


class AgentRunner:
    """Runs memoryhub-agent with the key of each reader. ``is_full``: in processes, else here."""

    def __init__(self, world: World, url: str, folder: Path, *, is_full: bool) -> None:
        self.world, self.folder = world, folder
        self.tokens = {role: token for role, (_, token) in issue_keys(world).items()}
        self.environment = {"MEMORYHUB_URL": url, "PATH": os.environ["PATH"]}
        self._start = self._start_process if is_full else self._start_here

    def run(self, role: str, *arguments: str) -> tuple[str, list[Channel | None]]:
        """Return the output with the notes file, and the channels of the notes that it added.

        The file has a new note for each channel before, and the notes are removed after.
        """
        file = self.folder / agent.DEFAULT_FILE
        file.parent.mkdir(exist_ok=True)
        file.with_name(f".{file.name}.base").unlink(missing_ok=True)
        ids = [channel.slack_id for channel in self.world.channels.values()]
        file.write_text("".join(f"## {id}\n- Channel: {id}\n- Content: A note.\n" for id in ids))
        last = Note.objects.aggregate(pk=Max("pk"))["pk"] or 0
        output = self._start(arguments, self.environment | {"MEMORYHUB_KEY": self.tokens[role]})
        notes = Note.objects.filter(pk__gt=last).select_related("channel")
        channels = [note.channel for note in notes]
        notes.delete()
        return f"{output}\n{file.read_text()}", channels

    def _start_here(self, arguments: tuple[str, ...], environment: dict[str, str]) -> str:
        output = io.StringIO()
        printed = redirect_stdout(output), redirect_stderr(output)
        with chdir(self.folder), patch.dict(os.environ, environment), printed[0], printed[1]:
            agent.main(list(arguments))
        return output.getvalue()

    def _start_process(self, arguments: tuple[str, ...], environment: dict[str, str]) -> str:
        program = [sys.executable, "-I", agent.__file__, *arguments]
        done = subprocess.run(
            program,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return done.stdout + done.stderr
