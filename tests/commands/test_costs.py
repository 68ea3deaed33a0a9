"""`manage.py costs`: exact sums, unpriced, reserved and lost tokens, and budgets."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial

import pytest
from django.core.management import CommandError, call_command
from time_machine import travel

from memories.models import AuditEvent, Budget, Job, Memory, ModelCall, Price
from memories.rules.memory.identity import MemoryType
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    UserFactory,
    WorkspaceFactory,
    make_call,
    make_job,
)
from tests.llm.endpoint import FakeEndpoint, use_model

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 15, 23, 30, tzinfo=UTC)
TODAY = NOW.date()


@pytest.fixture(autouse=True)
def clock():
    with travel(NOW, tick=False):
        yield


@pytest.fixture
def run(run):
    return partial(run, "costs")


@pytest.fixture
def report(run):
    return lambda *arguments: json.loads(run("--json", *arguments))


def call(channel, used=(100, 20), micros=40, day=TODAY, model="tiny", **given):
    """Create a finished call with its usage."""
    memory = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    job = make_job(memory=memory, state="done", fence=1)
    values = {
        "tokens": sum(used),
        "micros": micros,
        "prompt_tokens": used[0],
        "completion_tokens": used[1],
        "requests": 1,
        "ended_at": NOW,
    }
    return make_call(job=job, model=model, day=day, began_at=NOW, **values | given)


def bound(channel, state, tokens=1000, micros=300, **given):
    """Create a call with its reservation: running, or ended without a reply."""
    values = {"ended_at": None, "requests": 0} | given
    item = call(channel, (0, 0), micros, tokens=tokens, **values)
    Job.objects.filter(pk=item.job_id).update(state=state)
    return item


def sums(row):
    """Return the values that are not zero or null."""
    return {key: value for key, value in row.items() if value not in (0, None)}


class TestSums:
    def test_sums_are_exact(self, report, channel):
        for _ in range(3):
            call(channel, micros=333_333)
        call(channel, micros=1)
        assert sums(report()["total"]) == {
            "calls": 4,
            "requests": 4,
            "tokens_in": 400,
            "tokens_out": 80,
            "dollars": "1.000000",
        }

    def test_unpriced_tokens_have_no_dollars(self, run, report, channel):
        call(channel, micros=None)
        total = report()["total"]
        assert (total["dollars"], total["unpriced_tokens"]) == (None, 120)
        assert "$" not in run() and "120 unpriced tokens" in run()
        call(channel, micros=40)
        total = report()["total"]
        assert (total["dollars"], total["unpriced_tokens"]) == ("0.000040", 120)

    def test_reserved_and_lost_tokens(self, run, report, channel):
        bound(channel, "claimed")
        bound(channel, "waiting", tokens=2000)  # claimed again, because its worker died
        bound(channel, "waiting", tokens=4000, ended_at=NOW, fault="timeout", requests=1)
        newer = bound(channel, "claimed", tokens=8000, micros=None)
        Job.objects.filter(pk=newer.job_id).update(fence=2)
        assert sums(report()["total"]) == {
            "calls": 4,
            "requests": 1,
            "reserved_tokens": 1000,
            "reserved_dollars": "0.000300",
            "lost_tokens": 14000,
            "lost_dollars": "0.000600",
        }
        assert "reserved up to 1,000 tokens, $0.000300" in run()

    def test_a_refused_call_costs_nothing(self, report, channel):
        call(channel, (0, 0), 0, fault="rate_limited")
        assert sums(report()["total"]) == {"calls": 1, "requests": 1, "dollars": "0.000000"}


class TestBy:
    def rows(self, report, *arguments):
        return [(row["key"], row["calls"]) for row in report(*arguments)["rows"]]

    def test_rows_by_day_are_in_order(self, report, channel):
        for day in (TODAY, date(2026, 3, 2), TODAY):
            call(channel, day=day)
        assert self.rows(report) == [("2026-03-02", 1), ("2026-03-15", 2)]

    def test_rows_other_than_days_start_with_the_largest(self, report, workspace, channel):
        beside = ChannelFactory(workspace=workspace, slack_id="C2", name="beside")
        elsewhere = ChannelFactory(workspace=WorkspaceFactory(slug="other"), slack_id="C3")
        call(channel, (1, 0))
        call(beside, (2, 0), model="big")
        call(elsewhere, (4, 0))
        memory = Memory.objects.of_workspace(workspace, MemoryType.LONG_TERM)
        Job.objects.filter(model_calls=call(channel, (8, 0))).update(memory=memory)
        assert self.rows(report, "--by", "model") == [("tiny", 3), ("big", 1)]
        assert self.rows(report, "--by", "workspace") == [("team", 3), ("other", 1)]
        assert self.rows(report, "--by", "channel") == [("", 1), ("C3", 1), ("C2", 1), ("C1", 1)]
        arguments = ("--by", "channel", "--workspace", "team")
        assert self.rows(report, *arguments) == [("", 1), ("C2", 1), ("C1", 1)]

    def test_private_channels_share_one_unnamed_row(self, run, report, workspace):
        for name in ("canaryyellow", "canarygreen"):
            call(ChannelFactory(workspace=workspace, name=name, slack_id=name, kind="private"))
        assert self.rows(report, "--by", "channel") == [("private", 2)]
        assert "canary" not in run("--by", "channel")

    def test_a_reader_without_a_workspace_sees_no_sums(self, report, channel):
        call(channel)
        Budget.objects.change(channel.workspace, "day", tokens=10, by=None)
        MemberFactory(workspace=channel.workspace, user=UserFactory(username="mo"))
        UserFactory(username="out")
        assert [report("--as", who)["total"]["calls"] for who in ("mo", "out")] == [1, 0]
        assert [len(report("--as", who)["budgets"]) for who in ("mo", "out")] == [1, 0]


class TestDays:
    @pytest.fixture(autouse=True)
    def calls(self, channel):
        for day in ("2026-02-28", "2026-03-01", "2026-03-14", "2026-03-15"):
            call(channel, day=date.fromisoformat(day))

    @pytest.mark.parametrize(
        ("arguments", "first", "last", "count"),
        [
            ((), "2026-03-01", "2026-03-15", 3),
            (("--month", "2026-02"), "2026-02-01", "2026-02-28", 1),
            (("--month", "2026-12"), "2026-12-01", "2026-12-31", 0),
            (("--days", "1"), "2026-03-15", "2026-03-15", 1),
            (("--days", "2"), "2026-03-14", "2026-03-15", 2),
            (("--days", "16"), "2026-02-28", "2026-03-15", 4),
        ],
    )
    def test_the_days_of_a_period(self, report, arguments, first, last, count):
        result = report(*arguments)
        assert (result["from"], result["to"], result["total"]["calls"]) == (first, last, count)

    @pytest.mark.parametrize(
        "arguments",
        [("--month", "2026-13"), ("--month", "March"), ("--days", "0"), ("--days", "99999999")],
    )
    def test_wrong_periods_are_refused(self, run, arguments):
        with pytest.raises(CommandError):
            run(*arguments)


class TestBudgets:
    def test_the_used_part_of_a_budget(self, run, report, channel):
        Budget.objects.change(channel.workspace, "day", tokens=1000, by=None)
        Budget.objects.change(None, "month", money=Decimal("0.01"), by=None)
        call(channel, (60, 0), 100)
        bound(channel, "claimed", tokens=40, micros=5)
        call(channel, (500, 0), 900, day=date(2026, 3, 1))
        call(ChannelFactory(), (7, 0), 20)
        day, month = report()["budgets"]
        assert day == {
            "workspace": "team",
            "period": "day",
            "since": "2026-03-15",
            "until": "2026-03-16T00:00:00+00:00",
            "tokens": 1000,
            "tokens_used": 100,
            "dollars": None,
            "dollars_used": "0.000105",
        }
        assert month["workspace"] is None
        assert (month["dollars"], month["dollars_used"]) == ("0.010000", "0.001025")
        assert (month["since"], month["until"]) == ("2026-03-01", "2026-04-01T00:00:00+00:00")
        assert "budget of team, day: 1,000 tokens; used 100 tokens, $0.000105" in run()

    def test_a_budget_is_set(self, run, workspace):
        output = run("budget", "day", "--workspace", "team", "--tokens", "1_000", "--money", "2.5")
        assert output == "A day of team: 1,000 tokens, $2.500000.\n"
        assert run("budget", "month", "--money", "50") == (
            "A month of the whole installation: $50.000000.\n"
        )
        # Options before the action count too. Otherwise a budget of all workspaces would be set.
        run("--workspace", "team", "budget", "day", "--tokens", "none")
        assert [(budget.workspace, budget.limits) for budget in Budget.objects.order_by("pk")] == [
            (workspace, {"tokens": None, "money": "2.50"}),
            (None, {"tokens": None, "money": "50.00"}),
        ]
        output = run("budget", "day", "--workspace", "team", "--money", "none")
        assert output == "A day of team: no budget.\n"
        assert Budget.objects.get().workspace is None
        assert AuditEvent.objects.filter(action="cap", actor="").count() == 4

    @pytest.mark.parametrize(
        "arguments",
        [
            ("day",),
            ("day", "--tokens", "many"),
            ("day", "--tokens", "-1"),
            ("day", "--money", "cheap"),
            ("day", "--money", "NaN"),
            ("day", "--money", "-1"),
            ("day", "--money", "0.001"),
            ("week", "--tokens", "1"),
            ("day", "--tokens", "1", "--workspace", "nowhere"),
        ],
    )
    def test_wrong_values_are_refused(self, run, arguments):
        with pytest.raises(CommandError):
            run("budget", *arguments)
        assert not Budget.objects.exists()


class TestPrices:
    def test_a_price_is_set_and_deleted(self, run, report):
        output = run("price", "tiny", "0.25", "2")
        assert output == "tiny: $0.250000 in, $2.000000 out per million tokens.\n"
        assert report()["prices"] == [{"model": "tiny", "in": "0.250000", "out": "2.000000"}]
        assert "unpriced" in run("price", "tiny", "none")
        assert report()["prices"] == []
        with pytest.raises(CommandError, match="no price"):
            run("price", "tiny", "none")

    @pytest.mark.parametrize(
        "arguments",
        [
            ("tiny", "0.25"),
            ("tiny", "x", "2"),
            ("tiny", "-1", "2"),
            ("", "1", "2"),
            ("m" * 101, "1", "2"),
        ],
    )
    def test_wrong_values_are_refused(self, run, arguments):
        with pytest.raises(CommandError):
            run("price", *arguments)
        assert not Price.objects.exists()

    def test_with_as_only_operators_change_prices_and_budgets(self, run, workspace):
        MemberFactory(workspace=workspace, user=UserFactory(username="ada"), role="admin")
        UserFactory(username="boss", is_superuser=True)
        for arguments in (("price", "tiny", "1", "2"), ("budget", "day", "--tokens", "5")):
            with pytest.raises(CommandError, match="operator"):
                run(*arguments, "--as", "ada")
            run(*arguments, "--as", "boss")
        assert {event.actor for event in AuditEvent.objects.all()} == {"boss"}


@pytest.mark.slow
def test_a_raised_budget_releases_waiting_jobs(run, channel, settings, httpserver, client):
    """From a message to a banner, a higher budget, a memory and its cost."""
    use_model(settings, httpserver)
    FakeEndpoint(httpserver).reply_with("- The launch is on Friday [1]")
    client.force_login(UserFactory(username="boss", is_superuser=True))
    MessageFactory(channel=channel, at=NOW - timedelta(hours=3), text="We launch on Friday.")
    run("price", "tiny", "1", "2")
    run("budget", "day", "--workspace", "team", "--tokens", "5")

    call_command("run_pass", "--workspace", "team")
    waiting_job = Job.objects.get()
    assert (waiting_job.state, waiting_job.fault, waiting_job.attempts) == (
        "waiting",
        "over_budget",
        0,
    )
    assert waiting_job.retry_at == datetime(2026, 3, 16, tzinfo=UTC)
    assert (ModelCall.objects.count(), len(httpserver.log)) == (0, 0)
    assert "Budget reached" in client.get("/w/team/").content.decode()

    run("budget", "day", "--workspace", "team", "--tokens", "none", "--money", "1")
    assert "Budget reached" not in client.get("/w/team/").content.decode()
    call_command("run_pass", "--workspace", "team")
    assert not Job.objects.exclude(state="done").exists()
    result = json.loads(run("--json"))
    used = sum(item.tokens for item in ModelCall.objects.all())
    assert result["total"]["tokens_in"] + result["total"]["tokens_out"] == used > 0
    assert result["budgets"][0]["dollars_used"] == result["total"]["dollars"] != "0.000000"
    assert result["total"]["requests"] == len(httpserver.log) == ModelCall.objects.count()
