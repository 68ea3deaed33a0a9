"""Where generations, caps, the breaker and backfills meet each other."""

import threading
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memories.models import Backfill, Call, Endpoint, Generation, Price
from memories.pipeline import work
from memories.pipeline.close import bury
from memories.pipeline.passes import run_pass
from memories.pipeline.plan import plan_channel
from memories.pipeline.report import Report
from memories.rules.breaker import Breaker
from memories.rules.slacktime import to_micros
from memories.rules.summary import Reply, SummariserError, Usage
from tests.factories import MONDAY, ChannelFactory, WorkspaceFactory
from tests.pipeline.current import long, short, workspace_memory
from tests.pipeline.test_corners import Scribe, talk
from tests.pipeline.test_model_faults import Model, answer, error
from tests.pipeline.test_spending import BOUND, NOON, reserve, till
from tests.processes import PATIENCE

pytestmark = pytest.mark.django_db

NOW = MONDAY + timedelta(days=30)
MINUTES = timedelta(minutes=3)


@pytest.fixture
def workspace():
    return WorkspaceFactory(settings={"thread_memories": False})


@pytest.fixture
def channel(workspace):
    return remembering(workspace)


@pytest.fixture
def model(httpserver):
    return Model(httpserver)


def remembering(workspace):
    channel = ChannelFactory(workspace=workspace)
    channel.remember_from(to_micros(MONDAY))
    return channel


def backfill_of(channel, days=3):
    channel.start_us = channel.cut_from_us = to_micros(NOW)
    channel.save()
    for day in range(days):
        talk(channel, 10, MONDAY + timedelta(days=day))
    return Backfill.objects.start(
        channel.workspace, [channel], since_us=0, until_us=to_micros(NOW), quote={}, by=None
    )


# -- rows that wait for what does not come


def test_new_messages_are_remembered_while_a_backfill_of_their_channel_is_paused(workspace):
    channel = ChannelFactory(workspace=workspace)
    backfill = backfill_of(channel)
    plan_channel(channel.pk, NOW)
    backfill.pause(None)
    talk(channel, 10, NOW + timedelta(hours=1))
    run_pass(workspace, NOW + timedelta(days=1), Scribe())
    assert short(channel).head == 1


def test_a_paused_backfill_holds_up_no_other_channels_merges(workspace):
    channel = ChannelFactory(workspace=workspace)
    backfill = backfill_of(channel)
    plan_channel(channel.pk, NOW)
    backfill.pause(None)
    talk(channel, 10, NOW + timedelta(hours=1))
    other = remembering(workspace)
    talk(other, 10, NOW + timedelta(hours=1))
    for _ in range(3):
        run_pass(workspace, NOW + timedelta(days=1), Scribe())
    assert long(other).head == 1
    assert workspace_memory(other).head == 1


def test_what_a_lost_worker_held_of_a_paused_backfill_holds_up_no_merges(workspace):
    channel = ChannelFactory(workspace=workspace)
    backfill = backfill_of(channel)
    plan_channel(channel.pk, NOW)
    assert backfill.generations.first().claim(timezone.now(), MINUTES)
    backfill.pause(None)
    Generation.objects.filter(state="claimed").update(lease_until=timezone.now() - MINUTES)
    other = remembering(workspace)
    talk(other, 10, NOW + timedelta(hours=1))
    for _ in range(3):
        run_pass(workspace, NOW + timedelta(days=1), Scribe())
    assert workspace_memory(other).head == 1


def test_what_is_saved_behind_a_held_row_holds_up_no_merges(workspace, channel):
    """The first segment waits for its cap, the second one is answered and waits for the first."""
    talk(channel, 10, MONDAY)
    talk(channel, 10, MONDAY + timedelta(days=1))
    other = remembering(workspace)
    talk(other, 10, MONDAY)
    plan_channel(channel.pk, NOW)
    until = timezone.now() + timedelta(days=20)
    first = short(channel).generations.order_by("segment__number").first()
    Generation.objects.filter(pk=first.pk).update(not_before=until, fault="over_cap")
    for _ in range(3):
        run_pass(workspace, NOW, Scribe())
    assert workspace_memory(other).head == 1


# -- what was paid


def test_a_reply_that_could_not_be_saved_at_once_is_not_paid_twice(channel, monkeypatch):
    talk(channel, 10)
    save, failed = Generation.save_reply, []

    def fails_once(generation, *given):
        if not failed:
            failed.append(generation.pk)
            raise OperationalError("deadlock detected")
        return save(generation, *given)

    monkeypatch.setattr(Generation, "save_reply", fails_once)
    scribe = Scribe()
    run_pass(channel.workspace, NOW, scribe)
    Generation.objects.update(not_before=None)
    run_pass(channel.workspace, NOW, scribe)
    assert short(channel).head == 1
    segments = [request for request in scribe.asked if request.messages]
    assert len(segments) == 1


def test_what_is_in_flight_when_the_pass_breaks_is_saved(workspace, monkeypatch, settings):
    """The answers to other calls are on their way when a query of the loop fails."""
    settings.MEMORYHUB_HEARTBEAT = 0.2
    broken = threading.Event()
    for _ in range(3):
        talk(remembering(workspace), 10)
    look, failed = work.Worker._renew, []

    def fails_once(worker):
        if not failed:
            failed.append(1)
            broken.set()
            raise OperationalError("the connection is closed")
        look(worker)

    monkeypatch.setattr(work.Worker, "_renew", fails_once)
    scribe = Scribe(before=lambda request: broken.wait(PATIENCE))
    with pytest.raises(OperationalError):
        run_pass(workspace, NOW, scribe)
    assert Generation.objects.filter(state="claimed").count() == 0, "paid, and not kept"


def test_a_reply_that_came_after_all_is_not_buried(channel):
    """Its last worker was frozen past its lease, and saved the reply before anybody looked again."""
    talk(channel, 10)
    plan_channel(channel.pk, NOW)
    Generation.objects.update(attempts=4)
    frozen = Generation.objects.get()
    assert frozen.claim(timezone.now() - 2 * MINUTES, MINUTES)
    seen = Generation.objects.exhausted(timezone.now()).with_memory().get()
    reply = Reply("- All is done. [1]", "stop", "m", "p", calls=1)
    assert frozen.save_reply(reply, [[1]])
    bury(seen, timezone.now())
    assert Generation.objects.get().state == "replied"


def test_a_request_in_parts_that_is_rate_limited_each_time_comes_to_an_end(channel, model):
    """Its first parts are paid anew each time."""
    talk(channel, 10, words="The long step " + "of many words " * 300)
    model.summariser._input_limit = 2_000
    paid = []

    def always(user):
        paid.append(1)
        return error(429, Retry_After="0") if len(paid) % 4 == 0 else answer()

    model.always = always
    for _ in range(6):
        run_pass(channel.workspace, NOW, model.summariser)
        Generation.objects.update(not_before=None)
        Endpoint.objects.update(not_before=None)
    row = short(channel).generations.order_by("pk").first()
    assert row.calls > 0 and Generation.objects.count() == 1
    assert row.state == "dead" or row.attempts > 0, f"{row.calls} paid calls, no attempt used"


def test_a_price_that_goes_while_a_call_is_out_leaves_its_money_counted(channel):
    price = Price.objects.create(model="tiny", input_price=2, output_price=8)
    call = reserve(channel)
    price.forget(by=None)
    till(channel.workspace).settle(call, Usage(900, 50, 1), BOUND, NOON)
    assert Call.objects.committed()[1] >= 2_200


def test_another_model_of_the_family_has_no_price(db):
    Price.objects.create(model="big-5", input_price=1, output_price=10)
    assert Price.objects.of_model("big-5-2026-07-18") is not None
    assert Price.objects.of_model("big-5-pro") is None


# -- the endpoint


def test_an_answer_to_an_earlier_call_does_not_lift_a_rate_limit(channel):
    earlier, limited = reserve(channel), reserve(channel)
    place = till(channel.workspace)
    told = SummariserError("rate_limited", "wait", retry_after=90)
    place.failed(limited, told, NOON)
    place.settle(earlier, Usage(900, 50, 1), BOUND, NOON)
    assert place.closed(NOON + timedelta(seconds=60)) is not None


def after(codes, breaker=None):
    breaker = breaker or Breaker()
    for code in codes:
        breaker = breaker.failed(
            code, code, NOON, retry_after=None, pause=timedelta(seconds=30), luck=0.5
        )
    return breaker


def test_calls_that_fail_together_open_the_breaker_once():
    assert after(["server_error"] * 16).open_until == NOON + timedelta(seconds=30)
    assert after(["rate_limited"] * 16).not_before < NOON + timedelta(minutes=5)


def test_the_reason_for_which_a_person_is_needed_stays():
    assert after(["out_of_credit", "rate_limited"]).fault == "out_of_credit"


def test_beside_a_probe_that_is_answered_nobody_waits_long(workspace, model):
    for _ in range(4):
        talk(remembering(workspace), 10)
    run_pass(workspace, NOW - timedelta(days=30), model.summariser)  # makes the endpoint's row
    a_moment_ago = timezone.now() - timedelta(seconds=1)
    Endpoint.objects.update(failures=5, openings=1, open_until=a_moment_ago)
    run_pass(workspace, NOW, model.summariser)
    assert Endpoint.objects.get().failures == 0
    held = Generation.objects.filter(not_before__gt=timezone.now() + timedelta(seconds=60))
    assert not held.exists()


# -- how much work it is


def test_after_a_bad_answer_it_is_no_suspect(channel, model):
    talk(channel, 10)
    plan_channel(channel.pk, NOW)
    row = Generation.objects.get()
    assert row.claim(timezone.now(), MINUTES)
    assert row.save_reply(Reply("", "stop", "m", "p", calls=1), [[1]])
    worker = work.Worker(channel.workspace, model.summariser, Report("x", NOW), lambda: None)
    worker._close_replied()
    row.refresh_from_db()
    assert (row.state, row.fault) == ("waiting", "blank")
    assert row.lost == 0, "no worker went away"


def test_answers_that_wait_for_their_turn_cost_no_query_each(channel, model):
    def queries(count):
        for day in range(count):
            talk(channel, 10, MONDAY + timedelta(days=day))
        plan_channel(channel.pk, NOW)
        rows = list(Generation.objects.filter(state="waiting").order_by("segment__number"))
        for row in rows[1:]:
            assert row.claim(timezone.now(), MINUTES)
            assert row.save_reply(Reply("- x [1]", "stop", "m", "p", calls=1), [[1]])
        worker = work.Worker(channel.workspace, model.summariser, Report("x", NOW), lambda: None)
        with CaptureQueriesContext(connection) as asked:
            assert worker._close_replied() == 0
        return len(asked)

    assert queries(20) < 10


@pytest.mark.postgres_only
def test_a_worker_frozen_in_a_transaction_does_not_keep_its_locks_for_ever(db):
    """It may hold the endpoint's row, which each call of each worker takes first."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() != ("0",)
