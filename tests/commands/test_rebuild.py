"""`manage.py rebuild`, offline and with a model."""

import json

import pytest
from django.core.management import CommandError, call_command
from pytest_httpserver import HTTPServer

from memories.models import Channel, Job, Memory, MemoryVersion
from memories.pipeline.memory import proposals
from memories.rules.memory.identity import MemoryType
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_segment,
    make_version,
)
from tests.llm.endpoint import FakeEndpoint, use_model

pytestmark = pytest.mark.django_db

PIN = "- Releases are on Tuesday."


@pytest.fixture
def memory() -> Memory:
    """#general, whose short-term version has more facts than its long-term memory."""
    workspace = WorkspaceFactory(slug="team", settings={"workspace_short_term": False})
    general = ChannelFactory(workspace=workspace, slack_id="C1", name="general")
    PersonFactory(workspace=workspace, name="Ben")
    message = MessageFactory(channel=general, at=MONDAY, text="The launch moves to 26 November.")
    segment = make_segment(messages=[message], outcome="remembered")
    short = Memory.objects.of_channel(general, MemoryType.SHORT_TERM)
    text = "- The launch moves to 26 November."
    make_version(memory=short, text=text, sources=[message], segment=segment)
    short.versions.update(merged=True)
    memory = make_channel_memory(channel=general, texts=[f"- Ben plans the launch.\n{PIN}"])
    memory.pin(1, by=None, based_on=1, pinned=True)
    return memory


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    call_command("rebuild", *arguments)
    return capsys.readouterr().out


def test_the_offline_proposal_is_printed_with_its_changes(
    memory: Memory, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run("--memory", "#general", capsys=capsys)
    job = Job.objects.rebuilds().get()
    assert job.state == Job.State.PROPOSED and job.model == "offline"
    for arguments in (
        "  - Ben plans the launch.",
        "  + The launch moves to 26 November.",
        f"    {PIN[2:]}",
        "date, only the rebuilt text: 26 november",
        "name, only the current text: Ben",
        f"jobs accept {job.pk}",
    ):
        assert arguments in out
    memory.refresh_from_db()
    assert memory.head == 1


def test_inputs_without_a_lasting_line_propose_no_empty_text(
    memory: Memory, capsys: pytest.CaptureFixture[str]
) -> None:
    short = memory.channel.memories.get(memory_type=MemoryType.SHORT_TERM).current
    short.lines.update(text="- Confirmed, it works.")
    MemoryVersion.objects.filter(pk=short.pk).update(content="- Confirmed, it works.")
    assert "is done" in run("--memory", "general", capsys=capsys)
    assert Job.objects.rebuilds().get().state == Job.State.DONE
    memory.refresh_from_db()
    assert memory.head == 1


@pytest.mark.slow
def test_a_model_writes_the_proposal(
    memory: Memory,
    httpserver: HTTPServer,
    settings: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    endpoint = FakeEndpoint(httpserver)
    launch, plan = "- decision: The launch is on 26 November. [1]", "- status: Ben plans it. [1]"
    endpoint.reply_by(lambda user: plan if "whole workspace" in user else launch)
    use_model(settings, httpserver)
    [report] = json.loads(run("--memory", "C1", "--json", capsys=capsys))["rebuilds"]
    assert (report["memory"], report["state"], report["based_on"]) == ("C1", "proposed", 1)
    assert report["drift"]["date"] == {"lost": [], "gained": ["26 november"]}
    assert report["text"].splitlines() == [PIN, "- The launch is on 26 November."]
    assert "<<reference: lines that stay" in endpoint.prompt(0)[1]
    call_command("jobs", "accept", str(report["job"]))
    memory.refresh_from_db()
    assert memory.current.content == report["text"]
    assert [line.pinned for line in memory.current.line_values()] == [True, False]


def test_a_model_that_fails_leaves_the_job_to_the_worker(
    memory: Memory, httpserver: HTTPServer, settings: pytest.FixtureRequest
) -> None:
    FakeEndpoint(httpserver).fail_with(401)
    use_model(settings, httpserver)
    with pytest.raises(CommandError, match="Not finished yet"):
        call_command("rebuild", "--memory", "general")
    assert Job.objects.rebuilds().get().state == Job.State.WAITING
    assert proposals.find_proposal(memory) is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--memory", "nowhere"], "nowhere"),
        (["--memory", "workspace"], "workspace has no long-term memory yet"),
        (["--memory", "empty"], "empty has no long-term memory yet"),
        (["--memory", "old"], "old: there is nothing to write it from"),
        (["--memory", "general", "old"], "old: there is nothing to write it from"),
        (["--memory", "secret"], "secret"),
        (["--memory", "general", "--as", "reader"], "not change it"),
        ([], "--memory"),
    ],
)
def test_wrong_arguments_are_refused(memory: Memory, arguments: list[str], error: str) -> None:
    workspace = memory.workspace
    ChannelFactory(workspace=workspace, name="empty")
    make_channel_memory(channel=ChannelFactory(workspace=workspace, name="old"))
    secret = ChannelFactory(workspace=workspace, name="secret", kind=Channel.Kind.PRIVATE)
    make_channel_memory(channel=secret)
    MemberFactory(workspace=workspace, user=UserFactory(username="reader"), role="member")
    with pytest.raises(CommandError, match=error):
        call_command("rebuild", *arguments)
    assert not Job.objects.rebuilds().exists()
