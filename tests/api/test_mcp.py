"""MCP with the official client: over HTTP in both protocol eras, and over standard input."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from memories.api import mcp as server
from memories.models import ApiKey, Line, Note, Proposal
from memories.pipeline.search import indexing
from memories.rules.ingest.timestamps import from_micros, to_micros
from tests.factories import (
    MemberFactory,
    MessageFactory,
    NoteFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_reply,
)
from tests.processes import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
READS = ["get_context", "search", "fetch", "whats_new"]
WRITES = ["add_note", "propose_correction"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def team(transactional_db):
    workspace = WorkspaceFactory(slug="team")
    user = UserFactory(username="editor")
    MemberFactory(workspace=workspace, user=user, role="editor")
    message = MessageFactory(
        channel__workspace=workspace, channel__name="launches", text="We launch on Monday"
    )
    make_channel_memory(channel=message.channel, texts=["- We launch on Monday"])
    indexing.index_pending()
    return workspace, user, message


def make_key(team: Any, **options: Any) -> str:
    return ApiKey.objects.issue(team[0], name="agent", by=None, user=team[1], **options)[1]


def over_http(url: str, token: str, mode: str, use: Callable[[Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:  # type: ignore[arg-type]
                return await use(client)

    return asyncio.run(run())


def over_stdio(
    environment: dict[str, str], token: str, mode: str, use: Callable[[Client], Awaitable[Any]]
) -> Any:
    async def run() -> Any:
        server = StdioServerParameters(
            command=sys.executable,
            args=["manage.py", "mcp"],
            env=os.environ | environment | {"MEMORYHUB_KEY": token},
            cwd=ROOT,
        )
        async with Client(server, mode=mode) as client:  # type: ignore[arg-type]
            return await use(client)

    return asyncio.run(run())


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)


async def use_everything(client: Client) -> dict[str, Any]:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    context = await client.call_tool("get_context", {"query": "When do we launch?"})
    results = json.loads(text_of(await client.call_tool("search", {"query": "launch"})))
    fetched = json.loads(
        text_of(await client.call_tool("fetch", {"id": results["results"][0]["id"]}))
    )
    news = await client.call_tool("whats_new", {"since": "2020-01-01"})
    unknown = await client.call_tool("fetch", {"id": "message-999999"})
    resources = [row.uri for row in (await client.list_resources()).resources]
    templates = (await client.list_resource_templates()).resource_templates
    note = await client.call_tool("add_note", {"text": "Deploys run at noon"})
    correction = {
        "line_id": fetched["metadata"]["lines"][0]["id"],
        "text": "We launch on Tuesday",
        "reason": "It was moved.",
    }
    return {
        "tools": tools,
        "context": text_of(context),
        "structured": context.structured_content,
        "results": results,
        "fetched": fetched,
        "news": text_of(news),
        "unknown": (unknown.is_error, text_of(unknown)),
        "resources": [*resources, *(template.uri_template for template in templates)],
        "workspace": await read(client, "memory://workspace"),
        "channel": await read(client, "memory://channel/launches"),
        "note": json.loads(text_of(note)),
        "proposal": json.loads(text_of(await client.call_tool("propose_correction", correction))),
    }


async def read(client: Client, uri: str) -> str:
    return (await client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]


def check(answers: dict[str, Any]) -> None:
    assert list(answers["tools"]) == READS + WRITES
    for name, tool in answers["tools"].items():
        assert tool.annotations.read_only_hint is (name in READS)
    assert "We launch on Monday" in answers["context"]
    version = Line.objects.get().version_id
    last = answers["context"].splitlines()[-1]
    assert last.startswith("As of ") and last.endswith(f"; versions: {version}; left out: 0 items.")
    assert answers["structured"] is None
    assert "launch" in answers["results"]["results"][0]["snippet"]
    assert "We launch on Monday" in answers["fetched"]["text"]
    assert "We launch on Monday" in answers["news"]
    assert answers["unknown"][0] and "may not read" in answers["unknown"][1]
    assert answers["resources"] == ["memory://workspace", "memory://channel/{channel}"]
    for name in ("workspace", "channel"):
        assert "We launch on Monday" in answers[name]
        assert ("# Conversation" in answers[name]) is (name == "channel")
    note, proposal = Note.objects.get(), Proposal.objects.get()
    assert (answers["note"]["id"], note.content) == (f"note-{note.pk}", "Deploys run at noon")
    assert answers["proposal"]["id"] == f"proposal-{proposal.pk}"
    assert proposal.text == "We launch on Tuesday"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_uses_everything_over_http(team, live_server, settings, mode):
    settings.MEMORYHUB_URL = live_server.url
    key = make_key(team, scopes=["notes", "propose"])
    check(over_http(live_server.url, key, mode, use_everything))


@pytest.mark.cluster
@pytest.mark.parametrize("mode, field", [("auto", "revoked_at"), ("legacy", "expires_at")])
def test_the_official_client_uses_everything_over_stdio_until_its_key_ends(
    team, process_environment, mode, field
):
    async def use(client: Client) -> list[Any]:
        answers = await use_everything(client)
        await ApiKey.objects.aupdate(is_narrowed=True)
        narrowed = await read_all(client)
        await ApiKey.objects.aupdate(**{field: timezone.now()})
        return [answers, narrowed, await client.call_tool("search", {"query": "launch"})]

    read_all, key = make_reads(team), make_key(team, scopes=["notes", "propose"])
    ApiKey.objects.get().channels.add(MessageFactory(channel__workspace=team[0]).channel)
    answers, narrowed, refused = over_stdio(process_environment, key, mode, use)
    check(answers)
    check_nothing(narrowed)
    assert refused.is_error and "revoked or has expired" in text_of(refused)


def test_a_note_has_its_source_and_its_readers(team, live_server, settings):
    settings.MEMORYHUB_URL = live_server.url
    message = team[2]
    hidden = MessageFactory(channel__workspace=team[0], channel__kind="private")
    note = {"text": "Launches are on Mondays", "source": f"message-{message.pk}"}

    async def use(client: Client) -> list[str]:
        answers = [
            text_of(await client.call_tool("add_note", note | changes))
            for changes in ({}, {"source": f"message-{hidden.pk}"}, {"source": "12"}, {"text": " "})
        ]
        fetched = await client.call_tool("fetch", {"id": json.loads(answers[0])["id"]})
        return [*answers, text_of(fetched)]

    key = make_key(team, scopes=["notes"])
    _, unreadable, wrong, empty, fetched = over_http(live_server.url, key, "auto", use)
    kept = Note.objects.get()
    assert (kept.source, kept.channel) == (message, message.channel)
    assert "no such thing" in unreadable and "is not an id" in wrong and "is empty" in empty
    [source] = json.loads(fetched)["metadata"]["sources"]
    assert (source["id"], source["text"]) == (message.pk, "We launch on Monday")


def test_a_search_is_limited_to_a_channel(team, live_server, settings):
    settings.MEMORYHUB_URL = live_server.url
    boat = MessageFactory(channel__workspace=team[0], text="We launch the boat")
    indexing.index_pending()

    async def use(client: Client) -> list[Any]:
        places = ({}, {"in": boat.channel.slack_id}, {"in": "nowhere"})
        query = {"query": "launch", "limit": 50}
        answers = [await client.call_tool("search", query | place) for place in places]
        return [text_of(answer) for answer in answers]

    everywhere, there, nowhere = over_http(live_server.url, make_key(team), "auto", use)
    assert len(json.loads(everywhere)["results"]) == 3
    assert [row["id"] for row in json.loads(there)["results"]] == [f"message-{boat.pk}"]
    assert "no channel 'nowhere'" in nowhere


def test_a_memory_is_fetched_with_its_sources(team, live_server, settings):
    settings.MEMORYHUB_URL = live_server.url
    line, message = Line.objects.select_related("version").get(), team[2]
    hidden = MessageFactory(channel__workspace=team[0], channel__kind="private", text="A secret")
    line.sources.set([message, hidden])

    async def use(client: Client) -> list[Any]:
        ids = (f"line-{line.pk}", f"version-{line.version_id}", f"memory-{line.version.memory_id}")
        answers = [await client.call_tool("fetch", {"id": id}) for id in ids]
        return [json.loads(text_of(answer))["metadata"] for answer in answers]

    for metadata in over_http(live_server.url, make_key(team), "auto", use):
        assert [row["id"] for row in metadata["sources"]] == [message.pk]
        assert metadata["withheld"] == 1


def test_a_key_with_the_scope_proposes_corrections(team, live_server, settings):
    settings.MEMORYHUB_URL = live_server.url
    line, message = Line.objects.select_related("version").get(), team[2]
    correction = {
        "line_id": f"line-{line.pk}",
        "text": "We launch on Tuesday",
        "reason": "It was moved.",
        "sources": [f"message-{message.pk}"],
    }

    async def use(client: Client) -> list[str]:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["propose_correction"].annotations.read_only_hint is False
        memory = await client.call_tool("fetch", {"id": f"memory-{line.version.memory_id}"})
        assert json.loads(text_of(memory))["metadata"]["lines"][0]["id"] == correction["line_id"]
        return [
            text_of(await client.call_tool("propose_correction", correction | changes))
            for changes in ({}, {"line_id": "version-1"}, {"line_id": "line-999999"}, {"text": " "})
        ]

    key = make_key(team, scopes=["propose"])
    added, wrong, unknown, empty = over_http(live_server.url, key, "auto", use)
    proposal = Proposal.objects.get()
    assert json.loads(added)["id"] == f"proposal-{proposal.pk}" and "person" in added
    assert (proposal.text, proposal.reason) == ("We launch on Tuesday", "It was moved.")
    assert list(proposal.sources.all()) == [message]
    assert "is not an id" in wrong and "no such thing" in unknown and "is empty" in empty

    async def names(client: Client) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    assert over_http(live_server.url, make_key(team), "auto", names) == READS


def make_reads(team: Any) -> Callable[[Client], Awaitable[list[str]]]:
    """Return a function that reads the memory of the team by every tool and resource."""
    line, message = Line.objects.select_related("version").get(), team[2]
    ids = (
        f"line-{line.pk}",
        f"version-{line.version_id}",
        f"memory-{line.version.memory_id}",
        f"message-{message.pk}",
    )

    async def use(client: Client) -> list[Any]:
        answers = [
            await client.call_tool("get_context", {"query": "launch"}),
            await client.call_tool("search", {"query": "launch"}),
            await client.call_tool("whats_new", {"since": "2020-01-01"}),
            *[await client.call_tool("fetch", {"id": id}) for id in ids],
        ]
        return [*map(text_of, answers), await read(client, "memory://workspace")]

    return use


def check_nothing(texts: list[str]) -> None:
    assert len(texts) == 8 and "Monday" not in "".join(texts)
    assert all("no such thing" in text for text in texts[3:7])


def test_a_foreign_or_narrowed_key_reads_nothing_else(team, live_server, settings):
    settings.MEMORYHUB_URL = live_server.url
    quiet = MessageFactory(channel__workspace=team[0], text="A quiet day").channel
    use = make_reads(team)
    abroad = MemberFactory(workspace=WorkspaceFactory(), role="admin")
    foreign = make_key((abroad.workspace, abroad.user))
    for key in (foreign, make_key(team, channels=[quiet])):
        check_nothing(over_http(live_server.url, key, "auto", use))
    assert "Monday" in over_http(live_server.url, make_key(team), "auto", use)[0]


def test_a_context_has_the_text_of_the_http_api(team, live_server, settings):
    settings.MEMORYHUB_URL = live_server.url
    root, key = team[2], make_key(team)
    for text in ("Is the text ready?", "It is, " + "and it is long " * 40):
        reply = make_reply(root=root, text=text)
    sent_at = from_micros(reply.micros)
    make_reply(root=root, text="We know this later", at=sent_at + timedelta(days=1))
    place = {
        "channel": "launches",
        "thread": root.ts,
        "budget": 100,
        "at": (sent_at + timedelta(hours=1)).isoformat(),
    }

    async def use(client: Client) -> str:
        return text_of(await client.call_tool("get_context", place))

    text = over_http(live_server.url, key, "auto", use)
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx2.get(
        f"{live_server.url}/api/v1/context", params=place, headers=headers, timeout=PATIENCE
    )
    assert text.rpartition("\n")[0].encode() == answer.content
    assert f"#launches, thread {root.ts}" in text and "It is" in text
    assert "characters left out" in text and "later" not in text


def test_a_context_is_never_of_the_future(team, live_server, settings):
    settings.MEMORYHUB_URL = live_server.url
    times = ("9999-12-31T00:00:00Z", "2026-01-01T09:00:00+09:00", "0001-01-01T00:00:00+12:00")

    async def use(client: Client) -> list[str]:
        answers = [await client.call_tool("get_context", {"at": time}) for time in times]
        return [text_of(answer).rpartition("\n")[2] for answer in answers]

    future, tokyo, impossible = over_http(live_server.url, make_key(team), "auto", use)
    assert future.startswith(f"As of {timezone.now():%Y-%m-%d}")
    assert tokyo.startswith("As of 2026-01-01T00:00Z")
    assert "is not a time" in impossible


def test_whats_new_tells_new_lines_and_those_that_are_no_longer_true(
    team, live_server, settings, caplog
):
    settings.MEMORYHUB_URL = live_server.url
    caplog.set_level("INFO")
    line = Line.objects.get()
    version, day = line.version, 86_400_000_000
    rows = [
        ("We launch on Friday", "superseded", 5),
        ("Mia writes the notes", "settled", 1),
        ("The shop is closed", "archived", 5),
        ("- We launch on Tuesday", "", 0),
    ]
    for position, (text, outcome, ended) in enumerate(rows, start=1):
        at_us = line.at_us + (4 if not outcome else -9) * day
        Line.objects.create(
            version=version,
            position=position,
            text=text,
            origin="model",
            since=1,
            at_us=at_us,
            outcome=outcome,
            outcome_us=line.at_us + ended * day if outcome else 0,
        )
    start = datetime.fromtimestamp(line.at_us // 1_000_000, UTC)
    quiet = MessageFactory(channel__workspace=team[0]).channel
    memory = make_channel_memory(channel=quiet, texts=["- A quiet day"])
    Line.objects.filter(version__memory=memory).update(at_us=line.at_us + 3 * day)

    async def use(client: Client) -> list[str]:
        since = {"since": (start + timedelta(days=2)).isoformat()}
        places = ({}, {"channel": "launches"}, {"channel": quiet.slack_id}, {"channel": "nowhere"})
        return [text_of(await client.call_tool("whats_new", since | place)) for place in places]

    everywhere, there, here, nowhere = over_http(live_server.url, make_key(team), "auto", use)
    assert there.splitlines() == [
        f"{start + timedelta(days=5):%Y-%m-%d} #launches: no longer true: We launch on Friday",
        f"{start + timedelta(days=4):%Y-%m-%d} #launches: We launch on Tuesday",
    ]
    assert here == f"{start + timedelta(days=3):%Y-%m-%d} {quiet}: A quiet day"
    assert everywhere.splitlines() == [*there.splitlines(), here]
    assert "no channel 'nowhere'" in nowhere
    assert "MCP: whats_new by agent (mhr_" in caplog.text and "Tuesday" not in caplog.text


def test_whats_new_has_the_days_of_a_context_and_says_what_it_leaves_out(
    team, live_server, settings, monkeypatch
):
    settings.MEMORYHUB_URL = live_server.url
    monkeypatch.setattr(server, "MAX_CHANGES", 2)
    team[0].change_settings({"time_zone": "Asia/Tokyo"})
    line = Line.objects.get()
    night = datetime(2026, 1, 6, 20, 0, tzinfo=UTC)  # it is the 7th in Tokyo
    for position in (1, 2):
        Line.objects.create(
            version=line.version,
            position=position,
            text=f"- Plan {position}",
            origin="model",
            since=1,
            at_us=to_micros(night),
        )
    since = (night - timedelta(hours=1)).isoformat()

    async def use(client: Client) -> list[str]:
        calls = ({"since": since}, {"since": "2020-01-01"}, {"since": since, "channel": "a\0b"})
        return [text_of(await client.call_tool("whats_new", call)) for call in calls]

    few, many, no_channel = over_http(live_server.url, make_key(team), "auto", use)
    assert few.splitlines() == ["2026-01-07 #launches: Plan 2", "2026-01-07 #launches: Plan 1"]
    assert many.splitlines()[2:] == ["These are the newest 2 changes. There are older ones."]
    assert "There is no channel" in no_channel


def test_a_model_gets_no_invisible_characters(team, live_server, settings):
    settings.MEMORYHUB_URL = live_server.url
    tag = "\U000e0049\U000e0067"  # letters of the tag block
    line = Line.objects.select_related("version").get()
    Line.objects.filter(pk=line.pk).update(text=f"- We launch{tag} today")
    note = NoteFactory(workspace=team[0], title=f"Launch{tag}", content=f"Launch{tag}", tags=[tag])
    indexing.index_pending()
    ids = (f"line-{line.pk}", f"version-{line.version_id}", f"note-{note.pk}")

    async def use(client: Client) -> list[str]:
        calls: list[Any] = [("fetch", {"id": id}) for id in ids]
        calls += [("search", {"query": "launch"}), ("whats_new", {"since": "2020-01-01"})]
        return [text_of(await client.call_tool(*call)) for call in calls]

    for answer in over_http(live_server.url, make_key(team), "auto", use):
        assert "aunch" in answer and tag not in answer and json.dumps(tag)[1:-1] not in answer


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("launch before:tomorrow", "before:tomorrow"),
        (" ".join(f"word{i}" for i in range(21)), "word20"),
        ("launch " * 50, "at most 300 characters"),
    ],
)
def test_a_search_that_would_be_read_in_part_is_refused(team, live_server, settings, query, reason):
    settings.MEMORYHUB_URL = live_server.url

    async def use(client: Client) -> Any:
        return await client.call_tool("search", {"query": query})

    answer = over_http(live_server.url, make_key(team), "auto", use)
    assert answer.is_error and reason in text_of(answer)


def test_a_resource_of_an_unknown_channel_says_so(team, live_server, settings, caplog):
    settings.MEMORYHUB_URL = live_server.url

    async def use(client: Client) -> None:
        with pytest.raises(MCPError, match="There is no channel 'nowhere'"):
            await client.read_resource("memory://channel/nowhere")

    over_http(live_server.url, make_key(team), "auto", use)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_a_key_that_ended_is_refused(team, live_server, settings, how):
    settings.MEMORYHUB_URL = live_server.url
    key = make_key(team)
    headers = {
        "Authorization": f"Bearer {key}",
        "Accept": "application/json, text/event-stream",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}

    def send() -> httpx2.Response:
        return httpx2.post(f"{live_server.url}/mcp", headers=headers, json=body, timeout=PATIENCE)

    answer = send()
    assert (answer.status_code, answer.headers["RateLimit-Remaining"]) == (200, "119")
    field = "revoked_at" if how == "revoked" else "expires_at"
    ApiKey.objects.update(**{field: timezone.now()})
    assert send().status_code == 401
    settings.MEMORYHUB_KEY = key
    with pytest.raises(CommandError, match="no usable key"):
        call_command("mcp")


@pytest.mark.parametrize(
    "headers, status",
    [
        ({}, 401),
        ({"Authorization": "Bearer mhr_00000000_no"}, 401),
        ({"Authorization": "Basic x"}, 401),
        ({"Origin": "https://evil.example", "Authorization": "Bearer {token}"}, 403),
    ],
)
def test_requests_without_a_key_or_from_another_origin_are_refused(
    team, live_server, headers, status
):
    sent = {name: value.format(token=make_key(team)) for name, value in headers.items()}
    sent |= {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = httpx2.post(f"{live_server.url}/mcp", headers=sent, json=body, timeout=PATIENCE)
    assert answer.status_code == status
