"""The MCP server: tools and resources, with the queries of the API."""

import json
import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import wraps
from typing import Annotated, Any

from asgiref.sync import sync_to_async
from django.db.models import Exists, OuterRef
from django.urls import reverse
from django.utils import timezone
from mcp import types
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import MCPServerError, ResourceNotFoundError, ToolError
from pydantic import Field

from memories.api import serialize
from memories.api.auth import check_scope
from memories.api.problems import Problem
from memories.api.queries import (
    context_for,
    get_or_404,
    propose,
    readable_messages,
    search_for,
    sources_for,
    write_note,
)
from memories.api.schemas import MessageOut, NoteIn, ProposalIn
from memories.api.slackbot import ReadsAs
from memories.models import ApiKey, Line, Memory, MemoryVersion, Message, Note
from memories.rules.context.contents import API_BUDGET, DEFAULT_BUDGET
from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.ingest.timestamps import from_micros, parse_utc, to_micros
from memories.views import paths
from memoryhub import __version__

logger = logging.getLogger(__name__)

INSTRUCTIONS = (
    "Memory Hub holds what a team decided, plans and asked in its Slack channels. Call get_context"
    " once when you begin a task, with the channel and the question at hand. Call search for"
    " anything the context does not answer, and fetch for the sources of a line."
)
READ_ONLY = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
WRITES = types.ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
MAX_CHANGES = 100
MAX_SOURCES = 50  # of a version


def build_server(load_key: Callable[[], ReadsAs], scopes: Collection[str]) -> MCPServer:
    """Return a server whose tools read as the loaded key does. A tool that writes needs its scope."""
    server = MCPServer(
        "memory-hub", title="Memory Hub", version=__version__, instructions=INSTRUCTIONS
    )
    tools = _Tools(load_key)
    # Some clients drop the text of a result that is also structured.
    server.tool(annotations=READ_ONLY, structured_output=False)(_in_thread(tools.get_context))
    for tool in (tools.search, tools.fetch, tools.whats_new):
        server.tool(annotations=READ_ONLY, structured_output=False)(_in_thread(tool))
    if ApiKey.Scope.NOTES in scopes:
        server.tool(annotations=WRITES, structured_output=False)(_in_thread(tools.add_note))
    if ApiKey.Scope.PROPOSE in scopes:
        correct = _in_thread(tools.propose_correction)
        server.tool(annotations=WRITES, structured_output=False)(correct)
    for uri, read in (
        ("memory://workspace", tools.workspace),
        ("memory://channel/{channel}", tools.channel),
    ):
        server.resource(uri, mime_type="text/plain")(_in_thread(read, ResourceNotFoundError))
    return server


def _in_thread(
    function: Callable[..., Any], error: type[MCPServerError] = ToolError
) -> Callable[..., Any]:
    """Return the tool as a coroutine that runs in the thread of the request.

    A Problem becomes an ``error``, whose message the SDK passes on.
    """

    @wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        if "in" in kwargs:  # the name that clients use, which Python reserves
            kwargs["channel"] = kwargs.pop("in")
        try:
            return await sync_to_async(function)(*args, **kwargs)
        except Problem as problem:
            raise error(problem.detail) from problem

    return run


class _Tools:
    """The functions of the tools. Each of them loads the key first, which raises a Problem."""

    def __init__(self, load_key: Callable[[], ReadsAs]) -> None:
        self._load_key = load_key

    def _load(self, name: str) -> ReadsAs:
        """Load the key, and log the use of the tool or resource without texts."""
        key = self._load_key()
        logger.info("MCP: %s by %s", name, key)
        return key

    def _load_with(self, scope: ApiKey.Scope, name: str) -> ApiKey:
        """Load the key as `_load` does. Raises Problem 403 without the scope."""
        key = self._load(name)
        if not isinstance(key, ApiKey):
            raise Problem(403, "Slackbot only reads.")
        check_scope(key, scope)
        return key

    def get_context(
        self,
        channel: str = "",
        thread: str = "",
        query: str = "",
        budget: int = DEFAULT_BUDGET,
        at: str = "",
    ) -> str:
        """Read what the team knows, as one text: decisions, tasks, open questions, conversation.

        Call this when a task begins. `channel` is an id or a name. `thread` is the ts of a thread in
        the channel. `query` is the question at hand, and `budget` the limit of tokens. `at` is a past
        time in ISO 8601: what was known then.
        """
        now = timezone.now()
        moment = min(_parse_moment(at), now) if at else None
        if not 1 <= budget <= API_BUDGET:
            raise Problem(422, f"budget must be from 1 to {API_BUDGET}.")
        built = context_for(
            self._load("get_context"),
            channel=channel,
            thread=thread,
            query=query,
            budget=budget,
            at=moment,
            now=now,
        )
        left_out = sum(part.count for part in built.left_out)
        versions = ", ".join(map(str, built.versions)) or "none"
        return (
            f"{built.text}\n\nAs of {(moment or now):%Y-%m-%dT%H:%MZ}; versions: {versions};"
            f" left out: {left_out} items."
        )

    def search(
        self, query: str, channel: Annotated[str, Field(alias="in")] = "", limit: int = 10
    ) -> str:
        """Find notes, memories and messages that hold these words. No model is involved.

        `in` is the id or the name of a channel, `limit` the number of results, at most 50.
        Returns JSON: {"results": [{"id", "title", "url", "snippet", "since"}]}.
        """
        key, count = self._load("search"), max(1, min(limit, 50))
        results = search_for(key, query, channel, count, timezone.now())
        return json.dumps(results.model_dump(mode="json"), ensure_ascii=False)

    def fetch(self, id: str) -> str:
        """Read one search result, a memory, or a line, in full, with the messages it rests on.

        `id` is such as "message-12", "memory-2", "version-3", "note-4" or "line-5".
        Returns JSON: {"id", "title", "text", "url", "metadata"}.
        """
        kind, _, number = id.partition("-")
        readers = {
            "message": self._message,
            "memory": self._memory,
            "version": self._version,
            "note": self._note,
            "line": self._line,
        }
        if kind not in readers or not _is_key(number):
            raise Problem(
                422, "An id looks like message-12, memory-2, version-3, note-4 or line-5."
            )
        title, text, url, metadata = readers[kind](self._load("fetch"), int(number))
        title, text = strip_invisible(title), strip_invisible(text)
        document = {"id": id, "title": title, "text": text, "url": url, "metadata": metadata}
        return json.dumps(document, ensure_ascii=False)

    def _message(self, key: ReadsAs, pk: int) -> "_Document":
        reader = key.reader(timezone.now())
        message = get_or_404(readable_messages(reader, key.workspace), pk=pk)
        out = serialize.messages_out([message], key.workspace, reader)[0]
        title = serialize.message_title(message)
        metadata = {"sent_at": out.sent_at.isoformat()} | _sources([], 0)
        return title, out.text, out.permalink or "", metadata

    def _memory(self, key: ReadsAs, pk: int) -> "_Document":
        rows = Memory.objects.visible_to(key.reader(timezone.now()))
        memory = get_or_404(rows.filter(workspace=key.workspace), pk=pk)
        return self._version(key, memory.current_id or 0)

    def _version(self, key: ReadsAs, pk: int) -> "_Document":
        reader = key.reader(timezone.now())
        rows = MemoryVersion.objects.visible_to(reader).select_related("memory__channel")
        version = get_or_404(rows, memory__workspace=key.workspace, pk=pk)
        lines = [
            {"id": f"line-{line.pk}", "text": strip_invisible(line.text)}
            for line in version.lines.all()
        ]
        url = paths.full_url(reverse("versions-detail", args=[version.pk]))
        all_sources = Message.objects.filter(lines__version=version).distinct()
        readable = readable_messages(reader, key.workspace).filter(pk__in=all_sources.values("pk"))
        messages = list(readable.in_order()[:MAX_SOURCES])
        sources = serialize.messages_out(messages, key.workspace, reader)
        withheld = all_sources.count() - readable.count()
        metadata = {"lines": lines} | _sources(sources, withheld)
        return f"{version.memory} v{version.number}", version.content, url, metadata

    def _note(self, key: ReadsAs, pk: int) -> "_Document":
        reader = key.reader(timezone.now())
        note = get_or_404(Note.objects.in_use(key.workspace).visible_to(reader), pk=pk)
        url = paths.full_url(reverse("notes-detail", args=[key.workspace.slug, note.pk]))
        messages = list(readable_messages(reader, key.workspace).filter(pk=note.source_id or 0))
        sources = serialize.messages_out(messages, key.workspace, reader)
        withheld = (note.source_id is not None) - len(messages)
        tags = [strip_invisible(tag) for tag in note.tags]
        metadata = {"tags": tags, "version": note.number} | _sources(sources, withheld)
        return note.title, note.content, url, metadata

    def _line(self, key: ReadsAs, pk: int) -> "_Document":
        line, sources = sources_for(key, pk, timezone.now())
        metadata = {
            "kind": line.kind,
            "since": from_micros(line.at_us).isoformat() if line.at_us else None,
        } | _sources(sources.messages, sources.withheld)
        url = paths.full_url(reverse("versions-sources", args=[line.version_id]))
        return line.text, line.text, url, metadata

    def whats_new(self, since: str, channel: str = "") -> str:
        """List what changed in the memories since an ISO 8601 moment, newest first, with dates.

        These are the lines whose messages are newer, and the lines that are no longer true since then.
        Days are in the zone of the workspace, as in a context.
        """
        key, moment = self._load("whats_new"), _parse_moment(since)
        reader = key.reader(timezone.now())
        versions = MemoryVersion.objects.visible_to(reader).filter(memory__workspace=key.workspace)
        if channel:
            named = key.workspace.channels.visible_to(reader).named(make_storable(channel))
            if not named:
                raise Problem(404, f"There is no channel {channel!r}.")
            versions = versions.filter(memory__channel__in=named)
        lines, since_us = Line.objects.select_related("version__memory__channel"), to_micros(moment)
        new = lines.filter(version__in=versions.current(), at_us__gt=since_us).in_force()
        # The index gives the latest ones first. So few versions are checked.
        ended = lines.filter(Exists(versions.filter(pk=OuterRef("version")))).ended_after(since_us)
        changes = [(line.at_us, "", line) for line in new.newest_first()[: MAX_CHANGES + 1]]
        changes += [
            (line.outcome_us, "no longer true: ", line)
            for line in ended.order_by("-outcome_us", "-pk")[: MAX_CHANGES + 1]
        ]
        changes.sort(key=lambda change: change[0], reverse=True)
        zone = key.workspace.memory_settings.zone
        texts = [
            f"{from_micros(us).astimezone(zone):%Y-%m-%d} {line.version.memory.channel or 'workspace'}:"
            f" {prefix}{strip_invisible(line.text.removeprefix('- '))}"
            for us, prefix, line in changes[:MAX_CHANGES]
        ]
        if len(changes) > MAX_CHANGES:
            texts.append(f"These are the newest {MAX_CHANGES} changes. There are older ones.")
        return "\n".join(texts) or "There is nothing new."

    def add_note(self, text: str, channel: str = "", source: str = "") -> str:
        """Keep a lasting statement for the whole team: a pattern, a decision, how something works.

        With `channel` only its readers see it. `source` is the id of the message that says so, such
        as "message-12": the note then is for the readers of that message. Returns JSON: {"id", "url"}.
        """
        key = self._load_with(ApiKey.Scope.NOTES, "add_note")
        message = _parse_id("message", source) if source else None
        try:
            given = NoteIn(content=text, channel=channel, source=message)
        except ValueError as error:
            raise Problem(422, "text is empty or too long.") from error
        note = write_note(key, given, timezone.now())
        url = paths.full_url(reverse("notes-detail", args=[key.workspace.slug, note.pk]))
        return json.dumps({"id": f"note-{note.pk}", "url": url})

    def propose_correction(
        self, line_id: str, text: str, reason: str, sources: list[str] | None = None
    ) -> str:
        """Propose other words for a line that is wrong. A person approves, edits or rejects it.

        `line_id` is the id of a line from fetch, such as "line-5". `reason` says why it is wrong.
        `sources` are ids of messages such as "message-12". Returns JSON: {"id", "status", "url"}.
        """
        key, now = self._load_with(ApiKey.Scope.PROPOSE, "propose_correction"), timezone.now()
        pk = _parse_id("line", line_id)
        try:
            given = ProposalIn(
                line=pk,
                text=text,
                reason=reason,
                sources=[_parse_id("message", source) for source in sources or []],
            )
        except ValueError as error:
            raise Problem(
                422, "text or reason is empty, too long, or has more than 5 sources."
            ) from error
        line = sources_for(key, pk, now)[0]
        proposal = propose(key, line.version.memory_id, given, now)
        out = serialize.proposal_out(proposal)
        status = "It waits for a person to decide."
        return json.dumps({"id": f"proposal-{out.id}", "status": status, "url": out.url})

    def workspace(self) -> str:
        """What the team knows, over all channels."""
        return context_for(self._load("workspace"), now=timezone.now()).text

    def channel(self, channel: str) -> str:
        """What is remembered of one channel, with its conversation."""
        return context_for(self._load("channel"), channel=channel, now=timezone.now()).text


_Document = tuple[str, str, str, dict[str, Any]]


def _sources(messages: Sequence[MessageOut], withheld: int) -> dict[str, Any]:
    """Return the metadata of a document about its sources, and how many the key may not read."""
    return {
        "sources": [message.model_dump(mode="json") for message in messages],
        "withheld": withheld,
    }


def _parse_id(kind: str, text: str) -> int:
    """Return the number of an id such as "line-5". Raises Problem 422."""
    prefix, _, number = text.partition("-")
    if prefix != kind or not _is_key(number):
        raise Problem(422, f"{text!r} is not an id such as {kind}-5.")
    return int(number)


def _is_key(number: str) -> bool:
    return number.isascii() and number.isdigit() and len(number) < 19


def _parse_moment(text: str) -> datetime:
    """Return an ISO 8601 time in UTC, its zone by default. Raises Problem 422."""
    if moment := parse_utc(text):
        return moment
    raise Problem(422, f"{text!r} is not a time. Write it as 2026-11-24T09:00:00Z.")
