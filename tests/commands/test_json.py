"""The JSON of commands has exactly the keys of docs/commands.md."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings
from pytest_httpserver import HTTPServer

from memories.management import arguments
from memories.models import (
    Backfill,
    Budget,
    Endpoint,
    Heartbeat,
    Job,
    Line,
    Memory,
    ModelCall,
    Price,
    Workspace,
)
from memories.rules.generate.probe import ProbeResult
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import Reply
from tests.documentation import COMMANDS, code, parsers, rows, sections
from tests.factories import (
    ChannelFactory,
    MessageFactory,
    NoteFactory,
    WorkspaceFactory,
    make_call,
    make_channel_memory,
    make_job,
    make_segment,
    make_thread_memory,
    make_version,
    make_workspace_memory,
)
from tests.llm.endpoint import FakeEndpoint, use_model
from tests.slack.fake_slack import TOKEN, FakeSlack, Fault
from tests.slackexports import channel, export_files, person, slack_message, write_zip

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

DOCS = sections("commands.md")
TALLIES = ("people", "channels", "messages", "files")
# Objects whose keys are data: ids, reasons, names of settings.
OPEN = {
    *(f"{thing}.reasons" for thing in TALLIES),
    *("calls", "closed", "made", "skipped", "channel_memories", "thread_memories"),
    *("settings", "changed", "counts", "trigger", "health.states", "rebuilds[].drift"),
}
TYPES = {
    **{bool: "true or false", int: "number", float: "number", str: "text"},
    **{dict: "object", list: "list", type(None): "null"},
}

Run = Callable[..., Any]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command, whose stdout is exactly one JSON document."""

    def run(*words: str, status: int = 0) -> Any:
        capfd.readouterr()
        ended = 0
        try:
            call_command(*words)
        except CommandError as error:
            ended = error.returncode
        assert ended == status
        return json.loads(capfd.readouterr().out)

    return run


@pytest.fixture
def workspace() -> Workspace:
    """A workspace with every type of memory, an open segment and a note."""
    workspace = WorkspaceFactory(slug="team", settings={"workspace_short_term": True})
    general = ChannelFactory(workspace=workspace, slack_id="C1", name="general", start_us=0)
    for memory_type in MemoryType:
        make_workspace_memory(workspace=workspace, memory_type=memory_type)
        make_channel_memory(channel=general, memory_type=memory_type)
    now = timezone.now() - timedelta(minutes=1)
    message = MessageFactory(channel=general, at=now)
    make_thread_memory(channel=general, thread_ts=message.ts)
    NoteFactory(workspace=workspace, tags=["tests"])
    return workspace


def test_import_slack(run: Run, tmp_path: Path) -> None:
    """A person and a channel without ids, an unlisted folder and a damaged file."""
    days = {
        "general/2023-11-14": [slack_message(1, "hello"), {"type": "message", "text": "no ts"}],
        "nobody/2023-11-14": [slack_message(2, "whose?")],
        "general/2023-11-15": "[",
    }
    people, channels = [person("U1", "Ann"), {}], [channel("C1", "general"), {}]
    files = export_files(days, people=people, channels=channels)
    path = write_zip(tmp_path / "export.zip", files)
    assert_documented("import_slack", run("import_slack", str(path), "--json", status=2))


def test_sync(run: Run, settings: Settings) -> None:
    with FakeSlack() as slack:
        settings.SLACK_BOT_TOKEN, settings.SLACK_BASE_URL = TOKEN, slack.url
        slack.add_user("U1", "ann")
        slack.add_channel("C1", "general", members=["U1"])
        slack.say("C1", "U1", "hello", "1700000000.000100")
        whole = run("sync", "--json", "--channel", "C1")
        for second in (1, 2):
            slack.say("C1", "U1", "more", f"170000000{second}.000100")
        slack.page_size = 1
        limit = Fault(429, "", {"Retry-After": "90"})
        slack.inject_fault("conversations.history", limit, on=2)
        halted = run("sync", "--json", status=2)
        slack.clear_faults()
        slack.scopes.discard("channels:history")
        failed = run("sync", "--json", status=2)
        slack.token_error = "token_revoked"
        stopped = run("sync", "--json", status=1)
    assert_documented("sync", halted, whole, failed, stopped)


def test_slack_test(run: Run, settings: Settings) -> None:
    """A good token, a missing scope, another team, and no token."""
    workspace = WorkspaceFactory()
    none = run("slack_test", "--json", status=1)
    with FakeSlack() as slack:
        settings.SLACK_BOT_TOKEN, settings.SLACK_BASE_URL = TOKEN, slack.url
        good = run("slack_test", "--json")
        slack.scopes.discard("users:read")
        missing = run("slack_test", "--json", status=1)
        workspace.save_team_id("T0OTHER")
        wrong = run("slack_test", "--json", status=1)
    assert good["surplus"] and good["notes"] and none["scopes"] is None
    assert_documented("slack_test", none, good, missing, wrong)


def test_run_pass(
    run: Run, workspace: Workspace, settings: Settings, httpserver: HTTPServer
) -> None:
    """Three segments: offline, without content for a model, and failed. One message waits."""
    now, general = timezone.now(), workspace.channels.get()
    for hours in (9, 5, 2.5):
        MessageFactory(channel=general, at=now - timedelta(hours=hours))

    def at(hours: float) -> str:
        return (now - timedelta(hours=hours)).isoformat()

    made = run("run_pass", "--now", at(6), "--json")
    use_model(settings, httpserver)
    FakeEndpoint(httpserver).reply_with("NOTHING")
    skipped = run("run_pass", "--now", at(2.8), "--json")
    httpserver.clear()
    FakeEndpoint(httpserver).fail_with(429, retry_after="90")
    failed = run("run_pass", "--json")
    assert made["made"] and skipped["skipped"] and failed["errors"] and failed["waiting"]
    assert failed["refusals"]
    assert_documented("run_pass", made, skipped, failed)


def test_backfill(
    run: Run, workspace: Workspace, settings: Settings, httpserver: HTTPServer
) -> None:
    """No backfill, one that pauses at its limit, and one that is done, with and without a price."""
    general, now = workspace.channels.get(), timezone.now()
    for hours in range(5, 50, 5):
        MessageFactory(channel=general, at=now - timedelta(hours=hours))
    none = run("backfill", "--status", "--json")
    use_model(settings, httpserver)
    FakeEndpoint(httpserver).reply_with("NOTHING")
    estimate = run("backfill", "--estimate", "--json")
    Price.objects.create(model="tiny", input_price="2", output_price="8")
    paused = run("backfill", "--cap", "$0.003", "--json", status=2)
    resumed = run("backfill", "--resume", "--cap", "900000", "--json")
    for job in Job.objects.exclude(backfill=None):
        times = {"began_at": now - timedelta(minutes=1), "ended_at": now}
        make_call(job=job, fence=99, backfill=job.backfill, tokens=9, micros=9, **times)
    report = run("backfill", "--status", "--json")
    since = run("backfill", "--estimate", "--since", "1", "--json")
    assert none["estimate"] is None and report["progress"]["minutes_left"]
    assert_documented("backfill", none, estimate, paused, resumed, report, since)


def test_context(run: Run, workspace: Workspace) -> None:
    ts = workspace.channels.get().messages.get().ts
    words = ("context", "--channel", "C1", "--format", "json")
    whole = run(*words, "--thread", ts)
    workspace.change_settings({"workspace_short_term": False})
    Line.objects.filter(version__memory__memory_type="long_term").update(
        outcome=Line.Outcome.ARCHIVED
    )
    archived = run(*words, "--with-archive")
    assert_documented("context", whole, archived, run(*words, "--budget", "5"))


def test_memory(
    run: Run, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each action. A note that is changed on both sides is a conflict."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tree").mkdir()

    def act(*words: str, status: int = 0) -> Any:
        return run("memory", *words, "--format", "json", status=status)

    added = act("add", "Ship behind a flag.", "--tags", "release", "--channel", "general")
    shown = [added, act("search", "flag")[0], act("list")[0], act("export", "notes.md")]
    workspace.notes.get(pk=added["id"]).rewrite("Changed here.")
    file = tmp_path / "notes.md"
    file.write_text(file.read_text().replace("Ship behind", "Changed there: ship behind"))
    shown += [act("import", "notes.md", status=1), act("link", "tree")]
    assert_documented("memory", *shown, act("delete", str(added["id"])))


def test_revise(run: Run, workspace: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "general.md"
    file.write_text("- by hand")
    words = ("revise", "--channel", "general", "--json")
    shown = run(*words, "--show")
    saved = run(*words, "--based-on", shown["version"], str(file))
    stale = run(*words, "--based-on", "9", str(file), status=1)
    assert_documented("revise", shown, saved, stale)


def test_settings(run: Run, workspace: Workspace) -> None:
    assert_documented(
        "settings",
        run("settings", "--json"),
        run("settings", "message_threshold=9", "notes_inject=none", "history_enabled=no", "--json"),
    )


def test_export(run: Run, workspace: Workspace, tmp_path: Path) -> None:
    assert_documented("export", run("export", str(tmp_path / "team.zip"), "--json"))


def test_import(run: Run, workspace: Workspace, tmp_path: Path) -> None:
    call_command("export", str(tmp_path / "team.zip"), "--json")
    assert_documented(
        "import", run("import", str(tmp_path / "team.zip"), "--workspace", "new", "--json")
    )


def test_jobs(run: Run, workspace: Workspace) -> None:
    """A finished, a proposed and a failed merge, with a budget that is used up."""
    channel, now = workspace.channels.get(), timezone.now()
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    reply = Reply("- short", "stop", "tiny", "p1", 90, 10, calls=1).as_json()
    backfill = Backfill.objects.create(workspace=workspace, since_us=0, until_us=1)
    segment = make_segment(messages=[channel.messages.get()])
    shown = [run("jobs", "list", "--json")]
    for state in ("done", "proposed", "dead"):
        made = make_job(
            memory=memory,
            inputs=memory.versions.all(),
            base=memory.current,
            state=state,
            reply=reply,
            trigger={"reason": "merge", "new": 1},
            finished_at=None if state == "proposed" else now,
            retry_at=now if state == "dead" else None,
            lease_until=now if state == "dead" else None,
            segment=segment if state == "dead" else None,
            backfill=backfill if state == "dead" else None,
        )
        make_call(job=made, ended_at=now if state == "done" else None, micros=5)
        make_call(job=made, fence=2, micros=None)
    channel.kind = "private"
    channel.save()
    shown += [run("jobs", "show", f"{made.pk}", "--json")]
    channel.kind = "public"
    channel.save()
    rows = Job.objects.order_by("pk")
    shown += [run("jobs", "show", f"{row.pk}", "--json") for row in rows]
    for whose in (workspace, None):
        Budget.objects.change(whose, "day", tokens=1, by=None)
    Budget.objects.change(workspace, "month", money=Decimal(0), by=None)
    shown += [run("jobs", "list", "--json")]
    Heartbeat.objects.beat("worker", now)
    later = now + timedelta(hours=1)
    Endpoint.objects.create(fingerprint="f", name="tiny", failures=5, open_until=later)
    shown += [run("jobs", "list", "--json")]
    assert_documented("jobs", *shown)


def test_costs(run: Run, workspace: Workspace) -> None:
    memory = Memory.objects.of_channel(workspace.channels.get(), MemoryType.LONG_TERM)
    for state, micros in (("done", 5), ("claimed", 6), ("dead", 7)):
        made = make_job(memory=memory, state=state, fence=1)
        ended = timezone.now() if state == "done" else None
        make_call(job=made, ended_at=ended, micros=micros, prompt_tokens=100)
    Budget.objects.change(workspace, "day", tokens=1, by=None)
    Budget.objects.change(None, "month", money=Decimal("0.5"), by=None)
    Price.objects.change("tiny", Decimal(1), Decimal(2), by=None)
    priced = run("costs", "--json", "--workspace", "team")
    ModelCall.objects.update(micros=None)
    assert_documented("costs", priced, run("costs", "--json", "--by", "channel"))


def test_prompt(run: Run) -> None:
    assert_documented("prompt", run("prompt", "--json"), run("prompt", "--list", "--json"))


@pytest.mark.django_db(transaction=True)
def test_backup(run: Run, workspace: Workspace, tmp_path: Path) -> None:
    assert_documented("backup", run("backup", str(tmp_path / "b.zip"), "--json"))


@pytest.mark.django_db(transaction=True)
def test_restore(run: Run, workspace: Workspace, tmp_path: Path) -> None:
    path = str(tmp_path / "b.zip")
    run("backup", path, "--json")
    checked = run("restore", path, "--check", "--json")
    assert_documented("restore", checked, run("restore", path, "--replace", "--json"))


def test_forget(run: Run, workspace: Workspace) -> None:
    message = workspace.channels.get().messages.get()
    words = ("--yes", "--json")
    tried = run("forget", "--message", f"C1:{message.ts}", "--dry-run", "--json")
    person = run("forget", "--person", message.author.slack_id, *words)
    assert_documented("forget", tried, person, run("forget", "--channel", "C1", *words))


@pytest.mark.parametrize(
    "words",
    [
        ["import_slack", "nowhere.zip", "--json"],
        ["forget", "--person", "nobody", "--yes", "--json"],
        ["backup", "nowhere/b.zip", "--json"],
        ["restore", "nowhere.zip", "--json"],
        ["sync", "--json"],
        ["run_pass", "--now", "soon", "--json"],
        ["backfill", "--since", "soon", "--json"],
        ["context", "--channel", "nowhere", "--format", "json"],
        ["memory", "delete", "7", "--format", "json"],
        ["memory", "import", "nowhere.md", "--format", "json"],
        ["settings", "message_threshold=0", "--json"],
        ["export", "nowhere/team.zip", "--json"],
        ["import", "nowhere.zip", "--json"],
        ["revise", "--channel", "nowhere", "--show", "--json"],
        ["jobs", "show", "7", "--json"],
        ["jobs", "list", "--workspace", "nowhere", "--json"],
        ["costs", "--month", "soon", "--json"],
        ["prompt", "--scope", "thread", "--type", "long_term", "--json"],
        ["run_pass", "--workspace", "nowhere", "--json"],
    ],
    ids=" ".join,
)
def test_a_refusal_leaves_stdout_empty(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError) as refused:
        call_command(*words)
    assert refused.value.returncode == 1
    assert capfd.readouterr().out == ""


def test_probe_model() -> None:
    findings = ProbeResult(
        gives_sources=True,
        writes_operations=False,
        keeps_language=True,
        reasons=False,
        context_tokens=4_000,
        tokens_per_second=12.5,
    )
    report = arguments.document({"model": "tiny", **findings.as_json()})
    assert_documented("probe_model", json.loads(report))


def test_rebuild(run: Run, workspace: Workspace) -> None:
    """A proposal, and a text that stays the same."""
    general = workspace.channels.get()
    message = MessageFactory(channel=general, at=timezone.now() - timedelta(hours=9))
    segment = make_segment(messages=[message], outcome="remembered")
    short = Memory.objects.of_channel(general, MemoryType.SHORT_TERM)
    text = "- The launch on 26 November costs 900 dollars."
    make_version(memory=short, text=text, sources=[message], segment=segment)
    short.versions.update(merged=True)
    assert_documented("rebuild", run("rebuild", "--memory", "general", "workspace", "--json"))


def test_every_command_with_json_is_tested() -> None:
    with_json = {
        name
        for name in COMMANDS
        for parser in parsers(name)
        for action in parser._actions
        if action.dest == "json" or "json" in (action.choices or ())
    }
    assert with_json == {name for name in DOCS if rows(DOCS[name], "key")}
    assert all(f"test_{name}" in globals() for name in with_json)


def assert_documented(command: str, *documents: Any) -> None:
    """Assert that the documents together have the keys and types of the command's table."""
    types: dict[str, set[str]] = {}
    for path, kind in (pair for document in documents for pair in paths(document)):
        types.setdefault(path, set()).add(kind)
    table = documented_keys(command)
    if command == "sync":  # its counts have the keys of the import
        table |= {
            path: cell
            for path, cell in documented_keys("import_slack").items()
            if path.startswith(TALLIES) and (path in types or ".reasons." not in path)
        }
    assert set(types) == set(table)
    for path, cell in table.items():
        assert all(kind in cell for kind in types[path]), f"{path}: {types[path]}, not {cell}"


def documented_keys(command: str) -> dict[str, str]:
    """Return ``{path: type}`` of a command's table."""
    return {path: row[1] for row in rows(DOCS[command], "key") for path in code(row[0])}


def paths(value: object, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield ``(path, type)`` of all keys, with ``*`` for variable keys and ``[]`` for list items."""
    if isinstance(value, dict):
        for key, inner in value.items():
            name = "*" if at in OPEN else key
            path = f"{at}.{name}" if at else name
            if not isinstance(inner, list):
                yield path, TYPES[type(inner)]
            yield from paths(inner, path)
    elif isinstance(value, list) and at:
        yield f"{at}[]", TYPES[list]
        for item in value:
            yield from paths(item, f"{at}[]")
    elif isinstance(value, list):
        for item in value:
            yield from paths(item)
