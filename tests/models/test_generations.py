"""Generations: claim, fence, lease, saved reply, back-off, dead letter (docs/rules.md)."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from memories.models import AuditEvent, Draft, Generation, Memory, Segment
from memories.models.generations import MOST_CLOSINGS
from memories.rules.faults import MOST_ATTEMPTS
from memories.rules.memory import MemoryType
from memories.rules.summary import Reply, SummariserError, Way
from tests.factories import MONDAY as NOW
from tests.factories import ChannelFactory, make_version

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.postgres("conditional updates decide who holds a job"),
]

State = Generation.State
LEASE = timedelta(seconds=180)
LATER = NOW + LEASE + timedelta(seconds=1)
REPLY = Reply("- done [1]", "stop", "llama", "short.en.1", 100, 20, calls=2, seconds=1.5)
CITES = ((7, 8), (9,))


def timed_out():
    return SummariserError("timeout", "no answer in 60 s")


@pytest.fixture
def generation():
    memory = Memory.objects.of_channel(ChannelFactory(), MemoryType.SHORT_TERM)
    return Generation.objects.create(memory=memory, as_of_us=0, input_key="k" * 64)


def again(generation):
    """The same row as another worker reads it."""
    return Generation.objects.get(pk=generation.pk)


def test_the_same_inputs_are_wanted_once(generation):
    with pytest.raises(IntegrityError), transaction.atomic():
        Generation.objects.create(
            memory=generation.memory, as_of_us=1, input_key=generation.input_key
        )


class TestClaim:
    def test_takes_it_and_counts_the_attempt(self, generation):
        assert generation.claim(NOW, LEASE) is True
        assert (generation.state, generation.fence, generation.attempts) == ("claimed", 1, 1)
        assert generation.lease_until == NOW + LEASE

    def test_of_two_one_wins(self, generation):
        other = again(generation)
        assert [generation.claim(NOW, LEASE), other.claim(NOW, LEASE)] == [True, False]
        assert again(generation).attempts == 1

    def test_not_while_another_holds_the_lease(self, generation):
        generation.claim(NOW, LEASE)
        assert again(generation).claim(NOW + LEASE, LEASE) is False

    def test_an_expired_lease_is_offered_again_and_one_of_two_wins(self, generation):
        generation.claim(NOW, LEASE)
        first, second = again(generation), again(generation)
        assert [first.claim(LATER, LEASE), second.claim(LATER, LEASE)] == [True, False]
        row = again(generation)
        assert (row.fence, row.attempts, row.lease_until) == (2, 2, LATER + LEASE)

    def test_not_before_its_time(self, generation):
        Generation.objects.update(not_before=NOW + timedelta(seconds=1))
        assert generation.claim(NOW, LEASE) is False
        assert generation.claim(NOW + timedelta(seconds=1), LEASE) is True

    @pytest.mark.parametrize("state", ["replied", "done", "superseded", "dead"])
    def test_not_when_it_has_an_answer(self, generation, state):
        Generation.objects.update(state=state, lease_until=NOW - LEASE)
        assert again(generation).claim(NOW, LEASE) is False

    def test_what_kills_every_worker_is_claimed_five_times(self, generation):
        """A kill counts as an attempt: it is not offered for ever, and then can be given up."""
        now = NOW
        for lost in range(MOST_ATTEMPTS):
            assert not Generation.objects.exhausted(now).exists()
            assert generation.claim(now, LEASE) is True
            assert generation.lost == lost
            now += 2 * LEASE
        assert generation.claim(now, LEASE) is False
        assert Generation.objects.exhausted(now).get() == generation
        generation.give_up(SummariserError("gave_no_answer", "gone each time"), now)
        assert (generation.state, generation.finished_at) == ("dead", now)
        assert not Generation.objects.claimable(now + 99 * LEASE).exists()

    def test_those_that_lost_a_worker_come_last(self, generation):
        rows = [generation]
        for key in "bcd":
            rows.append(
                Generation.objects.create(memory=generation.memory, as_of_us=0, input_key=key)
            )
        expired = {"state": State.CLAIMED, "lease_until": NOW - LEASE}
        Generation.objects.filter(pk=rows[0].pk).update(**expired)
        Generation.objects.filter(pk=rows[1].pk).update(lost=2)
        Generation.objects.filter(pk=rows[2].pk).update(lost=1, attempts=1)
        order = [rows.index(row) for row in Generation.objects.claimable(NOW)]
        assert order == [3, 0, 2, 1]


class TestSaveReply:
    def test_keeps_what_was_paid_for(self, generation):
        generation.claim(NOW, LEASE)
        assert generation.save_reply(REPLY, CITES) is True
        row = again(generation)
        assert (row.state, row.saved_reply, row.lease_until) == ("replied", REPLY, None)
        assert row.cites == [[7, 8], [9]]
        assert (row.model, row.prompt_version) == ("llama", "short.en.1")
        assert (row.prompt_tokens, row.completion_tokens, row.calls) == (100, 20, 2)
        assert row.seconds == 1.5

    def test_adds_to_what_earlier_attempts_cost(self, generation):
        Generation.objects.update(prompt_tokens=50, completion_tokens=5, calls=1, seconds=0.5)
        generation.claim(NOW, LEASE)
        generation.save_reply(REPLY, CITES)
        row = again(generation)
        assert (row.prompt_tokens, row.completion_tokens) == (150, 25)
        assert (row.calls, row.seconds) == (3, 2.0)

    def test_a_reply_is_there_to_be_read_by_any_worker(self, generation):
        assert generation.saved_reply is None
        generation.claim(NOW, LEASE)
        generation.save_reply(REPLY, CITES)
        assert again(generation).close(State.DONE, NOW) is True

    def test_forgets_the_fault_of_the_attempt_before(self, generation):
        generation.claim(NOW, LEASE)
        generation.try_again(timed_out(), NOW, Way.WHOLE)
        generation.claim(NOW + timedelta(hours=1), LEASE)
        generation.save_reply(REPLY, CITES)
        assert (again(generation).fault, again(generation).fault_text) == ("", "")


class TestFence:
    """A worker that comes back from the dead writes nothing."""

    @pytest.fixture
    def ghost(self, generation):
        generation.claim(NOW, LEASE)
        again(generation).claim(LATER, LEASE)
        return generation

    @pytest.mark.parametrize(
        "act",
        [
            pytest.param(lambda g: g.save_reply(REPLY, CITES), id="save_reply"),
            pytest.param(lambda g: g.close(State.DONE, LATER), id="close"),
            pytest.param(lambda g: g.try_again(timed_out(), LATER, Way.WHOLE), id="try_again"),
            pytest.param(lambda g: g.give_up(timed_out(), LATER), id="give_up"),
            pytest.param(lambda g: g.put_back("rate_limited", "x", LATER), id="put_back"),
            pytest.param(lambda g: g.keep_reply(timed_out(), LATER), id="keep_reply"),
            pytest.param(lambda g: g.renew(LATER, LEASE), id="renew"),
        ],
    )
    def test_stale(self, ghost, act):
        before = Generation.objects.values().get()
        assert not act(ghost)
        assert Generation.objects.values().get() == before

    def test_a_retry_fences_too(self, generation):
        generation.claim(NOW, LEASE)
        Generation.objects.update(state=State.DEAD)
        again(generation).retry()
        again(generation).claim(NOW, LEASE)
        assert generation.save_reply(REPLY, CITES) is False

    def test_the_last_one_writes(self, ghost):
        assert again(ghost).save_reply(REPLY, CITES) is True


class TestFail:
    """What may follow is the policy's matter (rules/faults.py); these are its verbs."""

    def test_try_again_keeps_the_reason_and_the_way(self, generation):
        generation.claim(NOW, LEASE)
        generation.save_reply(REPLY, CITES)
        generation.try_again(timed_out(), LATER, Way.SPLIT)
        assert (generation.state, generation.attempts, generation.way) == ("waiting", 1, "split")
        assert (generation.fault, generation.fault_text) == ("timeout", "no answer in 60 s")
        assert (generation.not_before, generation.lease_until) == (LATER, None)
        assert generation.claim(NOW, LEASE) is False
        assert generation.saved_reply is None, "it was no good"
        assert (generation.prompt_tokens, generation.calls) == (100, 2), "but it was paid"

    def test_put_back_gives_the_attempt_back(self, generation):
        for _ in range(MOST_ATTEMPTS + 2):
            assert generation.claim(NOW, LEASE) is True
            generation.put_back("rate_limited", "slow down", None)
            assert (generation.state, generation.attempts) == ("waiting", 0)

    def test_give_up_is_the_end_until_a_retry(self, generation):
        generation.claim(NOW, LEASE)
        generation.give_up(SummariserError("bad_request", "no"), NOW)
        assert (generation.state, generation.attempts) == ("dead", 1)
        assert (generation.fault, generation.fault_text) == ("bad_request", "no")
        assert (generation.lease_until, generation.finished_at) == (None, NOW)
        assert not Generation.objects.claimable(NOW + timedelta(days=9)).exists()

    def test_an_error_of_ours_keeps_what_was_paid_for(self, generation):
        generation.claim(NOW, LEASE)
        generation.save_reply(REPLY, CITES)
        generation.keep_reply(SummariserError("unexpected", "KeyError"), LATER)
        assert (generation.state, generation.saved_reply) == ("replied", REPLY)
        assert not Generation.objects.unsettled(NOW).exists(), "nobody waits for it"
        generation.give_up(SummariserError("unexpected", "KeyError"), NOW)
        assert generation.retry() is True
        row = again(generation)
        assert (row.state, row.saved_reply) == ("replied", REPLY), "closed again, not paid again"

    def test_closing_is_counted_beforehand(self, generation):
        generation.claim(NOW, LEASE)
        generation.save_reply(REPLY, CITES)
        assert [again(generation).begin_closing() for _ in range(MOST_CLOSINGS + 1)] == [
            *[True] * MOST_CLOSINGS,
            False,
        ]


class TestCancel:
    @pytest.fixture
    def of_segment(self, generation):
        generation.segment = Segment.objects.create(
            channel=generation.memory.channel,
            number=1,
            first_us=1,
            last_us=2,
            closed_us=3,
            message_count=2,
            reason="idle",
        )
        generation.save()
        return generation

    def test_its_segment_is_left_out_until_a_retry(self, of_segment, django_user_model):
        anna = django_user_model.objects.create(username="anna")
        assert of_segment.cancel(anna) is True
        assert again(of_segment).state == "cancelled"
        assert Segment.objects.get().outcome == "cancelled"
        assert again(of_segment).retry(anna) is True
        assert again(of_segment).state == "waiting"
        assert Segment.objects.get().outcome == "waiting"
        told = AuditEvent.objects.order_by("pk").values_list("actor", "action", "subject")
        subject = f"generation {of_segment.pk}"
        assert list(told) == [("anna", "job_cancel", subject), ("anna", "job_retry", subject)]

    def test_a_segment_that_has_a_version_keeps_its_outcome(self, of_segment):
        Segment.objects.update(outcome="remembered")
        assert of_segment.cancel() is True
        assert Segment.objects.get().outcome == "remembered"

    @pytest.mark.parametrize("state", [s for s in State if s != State.WAITING])
    def test_only_what_waits(self, of_segment, state):
        Generation.objects.update(state=state)
        assert of_segment.cancel() is False
        assert not AuditEvent.objects.exists()


class TestClose:
    @pytest.mark.parametrize("state", [State.DONE, State.SUPERSEDED])
    def test_by_who_holds_the_fence(self, generation, state):
        generation.claim(NOW, LEASE)
        generation.save_reply(REPLY, CITES)
        assert generation.close(state, LATER) is True
        row = again(generation)
        assert (row.state, row.finished_at, row.lease_until) == (state, LATER, None)

    def test_once(self, generation):
        generation.claim(NOW, LEASE)
        other = again(generation)
        assert generation.close(State.DONE, NOW) is True
        assert other.close(State.SUPERSEDED, LATER) is False
        assert again(generation).state == "done"

    def test_not_what_nobody_claimed(self, generation):
        assert generation.close(State.DONE, NOW) is False


class TestRetry:
    def test_offers_a_given_up_one_from_the_start(self, generation):
        generation.claim(NOW, LEASE)
        generation.give_up(SummariserError("bad_request", "no"), NOW)
        assert generation.retry() is True
        row = again(generation)
        assert (row.state, row.attempts, row.reply) == ("waiting", 0, None)
        assert (row.finished_at, row.not_before) == (None, None)
        assert row.claim(NOW, LEASE) is True

    @pytest.mark.parametrize("state", [s for s in State if s not in (State.DEAD, State.CANCELLED)])
    def test_only_a_given_up_or_cancelled_one(self, generation, state):
        Generation.objects.update(state=state)
        assert again(generation).retry() is False
        assert again(generation).state == state


class TestWords:
    def test_who_is_waited_for(self, generation):
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
            Generation.objects.update(state=state)
            assert Generation.objects.unsettled(NOW).exists() is expected, state
            assert Generation.objects.unfinished().exists() is expected, state
        Generation.objects.update(state="waiting", not_before=LATER)
        assert not Generation.objects.unsettled(NOW).exists()
        assert Generation.objects.unfinished().exists()
        assert Generation.objects.unsettled(LATER).exists()

    def test_whose_it_is(self, generation):
        channel = generation.memory.channel
        other = ChannelFactory()
        assert Generation.objects.of_channel(channel).get() == generation
        assert Generation.objects.of_workspace(channel.workspace).get() == generation
        assert not Generation.objects.of_channel(other).exists()
        assert not Generation.objects.of_workspace(other.workspace).exists()

    def test_inputs_note_the_wording_that_was_read(self, generation):
        version = make_version(memory=generation.memory, text="- one")
        generation.take_inputs([version])
        version.rewrite(Draft(lines=version.line_values(), origin=version.origin, content="- two"))
        assert generation.read.get().revision == 0
        assert version.revision == 1
        assert list(generation.inputs.all()) == [version]
