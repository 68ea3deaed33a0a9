"""A workspace read from a Slack on loopback, over real HTTP with the real client."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F, Q

from memories.models import (
    AuditEvent,
    Channel,
    Message,
    Reader,
    SlackConnection,
    Workspace,
)
from memories.pipeline.budget import Budget
from memories.pipeline.coverage import Gap, coverage_of
from memories.pipeline.locks import Busy
from memories.pipeline.plan import channels_to_plan
from memories.pipeline.roster import store_channels, store_people
from memories.pipeline.store import store_messages
from memories.pipeline.sync import ChannelReport, State, SyncReport, sync_workspace
from memories.rules.outcomes import Result, Thing
from memories.rules.slacktime import from_micros, micros, to_micros
from memories.slack.web import SlackClient
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    ts_at,
)
from tests.holding import being_stored
from tests.slack.fake_slack import TOKEN, FakeSlack, Fault

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
GENERAL, CLOSED, ELSEWHERE = "C1", "C2", "C3"
HISTORY, REPLIES = "conversations.history", "conversations.replies"

pytestmark = pytest.mark.django_db


def ts(days: float, number: int = 0) -> str:
    """So many days before NOW; ``number`` tells messages of one moment apart."""
    moment = NOW - timedelta(days=days)
    return ts_at(moment + timedelta(microseconds=number))


ROOT = ts(2)


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    """Three people; a public channel with a thread, a private one, and one without the bot."""
    with FakeSlack() as fake:
        for slack_id, name in (("U1", "ann"), ("U2", "ben"), ("U3", "cho")):
            fake.add_user(slack_id, name)
        fake.add_channel(GENERAL, "general", members=["U1", "U2", "U3"])
        fake.add_channel(CLOSED, "closed", is_private=True, members=["U1", "U2"])
        fake.add_channel(ELSEWHERE, "elsewhere", bot_is_in=False, members=["U3"])
        fake.say(GENERAL, "U1", "an old line", ts(60))
        fake.say(GENERAL, "U1", "shall we ship?", ROOT)
        fake.say(GENERAL, "U2", "yes", ts(1.9), thread=ROOT)
        fake.say(GENERAL, "U3", "on Friday", ts(1.8), thread=ROOT)
        fake.say(GENERAL, "U3", "a new line", ts(1))
        fake.say(CLOSED, "U2", "between us", ts(3))
        yield fake


@pytest.fixture
def workspace() -> Workspace:
    """All three channels are followed."""
    return follow(WorkspaceFactory())


def follow(workspace: Workspace, *slack_ids: str) -> Workspace:
    """As if somebody had chosen them from an earlier list, private ones too."""
    workspace.change_settings({"read_private_channels": True})
    for slack_id in slack_ids or (GENERAL, CLOSED, ELSEWHERE):
        row, _ = workspace.channels.get_or_create(slack_id=slack_id, defaults={"name": slack_id})
        row.follow(by=None, on=True)
    return workspace


def client_of(slack: FakeSlack, **options: Any) -> SlackClient:
    return SlackClient(TOKEN, slack.url, timeout=5, pause=0.001, **options)


Sync = Callable[..., SyncReport]


@pytest.fixture
def sync(slack: FakeSlack, workspace: Workspace) -> Sync:
    """One run with a client of its own, as each run has."""

    def run(now: datetime = NOW, client: SlackClient | None = None, **given: Any) -> SyncReport:
        slack.forget_calls()
        return sync_workspace(workspace, client or client_of(slack), now, **given)

    return run


def channel_report(report: SyncReport, slack_id: str = GENERAL) -> ChannelReport:
    (found,) = [one for one in report.channels if one.channel_id == slack_id]
    return found


def general(workspace: Workspace) -> Channel:
    return workspace.channels.get(slack_id=GENERAL)


def texts(workspace: Workspace, slack_id: str = GENERAL) -> list[str]:
    """Live messages and replies, in order of time."""
    found = Message.objects.filter(channel__workspace=workspace, channel__slack_id=slack_id)
    return list(found.filter(state="live").in_order().values_list("text", flat=True))


def everything(workspace: Workspace) -> Any:
    """All that is kept of a workspace, without row ids and the time of storing."""
    messages = Message.objects.filter(channel__workspace=workspace).order_by("channel_id", "ts")
    fields = ("channel__slack_id", "ts", "thread_ts", "author__slack_id", "text", "state")
    fields += ("broadcast", "is_notice", "edited_ts", "reply_count", "latest_reply")
    people = workspace.people.order_by("slack_id").values_list("slack_id", "name", "is_bot")
    channels = workspace.channels.order_by("slack_id")
    return (
        list(messages.values_list(*fields)),
        list(people),
        list(channels.values_list("slack_id", "name", "kind", "is_archived")),
        {channel.slack_id: members(channel) for channel in channels},
    )


def members(channel: Channel) -> list[str]:
    return sorted(channel.people.values_list("slack_id", flat=True))


# The whole


def test_a_first_sync_reads_all_that_the_bot_may_see(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    report = sync()
    assert (report.error, report.code) == ("", "")
    assert texts(workspace) == ["an old line", "shall we ship?", "yes", "on Friday", "a new line"]
    assert texts(workspace, CLOSED) == ["between us"]
    assert list(workspace.channels.order_by("slack_id").values_list("slack_id", "kind")) == [
        (GENERAL, "public"),
        (CLOSED, "private"),
        (ELSEWHERE, "public"),
    ]
    assert members(workspace.channels.get(slack_id=CLOSED)) == ["U1", "U2"]
    assert report.tally.complete
    assert report.tally.count(Thing.MESSAGE, Result.STORED) == 6
    found = channel_report(report)
    assert (found.walked.new, found.walked.threads) == (5, 1)
    assert (found.walked.asked_from, found.walked.mark) == ("", ts(1))
    assert [one.channel_name for one in report.of(State.NOT_MEMBER)] == ["elsewhere"]


def test_the_workspace_learns_who_it_is(workspace: Workspace, sync: Sync) -> None:
    sync()
    sync(LATER)
    workspace.refresh_from_db()
    assert (workspace.team_id, workspace.name, workspace.domain) == (
        "T0FAKE",
        "Fake Team",
        "faketeam",
    )
    assert (workspace.connected_at, workspace.synced_at) == (NOW, LATER)


def test_each_page_and_each_thread_is_asked_for_once(slack: FakeSlack, sync: Sync) -> None:
    slack.page_size = 2
    report = sync()
    assert slack.counts() == {
        "auth.test": 1,
        "users.list": 2,
        "conversations.list": 2,
        "conversations.members": 3,  # general: two pages, closed: one
        HISTORY: 3,  # general: two pages, closed: one
        REPLIES: 1,
    }
    assert report.calls == slack.counts()


def test_an_idle_sync_costs_one_call_of_history_a_channel(slack: FakeSlack, sync: Sync) -> None:
    sync()
    report = sync(LATER)
    assert slack.count(HISTORY) == 2
    assert slack.count(REPLIES) == 0
    assert report.tally.count(result=Result.STORED) == 0
    assert report.tally.count(result=Result.UPDATED) == 0
    assert report.tally.count(result=Result.DUPLICATE) == report.tally.count()


def test_two_syncs_end_where_one_ends(workspace: Workspace, sync: Sync) -> None:
    sync()
    once = everything(workspace)
    sync()
    assert everything(workspace) == once


@pytest.mark.parametrize("page_size", [1, 2, 1000])
def test_an_import_of_the_same_conversation_ends_the_same(
    slack: FakeSlack, workspace: Workspace, sync: Sync, page_size: int
) -> None:
    imported = WorkspaceFactory(team_id=slack.team_id)
    store_people(imported, slack.users.values())
    for channel in slack.channels.values():
        raw = channel.as_json() | {"members": channel.members if channel.bot_is_in else []}
        kind = "private" if channel.is_private else "public"
        store_channels(imported, [(raw, kind)], known_at=NOW)
        if channel.bot_is_in:
            row = imported.channels.get(slack_id=channel.slack_id)
            store_messages(row, [channel.told(m) for m in channel.messages.values()], NOW)
    slack.page_size = page_size
    sync()
    assert everything(workspace) == everything(imported)


def test_an_imported_workspace_is_carried_on(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """The export knows that the root has two replies, and holds one of them."""
    store_channels(workspace, [(slack.channels[GENERAL].as_json(), "public")], known_at=NOW)
    told = slack.channels[GENERAL].told(slack.channels[GENERAL].messages[ROOT])
    assert told["reply_count"] == 2
    reply = slack.channels[GENERAL].messages[ts(1.9)]
    store_messages(general(workspace), [told, reply], NOW)
    found = channel_report(sync())
    assert (found.walked.new, found.walked.threads) == (3, 1)
    assert texts(workspace) == ["an old line", "shall we ship?", "yes", "on Friday", "a new line"]


# What people do later


def say_more(slack: FakeSlack) -> None:
    slack.say(GENERAL, "U2", "one more", ts(0))


def reply_late(slack: FakeSlack) -> None:
    slack.say(GENERAL, "U1", "a late answer", ts(0), thread=ROOT)


def reply_first(slack: FakeSlack) -> None:
    slack.say(GENERAL, "U1", "the first answer", ts(0), thread=ts(1))


def reply_aloud(slack: FakeSlack) -> None:
    slack.say(GENERAL, "U1", "for all", ts(0), thread=ROOT, subtype="thread_broadcast")


def edit_a_root(slack: FakeSlack) -> None:
    slack.edit(GENERAL, ROOT, "shall we really ship?", ts(0))


def edit_a_reply_of_a_thread_that_moved(slack: FakeSlack) -> None:
    slack.edit(GENERAL, ts(1.9), "no", ts(0, 1))
    reply_late(slack)


def delete_a_line(slack: FakeSlack) -> None:
    slack.delete(GENERAL, ts(1))


def delete_a_reply(slack: FakeSlack) -> None:
    slack.delete(GENERAL, ts(1.8))


def delete_all_replies(slack: FakeSlack) -> None:
    slack.delete(GENERAL, ts(1.8))
    slack.delete(GENERAL, ts(1.9))


def delete_a_root(slack: FakeSlack) -> None:
    slack.delete(GENERAL, ROOT)


def delete_a_thread(slack: FakeSlack) -> None:
    delete_all_replies(slack)
    slack.delete(GENERAL, ROOT)


@pytest.mark.parametrize(
    ("act", "threads", "gone", "come"),
    [
        pytest.param(say_more, 0, [], ["one more"], id="new message"),
        pytest.param(reply_late, 1, [], ["a late answer"], id="late reply"),
        pytest.param(reply_first, 1, [], ["the first answer"], id="first reply"),
        # The channel itself shows it, so there is nothing left to read.
        pytest.param(reply_aloud, 0, [], ["for all"], id="broadcast reply"),
        pytest.param(
            edit_a_root, 0, ["shall we ship?"], ["shall we really ship?"], id="edited root"
        ),
        pytest.param(
            edit_a_reply_of_a_thread_that_moved,
            1,
            ["yes"],
            ["no", "a late answer"],
            id="edited reply of a thread that moved",
        ),
        pytest.param(delete_a_line, 0, ["a new line"], [], id="deleted message"),
        pytest.param(delete_a_reply, 1, ["on Friday"], [], id="deleted reply"),
        pytest.param(delete_all_replies, 1, ["yes", "on Friday"], [], id="all replies deleted"),
        pytest.param(delete_a_root, 0, ["shall we ship?"], [], id="deleted root, replies live"),
        pytest.param(
            delete_a_thread, 1, ["shall we ship?", "yes", "on Friday"], [], id="deleted thread"
        ),
    ],
)
@pytest.mark.parametrize("page_size", [1, 1000])
def test_what_people_do_is_found_by_the_next_sync(
    slack: FakeSlack,
    workspace: Workspace,
    sync: Sync,
    page_size: int,
    act: Callable[[FakeSlack], None],
    threads: int,
    gone: list[str],
    come: list[str],
) -> None:
    slack.page_size = page_size
    sync()
    before = texts(workspace)
    act(slack)
    report = sync(LATER)
    assert not report.of(State.FAILED)
    assert sorted(texts(workspace)) == sorted([*(t for t in before if t not in gone), *come])
    assert channel_report(report).walked.threads == threads
    assert report.tally.complete
    # And then there is nothing more to find.
    after = everything(workspace)
    report = sync(LATER)
    assert everything(workspace) == after
    assert slack.count(REPLIES) == 0
    assert report.tally.count(result=Result.DUPLICATE) == report.tally.count()


def test_deleted_text_is_gone_from_the_row(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    delete_a_line(slack)
    report = channel_report(sync(LATER))
    assert (report.walked.deleted, report.walked.updated, report.walked.new) == (1, 0, 0)
    row = general(workspace).messages.get(ts=ts(1))
    assert (row.state, row.text, row.raw, row.author) == ("deleted", "", "", None)


def test_what_is_too_old_to_be_kept_is_still_compared(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    messages = general(workspace).messages
    messages.update(state=Message.State.EXPIRED)
    sync(LATER)
    assert slack.count(REPLIES) == 0, "no thread has moved by it"
    delete_a_line(slack)
    slack.delete(GENERAL, ts(1.8))
    sync(LATER + timedelta(hours=1))
    gone = messages.filter(state=Message.State.DELETED).values_list("ts", flat=True)
    assert set(gone) == {ts(1), ts(1.8)}


@pytest.mark.parametrize(
    ("days", "found"),
    [pytest.param(29, True, id="in the hot window"), pytest.param(31, False, id="older")],
)
def test_how_far_back_replies_and_edits_are_looked_for(
    slack: FakeSlack, workspace: Workspace, sync: Sync, days: int, found: bool
) -> None:
    slack.say(GENERAL, "U1", "asked long ago", ts(days))
    sync()
    slack.say(GENERAL, "U2", "answered today", ts(0), thread=ts(days))
    sync()
    assert ("answered today" in texts(workspace)) is found


def test_a_mark_older_than_the_hot_window_is_where_it_goes_on(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """After half a year without a sync nothing of it is missing."""
    sync()
    for day in (170, 100, 40):
        slack.say(GENERAL, "U1", f"{day} days before", ts(day - 180))
    report = channel_report(sync(NOW + timedelta(days=180)))
    assert (report.walked.asked_from, report.walked.new) == (ts(1), 3)


def test_what_a_plan_hides_is_not_deleted(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    Channel.objects.update(synced_ts="")
    slack.is_limited = True
    slack.delete(GENERAL, ts(60))  # it is only hidden: the oldest one that is shown is ROOT
    delete_a_line(slack)
    report = channel_report(sync())
    assert report.walked.deleted == 1
    assert "an old line" in texts(workspace)
    assert "a new line" not in texts(workspace)


# What goes wrong


def test_a_walk_that_breaks_off_concludes_nothing_and_then_converges(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    delete_a_line(slack)
    say_more(slack)
    mark, complete = general(workspace).synced_ts, general(workspace).walked_at
    slack.page_size = 1
    # The closed channel is read after the general one.
    slack.lay(HISTORY, Fault(500), on=2, times=4)
    report = sync(LATER)
    failed = channel_report(report)
    assert failed.state is State.FAILED
    assert "500" in failed.failures[0]
    assert (general(workspace).synced_ts, general(workspace).walked_at) == (mark, complete)
    # The page that came is kept; below it nothing is concluded.
    assert texts(workspace)[-2:] == ["a new line", "one more"]
    assert failed.walked.deleted == 0
    assert channel_report(report, CLOSED).state is State.SYNCED

    sync(LATER)
    assert general(workspace).synced_ts == ts(0)
    assert general(workspace).walked_at == LATER
    assert texts(workspace)[-1] == "one more"
    assert "a new line" not in texts(workspace)


@pytest.mark.parametrize("page_size", [1, 1000])
@pytest.mark.parametrize("call", [1, 2, 3, 5])
@pytest.mark.parametrize("method", [HISTORY, REPLIES, "conversations.members"])
def test_wherever_it_stops_it_goes_on(
    slack: FakeSlack, workspace: Workspace, sync: Sync, method: str, call: int, page_size: int
) -> None:
    """Three threads; the n-th call of a method and all after it fail."""
    for n, root in enumerate((ts(5), ts(4))):
        slack.say(GENERAL, "U1", f"question {n}", root)
        slack.say(GENERAL, "U2", f"answer {n}", ts(1.5, n), thread=root)
    slack.page_size = page_size
    slack.lay(method, Fault.rate_limited(600), on=call, times=99)
    report = sync()
    assert report.tally.complete
    assert slack.too_early == []
    channel = general(workspace)
    live = channel.messages.filter(state="live")
    if channel.synced_ts:
        # Up to the mark all is here that stands in the channel itself.
        assert live.filter(Q(thread_ts="") | Q(thread_ts=F("ts"))).count() == 5
    for root in live.filter(thread_ts=F("ts"), thread_moved=False):
        # Each thread has all its replies, or is known to owe them.
        held = live.filter(thread_ts=root.ts).exclude(ts=root.ts)
        assert held.count() == len(slack.channels[GENERAL].replies_of(root.ts))
    if channel.walked_at:
        assert channel.synced_ts
        assert not live.filter(thread_moved=True).exists()
    slack.heal()
    sync()
    assert general(workspace).walked_at == NOW
    stopped = everything(workspace)
    fresh = follow(WorkspaceFactory())
    assert not sync_workspace(fresh, client_of(slack), NOW).of(State.FAILED)
    assert everything(fresh) == stopped


def test_a_thread_that_breaks_off_is_owed(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.lay(REPLIES, Fault.rate_limited(600))
    found = channel_report(sync())
    assert (found.state, found.code) == (State.LIMITED, "ratelimited")
    assert texts(workspace) == ["an old line", "shall we ship?", "a new line"]
    channel = general(workspace)
    assert (channel.synced_ts, channel.walked_at) == (ts(1), None), "known, and not complete"
    workspace.refresh_from_db()
    assert workspace.synced_at is None
    found = channel_report(sync())
    assert (found.state, found.walked.threads) == (State.SYNCED, 1)
    assert general(workspace).walked_at == NOW
    workspace.refresh_from_db()
    assert workspace.synced_at == NOW


def test_a_rate_limit_leaves_the_channel_and_says_until_when(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    before = everything(workspace)
    say_more(slack)
    slack.lay(HISTORY, Fault.rate_limited(120))
    report = sync(LATER)
    assert [one.state for one in report.channels if one.channel_id in (GENERAL, CLOSED)] == [
        State.LIMITED,
        State.LIMITED,
    ]
    for slack_id in (GENERAL, CLOSED):
        until = channel_report(report, slack_id).not_before
        assert until is not None
        assert LATER + timedelta(seconds=110) < until < LATER + timedelta(seconds=130)
        row = workspace.channels.get(slack_id=slack_id)
        assert (row.sync_code, row.sync_not_before) == ("ratelimited", until)
    assert slack.too_early == []
    assert slack.count(HISTORY) == 1
    assert everything(workspace) == before
    workspace.refresh_from_db()
    assert workspace.synced_at == NOW, "what was said since is not known"
    assert workspace.sync_again_at is not None
    assert abs((workspace.sync_again_at - LATER).total_seconds() - 120) < 10
    sync(LATER)
    assert general(workspace).sync_code == ""


def test_a_short_rate_limit_costs_one_channel_its_turn(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.lay(HISTORY, Fault.rate_limited(1), on=2)
    report = sync(client=client_of(slack, limiter=Budget(TOKEN)))
    assert channel_report(report, GENERAL).state is State.SYNCED
    assert channel_report(report, CLOSED).state is State.LIMITED
    assert [call.status for call in slack.calls if call.method == HISTORY] == [200, 429]
    # Another process knows of the limit, too, and waits that second.
    report = sync(client=client_of(slack, limiter=Budget(TOKEN)))
    assert report.channels[0].channel_id == CLOSED, "whose turn was longest ago"
    assert len(report.of(State.SYNCED)) == 2
    assert slack.too_early == []


def test_one_channel_stops_no_other(slack: FakeSlack, workspace: Workspace, sync: Sync) -> None:
    slack.lay(HISTORY, Fault.error("internal_error"))
    report = sync()
    states = {one.channel_id: one.state for one in report.channels}
    assert states == {
        GENERAL: State.FAILED,
        CLOSED: State.SYNCED,
        ELSEWHERE: State.NOT_MEMBER,
    }
    assert texts(workspace, CLOSED) == ["between us"]


def test_one_thread_stops_no_other_message(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.lay(REPLIES, Fault.error("thread_not_found"))
    found = channel_report(sync())
    assert found.state is State.FAILED
    assert ROOT in found.failures[0]
    assert texts(workspace) == ["an old line", "shall we ship?", "a new line"]
    assert channel_report(sync()).walked.new == 2


@pytest.mark.parametrize("code", ["token_revoked", "invalid_auth", "account_inactive"])
def test_a_refused_token_changes_nothing(
    slack: FakeSlack, workspace: Workspace, sync: Sync, code: str
) -> None:
    sync()
    before = everything(workspace)
    say_more(slack)
    slack.channels[CLOSED].is_private = False
    slack.token_error = code
    report = sync(LATER)
    assert report.code == code
    assert report.error
    assert report.channels == []
    assert everything(workspace) == before
    workspace.refresh_from_db()
    assert workspace.synced_at == NOW


def test_a_token_revoked_half_way_ends_the_sync(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.lay(HISTORY, Fault.error("token_revoked"), on=2)
    report = sync()
    assert report.code == "token_revoked"
    assert report.tally.complete
    assert report.tally.count(Thing.MESSAGE) == 5
    workspace.refresh_from_db()
    assert workspace.synced_at is None


def test_a_missing_scope_is_an_error_with_its_name(slack: FakeSlack, sync: Sync) -> None:
    slack.scopes.remove("channels:read")
    report = sync()
    assert report.code == "missing_scope"
    assert "channels:read" in report.error


def test_the_token_of_another_team_is_refused(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    workspace.team_id = "T0OTHER"
    workspace.save()
    report = sync()
    assert report.code == "wrong_team"
    assert slack.counts() == {"auth.test": 1}
    workspace.refresh_from_db()
    assert (workspace.team_id, workspace.connected_at) == ("T0OTHER", None)


def test_an_odd_object_in_the_walk_concludes_nothing(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    delete_a_line(slack)
    slack.say(GENERAL, "U1", "when?", ts(1, 5))
    answer = slack.answer(HISTORY, {"channel": GENERAL, "limit": "99"}, f"Bearer {TOKEN}")
    answer["messages"][0]["ts"] = None
    slack.lay(HISTORY, Fault.answer(answer))
    report = sync(LATER)
    assert report.tally.count(Thing.MESSAGE, Result.QUARANTINED) == 1
    assert channel_report(report).walked.deleted == 0
    assert "a new line" in texts(workspace)


# A well-formed page that is wrong


@pytest.mark.parametrize("times", [1, 2], ids=["one page", "of both channels"])
def test_an_empty_page_of_history_takes_nothing_that_is_there(
    slack: FakeSlack, workspace: Workspace, sync: Sync, times: int
) -> None:
    sync()
    before = everything(workspace)
    slack.lay(HISTORY, Fault.empty_page(), times=times)
    report = sync(LATER)
    assert [one.code for one in report.of(State.FAILED)] == ["malformed"] * times
    assert (slack.count(HISTORY), slack.count(REPLIES)) == (2, times)
    assert everything(workspace) == before
    say_more(slack)
    assert not sync(LATER + timedelta(hours=1)).of(State.FAILED)
    assert texts(workspace)[-1] == "one more"
    assert texts(workspace, CLOSED) == ["between us"]


@pytest.mark.parametrize("full", [False, True])
def test_a_page_that_ends_too_early_takes_nothing_that_is_there(
    slack: FakeSlack, workspace: Workspace, sync: Sync, full: bool
) -> None:
    """The second page says that nothing is below; what it hides is found where the walk goes on."""
    for n in range(4):
        slack.say(GENERAL, "U1", f"line {n}", ts(5, n))
    slack.page_size = 2
    sync()
    before = texts(workspace)
    of_general = [one["ts"] for one in slack.channels[GENERAL].standing()]
    slack.edit(GENERAL, of_general[1], "line 0, edited", ts(0))
    slack.lay(HISTORY, Fault.empty_page(), on=2)
    assert channel_report(sync(LATER, full=full)).code == "malformed"
    assert texts(workspace) == before
    assert not sync(LATER + timedelta(hours=1)).of(State.FAILED)
    assert texts(workspace) == [before[0], "line 0, edited", *before[2:]]


def test_a_channel_that_people_emptied_is_emptied_here(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """At once: for each page that takes all, Slack is asked about one of its messages."""
    sync()
    delete_a_thread(slack)
    delete_a_line(slack)
    slack.delete(CLOSED, ts(3))
    report = sync(LATER)
    assert not report.of(State.FAILED)
    assert texts(workspace) == ["an old line"]
    assert texts(workspace, CLOSED) == []
    asked = [call.params["ts"] for call in slack.calls if call.method == REPLIES]
    assert len(asked) == 3, "a witness of each channel, and the thread"
    sync(LATER + timedelta(hours=1))
    assert slack.count(REPLIES) == 0


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault.empty_page(), id="an empty page again"),
        pytest.param(Fault.error("internal_error"), id="trouble of Slack's"),
        pytest.param(Fault.rate_limited(60), id="no call left"),
    ],
)
def test_without_a_word_about_the_witness_nothing_is_concluded(
    slack: FakeSlack, workspace: Workspace, sync: Sync, fault: Fault
) -> None:
    sync()
    before = texts(workspace)
    delete_a_thread(slack)
    delete_a_line(slack)
    slack.lay(REPLIES, fault)
    sync(LATER)
    assert texts(workspace) == before
    sync(LATER + timedelta(hours=1))
    assert texts(workspace) == ["an old line"]


def test_a_thread_without_its_root_is_owed(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    before = texts(workspace)
    reply_late(slack)
    slack.lay(REPLIES, Fault.empty_page())
    found = channel_report(sync(LATER))
    assert found.state is State.FAILED
    assert ROOT in found.failures[0]
    assert texts(workspace) == before
    assert not sync(LATER + timedelta(hours=1)).of(State.FAILED)
    assert texts(workspace) == [*before, "a late answer"]


def test_a_thread_without_its_root_is_owed_by_the_ring(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """Its next turn would be a month later."""
    sync()
    slack.edit(GENERAL, ts(1.8), "on Monday", ts(0))
    slack.lay(REPLIES, Fault.empty_page(), times=2)
    sync(LATER, full=True)
    slack.heal()
    assert general(workspace).messages.owing_replies().count() == 1
    assert "on Friday" in texts(workspace)
    sync(LATER + timedelta(hours=1))
    assert "on Monday" in texts(workspace)
    assert not general(workspace).messages.owing_replies().exists()


def test_one_at_a_time(workspace: Workspace, sync: Sync) -> None:
    with being_stored(workspace), pytest.raises(Busy):
        sync()


def test_no_call_is_made_inside_a_transaction(
    slack: FakeSlack, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = SlackClient._call
    depths = []

    def spy(self: SlackClient, method: str, asked: dict[str, str]) -> dict[str, Any]:
        depths.append(len(connection.savepoint_ids))
        return call(self, method, asked)

    monkeypatch.setattr(SlackClient, "_call", spy)
    outside = len(connection.savepoint_ids)
    sync_workspace(workspace, client_of(slack), NOW)
    assert set(depths) == {outside}


def test_when_time_is_up_the_next_sync_goes_on(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    report = sync(seconds=-1)
    assert {one.channel_id for one in report.of(State.UNFINISHED)} == {GENERAL, CLOSED}
    assert slack.count(HISTORY) == 0
    workspace.refresh_from_db()
    assert workspace.synced_at is None, "what was not read is not known"
    assert len(sync().of(State.SYNCED)) == 2


def test_the_channel_read_longest_ago_comes_first(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync(channels=["general"])
    assert [one.channel_id for one in sync(LATER).of(State.SYNCED)] == [CLOSED, GENERAL]


# Who may know what


@pytest.fixture
def ann(workspace: Workspace) -> Reader:
    """A user linked to a member of the private channel."""
    user = UserFactory()
    PersonFactory(workspace=workspace, slack_id="U1", name="ann", user=user)
    return Reader.of(user, now=NOW)


def sees(reader: Reader, slack_id: str) -> bool:
    return Channel.objects.visible_to(reader).filter(slack_id=slack_id).exists()


def test_members_follow_slack(
    slack: FakeSlack, workspace: Workspace, sync: Sync, ann: Reader
) -> None:
    sync()
    assert sees(ann, CLOSED)
    slack.channels[CLOSED].members = ["U2", "U3"]
    sync(LATER - timedelta(minutes=1))
    assert slack.count("conversations.members") == 0, "an hour is soon enough"
    sync(LATER)
    assert not sees(ann, CLOSED)
    assert members(workspace.channels.get(slack_id=CLOSED)) == ["U2", "U3"]


def test_a_list_asked_for_before_somebody_left_lets_nobody_in(
    slack: FakeSlack, workspace: Workspace, sync: Sync, ann: Reader
) -> None:
    sync()
    closed = workspace.channels.get(slack_id=CLOSED)
    closed.read_members_again(LATER + timedelta(seconds=1))  # an event, while the sync goes on
    closed.memberships.filter(person__slack_id="U1").delete()
    slack.channels[CLOSED].members = ["U1", "U2", "U3"]
    sync(LATER)
    assert not sees(ann, CLOSED)
    assert members(closed) == ["U2"]
    slack.channels[CLOSED].members = ["U2", "U3"]
    sync(LATER + timedelta(minutes=1))
    assert members(closed) == ["U2", "U3"], "asked again at once"


def test_members_that_no_list_knows_are_placeholders(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.channels[CLOSED].members.append("W9")
    sync()
    assert members(workspace.channels.get(slack_id=CLOSED)) == ["U1", "U2", "W9"]
    assert workspace.people.get(slack_id="W9").is_placeholder


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(500), id="500"),
        pytest.param(Fault.dropped(), id="dropped"),
        pytest.param(Fault.rate_limited(60), id="rate limit"),
        pytest.param(Fault.error("fetch_members_failed"), id="an error of Slack"),
        pytest.param(Fault(200, '{"ok": true}'), id="no list"),
    ],
)
@pytest.mark.parametrize("page", [1, 2])
def test_members_stay_as_they_were_when_their_walk_breaks_off(
    slack: FakeSlack, workspace: Workspace, sync: Sync, ann: Reader, fault: Fault, page: int
) -> None:
    sync()
    slack.page_size = 1
    slack.channels[CLOSED].members = ["U3"]
    say_more(slack)
    slack.lay("conversations.members", fault, on=3 + page, times=4)  # after those of general
    slack.channels[CLOSED].members = ["U3", "U2"]
    report = sync(LATER)
    closed = workspace.channels.get(slack_id=CLOSED)
    assert channel_report(report, CLOSED).state in (State.FAILED, State.LIMITED)
    assert (members(closed), closed.members_known_at) == (["U1", "U2"], NOW)
    assert texts(workspace)[-1] == "one more"
    # A day later the old list no longer opens anything.
    day_after = Reader(ann.user_id, now=NOW + timedelta(hours=25))
    assert not sees(day_after, CLOSED)


@pytest.mark.parametrize("bot_is_in", [True, False], ids=["with the bot", "without the bot"])
def test_public_to_private_hides_at_once(
    slack: FakeSlack, workspace: Workspace, sync: Sync, bot_is_in: bool
) -> None:
    sync()
    everybody = Reader.public(now=NOW)
    assert sees(everybody, GENERAL)
    slack.channels[GENERAL].is_private = True
    slack.channels[GENERAL].bot_is_in = bot_is_in
    report = sync()
    assert not sees(everybody, GENERAL)
    assert general(workspace).kind == "private"
    hidden = [one.channel_id for one in report.of(State.HIDDEN)]
    assert hidden == ([] if bot_is_in else [GENERAL])


def test_private_to_public_follows_slack(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    slack.channels[CLOSED].is_private = False
    sync()
    assert workspace.channels.get(slack_id=CLOSED).kind == "public"


def test_a_list_of_channels_that_breaks_off_hides_and_opens_nothing(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    before = everything(workspace)
    slack.channels[CLOSED].is_private = False
    slack.page_size = 1
    slack.lay("conversations.list", Fault(503), on=3, times=4)
    assert sync(LATER).code == "unreachable"
    assert everything(workspace) == before


@pytest.mark.parametrize("left", [[], ["U1"]], ids=["empty", "cut"])
def test_whom_a_whole_list_of_people_leaves_out_is_a_guest_until_it_names_them(
    slack: FakeSlack, workspace: Workspace, sync: Sync, left: list[str]
) -> None:
    """A channel that opens meanwhile is not opened to them."""
    slack.channels[CLOSED].members = ["U1"]
    sync()
    everybody = dict(slack.users)
    ben = UserFactory()
    workspace.people.filter(slack_id="U2").update(user=ben)
    assert sees(Reader.of(ben, NOW), GENERAL)
    slack.users = {slack_id: everybody[slack_id] for slack_id in left}
    slack.channels[CLOSED].is_private = False
    assert sync().code == ""
    assert not sees(Reader.of(ben, NOW), CLOSED)
    assert sees(Reader.of(ben, NOW), GENERAL)  # as guests do: they are in it
    slack.users = everybody
    sync()
    assert workspace.people.full().filter(slack_id__in=everybody).count() == 3
    assert sees(Reader.of(ben, NOW), CLOSED)


# Only some channels


@pytest.mark.parametrize("name", ["closed", "#closed", CLOSED])
def test_only_the_channel_asked_for(
    slack: FakeSlack, workspace: Workspace, sync: Sync, name: str
) -> None:
    report = sync(channels=[name])
    assert [one.channel_id for one in report.channels] == [CLOSED]
    assert slack.count(HISTORY) == 1
    workspace.refresh_from_db()
    assert workspace.synced_at is None


def test_an_unknown_channel_is_an_error(slack: FakeSlack, sync: Sync) -> None:
    report = sync(channels=["general", "nowhere"])
    assert report.code == "unknown_channel"
    assert "nowhere" in report.error
    assert slack.count(HISTORY) == 0


@pytest.mark.parametrize("name", ["closed", "#closed", CLOSED])
def test_whoever_names_a_channel_follows_it(slack: FakeSlack, name: str) -> None:
    workspace = WorkspaceFactory()
    report = sync_workspace(workspace, client_of(slack), NOW, channels=[name])
    assert [one.channel_id for one in report.channels] == [CLOSED]
    assert [row.slack_id for row in workspace.channels.followed()] == [CLOSED]
    assert AuditEvent.objects.filter(action="channel_follow").count() == 1
    slack.forget_calls()
    assert len(sync_workspace(workspace, client_of(slack), LATER).channels) == 1


def test_what_nobody_chose_is_known_by_name_and_not_read(slack: FakeSlack) -> None:
    workspace = WorkspaceFactory()
    report = sync_workspace(workspace, client_of(slack), NOW)
    assert (report.channels, report.not_followed) == ([], 2)
    rows = workspace.channels.order_by("slack_id").values_list("name", "bot_is_in", "is_followed")
    assert list(rows) == [("general", True, False), ("elsewhere", False, False)]
    assert slack.counts() == {"auth.test": 1, "users.list": 1, "conversations.list": 1}
    assert not Message.objects.exists()


@pytest.mark.parametrize("switched_on", [False, True])
def test_private_channels_are_listed_only_where_they_are_wanted(
    slack: FakeSlack, switched_on: bool
) -> None:
    workspace = WorkspaceFactory(settings={"read_private_channels": switched_on})
    sync_workspace(workspace, client_of(slack), NOW)
    assert workspace.channels.filter(slack_id=CLOSED).exists() is switched_on


def test_switched_off_a_private_channel_is_read_no_further(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    workspace.change_settings({"read_private_channels": False})
    slack.say(CLOSED, "U2", "not for you", ts(0.5))
    slack.leave(CLOSED, "U2")
    report = channel_report(sync(LATER, full=True), CLOSED)
    assert (report.state, report.walked.pages) == (State.SWITCHED_OFF, 0)
    assert report.coverage is not None and report.coverage.code == "switched_off"
    closed = workspace.channels.get(slack_id=CLOSED)
    assert not closed.messages.filter(text="not for you").exists()
    assert [one.person.slack_id for one in closed.memberships.all()] == ["U1"]
    assert workspace.synced_at == LATER, "it holds up nobody"
    workspace.change_settings({"read_private_channels": True})
    sync(LATER + timedelta(hours=1))
    assert closed.messages.filter(text="not for you").exists()


def test_without_the_scope_of_private_channels_the_public_ones_are_read(slack: FakeSlack) -> None:
    slack.scopes -= {"groups:read", "groups:history"}
    workspace = WorkspaceFactory()
    report = sync_workspace(workspace, client_of(slack), NOW, channels=["general"])
    assert (report.error, channel_report(report).state) == ("", State.SYNCED)
    workspace.change_settings({"read_private_channels": True})
    assert sync_workspace(workspace, client_of(slack), NOW).code == "missing_scope"


def test_where_the_bot_is_follows_slack(slack: FakeSlack, workspace: Workspace, sync: Sync) -> None:
    sync()
    slack.remove_bot(GENERAL)
    report = sync(LATER)
    assert channel_report(report).state is State.NOT_MEMBER
    found = channel_report(report).coverage
    assert found is not None and found.code == "not_in_channel"
    slack.invite_bot(GENERAL)
    assert channel_report(sync(LATER)).state is State.SYNCED
    assert general(workspace).sync_code == ""


# A walk of many runs


class OfCalls:
    """A limiter of so many calls of history and replies each, whose clock stands still."""

    def __init__(self, calls: int) -> None:
        self.left = {HISTORY: calls, REPLIES: calls}

    def take(self, method: str, *, slow: bool = False) -> float:
        if self.left.get(method, 1) == 0:
            return 60.0
        if method in self.left:
            self.left[method] -= 1
        return 0.0

    def limited(self, method: str, seconds: float) -> None:
        self.left[method] = 0


def test_a_walk_goes_on_from_its_place(slack: FakeSlack, workspace: Workspace, sync: Sync) -> None:
    """One call of history and one of replies in each run."""
    workspace.channels.get(slack_id=CLOSED).follow(by=None, on=False)
    slack.page_size = 1
    seen = []
    for run in range(4):
        report = channel_report(sync(client=client_of(slack, limiter=OfCalls(1)), goes_on=run > 0))
        row = general(workspace)
        seen.append((report.state.value, row.walk_at_ts, row.synced_ts, row.walked_at))
        assert slack.count(HISTORY) <= 1
    assert seen == [
        ("limited", ts(1), "", None),
        ("limited", ROOT, "", None),
        ("synced", "", ts(1), NOW),  # the thread, too: its second reply came with this run
        ("synced", "", ts(1), NOW),  # a walk of minutes ago is as good as one now
    ]
    assert slack.count(HISTORY) == 0
    assert slack.count("users.list") == 0, "who is there was listed a moment ago"
    assert texts(workspace) == ["an old line", "shall we ship?", "yes", "on Friday", "a new line"]
    # All that is said meanwhile is found by the next one.
    say_more(slack)
    sync()
    assert texts(workspace)[-1] == "one more"


def test_a_gap_shows_while_a_walk_is_under_way(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    slack.page_size = 1
    found = channel_report(sync(client=client_of(slack, limiter=OfCalls(2)))).coverage
    assert found is not None
    at = from_micros(micros(ROOT))
    assert (found.begin, found.end, found.behind) == (at, from_micros(micros(ts(1))), None)
    assert found.gaps == (Gap(None, at),)
    assert found.code == "ratelimited"
    sync()
    whole = coverage_of(general(workspace), NOW + timedelta(minutes=3))
    assert (whole.begin, whole.gaps, whole.behind, whole.code) == (None, (), 180, "")


@pytest.mark.parametrize("page_size", [1, 2])
def test_what_is_deleted_while_a_walk_is_under_way_is_found(
    slack: FakeSlack, workspace: Workspace, sync: Sync, page_size: int
) -> None:
    sync()
    slack.page_size = page_size
    for n in range(4):
        slack.say(GENERAL, "U1", f"said {n}", ts(0.5, n))
    sync(client=client_of(slack, limiter=OfCalls(1)))  # down to said 3 or 2
    slack.delete(GENERAL, ts(0.5, 3))
    slack.delete(GENERAL, ts(0.5, 0))
    delete_a_line(slack)
    while channel_report(sync(client=client_of(slack, limiter=OfCalls(1)))).walked.pages == 0:
        pass
    sync(LATER)
    assert texts(workspace)[-2:] == ["said 1", "said 2"]
    assert "a new line" not in texts(workspace)


def test_a_message_that_an_event_brought_meanwhile_is_not_gone(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """It is stored after Slack was asked, and stands on no page."""
    sync()
    client = client_of(slack)
    history = client.history

    def and_meanwhile(*asked: str) -> Iterator[Any]:
        for page in history(*asked):
            raw = {"type": "message", "user": "U1", "text": "just now", "ts": ts(0.1)}
            store_messages(general(workspace), [raw], NOW, live=True)
            yield page

    client.history = and_meanwhile  # type: ignore[method-assign]
    report = channel_report(sync(client=client))
    assert report.walked.deleted == 0
    assert texts(workspace)[-1] == "just now"
    # Slack does not have it after all.
    assert channel_report(sync()).walked.deleted == 1


# Rings


def test_each_week_every_message_of_the_channel_is_compared(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    slack.edit(GENERAL, ts(60), "an old line, and edited", ts(0))
    sync(NOW + timedelta(days=6))
    assert "an old line" in texts(workspace)
    sync(NOW + timedelta(days=7))
    assert slack.count(HISTORY) == 2, "in one page with what is new"
    assert "an old line, and edited" in texts(workspace)
    assert general(workspace).swept_at == NOW + timedelta(days=7)


def test_a_sweep_of_many_runs_leaves_what_is_new_its_turn(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    workspace.channels.get(slack_id=CLOSED).follow(by=None, on=False)
    for n in range(6):
        slack.say(GENERAL, "U1", f"long ago {n}", ts(100, n))
    sync()
    slack.page_size = 2
    slack.delete(GENERAL, ts(100, 2))
    begin = NOW + timedelta(days=8)
    for run in range(20):
        now = begin + timedelta(minutes=run)
        slack.say(GENERAL, "U2", f"new {run}", ts_at(now))
        sync(now, client=client_of(slack, limiter=OfCalls(3)))
        assert texts(workspace)[-1] == f"new {run}"
        if general(workspace).swept_at != NOW:
            break
    assert general(workspace).sweep_at_ts == ""
    assert "long ago 2" not in texts(workspace)
    assert "long ago 1" in texts(workspace)


def test_each_thread_is_read_once_in_a_ring(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """Forty threads in thirty days, and never many at a time."""
    for n in range(39):
        slack.say(GENERAL, "U1", f"question {n}", ts(50, n))
        slack.say(GENERAL, "U2", f"answer {n}", ts(49, n), thread=ts(50, n))
    sync()
    read: list[str] = []
    for n in range(39):
        slack.edit(GENERAL, ts(49, n), f"answer {n}, edited", ts(0))
    slack.edit(GENERAL, ts(1.8), "on Monday", ts(0))
    for hours in range(12, 30 * 24 + 1, 12):
        sync(NOW + timedelta(hours=hours))
        asked = [call.params["ts"] for call in slack.calls if call.method == REPLIES]
        assert len(asked) <= 1
        read += asked
    assert len(read) >= 40
    assert len(set(read[:40])) == 40
    live = general(workspace).messages.filter(state="live")
    assert live.filter(text__endswith=", edited").count() == 39
    assert live.filter(text="on Monday").exists()


def test_a_full_sync_reads_all_of_it_once(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    sync()
    slack.edit(GENERAL, ts(60), "an old line, and edited", ts(0))
    slack.edit(GENERAL, ts(1.8), "on Monday", ts(0))
    sync(LATER, full=True)
    assert (slack.count(HISTORY), slack.count(REPLIES)) == (2, 1)
    assert "an old line, and edited" in texts(workspace)
    assert "on Monday" in texts(workspace)


def test_a_long_thread_is_read_in_many_runs(
    slack: FakeSlack, workspace: Workspace, sync: Sync
) -> None:
    """A page a run, of two replies; more is said and deleted meanwhile."""
    for n in range(7):
        slack.say(GENERAL, "U2", f"and {n}", ts(1.5, n), thread=ROOT)
    slack.page_size = 2
    for run in range(9):
        sync(client=client_of(slack, limiter=OfCalls(2 if run else 9)))
        if run == 2:
            slack.delete(GENERAL, ts(1.9))
            slack.say(GENERAL, "U3", "late", ts(0.1), thread=ROOT)
    sync()
    thread = general(workspace).messages.filter(thread_ts=ROOT, state="live").in_order()
    assert list(thread.values_list("text", flat=True)) == [
        *("shall we ship?", "on Friday"),
        *(f"and {n}" for n in range(7)),
        "late",
    ]


# The slow plan and the budget


def test_the_slow_plan_is_noticed_and_kept(slack: FakeSlack, workspace: Workspace) -> None:
    for n in range(40):
        slack.say(GENERAL, "U1", f"line {n}", ts(3, n))
    slack.slow_plan = True
    slack.budgets.calls.update({HISTORY: 1, REPLIES: 1})
    report = sync_workspace(workspace, client_of(slack, limiter=Budget(TOKEN)), NOW)
    assert report.slow_plan
    assert channel_report(report).state is State.LIMITED
    assert SlackConnection.objects.get(workspace=workspace).slow_plan
    assert Message.objects.filter(text__startswith="line").count() > 0


@pytest.mark.parametrize(
    ("code", "state"), [("token_revoked", "revoked"), ("account_inactive", "uninstalled")]
)
def test_a_token_that_is_gone_stops_the_sync(
    slack: FakeSlack, workspace: Workspace, sync: Sync, code: str, state: str
) -> None:
    sync()
    slack.token_error = code
    assert sync(LATER).code == code
    connection = SlackConnection.objects.get(workspace=workspace)
    assert connection.state == state
    assert code in connection.trouble


def test_nothing_is_remembered_of_a_channel_in_its_first_walk() -> None:
    """Its newest messages are here, older ones are not: any cut would be a guess."""
    channel = ChannelFactory(synced_ts="", walk_top_ts="1767603600.000100")
    channel.remember_from(to_micros(MONDAY))
    MessageFactory(channel=channel, at=MONDAY, text="hello")
    late = to_micros(MONDAY + timedelta(days=1))
    assert channels_to_plan(channel.workspace, late) == []
    channel.describe({"synced_ts": "1767603600.000100", "walk_top_ts": ""})
    assert channels_to_plan(channel.workspace, late) == [channel]
