"""Jobs: claim, fence, lease, saved reply, back-off, dead letter (docs/rules.md)."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from memories.models import AuditEvent, Job, Memory, NewVersion, Segment
from memories.models.generate.jobs import MOST_CLOSINGS
from memories.rules.generate.faults import MAX_ATTEMPTS
from memories.rules.generate.summariser import Reply, RequestStrategy, SummariserError
from memories.rules.memory.identity import MemoryType
from tests.factories import MONDAY as NOW
from tests.factories import ChannelFactory, make_version

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.postgres("conditional updates decide who holds a job"),
]

State = Job.State
LEASE = timedelta(seconds=180)
LATER = NOW + LEASE + timedelta(seconds=1)
REPLY = Reply("- done [1]", "stop", "llama", "short.en.1", 100, 20, calls=2, seconds=1.5)
CITES = ((7, 8), (9,))


def timed_out():
    return SummariserError("timeout", "no answer in 60 s")


@pytest.fixture
def job():
    memory = Memory.objects.of_channel(ChannelFactory(), MemoryType.SHORT_TERM)
    return Job.objects.create(memory=memory, as_of_us=0, input_key="k" * 64)


def again(job):
    """The same row as another worker reads it."""
    return Job.objects.get(pk=job.pk)


def test_the_same_inputs_are_wanted_once(job):
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.create(memory=job.memory, as_of_us=1, input_key=job.input_key)


class TestClaim:
    def test_takes_it_and_counts_the_attempt(self, job):
        assert job.claim(NOW, LEASE) is True
        assert (job.state, job.fence, job.attempts) == ("claimed", 1, 1)
        assert job.lease_until == NOW + LEASE

    def test_of_two_one_wins(self, job):
        other = again(job)
        assert [job.claim(NOW, LEASE), other.claim(NOW, LEASE)] == [True, False]
        assert again(job).attempts == 1

    def test_not_while_another_holds_the_lease(self, job):
        job.claim(NOW, LEASE)
        assert again(job).claim(NOW + LEASE, LEASE) is False

    def test_an_expired_lease_is_offered_again_and_one_of_two_wins(self, job):
        job.claim(NOW, LEASE)
        first, second = again(job), again(job)
        assert [first.claim(LATER, LEASE), second.claim(LATER, LEASE)] == [True, False]
        row = again(job)
        assert (row.fence, row.attempts, row.lease_until) == (2, 2, LATER + LEASE)

    def test_not_before_its_time(self, job):
        Job.objects.update(not_before=NOW + timedelta(seconds=1))
        assert job.claim(NOW, LEASE) is False
        assert job.claim(NOW + timedelta(seconds=1), LEASE) is True

    @pytest.mark.parametrize("state", ["replied", "done", "superseded", "dead"])
    def test_not_when_it_has_an_answer(self, job, state):
        Job.objects.update(state=state, lease_until=NOW - LEASE)
        assert again(job).claim(NOW, LEASE) is False

    def test_what_kills_every_worker_is_claimed_five_times(self, job):
        """A kill counts as an attempt: it is not offered for ever, and then can be given up."""
        now = NOW
        for lost in range(MAX_ATTEMPTS):
            assert not Job.objects.exhausted(now).exists()
            assert job.claim(now, LEASE) is True
            assert job.lost == lost
            now += 2 * LEASE
        assert job.claim(now, LEASE) is False
        assert Job.objects.exhausted(now).get() == job
        job.dead_letter(SummariserError("gave_no_answer", "gone each time"), now)
        assert (job.state, job.finished_at) == ("dead", now)
        assert not Job.objects.claimable(now + 99 * LEASE).exists()

    def test_those_that_lost_a_worker_come_last(self, job):
        rows = [job]
        for key in "bcd":
            rows.append(Job.objects.create(memory=job.memory, as_of_us=0, input_key=key))
        expired = {"state": State.CLAIMED, "lease_until": NOW - LEASE}
        Job.objects.filter(pk=rows[0].pk).update(**expired)
        Job.objects.filter(pk=rows[1].pk).update(lost=2)
        Job.objects.filter(pk=rows[2].pk).update(lost=1, attempts=1)
        order = [rows.index(row) for row in Job.objects.claimable(NOW)]
        assert order == [3, 0, 2, 1]


class TestSaveReply:
    def test_keeps_what_was_paid_for(self, job):
        job.claim(NOW, LEASE)
        assert job.save_reply(REPLY, CITES) is True
        row = again(job)
        assert (row.state, row.saved_reply, row.lease_until) == ("replied", REPLY, None)
        assert row.cites == [[7, 8], [9]]
        assert (row.model, row.prompt_version) == ("llama", "short.en.1")
        assert (row.prompt_tokens, row.completion_tokens, row.calls) == (100, 20, 2)
        assert row.seconds == 1.5

    def test_adds_to_what_earlier_attempts_cost(self, job):
        Job.objects.update(prompt_tokens=50, completion_tokens=5, calls=1, seconds=0.5)
        job.claim(NOW, LEASE)
        job.save_reply(REPLY, CITES)
        row = again(job)
        assert (row.prompt_tokens, row.completion_tokens) == (150, 25)
        assert (row.calls, row.seconds) == (3, 2.0)

    def test_a_reply_is_there_to_be_read_by_any_worker(self, job):
        assert job.saved_reply is None
        job.claim(NOW, LEASE)
        job.save_reply(REPLY, CITES)
        assert again(job).close(State.DONE, NOW) is True

    def test_forgets_the_fault_of_the_attempt_before(self, job):
        job.claim(NOW, LEASE)
        job.retry_later(timed_out(), NOW, RequestStrategy.WHOLE)
        job.claim(NOW + timedelta(hours=1), LEASE)
        job.save_reply(REPLY, CITES)
        assert (again(job).fault, again(job).fault_text) == ("", "")


class TestFence:
    """A worker that comes back from the dead writes nothing."""

    @pytest.fixture
    def ghost(self, job):
        job.claim(NOW, LEASE)
        again(job).claim(LATER, LEASE)
        return job

    @pytest.mark.parametrize(
        "act",
        [
            pytest.param(lambda g: g.save_reply(REPLY, CITES), id="save_reply"),
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
    def test_stale(self, ghost, act):
        before = Job.objects.values().get()
        assert not act(ghost)
        assert Job.objects.values().get() == before

    def test_a_retry_fences_too(self, job):
        job.claim(NOW, LEASE)
        Job.objects.update(state=State.DEAD)
        again(job).retry()
        again(job).claim(NOW, LEASE)
        assert job.save_reply(REPLY, CITES) is False

    def test_the_last_one_writes(self, ghost):
        assert again(ghost).save_reply(REPLY, CITES) is True


class TestFail:
    """What may follow is the policy's matter (rules/faults.py); these are its verbs."""

    def test_try_again_keeps_the_reason_and_the_way(self, job):
        job.claim(NOW, LEASE)
        job.save_reply(REPLY, CITES)
        job.retry_later(timed_out(), LATER, RequestStrategy.SPLIT)
        assert (job.state, job.attempts, job.way) == ("waiting", 1, "split")
        assert (job.fault, job.fault_text) == ("timeout", "no answer in 60 s")
        assert (job.not_before, job.lease_until) == (LATER, None)
        assert job.claim(NOW, LEASE) is False
        assert job.saved_reply is None, "it was no good"
        assert (job.prompt_tokens, job.calls) == (100, 2), "but it was paid"

    def test_put_back_gives_the_attempt_back(self, job):
        for _ in range(MAX_ATTEMPTS + 2):
            assert job.claim(NOW, LEASE) is True
            job.release("rate_limited", "slow down", None)
            assert (job.state, job.attempts) == ("waiting", 0)

    def test_give_up_is_the_end_until_a_retry(self, job):
        job.claim(NOW, LEASE)
        job.dead_letter(SummariserError("bad_request", "no"), NOW)
        assert (job.state, job.attempts) == ("dead", 1)
        assert (job.fault, job.fault_text) == ("bad_request", "no")
        assert (job.lease_until, job.finished_at) == (None, NOW)
        assert not Job.objects.claimable(NOW + timedelta(days=9)).exists()

    def test_an_error_of_ours_keeps_what_was_paid_for(self, job):
        job.claim(NOW, LEASE)
        job.save_reply(REPLY, CITES)
        job.delay_closing(SummariserError("unexpected", "KeyError"), LATER)
        assert (job.state, job.saved_reply) == ("replied", REPLY)
        assert not Job.objects.in_progress(NOW).exists(), "nobody waits for it"
        job.dead_letter(SummariserError("unexpected", "KeyError"), NOW)
        assert job.retry() is True
        row = again(job)
        assert (row.state, row.saved_reply) == ("replied", REPLY), "closed again, not paid again"

    def test_closing_is_counted_beforehand(self, job):
        job.claim(NOW, LEASE)
        job.save_reply(REPLY, CITES)
        assert [again(job).start_closing() for _ in range(MOST_CLOSINGS + 1)] == [
            *[True] * MOST_CLOSINGS,
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

    def test_its_segment_is_left_out_until_a_retry(self, of_segment, django_user_model):
        anna = django_user_model.objects.create(username="anna")
        assert of_segment.cancel(anna) is True
        assert again(of_segment).state == "cancelled"
        assert Segment.objects.get().outcome == "cancelled"
        assert again(of_segment).retry(anna) is True
        assert again(of_segment).state == "waiting"
        assert Segment.objects.get().outcome == "waiting"
        told = AuditEvent.objects.order_by("pk").values_list("actor", "action", "subject")
        subject = f"job {of_segment.pk}"
        assert list(told) == [("anna", "job_cancel", subject), ("anna", "job_retry", subject)]

    def test_a_segment_that_has_a_version_keeps_its_outcome(self, of_segment):
        Segment.objects.update(outcome="remembered")
        assert of_segment.cancel() is True
        assert Segment.objects.get().outcome == "remembered"

    @pytest.mark.parametrize("state", [s for s in State if s != State.WAITING])
    def test_only_what_waits(self, of_segment, state):
        Job.objects.update(state=state)
        assert of_segment.cancel() is False
        assert not AuditEvent.objects.exists()


class TestClose:
    @pytest.mark.parametrize("state", [State.DONE, State.SUPERSEDED])
    def test_by_who_holds_the_fence(self, job, state):
        job.claim(NOW, LEASE)
        job.save_reply(REPLY, CITES)
        assert job.close(state, LATER) is True
        row = again(job)
        assert (row.state, row.finished_at, row.lease_until) == (state, LATER, None)

    def test_once(self, job):
        job.claim(NOW, LEASE)
        other = again(job)
        assert job.close(State.DONE, NOW) is True
        assert other.close(State.SUPERSEDED, LATER) is False
        assert again(job).state == "done"

    def test_not_what_nobody_claimed(self, job):
        assert job.close(State.DONE, NOW) is False


class TestRetry:
    def test_offers_a_given_up_one_from_the_start(self, job):
        job.claim(NOW, LEASE)
        job.dead_letter(SummariserError("bad_request", "no"), NOW)
        assert job.retry() is True
        row = again(job)
        assert (row.state, row.attempts, row.reply) == ("waiting", 0, None)
        assert (row.finished_at, row.not_before) == (None, None)
        assert row.claim(NOW, LEASE) is True

    @pytest.mark.parametrize("state", [s for s in State if s not in (State.DEAD, State.CANCELLED)])
    def test_only_a_given_up_or_cancelled_one(self, job, state):
        Job.objects.update(state=state)
        assert again(job).retry() is False
        assert again(job).state == state


class TestWords:
    def test_who_is_waited_for(self, job):
        """Merges wait for what goes on by itself soon, not for what is held back or over."""
        table = {
            "waiting": True,
            "claimed": True,
            "replied": True,
            "done": False,
            "superseded": False,
            "proposed": False,
            "rejected": False,
            "cancelled": False,
            "dead": False,
        }
        for state, expected in table.items():
            Job.objects.update(state=state)
            assert Job.objects.in_progress(NOW).exists() is expected, state
            assert Job.objects.unfinished().exists() is expected, state
        Job.objects.update(state="waiting", not_before=LATER)
        assert not Job.objects.in_progress(NOW).exists()
        assert Job.objects.unfinished().exists()
        assert Job.objects.in_progress(LATER).exists()

    def test_whose_it_is(self, job):
        channel = job.memory.channel
        other = ChannelFactory()
        assert Job.objects.of_channel(channel).get() == job
        assert Job.objects.of_workspace(channel.workspace).get() == job
        assert not Job.objects.of_channel(other).exists()
        assert not Job.objects.of_workspace(other.workspace).exists()

    def test_inputs_note_the_wording_that_was_read(self, job):
        version = make_version(memory=job.memory, text="- one")
        job.add_inputs([version])
        version.rewrite(
            NewVersion(lines=version.line_values(), origin=version.origin, content="- two")
        )
        assert job.read.get().revision == 0
        assert version.revision == 1
        assert list(job.inputs.all()) == [version]
