"""`manage.py sync`: its output and its exit status."""

import json
from collections.abc import Callable, Iterator
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from memories.models import Message, Person, Workspace
from tests.factories import UserFactory, WorkspaceFactory
from tests.holding import being_stored
from tests.slack.fake_slack import TOKEN, FakeSlack, Fault

TS = "1700000000.000100"

pytestmark = pytest.mark.django_db


@pytest.fixture
def slack(settings: Settings) -> Iterator[FakeSlack]:
    with FakeSlack() as fake:
        settings.SLACK_BOT_TOKEN, settings.SLACK_BASE_URL = TOKEN, fake.url
        fake.add_user("U1", "ann")
        fake.add_channel("C1", "general", members=["U1"])
        fake.add_channel("C2", "elsewhere", bot_is_in=False)
        fake.say("C1", "U1", "hello", TS)
        yield fake


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("sync", *arguments, stdout=out)
    return out.getvalue()


def test_a_new_installation_needs_only_a_token_and_a_channel(slack: FakeSlack) -> None:
    output = run()
    assert Workspace.objects.get().slug == "default"
    assert "2 channels are not followed" in output
    assert not Message.objects.exists()
    output = run("--channel", "general", "--channel", "elsewhere")
    assert Message.objects.get().text == "hello"
    assert "messages stored: 1" in output
    assert "#general: 1 new, 0 updated, 0 deleted; up to 2023-11-14 22:13 UTC" in output
    assert "#elsewhere: the bot is not in it: /invite it there" in output
    assert "hello" not in output
    assert "0 new" in run(), "it is followed from now on"


def test_a_private_name_is_printed_only_for_its_members(slack: FakeSlack) -> None:
    slack.add_channel("C3", "merger", is_private=True, members=["U1"])
    output = run("--channel", "C3", "--channel", "general")
    assert "C3: not read: private channels are turned off" in output and "merger" not in output
    Workspace.objects.get().change_settings({"read_private_channels": True})
    output = run("--channel", "C3", "--channel", "general")
    assert "C3: 0 new" in output and "#general: " in output and "merger" not in output
    report = run("--json")
    assert "merger" not in report
    names = {row["channel_id"]: row["channel_name"] for row in json.loads(report)["by_channel"]}
    assert names == {"C1": "general", "C3": ""}
    user = UserFactory(username="ann")
    Person.objects.filter(slack_id="U1").update(user=user, linked_by="slack")
    assert "#merger: " in run("--as", "ann")


def test_full_reads_every_thread_again(slack: FakeSlack) -> None:
    slack.say("C1", "U1", "and hello", "1700000001.000100", thread=TS)
    run("--channel", "C1")
    slack.edit("C1", "1700000001.000100", "and good day")
    assert json.loads(run("--json"))["by_channel"][0]["threads"] == 0
    assert json.loads(run("--full", "--json"))["by_channel"][0]["threads"] == 1
    assert Message.objects.filter(text="and good day").exists()


def test_the_slow_plan_is_printed(slack: FakeSlack) -> None:
    """The output says that only a part of the messages was read."""
    for n in range(20):
        slack.say("C1", "U1", f"line {n}", f"17000001{n:02}.000100")
    slack.slow_plan = True
    slack.budgets.calls["conversations.history"] = 1
    out = StringIO()
    with pytest.raises(CommandError, match="1 channels wait, because Slack") as raised:
        call_command("sync", "--channel", "C1", stdout=out)
    assert raised.value.returncode == 2
    assert "continues at that rate" in out.getvalue()
    assert "not finished, the next sync continues; next try at" in out.getvalue()
    assert Message.objects.count() == 15


def test_options_select_a_channel_and_a_workspace(slack: FakeSlack) -> None:
    slack.add_channel("C3", "random")
    WorkspaceFactory(slug="other")
    WorkspaceFactory(slug="ours")
    report = json.loads(
        run("--workspace", "ours", "--channel", "random", "--channel", "C1", "--json")
    )
    assert report["workspace"] == "ours"
    assert sorted(row["channel_name"] for row in report["by_channel"]) == ["general", "random"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "status", "says"),
    [
        pytest.param(
            lambda slack: setattr(slack, "token_error", "token_revoked"),
            1,
            "token_revoked",
            id="token revoked",
        ),
        pytest.param(
            lambda slack: slack.scopes.remove("users:read"), 1, "users:read", id="missing scope"
        ),
        pytest.param(
            lambda slack: slack.inject_fault(
                "conversations.history", Fault.error("internal_error")
            ),
            2,
            "1 channels failed",
            id="a channel failed",
        ),
    ],
)
@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
def test_errors_are_printed_and_set_the_exit_status(
    slack: FakeSlack,
    spoil: Callable[[FakeSlack], None],
    status: int,
    says: str,
    arguments: list[str],
) -> None:
    spoil(slack)
    out = StringIO()
    with pytest.raises(CommandError, match=says) as raised:
        call_command("sync", "--channel", "C1", *arguments, stdout=out)
    assert raised.value.returncode == status
    if arguments:
        json.loads(out.getvalue())


def test_an_unknown_channel_is_refused(slack: FakeSlack) -> None:
    with pytest.raises(CommandError, match="nowhere"):
        run("--channel", "nowhere")


def test_without_a_token_nothing_is_created() -> None:
    with pytest.raises(CommandError, match="Set SLACK_BOT_TOKEN"):
        run()
    assert not Workspace.objects.exists()


def test_a_running_import_is_reported(slack: FakeSlack) -> None:
    with being_stored(WorkspaceFactory()), pytest.raises(CommandError, match="is running"):
        run()
