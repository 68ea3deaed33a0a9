"""Jobs: claim, fence, lease, saved reply, backoff and dead letter (docs/rules.md)."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from memories.models import AuditEvent, Backfill, Job, Memory, NewVersion, Segment
from memories.models.generate.jobs import MAX_CLOSINGS
from memories.rules.generate.faults import MAX_ATTEMPTS
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import Reply, RequestStrategy, SummariserError
from tests.factories import MONDAY as NOW
from tests.factories import ChannelFactory, make_job, make_version

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.postgres("conditional updates decide who claims a job"),
]

State = Job.State
LEASE = timedelta(seconds=180)
LATER = NOW + LEASE + timedelta(seconds=1)
REPLY = Reply("- done [1]", "stop", "llama", "short.en.1", 100, 20, calls=2, seconds=1.5)
SOURCES = ((7, 8), (9,))


def timed_out():
    return SummariserError("timeout", "no answer in 60 s")


@pytest.fixture
def job():
    memory = Memory.objects.of_channel(ChannelFactory(), MemoryType.SHORT_TERM)
    return Job.objects.create(memory=memory, as_of_us=0, input_key="k" * 64)


def reload(job):
    """Read the row as another worker does."""
    return Job.objects.get(pk=job.pk)


def test_an_input_key_is_unique(job):
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.create(memory=job.memory, as_of_us=1, input_key=job.input_key)


class TestClaim:
    def test_claims_the_job_and_counts_the_attempt(self, job):
        assert job.claim(NOW, LEASE) is True
        assert (job.state, job.fence, job.attempts) == ("claimed", 1, 1)
        assert job.lease_until == NOW + LEASE

    def test_a_waiting_job_is_claimed_once(self, job):
        second = reload(job)
        assert [job.claim(NOW, LEASE), second.claim(NOW, LEASE)] == [True, False]
        assert reload(job).attempts == 1

    def test_a_job_with_an_expired_lease_is_claimed_once(self, job):
        job.claim(NOW, LEASE)
        assert reload(job).claim(NOW + LEASE, LEASE) is False
        first, second = reload(job), reload(job)
        assert [first.claim(LATER, LEASE), second.claim(LATER, LEASE)] == [True, False]
        row = reload(job)
        assert (row.fence, row.attempts, row.lease_until) == (2, 2, LATER + LEASE)

    def test_a_worker_that_saw_an_earlier_fence_does_not_claim(self, job):
        """Its writes would have no effect, and its call would be paid in vain."""
        late = reload(job)
        job.claim(NOW, LEASE)
        job.release("rate_limited", "wait", None)
        assert late.claim(NOW, LEASE) is False
        assert reload(job).claim(NOW, LEASE) is True

    def test_a_paused_job_is_not_claimed(self, job):
        Job.objects.update(retry_at=NOW + timedelta(seconds=1))
        assert job.claim(NOW, LEASE) is False
        assert job.claim(NOW + timedelta(seconds=1), LEASE) is True

    @pytest.mark.parametrize("state", ["replied", "done", "superseded", "dead"])
    def test_a_job_with_a_reply_is_not_claimed(self, job, state):
        Job.objects.update(state=state, lease_until=NOW - LEASE)
        assert reload(job).claim(NOW, LEASE) is False

    def test_a_job_that_kills_each_worker_is_claimed_five_times(self, job):
        now = NOW
        for lost in range(MAX_ATTEMPTS):
            assert not Job.objects.exhausted(now).exists()
            assert job.claim(now, LEASE) is True
            assert job.workers_lost == lost
            now += 2 * LEASE
        assert job.claim(now, LEASE) is False
        assert Job.objects.exhausted(now).get() == job
        job.dead_letter(SummariserError("gave_no_answer", "gone each time"), now)
        assert (job.state, job.finished_at) == ("dead", now)
        assert not Job.objects.claimable(now + 99 * LEASE).exists()

    def test_jobs_that_lost_a_worker_are_claimed_last(self, job):
        rows = [job, *(make_job(memory=job.memory) for _ in range(3))]
        expired = {"state": State.CLAIMED, "lease_until": NOW - LEASE}
        Job.objects.filter(pk=rows[0].pk).update(**expired)
        Job.objects.filter(pk=rows[1].pk).update(workers_lost=2)
        Job.objects.filter(pk=rows[2].pk).update(workers_lost=1, attempts=1)
        order = [rows.index(row) for row in Job.objects.claimable(NOW)]
        assert order == [3, 0, 2, 1]

    def test_a_backfills_jobs_are_claimed_after_all_others(self, job):
        memory = job.memory
        later = make_job(memory=memory, workers_lost=2)
        backfill = Backfill.objects.create(workspace=memory.workspace, since_us=0, until_us=1)
        Job.objects.filter(pk=job.pk).update(backfill=backfill)
        assert list(Job.objects.claimable(NOW)) == [later, job]
        backfill.pause(None)
        assert list(Job.objects.claimable(NOW)) == [later]


class TestSaveReply:
    def test_saves_the_reply_and_adds_its_usage(self, job):
        Job.objects.update(prompt_tokens=50, completion_tokens=5, calls=1, seconds=0.5)
        assert job.saved_reply is None
        job.claim(NOW, LEASE)
        assert job.save_reply(REPLY, SOURCES) is True
        row = reload(job)
        assert (row.state, row.saved_reply, row.lease_until) == ("replied", REPLY, None)
        assert row.reply_sources == [[7, 8], [9]]
        assert (row.model, row.prompt_version) == ("llama", "short.en.1")
        assert (row.prompt_tokens, row.completion_tokens) == (150, 25)
        assert (row.calls, row.seconds) == (3, 2.0)
        assert row.close(State.DONE, NOW) is True, "any worker may close it"

    def test_clears_the_fault_of_the_last_attempt(self, job):
        job.claim(NOW, LEASE)
        job.retry_later(timed_out(), NOW, RequestStrategy.WHOLE)
        job.claim(NOW + timedelta(hours=1), LEASE)
        job.save_reply(REPLY, SOURCES)
        assert (reload(job).fault, reload(job).fault_text) == ("", "")


class TestFence:
    @pytest.fixture
    def stale_job(self, job):
        job.claim(NOW, LEASE)
        reload(job).claim(LATER, LEASE)
        return job

    @pytest.mark.parametrize(
        "act",
        [
            pytest.param(lambda g: g.save_reply(REPLY, SOURCES), id="save_reply"),
            pytest.param(lambda g: g.close(State.DONE, LATER), id="close"),
            pytest.param(
                lambda g: g.retry_later(timed_out(), LATER, RequestStrategy.WHOLE), id="retry_later"
            ),
            pytest.param(lambda g: g.dead_letter(timed_out(), LATER), id="dead_letter"),
            pytest.param(lambda g: g.release("rate_limited", "x", LATER), id="release"),
            pytest.param(lambda g: g.delay_closing(timed_out(), LATER), id="delay_closing"),
            pytest.param(lambda g: g.renew(LATER, LEASE), id="renew"),
        ],
    )
    def test_a_worker_with_an_old_fence_changes_nothing(self, stale_job, act):
        before = Job.objects.values().get()
        assert not act(stale_job)
        assert Job.objects.values().get() == before

    def test_a_retry_raises_the_fence(self, job):
        job.claim(NOW, LEASE)
        Job.objects.update(state=State.DEAD)
        reload(job).retry()
        reload(job).claim(NOW, LEASE)
        assert job.save_reply(REPLY, SOURCES) is False

    def test_the_newest_claim_saves_the_reply(self, stale_job):
        assert reload(stale_job).save_reply(REPLY, SOURCES) is True


class TestFailures:
    def test_retry_later_saves_the_fault_and_the_strategy(self, job):
        job.claim(NOW, LEASE)
        job.save_reply(REPLY, SOURCES)
        job.retry_later(timed_out(), LATER, RequestStrategy.SPLIT)
        assert (job.state, job.attempts, job.strategy) == ("waiting", 1, "split")
        assert (job.fault, job.fault_text) == ("timeout", "no answer in 60 s")
        assert (job.retry_at, job.lease_until) == (LATER, None)
        assert job.claim(NOW, LEASE) is False
        assert job.saved_reply is None
        assert (job.prompt_tokens, job.calls) == (100, 2)

    def test_release_does_not_count_the_attempt(self, job):
        for _ in range(MAX_ATTEMPTS + 2):
            assert job.claim(NOW, LEASE) is True
            job.release("rate_limited", "slow down", None)
            assert (job.state, job.attempts) == ("waiting", 0)

    def test_a_dead_letter_is_not_claimed(self, job):
        job.claim(NOW, LEASE)
        job.dead_letter(SummariserError("bad_request", "no"), NOW)
        assert (job.state, job.attempts) == ("dead", 1)
        assert (job.fault, job.fault_text) == ("bad_request", "no")
        assert (job.lease_until, job.finished_at) == (None, NOW)
        assert not Job.objects.claimable(NOW + timedelta(days=9)).exists()

    def test_an_error_of_the_hub_keeps_the_reply(self, job):
        job.claim(NOW, LEASE)
        job.save_reply(REPLY, SOURCES)
        job.delay_closing(SummariserError("unexpected", "KeyError"), LATER)
        assert (job.state, job.saved_reply) == ("replied", REPLY)
        assert not Job.objects.in_progress(NOW).exists()
        job.dead_letter(SummariserError("unexpected", "KeyError"), NOW)
        assert job.retry() is True
        row = reload(job)
        assert (row.state, row.saved_reply) == ("replied", REPLY)

    def test_start_closing_allows_ten_tries(self, job):
        job.claim(NOW, LEASE)
        job.save_reply(REPLY, SOURCES)
        assert [reload(job).start_closing() for _ in range(MAX_CLOSINGS + 1)] == [
            *[True] * MAX_CLOSINGS,
            False,
        ]


class TestCancel:
    @pytest.fixture
    def of_segment(self, job):
        job.segment = Segment.objects.create(
            channel=job.memory.channel,
            number=1,
            first_us=1,
            last_us=2,
            closed_us=3,
            message_count=2,
            reason="idle",
        )
        job.save()
        return job

    def test_the_segment_is_cancelled_until_a_retry(self, of_segment, django_user_model):
        anna = django_user_model.objects.create(username="anna")
        assert of_segment.cancel(anna) is True
        assert reload(of_segment).state == "cancelled"
        assert Segment.objects.get().outcome == "cancelled"
        assert reload(of_segment).retry(anna) is True
        assert reload(of_segment).state == "waiting"
        assert Segment.objects.get().outcome == "waiting"
        events = AuditEvent.objects.order_by("pk").values_list("actor", "action", "subject")
        subject = f"job {of_segment.pk}"
        assert list(events) == [("anna", "job_cancel", subject), ("anna", "job_retry", subject)]

    def test_a_segment_that_has_a_version_keeps_its_outcome(self, of_segment):
        Segment.objects.update(outcome="remembered")
        assert of_segment.cancel() is True
        assert Segment.objects.get().outcome == "remembered"

    def test_a_job_claimed_meanwhile_keeps_its_segment(self, of_segment):
        def claim_first(execute, sql, params, many, context):
            if sql.startswith("UPDATE") and unclaimed:
                Job.objects.filter(pk=unclaimed.pop()).update(state="claimed")
            return execute(sql, params, many, context)

        unclaimed = [of_segment.pk]
        free = Segment.objects.get()
        free.pk, free.number = None, free.number + 1
        free.save()
        make_job(memory=of_segment.memory, segment=free)
        with connection.execute_wrapper(claim_first):
            assert Job.objects.filter(state="waiting").cancel() == 1
        outcomes = Segment.objects.order_by("number").values_list("outcome", flat=True)
        assert list(outcomes) == ["waiting", "cancelled"]

    @pytest.mark.parametrize("state", [s for s in State if s != State.WAITING])
    def test_only_a_waiting_job_is_cancelled(self, of_segment, state):
        Job.objects.update(state=state)
        assert of_segment.cancel() is False
        assert not AuditEvent.objects.exists()


class TestClose:
    @pytest.mark.parametrize("state", [State.DONE, State.SUPERSEDED])
    def test_the_worker_with_the_fence_closes_the_job(self, job, state):
        job.claim(NOW, LEASE)
        job.save_reply(REPLY, SOURCES)
        assert job.close(state, LATER) is True
        row = reload(job)
        assert (row.state, row.finished_at, row.lease_until) == (state, LATER, None)

    def test_a_job_is_closed_once(self, job):
        job.claim(NOW, LEASE)
        second = reload(job)
        assert job.close(State.DONE, NOW) is True
        assert second.close(State.SUPERSEDED, LATER) is False
        assert reload(job).state == "done"

    def test_an_unclaimed_job_is_not_closed(self, job):
        assert job.close(State.DONE, NOW) is False


class TestRetry:
    def test_a_dead_job_can_be_retried(self, job):
        job.claim(NOW, LEASE)
        job.dead_letter(SummariserError("bad_request", "no"), NOW)
        assert job.retry() is True
        row = reload(job)
        assert (row.state, row.attempts, row.reply) == ("waiting", 0, None)
        assert (row.finished_at, row.retry_at) == (None, None)
        assert row.claim(NOW, LEASE) is True

    @pytest.mark.parametrize("state", [s for s in State if s not in (State.DEAD, State.CANCELLED)])
    def test_only_a_dead_or_cancelled_job_is_retried(self, job, state):
        Job.objects.update(state=state)
        assert reload(job).retry() is False
        assert reload(job).state == state


class TestQuerysets:
    def test_merges_wait_for_jobs_in_progress(self, job):
        for state in State:
            Job.objects.update(state=state)
            expected = state in ("waiting", "claimed", "replied")
            assert Job.objects.in_progress(NOW).exists() is expected, state
            assert Job.objects.unfinished().exists() is expected, state
        Job.objects.update(state="waiting", retry_at=LATER)
        assert not Job.objects.in_progress(NOW).exists()
        assert Job.objects.unfinished().exists()
        assert Job.objects.in_progress(LATER).exists()

    def test_jobs_of_a_channel_and_of_a_workspace(self, job):
        channel = job.memory.channel
        foreign = ChannelFactory()
        assert Job.objects.of_channel(channel).get() == job
        assert Job.objects.of_workspace(channel.workspace).get() == job
        assert not Job.objects.of_channel(foreign).exists()
        assert not Job.objects.of_workspace(foreign.workspace).exists()

    def test_an_input_has_the_revision_that_was_read(self, job):
        version = make_version(memory=job.memory, text="- one")
        job.add_inputs([version])
        version.rewrite(
            NewVersion(lines=version.line_values(), origin=version.origin, content="- two")
        )
        assert job.input_rows.get().revision == 0
        assert version.revision == 1
        assert list(job.inputs.all()) == [version]
