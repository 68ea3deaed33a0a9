"""A team's day, from messages in Slack to the context of an agent, with real parts at both edges.

Slack and the model are servers on loopback, used through slack-sdk and the openai client. People
use the pages, agents the commands.
"""

import io
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings
from pytest_httpserver import HTTPServer

from memories.models import Channel, Memory, Person
from memories.rules.generate.prompt_texts import PERSON_MARK
from memories.rules.memory.identity import MemoryType
from tests.factories import MemberFactory, UserFactory, ts_at
from tests.llm.endpoint import use_model
from tests.llm.forgetful import ForgetfulModel
from tests.slack.fake_slack import TOKEN, FakeSlack

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

HANDS_ON = "- Never release on a Friday, says Oda."

MORNING = [
    ("U1", "We release on Friday 9 January."),
    ("U2", "Then the notes must be ready on Thursday. I write them."),
    ("U1", "The build is red again, does anybody know why?"),
]
REPLIES = [
    ("U2", "It says the disk is full."),
    ("U1", "Which machine?"),
    ("U2", "The old one in Osaka."),
    ("U1", "Oda, please clear it."),
]
NOON = [
    ("U2", "The build was red because of a full disk."),
    ("U1", "New date: we release on Monday 12 January."),
]


@pytest.fixture
def slack(settings: Settings) -> Iterator[FakeSlack]:
    """#launch is public, with Mika and Tom; #deal is private, Tom is in it and Mika is not."""
    with FakeSlack() as fake:
        settings.SLACK_BOT_TOKEN, settings.SLACK_BASE_URL = TOKEN, fake.url
        fake.add_user("U1", "mika")
        fake.add_user("U2", "tom")
        fake.add_channel("C1", "launch", members=["U1", "U2"])
        fake.add_channel("C9", "deal", is_private=True, members=["U2"])
        yield fake


@pytest.fixture
def model(settings: Settings, httpserver: HTTPServer) -> ForgetfulModel:
    use_model(settings, httpserver)
    return ForgetfulModel(httpserver)


def manage(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def talk(
    slack: FakeSlack, messages: list[tuple[str, str]], begin: datetime, thread: str = ""
) -> list[str]:
    """Post messages in #launch, a minute apart; return their ts."""
    return [
        slack.say("C1", user, text, ts_at(begin + timedelta(minutes=minute)), thread)
        for minute, (user, text) in enumerate(messages)
    ]


def text_of(messages: list[tuple[str, str]]) -> str:
    """Return the text that the model makes of these messages."""
    return "\n".join(f"- noted {text}" for _, text in messages)


def long_term(channel_id: str) -> Memory:
    channel = Channel.objects.get(slack_id=channel_id)
    return Memory.objects.with_current().of_channel(channel, MemoryType.LONG_TERM)


def signed_in(name: str, slack_id: str, **role: str) -> Client:
    """A login whose person in Slack is known, as a login with Slack links them."""
    user = UserFactory(username=name)
    person = Person.objects.get(slack_id=slack_id)
    person.link(user, "slack")
    if role:
        MemberFactory(workspace=person.workspace, user=user, **role)
    client = Client()
    client.force_login(user)
    return client


def lines_of(text: str) -> list[str]:
    """Return lines without their order: current lines come before events."""
    return sorted(text.splitlines())


def a_day_of_a_team(slack: FakeSlack, model: ForgetfulModel, tmp_path: Path) -> None:
    now = timezone.now()

    # In the morning they talk, the last question becomes a thread, and Slack is read.
    messages = talk(slack, MORNING, now - timedelta(hours=8))
    question = messages[-1]
    messages += talk(slack, REPLIES, now - timedelta(hours=7.5), thread=question)
    report = json.loads(manage("sync", "--json", "--channel", "launch", "--channel", "deal"))
    assert report["messages"]["stored"] == 7

    # After hours of silence the short-term, long-term and workspace memories are made.
    report = json.loads(manage("run_pass", "--json"))
    assert report["closed"] == {"idle": 1}
    assert report["made"] == {
        "channel short_term": 1,
        "thread short_term": 1,
        "channel long_term": 1,
        "workspace long_term": 1,
        "workspace short_term": 1,
    }
    assert (report["calls"], report["errors"], report["left"]) == (5, [], 0)

    # Each line rests on the message it came from.
    first = long_term("C1").current
    assert lines_of(first.content) == lines_of(text_of([*MORNING, *REPLIES]))
    for text, ts in zip(text_of([*MORNING, *REPLIES]).splitlines(), messages, strict=True):
        line = first.lines.get(text=text)
        assert [message.ts for message in line.sources.all()] == [ts]

    # An agent requests its context.
    context = json.loads(manage("context", "--channel", "launch", "--format", "json"))
    channel = context["channel_memories"]["C1"]
    assert channel["long_term_memory"] == first.content
    assert lines_of(channel["short_term_memory"]) == lines_of(first.content)
    assert context["workspace_long_term_memory"] == first.content
    assert context["conversation_history"] == [], "all of it is in a closed segment"
    assert context["thread_memories"] == {question: text_of([MORNING[-1], *REPLIES])}

    # It adds a note, which is in each later context.
    manage("memory", "add", "Ship behind a flag first.", "-t", "pattern", "--tags", "release")
    [note] = json.loads(manage("memory", "search", "FLAG", "--format", "json"))
    text = manage("context", "--channel", "launch", "--persona", "You are Momo.")
    assert text.startswith("You are Momo.\n\n# Memories\n\n## Ship behind a flag first.\n")
    assert "- Tags: pattern, release\n" in text
    assert text.index("\n---\n") < text.index("We release on Friday 9 January.")

    # Mika reads the memory and adds a line that is not in Slack.
    mika = signed_in("mika", "U1", role="editor")
    memory = long_term("C1")
    editor = reverse("memories-edit", args=[memory.pk])
    assert first.lines.first().text.removeprefix("- ") in mika.get(editor).content.decode()
    edit = {"text": f"{first.content}\n{HANDS_ON}", "based_on": 1, "revision": 0}
    assert mika.post(editor, edit).status_code == 302
    assert long_term("C1").current.number == 2

    # She marks the version as read.
    catch_up, seen = "/w/default/catch-up/", f"/w/default/seen/{memory.pk}/"
    assert mika.post(seen, {"number": 2}).status_code == 302
    assert f'id="entry-{memory.pk}"' not in mika.get(catch_up).content.decode()

    # The team talks on, one corrects himself, and all of it is read and remembered again.
    talk(slack, NOON, now - timedelta(hours=4))
    manage("sync")
    model.prompts.clear()
    report = json.loads(manage("run_pass", "--json"))
    assert (report["made"]["channel short_term"], report["errors"]) == (1, [])

    # The model was shown her line as a person's, took it for settled, and it is there all the same.
    existing = re.findall(
        r"<<existing memory \w+: #launch>>\n(.*?)\n<<end", "\n".join(model.prompts), re.DOTALL
    )
    hers = re.compile(rf"{PERSON_MARK} \[\d{{4}}-\d\d-\d\d\] {re.escape(HANDS_ON[2:])}")
    assert [bool(hers.search(block)) for block in existing] == [True]
    merged = long_term("C1").current
    assert merged.number == 3
    assert merged.kept == [HANDS_ON]
    assert merged.dropped == [f"kept_line: {HANDS_ON[2:]}"]
    assert merged.content.split("\n") == [HANDS_ON, *text_of(NOON).split("\n")]
    page = mika.get(reverse("channels-detail", args=["default", "C1"])).content.decode()
    assert "Never release on a Friday, says Oda." in page
    assert HANDS_ON[2:] in manage("context", "--channel", "launch")

    # Catch up lists the missed lines.
    news = mika.get(catch_up).content.decode()
    assert "v2 to v3" in news
    entry = news.partition(f'id="entry-{memory.pk}"')[2].partition("</article>")[0]
    added, _, removed = entry.partition('<details class="fold"')
    assert "Monday 12 January." in re.sub("<[^>]+>", "", added)
    assert "Never release on a Friday" not in entry
    assert "Then the notes must be ready on Thursday." in removed
    assert mika.post(seen, {"number": 3}).status_code == 302
    assert f'id="entry-{memory.pk}"' not in mika.get(catch_up).content.decode()

    # Both periods have their own version, oldest first.
    context = json.loads(manage("context", "--channel", "launch", "--format", "json"))
    history = context["channel_memories"]["C1"]["short_term_memory_history"]
    periods = [text_of([*MORNING, *REPLIES]), text_of(NOON)]
    assert [lines_of(text) for text in history] == [lines_of(text) for text in periods]

    # Notes of an agent are exported into the repository of the code.
    file = tmp_path / "memories.md"
    manage("memory", "export", str(file))
    assert "## Ship behind a flag first.\n- Id: " in file.read_text()
    assert manage("memory", "import", str(file)) == f"{file}: 1 unchanged.\n"
    manage("memory", "delete", str(note["id"]))
    assert "Ship behind a flag first." not in manage("context")

    # Without new messages there are no model calls.
    manage("sync")
    report = json.loads(manage("run_pass", "--json"))
    assert (report["calls"], report["made"]) == (0, {})


@pytest.mark.postgres("the whole way, once")
def test_a_day_of_a_team(slack: FakeSlack, model: ForgetfulModel, tmp_path: Path) -> None:
    a_day_of_a_team(slack, model, tmp_path)


def broken(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("its body is gone")


@pytest.mark.nightly("the whole day, once for each function")
@pytest.mark.parametrize(
    "name",
    [
        "memories.rules.memory.identity.is_valid_memory_combination",
        "memories.rules.memory.identity.create_memory",
        "memories.rules.memory.identity.make_thread_scope_id",
        "memories.rules.memory.identity.parse_thread_scope_id",
        "memories.rules.generate.segments.should_update_short_term_memory",
        "memories.rules.generate.segments.cut_segments",
        "memories.rules.context.contents.history_limit",
        "memories.rules.context.material.history_in_order",
        "memories.rules.context.contents.assemble",
        "memories.rules.context.contents.injects",
        "memories.pipeline.context.build.build_context",
        "memories.pipeline.generate.requests.RequestBuilder.build",
        "memories.llm.summarise",
        "memories.rules.generate.prompts.build_prompt",
        "memories.rules.generate.reply.parse_reply",
        "memories.models.notes.notes.NoteQuerySet.write",
        "memories.models.notes.notes.NoteQuerySet.search",
        "memories.models.notes.notes.Note.remove",
        "memories.rules.notes.fields.title_of",
        "memories.rules.notes.fields.matches",
        "memories.rules.notes.notes_file.injection",
        "memories.rules.notes.notes_file.write",
        "memories.rules.notes.notes_file.read",
        "memories.rules.notes.notes_file.import_outcome",
    ],
)
def test_the_day_fails_without(
    name: str,
    slack: FakeSlack,
    model: ForgetfulModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The functions that the rows of S0 to S4 are tested on are those that the product calls.

    Their body is replaced, not their name, so it does not matter who imported them from where.
    """
    monkeypatch.setattr(resolve_name(name), "__code__", broken.__code__)
    with pytest.raises((RuntimeError, AssertionError)):
        a_day_of_a_team(slack, model, tmp_path)
