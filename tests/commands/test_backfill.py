"""`manage.py backfill`: the quote first, then the work, and a way to stop."""

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
from tests.pipeline.metered import Metered
from tests.processes import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def channel(db):
    """Six conversations in the last week, of a public channel."""
    channel = ChannelFactory(workspace=WorkspaceFactory(slug="team"), name="launch", slack_id="C1")
    author = PersonFactory(workspace=channel.workspace, name="mika")
    for day in range(1, 7):
        for minute in range(8):
            at = timezone.now() - timedelta(days=day, minutes=-minute)
            text = f"Step {minute} of day {day} is done and can be shown to the others."
            MessageFactory(channel=channel, author=author, at=at, text=text)
    return channel


@pytest.fixture
def model(httpserver, settings):
    metered = Metered(httpserver)
    settings.MEMORYHUB_MODEL, settings.OPENAI_API_KEY = "tiny", "sk-test"
    settings.OPENAI_BASE_URL = metered.url
    return metered


@pytest.fixture
def run(capsys):
    def run(*words, status=0):
        capsys.readouterr()
        ended, why = 0, ""
        try:
            call_command("backfill", *words)
        except CommandError as error:
            ended, why = error.returncode, str(error)
        assert ended == status, why
        told = capsys.readouterr()
        return told.out + why

    return run


def test_an_estimate_only_tells(run, channel, model):
    told = run("--estimate")
    assert "#launch" in told and "48" in told and "unpriced tokens" in told
    assert "Nothing of this model is measured yet" in told
    assert model.prompts == [] and not Backfill.objects.exists()


@pytest.mark.slow
def test_it_tells_then_works(run, channel, model):
    Price.objects.create(model="tiny", input_price="2", output_price="8")
    told = run("--yes")
    assert told.index("total") < told.index("is done")
    assert "6 of 6 summaries" in told and "$0.0" in told and "unpriced" not in told
    assert Backfill.objects.get().state == "done"
    total = Backfill.objects.get().quote["total"]
    assert total["tokens"]["low"] < model.tokens < total["tokens"]["high"]
    assert total["calls"]["low"] == len(model.prompts) == 9
    assert "By the newest 6 calls" in run("--estimate")


@pytest.mark.slow
def test_offline_costs_nothing_and_nothing_is_asked(run, channel):
    told = run()
    assert "costs nothing" in told and "is done" in told


def test_where_nobody_can_be_asked_it_wants_a_word(run, channel, model):
    assert "--cap or --yes" in run(status=1)
    assert not Backfill.objects.exists()


@pytest.mark.slow
def test_the_cap_stops_it(run, channel, model):
    half = json.loads(run("--estimate", "--json"))["quote"]["total"]["tokens"]["middle"] // 2
    told = run("--cap", str(half), status=2)
    assert "over_cap" in told and "paused (over cap)" in told
    assert 0 < model.tokens <= half
    assert "Another backfill" in run("--yes", status=1)
    assert "is running" in run("--resume", "--cap", "1000000")
    assert "already" in run("--resume", status=1)
    run_pass(channel.workspace, timezone.now())
    run_pass(channel.workspace, timezone.now())
    assert "is done" in run("--status")


def test_pause_and_cancel(run, channel):
    assert "no backfill yet" in run("--status")
    assert "No backfill runs" in run("--pause", status=1)
    Backfill.objects.start(
        channel.workspace,
        [channel],
        since_us=0,
        until_us=to_micros(timezone.now()),
        quote=json.loads(run("--estimate", "--json"))["quote"],
        by=None,
    )
    assert "is paused" in run("--pause")
    assert "is cancelled" in run("--cancel")
    actions = AuditEvent.objects.values_list("action", flat=True)
    assert {"backfill_start", "backfill_pause", "backfill_cancel"} <= set(actions)


def test_a_cap_in_dollars_needs_a_price_of_today(run, channel, model):
    """What was quoted is no word on it: a price may be set since, and an export may leave it out."""
    backfill = Backfill.objects.start(
        channel.workspace,
        [channel],
        since_us=0,
        until_us=to_micros(timezone.now()),
        quote={},
        by=None,
    )
    backfill.pause(None)
    assert "needs a price" in run("--resume", "--cap", "$5", status=1)
    Price.objects.create(model="tiny", input_price="2", output_price="8")
    assert "is running" in run("--resume", "--cap", "$5")


def test_a_part_of_it(run, channel, model):
    other = ChannelFactory(workspace=channel.workspace, name="other")
    MessageFactory(channel=other, at=timezone.now() - timedelta(days=2))
    quote = json.loads(run("--estimate", "--json", "--channel", "#launch", "--since", "3"))["quote"]
    assert [one["channel_name"] for one in quote["channels"]] == ["launch"]
    assert quote["total"]["messages"] < 48
    assert len(json.loads(run("--estimate", "--json"))["quote"]["channels"]) == 2


@pytest.mark.slow
def test_private_channels_are_for_their_readers(run, channel, model):
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
    assert "no backfill yet" in run("--status"), "it touches a channel that others may not see"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--since", "soon", "--estimate"], "--since wants a day"),
        (["--channel", "nowhere", "--estimate"], "nowhere"),
        (["--cap", "$1"], "needs a price"),
        (["--cap", "lots"], "neither tokens"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_cannot_be(run, channel, model, words, why):
    assert why in run(*words, status=1)
    assert not Backfill.objects.exists()


def test_a_workspace_that_was_never_read_to_the_end(run, channel):
    channel.workspace.connect("T1", name="team", domain="team", now=timezone.now())
    Workspace.objects.update(listed_at=timezone.now())
    assert "never read to the end" in run("--estimate", status=1)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_stopped_with_ctrl_c_the_worker_goes_on(channel, model, process_environment):
    """A real process, stopped while the model thinks."""
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
        # Whoever runs the tests in the background made them deaf to it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        claimed = Job.objects.filter(state="claimed")
        wait_until(lambda: claimed.count() == 6 or command.poll() is not None, "calls in the air")
        command.send_signal(signal.SIGINT)
        may_answer.set()
        _, said = command.communicate(timeout=PATIENCE)
    finally:
        may_answer.set()
        command.kill()
    assert command.returncode == 130, said
    assert "goes on in the worker" in said
    assert Backfill.objects.get().state == "running"

    def finished() -> bool:
        run_pass(channel.workspace, timezone.now())
        return Backfill.objects.get().state == "done"

    wait_until(finished, "the order to be done")
    assert MemoryVersion.objects.exclude(segment=None).count() == 6
