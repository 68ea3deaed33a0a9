"""`manage.py context` (S2, rule 10)."""

import json
import re
from datetime import timedelta
from functools import partial

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from memories.models import Workspace
from memories.pipeline.search.indexing import index_pending
from memories.rules.memory.identity import MemoryType
from tests.factories import (
    ChannelFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_segment,
    make_thread_memory,
    make_workspace_memory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace() -> Workspace:
    """A public and a private channel. `insider` is in both."""
    workspace = WorkspaceFactory()
    person = PersonFactory(workspace=workspace, user=UserFactory(username="insider"))
    general = ChannelFactory(workspace=workspace, slack_id="C1", name="general", start_us=0)
    secret = ChannelFactory(
        workspace=workspace, slack_id="C9", name="secret", kind="private", members=[person]
    )
    make_workspace_memory(workspace=workspace, texts=["- the team ships"])
    for channel, words in ((general, "open"), (secret, "hidden")):
        make_channel_memory(channel=channel, texts=[f"- {words} plan"])
        make_channel_memory(
            channel=channel,
            memory_type=MemoryType.SHORT_TERM,
            texts=[f"- {words} talk 1", f"- {words} talk 2"],
        )
    message = MessageFactory(channel=general, at=timezone.now(), text="hello")
    make_thread_memory(channel=general, thread_ts=message.ts, texts=["- open thread"])
    NoteFactory(workspace=workspace, content="Always write a test")
    workspace.thread_ts = message.ts
    return workspace


@pytest.fixture
def run(run):
    return partial(run, "context")


def test_the_context_as_text(workspace, run):
    text = run("--channel", "general", "--persona", "You are Momo.")
    assert text.startswith("You are Momo.\n\n# Memories\n")
    for words in ("Always write a test", "- the team ships", "- open plan", "- open talk 2"):
        assert words in text
    assert re.search(r"## Workspace, \d{4}-\d\d-\d\d\n- the team ships", text)
    assert text.rstrip().endswith(": hello")
    assert "hidden" not in text
    assert "secret" not in text


def test_a_member_sees_a_private_channel(workspace, run):
    text = run("--as", "insider", "--channel", "#secret")
    assert "- hidden plan" in text


def test_a_budget_reports_omitted_parts(workspace, capsys):
    arguments = (
        "context",
        "--channel",
        "general",
        "--budget",
        "5",
        "--persona",
        "Momo, a calm helper",
    )
    call_command(*arguments, "--format", "json")
    report = json.loads(capsys.readouterr().out)
    assert report["text"] == report["persona"] == "Momo, a calm helper"
    assert report["channel_memories"]["C1"]["long_term_memory"] is None
    assert {"what": "message", "id": "C1", "count": 1, "reason": "over the budget of 5 tokens"} in (
        report["left_out"]
    )
    call_command(*arguments)
    assert "left out: message C1, 1" in capsys.readouterr().err


@pytest.mark.slow
def test_the_default_budget_applies_to_the_text_only(workspace, run):
    """Without --budget the JSON keys are complete. With 0 the text is complete too."""
    long = "\n".join(f"- fact {n} of the migration to server {n * n}" for n in range(600))
    channel = workspace.channels.get(slack_id="C1")
    make_channel_memory(channel=channel, memory_type=MemoryType.SHORT_TERM, texts=[long])
    report = json.loads(run("--channel", "C1", "--format", "json"))
    assert report["channel_memories"]["C1"]["short_term_memory"] == long
    assert report["tokens"] <= 4000 < 600 * 8
    assert run("--channel", "C1") == f"{report['text']}\n"
    assert long in run("--channel", "C1", "--budget", "0")


@pytest.mark.slow
def test_lines_about_a_question_come_first(workspace, run):
    channel = workspace.channels.get(slack_id="C1")
    for n in range(1, 60):
        text = f"the printer of room {n} was sold for {n * 7} euro"
        message = MessageFactory(channel=channel, at=timezone.now() - timedelta(days=n), text=text)
        make_segment(messages=[message])
    index_pending()
    arguments = ("--channel", "C1", "--budget", "150")
    assert "room 57" not in run(*arguments)
    text = run(*arguments, "--query", "For how much was the printer of room 57 sold?")
    assert "399 euro" in text
    assert "## #general\n###" in text
    hidden = ("--budget", "150", "--query", "hidden plan")
    assert "hidden" not in run(*hidden)
    assert "- hidden plan" in run(*hidden, "--as", "insider")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--channel", "secret"), "There is no channel 'secret'"),
        (("--channel", "nowhere"), "There is no channel 'nowhere'"),
        (("--thread", "1767603600.000100"), "found in its channel"),
        (("--channel", "C1", "--thread", "soon"), "Not the ts of a thread"),
        (("--channel", "C1", "--thread", "1767603600.000100"), "There is no thread"),
        (("--budget", "-1"), "0 or more"),
        (("--as", "nobody"), "no active user"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_arguments_are_refused(workspace, run, words, error):
    with pytest.raises(CommandError, match=error):
        run(*words)
