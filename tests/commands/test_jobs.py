"""`manage.py jobs`: list, show, retry, cancel, accept, reject and resume."""

import json
from datetime import timedelta
from functools import partial

import pytest
from django.core.management import CommandError
from django.utils import timezone

from memories.models import (
    AuditEvent,
    Backfill,
    Endpoint,
    Heartbeat,
    Job,
    Memory,
)
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import Reply
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    UserFactory,
    make_call,
    make_job,
    make_proposed_merge,
    make_segment,
    make_version,
)

pytestmark = pytest.mark.django_db
SECRET = "canaryyellow"


@pytest.fixture
def run(run):
    return partial(run, "jobs")


@pytest.fixture
def private(workspace):
    return ChannelFactory(workspace=workspace, slack_id="G1", name=SECRET, kind="private")


def job(channel, state="waiting", memory_type=MemoryType.SHORT_TERM, **given):
    memory = Memory.objects.of_channel(channel, memory_type)
    return make_job(memory=memory, state=state, **given)


def reply(text):
    return Reply(text, "stop", "tiny", "p1", 100, 20, calls=1).as_json()


def backfill(workspace, state):
    return Backfill.objects.create(workspace=workspace, since_us=0, until_us=1, state=state)


def listed(run, *arguments):
    return json.loads(run("list", "--json", *arguments))["jobs"]


def state_of(job):
    return Job.objects.get(pk=job.pk).state


class TestList:
    def test_jobs_that_need_a_person_come_first(self, run, channel):
        states = ("done", "waiting", "superseded", "claimed", "proposed", "waiting", "dead")
        made = [job(channel, state) for state in states]
        order = [made[i].pk for i in (6, 4, 1, 3, 5, 2, 0)]
        assert [row["id"] for row in listed(run)] == order
        assert [row["id"] for row in listed(run, "--limit", "2")] == order[:2]
        assert [row["id"] for row in listed(run, "--state", "waiting")] == [made[5].pk, made[1].pk]
        assert len(listed(run, "--limit", str(2**63))) == len(order)
        report = json.loads(run("list", "--json", "--limit", "2"))
        assert report["left_out"] == 5
        assert report["health"]["states"] == {"claimed": 1, "dead": 1, "proposed": 1, "waiting": 2}

    def test_list_filters_by_workspace_and_channel(self, run, workspace, channel):
        here = job(channel)
        beside = job(ChannelFactory(workspace=workspace, name="beside"))
        foreign = job(ChannelFactory())
        assert {row["id"] for row in listed(run)} == {here.pk, beside.pk, foreign.pk}
        assert {row["id"] for row in listed(run, "--workspace", "team")} == {here.pk, beside.pk}
        arguments = ("--workspace", "team", "--channel", "general")
        assert {row["id"] for row in listed(run, *arguments)} == {here.pk}
        with pytest.raises(CommandError, match="no channel"):
            run("list", "--workspace", "team", "--channel", "nowhere")

    def test_the_reason_of_each_wait(self, run, workspace, channel):
        later = timezone.now() + timedelta(hours=1)
        past = timezone.now() - timedelta(minutes=1)
        paused = backfill(workspace, "paused")
        expected = {
            job(channel).pk: "turn",
            job(channel, retry_at=later, fault="timeout", attempts=2).pk: "later",
            job(channel, retry_at=later, fault="over_budget").pk: "budget",
            job(channel, retry_at=past, fault="over_budget").pk: "turn",
            job(channel, backfill=paused).pk: "backfill",
            job(channel, "claimed", lease_until=later).pk: "running",
            job(channel, "claimed", lease_until=past).pk: "worker_gone",
            job(channel, "replied").pk: "turn",
            job(channel, "proposed").pk: "person",
            job(channel, "dead").pk: "retry",
            job(channel, "done").pk: None,
            job(channel, "cancelled", retry_at=later).pk: None,
        }
        assert {row["id"]: row["waits_for"] for row in listed(run)} == expected
        text = run()
        assert "next try at" in text and "timeout; attempt 2 of 5" in text
        assert f"backfill {paused.pk} does not run" in text
        Endpoint.objects.create(fingerprint="f", name="tiny", needs_person=True)
        assert {row["waits_for"] for row in listed(run, "--state", "waiting")} == {
            *("endpoint", "later", "budget", "backfill")
        }

    def test_a_proposal_shows_both_sizes(self, run, channel):
        memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
        base = make_version(memory=memory, text="- " + "x" * 398)
        job(channel, "proposed", MemoryType.LONG_TERM, base=base, reply=reply("- " + "y" * 38))
        [row] = listed(run)
        assert (row["tokens_before"], row["tokens_after"]) == (100, 10)
        assert "approve or reject: 100 → 10 tokens" in run()

    def test_the_line_of_health(self, run, channel):
        assert run() == "worker: no heartbeat yet; model: none called yet; jobs: none open\n"
        Heartbeat.objects.beat("worker", timezone.now() - timedelta(minutes=3))
        Endpoint.objects.create(
            fingerprint="f", name="tiny", needs_person=True, fault="out_of_credit"
        )
        job(channel, "dead")
        line = run().splitlines()[0]
        assert "last heartbeat 3 min ago" in line
        assert "tiny takes no calls (needs person: out of credit)" in line
        assert line.endswith("jobs: 1 dead")

    def test_private_jobs_are_listed_without_a_name(self, run, workspace, private):
        made = job(private, "dead", fault_text=f"{SECRET} fault")
        [row] = listed(run)
        assert (row["id"], row["place"]) == (made.pk, None)
        assert SECRET not in run() + run("list", "--json") + run("show", str(made.pk))
        UserFactory(username="boss", is_superuser=True)
        assert SECRET not in run("list", "--as", "boss")
        MemberFactory(workspace=workspace, user=UserFactory(username="member"))
        assert listed(run, "--as", "member") == []


class TestShow:
    def test_all_values_of_a_job(self, run, channel):
        message = MessageFactory(channel=channel)
        made = job(
            channel,
            "dead",
            segment=make_segment(messages=[message]),
            attempts=5,
            fault="timeout",
            fault_text="The model did not reply in time.",
            trigger={"reason": "idle", "new": 12},
            reply=reply("- it was decided"),
        )
        version = make_version(memory=made.memory)
        made.add_inputs([version])
        make_call(job=made, fence=3, tokens=1234, micros=2_500_000, fault="timeout")
        row = json.loads(run("show", str(made.pk), "--json"))
        assert row["what_happened"] == "The model did not reply in time."
        assert row["reply"] == "- it was decided"
        assert row["inputs"] == [{"version": version.pk, "revision": 0}]
        [call] = row["calls"]
        assert (call["claim"], call["tokens"], call["dollars"]) == (3, 1234, "2.500000")
        text = run("show", str(made.pk))
        for arguments in (
            "#general",
            "1234 tokens, $2.500000",
            "- it was decided",
            "attempt 5 of 5",
        ):
            assert arguments in text

    def test_an_unknown_job(self, run):
        with pytest.raises(CommandError, match=f"no job {2**63}"):
            run("show", str(2**63))
        with pytest.raises(CommandError, match="no job 7"):
            run("show", "7")


class TestRetry:
    def test_jobs_are_retried_by_id_and_recorded(self, run, channel):
        UserFactory(username="boss", is_superuser=True)
        dead, second, done = job(channel, "dead"), job(channel, "dead"), job(channel, "done")
        output = run("retry", str(dead.pk), str(done.pk), "--as", "boss")
        assert output == "1 of 2 will be retried.\n"
        assert [state_of(item) for item in (dead, second, done)] == ["waiting", "dead", "done"]
        assert AuditEvent.objects.get().actor == "boss"

    def test_all_failed_jobs_of_a_workspace_are_retried(self, run, channel):
        own, others = job(channel, "dead"), job(ChannelFactory(), "dead")
        assert run("retry", "--dead", "--workspace", "team") == "1 of 1 will be retried.\n"
        assert [state_of(item) for item in (own, others)] == ["waiting", "dead"]
        assert run("retry", "--dead") == "1 of 1 will be retried.\n"

    def test_a_retry_resumes_the_endpoint(self, run, channel):
        endpoint = Endpoint.objects.create(
            fingerprint="f", name="tiny", needs_person=True, fault="unauthorised"
        )
        job(channel, "dead")
        run("retry", "--dead")
        endpoint.refresh_from_db()
        assert not endpoint.needs_person
        assert AuditEvent.objects.filter(action="endpoint_resume").exists()

    @pytest.mark.parametrize("arguments", [(), ("--dead", "1"), ("99",)])
    def test_a_retry_needs_ids_or_dead(self, run, channel, arguments):
        made = job(channel, "dead")
        with pytest.raises(CommandError):
            run("retry", *arguments)
        assert state_of(made) == "dead"

    def test_only_admins_retry_with_as(self, run, workspace, channel):
        MemberFactory(workspace=workspace, user=UserFactory(username="ed"), role="editor")
        MemberFactory(workspace=workspace, user=UserFactory(username="ada"), role="admin")
        made = job(channel, "dead")
        with pytest.raises(CommandError, match="may not do that"):
            run("retry", str(made.pk), "--as", "ed")
        assert state_of(made) == "dead"
        run("retry", str(made.pk), "--as", "ada")
        assert state_of(made) == "waiting"


class TestCancel:
    def test_only_waiting_jobs_are_cancelled(self, run, channel):
        segment = make_segment(messages=[MessageFactory(channel=channel)])
        waits, runs = job(channel, segment=segment), job(channel, "claimed")
        output = run("cancel", str(waits.pk), str(runs.pk))
        assert output.startswith("1 of 2 cancelled")
        assert [state_of(item) for item in (waits, runs)] == ["cancelled", "claimed"]
        segment.refresh_from_db()
        assert segment.outcome == "cancelled"
        assert run("retry", str(waits.pk)) == "1 of 1 will be retried.\n"
        segment.refresh_from_db()
        assert (state_of(waits), segment.outcome) == ("waiting", "waiting")


class TestProposals:
    @pytest.fixture
    def proposed(self, channel):
        """A merge whose reply is much shorter than the old text."""
        return make_proposed_merge(channel)

    def test_an_approved_proposal_is_the_next_version(self, run, proposed):
        assert run("accept", str(proposed.pk)) == "Version 2 was created from it.\n"
        memory = Memory.objects.get(pk=proposed.memory_id)
        assert memory.current.content == "- Ben ships the beta"
        assert state_of(proposed) == "done"
        with pytest.raises(CommandError, match="waits for no decision"):
            run("accept", str(proposed.pk))

    def test_a_rejected_proposal_keeps_the_memory(self, run, proposed):
        run("reject", str(proposed.pk))
        assert state_of(proposed) == "rejected"
        assert Memory.objects.get(pk=proposed.memory_id).head == 1

    def test_a_stale_proposal_is_not_approved(self, run, proposed):
        proposed.memory.refresh_from_db()
        proposed.memory.revise("- by hand", by=None, based_on=1)
        with pytest.raises(CommandError, match="changed since"):
            run("accept", str(proposed.pk))
        assert Memory.objects.get(pk=proposed.memory_id).current.content == "- by hand"

    def test_an_unreadable_proposal_cannot_be_judged(self, run, private):
        made = job(private, "proposed", MemoryType.LONG_TERM, reply=reply("- x"))
        for action in ("accept", "reject"):
            with pytest.raises(CommandError, match="private"):
                run(action, str(made.pk))
        assert state_of(made) == "proposed"

    def test_editors_judge_proposals_and_members_do_not(self, run, workspace, proposed):
        MemberFactory(workspace=workspace, user=UserFactory(username="mo"))
        MemberFactory(workspace=workspace, user=UserFactory(username="ed"), role="editor")
        with pytest.raises(CommandError, match="may not do that"):
            run("reject", str(proposed.pk), "--as", "mo")
        run("reject", str(proposed.pk), "--as", "ed")
        assert state_of(proposed) == "rejected"


class TestResume:
    def test_calls_are_resumed(self, run):
        assert run("resume") == "Calls were not stopped.\n"
        soon = timezone.now() + timedelta(minutes=5)
        endpoint = Endpoint.objects.create(fingerprint="f", name="tiny", open_until=soon)
        assert run("resume") == "Calls resume.\n"
        endpoint.refresh_from_db()
        assert endpoint.open_until is None

    def test_a_member_cannot_resume_calls(self, run, workspace):
        MemberFactory(workspace=workspace, user=UserFactory(username="mo"))
        with pytest.raises(CommandError, match="operators and workspace admins"):
            run("resume", "--as", "mo")
