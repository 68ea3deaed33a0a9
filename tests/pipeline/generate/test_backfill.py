"""Backfills: estimate, start, cap, pause, cancel and progress."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memories.models import (
    AnotherBackfill,
    AuditEvent,
    Backfill,
    Channel,
    Job,
    Message,
    ModelCall,
    Price,
    Reader,
    Segment,
)
from memories.pipeline.costs.estimate import estimate_backfill
from memories.pipeline.generate.backfill import (
    NeedsPrice,
    build_document,
    check_cap,
    progress_of,
    run_backfill,
)
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.plan import plan_channel
from memories.rules.ingest.timestamps import to_micros
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    PersonFactory,
    WorkspaceFactory,
    make_reply,
    ts_at,
)
from tests.pipeline.current import long, short, workspace_memory

pytestmark = pytest.mark.django_db

NOW = MONDAY + timedelta(days=30)
MINUTES = timedelta(minutes=3)
DAYS = 5  # of the channel below
LAST_DAYS = to_micros(MONDAY + timedelta(days=DAYS - 2))  # where all days would show no more
WORDS = "The release of module {n} was moved to next week because the tests of part {n} fail."
JAPANESE = "{n}番のモジュールの公開は、テストが失敗したので来週に延期することになりました。"


def talk(channel, day, count=6, words=WORDS):
    """One conversation on a day of its own: one segment."""
    author = PersonFactory(workspace=channel.workspace, name="mika")
    at = MONDAY + timedelta(days=day)
    for n in range(count):
        MessageFactory(
            channel=channel,
            author=author,
            at=at + timedelta(minutes=n),
            text=words.format(n=day * 100 + n),
        )


@pytest.fixture
def workspace():
    return WorkspaceFactory(slug="team")


@pytest.fixture
def channel(workspace):
    """A conversation on each day, none of them remembered."""
    channel = ChannelFactory(workspace=workspace, name="launch", slack_id="C1")
    for day in range(DAYS):
        talk(channel, day)
    return channel


def estimate_of(channels, since_us=0, now=NOW):
    return estimate_backfill(channels[0].workspace, channels, since_us, now).as_json()


def start(*channels, since_us=0, by=None, **caps):
    return Backfill.objects.start(
        channels[0].workspace,
        channels,
        since_us=since_us,
        until_us=to_micros(NOW),
        estimate=estimate_of(channels, since_us),
        by=by,
        **caps,
    )


def finished(backfill, now=NOW):
    for _ in range(5):
        run_pass(backfill.workspace, now)
        backfill.refresh_from_db()
        if backfill.finish_if_done(timezone.now()) or not backfill.is_unfinished:
            return backfill
    raise AssertionError(f"{backfill} is {backfill.state}")


def states(backfill):
    return Counter(backfill.jobs.values_list("state", flat=True))


def outcomes(channel):
    return Counter(channel.segments.of_channel().values_list("outcome", flat=True))


# The estimate


def test_a_estimate_makes_no_calls_and_no_changes(channel, model):
    with CaptureQueriesContext(connection) as queries:
        estimate = estimate_of([channel])
    written = ("INSERT", "UPDATE", "DELETE")
    assert not [query["sql"] for query in queries if query["sql"].startswith(written)]
    assert model.prompts == [] and estimate["total"]["messages"] == 6 * DAYS
    assert (estimate["total"]["segments"], estimate["total"]["calls"]["low"]) == (DAYS, DAYS + 3)
    channel.refresh_from_db()
    assert channel.start_us is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(WORDS, id="English"),
        pytest.param(JAPANESE, id="Japanese", marks=pytest.mark.nightly("another language")),
    ],
)
def test_the_cost_is_in_the_range_of_the_quote(workspace, model, words):
    """The first estimate uses estimates, the second one measured calls."""
    for name in ("first", "second"):
        channel = ChannelFactory(workspace=workspace, name=name)
        for day in range(3):
            talk(channel, day, 30, words)
        root = MessageFactory(channel=channel, at=MONDAY + timedelta(days=7), text=words)
        for minute in range(1, 8):
            at = MONDAY + timedelta(days=7, minutes=minute)
            make_reply(root=root, at=at, text=words.format(n=minute))
    for channel in workspace.channels.order_by("pk"):
        spent, calls = model.tokens, len(model.prompts)
        backfill = finished(start(channel))
        quoted = backfill.estimate["total"]
        used = model.tokens - spent
        assert backfill.state == "done"
        # The short-term memory of the workspace is written at most once an hour.
        assert 0 <= quoted["calls"]["low"] - (len(model.prompts) - calls) <= 1
        assert quoted["tokens"]["middle"] == pytest.approx(used, rel=0.15)
        assert quoted["tokens"]["low"] < used < quoted["tokens"]["high"]
        assert backfill.calls.all().committed()[0] == used
    assert backfill.estimate["measured"] > 0


@pytest.mark.slow
def test_a_estimate_leaves_out_remembered_segments(channel, model):
    assert estimate_of([channel], LAST_DAYS)["total"]["segments"] == 2
    finished(start(channel, since_us=LAST_DAYS))
    channel.refresh_from_db()
    assert estimate_of([channel], LAST_DAYS)["total"]["calls"]["high"] == 0
    assert estimate_of([channel])["total"]["segments"] == DAYS - 2


def test_a_estimate_needs_no_more_queries_for_more_messages(channel, workspace):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            estimate_of([channel])
        return len(captured)

    before = queries()
    for day in range(DAYS, 2 * DAYS):
        talk(channel, day)
    assert queries() == before


@pytest.mark.slow
def test_a_backfill_without_a_model_costs_nothing(channel):
    estimate = estimate_of([channel])
    assert estimate["free"] and estimate["total"]["tokens"]["high"] == 0
    assert estimate["total"]["dollars"] is None
    assert finished(start(channel, since_us=LAST_DAYS)).state == "done"
    assert ModelCall.objects.count() == 0


def test_a_cap_and_a_estimate_in_dollars_need_a_price(channel, model):
    estimate = estimate_of([channel])
    assert estimate["total"]["dollars"] is None and not estimate["priced"]
    with pytest.raises(NeedsPrice):
        check_cap(1_000_000)
    Price.objects.create(model="tiny", input_price="2", output_price="8")
    estimate = estimate_of([channel])
    check_cap(1_000_000)
    total = estimate["total"]
    middle = (2 * total["tokens_in"]["middle"] + 8 * total["tokens_out"]["middle"]) / 1e6
    assert total["dollars"]["middle"] == pytest.approx(middle, rel=0.01)


# Start


@pytest.mark.nightly("quicker tests run the same lines")
def test_summaries_and_merges_belong_to_the_backfill(channel, model):
    """Merges begin after the last segment, with the oldest period."""
    backfill = start(channel)
    channel.refresh_from_db()
    assert channel.start_us == channel.messages.in_order().first().micros
    finished(backfill)
    kinds = Counter(backfill.jobs.values_list("memory__scope", "memory__memory_type", "state"))
    assert kinds == {
        ("channel", "short_term", "done"): DAYS,
        ("channel", "long_term", "done"): 1,
        ("workspace", "long_term", "done"): 1,
        ("workspace", "short_term", "done"): 1,
    }
    assert not Job.objects.filter(backfill=None).exists()
    assert outcomes(channel) == {"remembered": DAYS}
    assert (backfill.state, backfill.finished_at is not None) == ("done", True)
    first_merge = next(user for user in model.prompts if "<<added" in user)
    before = model.prompts[: model.prompts.index(first_merge)]
    assert sum("<<messages" in user for user in before) == DAYS
    periods = [line[9:25] for line in first_merge.splitlines() if line.startswith("<<added")]
    assert periods == sorted(periods) and len(periods) == DAYS
    assert long(channel).head == 1


@pytest.mark.nightly("quicker tests run the same lines")
def test_segments_that_close_after_the_start_do_not_belong_to_it(channel, model):
    talk(channel, 29, 3)
    at = NOW - timedelta(minutes=30)
    MessageFactory(channel=channel, at=at, text="Still open when it was ordered.")
    backfill = start(channel, since_us=LAST_DAYS)
    later = NOW + timedelta(hours=3)
    finished(backfill, later)
    newest = channel.segments.of_channel().order_by("number").last()
    assert newest.last_us == to_micros(at)
    assert newest.jobs.get().backfill is None
    assert backfill.jobs.exclude(segment=None).count() == 2 + 1


def test_a_workspace_has_one_unfinished_backfill(channel):
    first = start(channel)
    with pytest.raises(AnotherBackfill):
        start(channel)
    first.cancel(None)
    assert start(channel).state == "running"


def test_a_backfill_needs_a_channel(workspace):
    with pytest.raises(ValueError, match="no channel"):
        Backfill.objects.start(workspace, [], since_us=0, until_us=0, estimate={}, by=None)


def test_each_change_is_audited(channel, django_user_model):
    user = django_user_model.objects.create(username="mika")
    backfill = start(channel, by=user, cap_tokens=5000)
    backfill.pause(user)
    backfill.resume(user, cap_tokens=9000)
    backfill.cancel(None)
    events = AuditEvent.objects.order_by("pk").values_list("action", "actor", "workspace")
    assert list(events) == [
        ("backfill_start", "mika", "team"),
        ("backfill_pause", "mika", "team"),
        ("backfill_resume", "mika", "team"),
        ("backfill_cancel", "", "team"),
    ]
    assert AuditEvent.objects.get(action="backfill_resume").details["cap_tokens"] == 9000


def test_the_audit_event_has_keys_and_no_slack_ids(channel):
    start(channel)
    details = AuditEvent.objects.get(action="backfill_start").details
    assert details["channels"] == [channel.pk] and channel.slack_id not in repr(details)


def test_a_shown_estimate_has_the_current_names_of_channels(channel):
    """The name in the estimate may be from a time when the channel was private."""
    quoted = {"channel_id": channel.slack_id, "channel_name": "merger"}
    estimate = {"channels": [quoted | {"segments": 0, "threads": 0}]}
    backfill = start(channel)
    Backfill.objects.update(estimate=estimate)
    backfill.refresh_from_db()
    shown = build_document("team", None, backfill, timezone.now())["estimate"]["channels"]
    assert [quoted["channel_name"] for quoted in shown] == [channel.name]


def test_only_readers_of_all_channels_see_a_backfill(channel, workspace):
    backfill = start(channel)
    assert Backfill.objects.visible_to(Reader.public()).get() == backfill
    Channel.objects.update(kind=Channel.Kind.PRIVATE)
    assert not Backfill.objects.visible_to(Reader.public()).exists()


# Long-term memory


@pytest.mark.nightly("quicker tests run the same lines")
def test_older_versions_are_merged_with_their_dates(channel, model):
    finished(start(channel, since_us=LAST_DAYS))
    newest = short(channel).current
    model.prompts.clear()
    finished(start(channel))
    merge = next(user for user in model.prompts if "<<added" in user)
    assert "<<existing memory" in merge and "<<added: 2026-01-05 09:00" in merge
    assert "<<added: 2026-01-08" not in merge
    assert long(channel).head == 2
    assert short(channel).current == newest
    assert channel.segments.get(number=3).reason != "backfill"


# Pause


@pytest.mark.nightly("quicker tests run the same lines")
def test_a_paused_backfill_makes_no_calls(channel, model, workspace):
    backfill = start(channel, since_us=LAST_DAYS)
    assert backfill.pause(None) and not backfill.pause(None)
    run_pass(workspace, NOW)
    assert model.prompts == [] and states(backfill) == {"waiting": 2}
    assert backfill.resume(None) and not backfill.resume(None)
    assert finished(backfill).state == "done"


@pytest.mark.slow
def test_new_jobs_run_while_a_backfill_is_paused(channel, model, workspace):
    backfill = half_made(channel)
    calls = len(model.prompts)
    run_pass(workspace, NOW)
    assert len(model.prompts) == calls
    assert 0 < model.tokens <= backfill.cap_tokens
    second = ChannelFactory(workspace=workspace, start_us=to_micros(NOW))
    talk(second, 40, 5)
    later = NOW + timedelta(days=11)
    run_pass(workspace, later)
    assert long(second).head == 1 and workspace_memory(channel).head == 1
    assert long(channel).head == 0, "its merges are paused too"
    assert not Job.objects.unfinished().filter(backfill=None).exists()
    backfill.resume(None, cap_tokens=None)
    finished(backfill, later)
    assert not short(channel).versions.not_merged().exists()
    assert (long(channel).head, workspace_memory(channel).head) == (1, 2)
    assert outcomes(channel) == {"remembered": DAYS}


def half_made(channel):
    """A backfill that its cap has paused, with some of its summaries made."""
    quoted = estimate_of([channel])["total"]["tokens"]["middle"]
    backfill = start(channel, cap_tokens=quoted // 2)
    run_pass(channel.workspace, NOW)
    backfill.refresh_from_db()
    assert (backfill.state, backfill.pause_reason) == ("paused", "over_cap")
    assert 0 < states(backfill)["done"] < DAYS
    return backfill


def test_a_running_job_keeps_its_lease_when_the_backfill_is_paused(channel, model, workspace):
    backfill = start(channel)
    plan_channel(channel.pk, NOW)
    job = backfill.jobs.first()
    assert job.claim(timezone.now(), MINUTES)
    backfill.pause(None)
    job.refresh_from_db()
    assert job.state == "claimed"
    assert job.renew(timezone.now(), MINUTES)


@pytest.fixture
def paused(workspace):
    """A paused backfill of two conversations, whose channel has a new one."""
    marks = dict.fromkeys(("start_us", "segments_from_us"), to_micros(NOW))
    channel = ChannelFactory(workspace=workspace, **marks)
    for day in range(2):
        talk(channel, day)
    backfill = start(channel)
    plan_channel(channel.pk, NOW)
    backfill.pause(None)
    talk(channel, 30)
    return backfill


@pytest.mark.slow
def test_a_paused_backfill_delays_no_new_messages(paused, workspace):
    run_pass(workspace, NOW + timedelta(days=1))
    assert short(paused.channels.get()).head == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_claimed", [False, True], ids=["waiting", "its worker died"])
def test_a_paused_backfill_delays_no_other_channels_merges(paused, workspace, is_claimed):
    if is_claimed:
        job = paused.jobs.first()
        expired = timezone.now() - MINUTES
        Job.objects.filter(pk=job.pk).update(state="claimed", fence=1, lease_until=expired)
    second = ChannelFactory(workspace=workspace, start_us=to_micros(MONDAY))
    talk(second, 30)
    for _ in range(2):
        run_pass(workspace, NOW + timedelta(days=1))
    assert (long(second).head, workspace_memory(second).head) == (1, 1)


# The cap


def test_an_automatic_pause_is_not_audited_and_needs_a_running_backfill(channel):
    backfill = start(channel)
    assert backfill.pause(reason="over_cap") and not backfill.pause(reason="over_cap")
    assert not AuditEvent.objects.filter(action="backfill_pause").exists()
    backfill.cancel(None)
    assert not backfill.pause(reason="over_cap") and not backfill.cancel(None)


# Cancel


@pytest.mark.slow
def test_a_cancel_before_planning_restores_the_start_mark(channel, workspace, model):
    mark = to_micros(MONDAY + timedelta(days=DAYS - 1))
    channel.remember_from(mark)
    run_pass(workspace, NOW)
    calls = len(model.prompts)
    backfill = start(channel)
    assert Message.objects.waiting().filter(channel=channel).count() == 6 * (DAYS - 1)
    backfill.cancel(None)
    channel.refresh_from_db()
    assert channel.start_us == mark
    assert not Message.objects.waiting().filter(channel=channel).exists()
    run_pass(workspace, NOW)
    assert len(model.prompts) == calls


@pytest.mark.parametrize("moved_to", [None, to_micros(MONDAY)], ids=["none before", "moved back"])
def test_a_cancel_restores_the_start_mark_unless_it_moved_further_back(channel, moved_to):
    backfill = start(channel, since_us=LAST_DAYS)
    if moved_to is not None:
        channel.remember_from(moved_to)
    backfill.cancel(None)
    channel.refresh_from_db()
    assert channel.start_us == moved_to


@pytest.mark.nightly("quicker tests run the same lines")
def test_a_new_backfill_continues_a_cancelled_one(channel, workspace, model):
    backfill = half_made(channel)
    made = states(backfill)["done"]
    assert backfill.cancel(None)
    left = DAYS - outcomes(channel)["remembered"]
    assert outcomes(channel) == {"remembered": DAYS - left, "cancelled": left} and left
    run_pass(workspace, NOW)
    assert made <= states(backfill)["done"]
    assert not short(channel).versions.not_merged().exists()
    assert not Job.objects.unfinished().exists()
    calls = len(model.prompts)
    again = start(channel)
    assert again.estimate["total"]["segments"] == left
    finished(again)
    assert outcomes(channel) == {"remembered": DAYS}
    assert sum("<<messages" in user for user in model.prompts[calls:]) == left


@pytest.mark.slow
def test_a_new_backfill_reopens_cancelled_threads(workspace, model):
    channel = ChannelFactory(workspace=workspace)
    root = MessageFactory(channel=channel, at=MONDAY, text="A question.")
    for minute in range(1, 8):
        make_reply(root=root, at=MONDAY + timedelta(minutes=minute), text=f"Answer {minute}.")
    backfill = start(channel)
    assert backfill.estimate["total"]["threads"] == 1
    backfill.pause(None)
    plan_channel(channel.pk, NOW)
    backfill.cancel(None)
    assert set(Segment.objects.values_list("thread_ts", "outcome")) == {
        ("", "cancelled"),
        (ts_at(MONDAY), "cancelled"),
    }
    again = start(channel)
    assert again.estimate["total"]["threads"] == 1
    finished(again)
    assert set(Segment.objects.values_list("outcome", flat=True)) == {"remembered"}


def test_an_edit_in_a_cancelled_segment_costs_nothing(channel, workspace, model):
    backfill = start(channel)
    backfill.pause(None)
    plan_channel(channel.pk, NOW)
    backfill.cancel(None)
    channel.segments.update(stale=True)
    run_pass(workspace, NOW)
    assert model.prompts == [] and outcomes(channel) == {"cancelled": DAYS}
    assert not channel.segments.filter(stale=True).exists()


@pytest.mark.slow
def test_a_job_that_fails_after_the_cancel_is_retried_without_the_backfill(
    channel, workspace, model
):
    backfill = start(channel, since_us=LAST_DAYS)
    plan_channel(channel.pk, NOW)
    job = backfill.jobs.first()
    job.claim(timezone.now(), MINUTES)
    backfill.cancel(None)
    assert states(backfill) == {"claimed": 1, "cancelled": 1}
    job.release("timeout", "", None)
    run_pass(workspace, NOW)
    job.refresh_from_db()
    assert (job.state, job.backfill) == ("done", None)


# Done, and how far


def test_a_backfill_is_not_done_before_every_channel_is_planned(channel, workspace):
    second = ChannelFactory(workspace=workspace)
    talk(second, 3)
    backfill = start(channel, second)
    plan_channel(channel.pk, NOW)
    backfill.jobs.update(state="done")
    assert not backfill.finish_if_done(timezone.now())
    plan_channel(second.pk, NOW)
    backfill.jobs.update(state="done")
    assert backfill.finish_if_done(timezone.now())


@pytest.mark.parametrize("is_opted_in", [False, True])
def test_a_backfill_of_a_channel_shared_with_another_organisation_ends(channel, is_opted_in):
    """Its long-term memory is merged into the workspace's only after an opt-in."""
    Channel.objects.update(is_shared=True, in_workspace_memory=is_opted_in)
    channel.refresh_from_db()
    assert finished(start(channel)).state == "done"
    assert (long(channel).head, workspace_memory(channel).head) == (1, int(is_opted_in))


def test_a_channel_without_messages_is_done_at_once(workspace):
    backfill = start(ChannelFactory(workspace=workspace))
    assert finished(backfill).state == "done"


@pytest.mark.nightly("quicker tests run the same lines")
def test_progress_counts_summaries_merges_and_cost(channel, workspace, model):
    Price.objects.create(model="tiny", input_price="2", output_price="8")
    backfill = start(channel)
    before = progress_of(backfill, timezone.now())
    assert (before.is_complete, before.finished, before.total) == (False, 0, DAYS)
    backfill.cancel(None)
    backfill = half_made(channel)
    some = progress_of(backfill, timezone.now())
    assert some.is_complete and 0 < some.finished < DAYS == some.total
    assert some.tokens == model.tokens and some.micros
    assert [(share.channel, share.total) for share in some.shares] == [(channel, DAYS)]
    backfill.resume(None, cap_tokens=None)
    finished(backfill)
    done = progress_of(backfill, timezone.now())
    assert (done.finished, done.total, done.merges, done.reserved_tokens) == (DAYS, DAYS, 3, 0)
    assert done.tokens == model.tokens and done.seconds_left is None


@pytest.mark.slow
def test_run_backfill_returns_why_it_cannot_continue(channel, model, httpserver):
    httpserver.clear()
    httpserver.expect_request("/v1/chat/completions").respond_with_json(
        {"error": {"message": "no", "code": "invalid_api_key"}}, status=401
    )
    backfill = start(channel)
    assert run_backfill(backfill, lambda: None) == "needs_person"
    assert backfill.state == "running"
