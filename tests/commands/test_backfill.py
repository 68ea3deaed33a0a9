"""`manage.py backfill`: the estimate, the work, and the ways to stop it."""

import json
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from memories.models import AuditEvent, Backfill, Job, MemoryVersion, Price, Workspace
from memories.pipeline.generate.passes import run_pass
from memories.rules.ingest.timestamps import to_micros
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
)
from tests.processes import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def channel(db):
    """Four conversations in the last week, of a public channel."""
    channel = ChannelFactory(workspace=WorkspaceFactory(slug="team"), name="launch", slack_id="C1")
    author = PersonFactory(workspace=channel.workspace, name="mika")
    for day in range(1, 5):
        for minute in range(8):
            at = timezone.now() - timedelta(days=day, minutes=-minute)
            text = f"Step {minute} of day {day} is done and can be shown to the others."
            MessageFactory(channel=channel, author=author, at=at, text=text)
    return channel


@pytest.fixture
def run(capsys):
    def run(*arguments, status=0):
        capsys.readouterr()
        returncode, message = 0, ""
        try:
            call_command("backfill", *arguments)
        except CommandError as error:
            returncode, message = error.returncode, str(error)
        assert returncode == status, message
        return capsys.readouterr().out + message

    return run


def test_an_estimate_changes_nothing(run, channel, model):
    report = run("--estimate")
    assert "#launch" in report and "32" in report and "unpriced tokens" in report
    assert "No call of this model" in report
    assert model.prompts == [] and not Backfill.objects.exists()


@pytest.mark.slow
def test_the_estimate_comes_before_the_work(run, channel, model):
    Price.objects.create(model="tiny", input_price="2", output_price="8")
    report = run("--yes")
    assert report.index("total") < report.index("is done")
    assert "4 of 4 summaries" in report and "$0.0" in report and "unpriced" not in report
    assert Backfill.objects.get().state == "done"
    total = Backfill.objects.get().estimate["total"]
    assert total["tokens"]["low"] < model.tokens < total["tokens"]["high"]
    assert total["calls"]["low"] == len(model.prompts) == 7
    assert "By the newest 4 calls" in run("--estimate")


@pytest.mark.slow
def test_the_offline_summariser_needs_no_confirmation(run, channel):
    report = run()
    assert "costs nothing" in report and "is done" in report


def test_without_a_terminal_it_needs_yes_or_a_cap(run, channel, model):
    assert "--cap or --yes" in run(status=1)
    assert not Backfill.objects.exists()


@pytest.mark.slow
def test_a_cap_pauses_it(run, channel, model):
    half = json.loads(run("--estimate", "--json"))["estimate"]["total"]["tokens"]["middle"] // 2
    report = run("--cap", str(half), status=2)
    assert "over_cap" in report and "paused (over cap)" in report
    assert 0 < model.tokens <= half
    assert "Another backfill" in run("--yes", status=1)
    assert "is running" in run("--resume", "--cap", "1000000")
    assert "already" in run("--resume", status=1)
    run_pass(channel.workspace, timezone.now())
    run_pass(channel.workspace, timezone.now())
    assert "is done" in run("--status")


def test_pause_and_cancel(run, channel):
    assert "There is no backfill" in run("--status")
    assert "is running or paused" in run("--pause", status=1)
    Backfill.objects.start(
        channel.workspace,
        [channel],
        since_us=0,
        until_us=to_micros(timezone.now()),
        estimate=json.loads(run("--estimate", "--json"))["estimate"],
        by=None,
    )
    assert "is paused" in run("--pause")
    assert "is cancelled" in run("--cancel")
    actions = AuditEvent.objects.values_list("action", flat=True)
    assert {"backfill_start", "backfill_pause", "backfill_cancel"} <= set(actions)


def test_a_cap_in_dollars_needs_a_current_price(run, channel, model):
    """The price of the estimate may be older, or missing after an import."""
    backfill = Backfill.objects.start(
        channel.workspace,
        [channel],
        since_us=0,
        until_us=to_micros(timezone.now()),
        estimate={},
        by=None,
    )
    backfill.pause(None)
    assert "needs a price" in run("--resume", "--cap", "$5", status=1)
    Price.objects.create(model="tiny", input_price="2", output_price="8")
    assert "is running" in run("--resume", "--cap", "$5")


def test_backfill_of_one_channel_since_a_date(run, channel, model):
    second = ChannelFactory(workspace=channel.workspace, name="other")
    MessageFactory(channel=second, at=timezone.now() - timedelta(days=2))
    estimate = json.loads(run("--estimate", "--json", "--channel", "#launch", "--since", "3"))[
        "estimate"
    ]
    assert [row["channel_name"] for row in estimate["channels"]] == ["launch"]
    assert estimate["total"]["messages"] < 32
    assert len(json.loads(run("--estimate", "--json"))["estimate"]["channels"]) == 2


@pytest.mark.slow
def test_private_channels_need_a_reader(run, channel, model):
    secret = ChannelFactory(workspace=channel.workspace, name="salaries", kind="private")
    assert "salaries" not in run("--estimate")
    assert "salaries" in run("--estimate", "--channel", "salaries", status=1)
    user = UserFactory(username="mika")
    member = MemberFactory(user=user, workspace=channel.workspace, role="member")
    assert "no admin" in run("--estimate", "--as", "mika", status=1)
    member.role = "admin"
    member.save()
    person = PersonFactory(workspace=channel.workspace, user=user)
    secret.memberships.create(person=person)
    secret.set_members_known(timezone.now())
    assert "salaries" in run("--estimate", "--as", "mika")
    run("--yes", "--as", "mika")
    assert AuditEvent.objects.get(action="backfill_start").actor == "mika"
    assert "There is no backfill" in run("--status"), "it touches a channel that others may not see"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--since", "soon", "--estimate"], "--since must be a day"),
        (["--channel", "nowhere", "--estimate"], "nowhere"),
        (["--cap", "$1"], "needs a price"),
        (["--cap", "lots"], "neither tokens"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_arguments_are_refused(run, channel, model, arguments, error):
    assert error in run(*arguments, status=1)
    assert not Backfill.objects.exists()


def test_a_workspace_without_a_complete_sync_is_refused(run, channel):
    channel.workspace.connect("T1", name="team", domain="team", now=timezone.now())
    Workspace.objects.update(listed_at=timezone.now())
    assert "never read completely" in run("--estimate", status=1)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_ctrl_c_leaves_the_remaining_work_to_the_worker(channel, model, process_environment):
    """A process that is stopped during a model call."""
    may_answer = threading.Event()
    model.before = lambda user: may_answer.wait(PATIENCE)
    environment = process_environment | {
        "MEMORYHUB_MODEL": "tiny",
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": model.url,
        "MEMORYHUB_LLM_TIMEOUT": "4",
        "MEMORYHUB_LEASE": "5",
        "MEMORYHUB_BACK_OFF": "0.2",
    }
    command = subprocess.Popen(
        [sys.executable, "manage.py", "backfill", "--yes"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background makes them ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        claimed = Job.objects.filter(state="claimed")
        wait_until(lambda: claimed.count() == 4 or command.poll() is not None, "calls in the air")
        command.send_signal(signal.SIGINT)
        may_answer.set()
        _, output = command.communicate(timeout=PATIENCE)
    finally:
        may_answer.set()
        command.kill()
    assert command.returncode == 130, output
    assert "goes on in the worker" in output
    assert Backfill.objects.get().state == "running"

    def finished() -> bool:
        run_pass(channel.workspace, timezone.now())
        return Backfill.objects.get().state == "done"

    wait_until(finished, "the order to be done")
    assert MemoryVersion.objects.exclude(segment=None).count() == 4
