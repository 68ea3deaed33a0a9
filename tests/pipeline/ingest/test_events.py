"""What Slack tells, worked on: once, in any order, and never widening who may read."""

import itertools
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memories.models import (
    Channel,
    JobInput,
    Memory,
    Message,
    Person,
    SlackConnection,
    SlackEvent,
    Workspace,
)
from memories.pipeline.ingest.events import (
    process_event,
    process_events,
    prune,
    store_payload,
    workspaces_with_events,
)
from memories.pipeline.ingest.roster import demote_unlisted_people, store_channels
from memories.rules.ingest.events import MAX_ATTEMPTS
from tests.factories import (
    ChannelFactory,
    MessageFactory,
    PersonFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_segment,
    make_workspace_memory,
    ts_at,
)

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.postgres("events are stored by conditional inserts"),
]

STATE = SlackEvent.State
LIVE = Message.State.LIVE
DELETED = Message.State.DELETED
NOW = timezone.now()
numbers = itertools.count(1)


def ts(minutes_ago: float) -> str:
    return ts_at(NOW - timedelta(minutes=minutes_ago))


@pytest.fixture
def team() -> Workspace:
    workspace: Workspace = WorkspaceFactory(team_id="T0TEAM", connected_at=NOW)
    return workspace


@pytest.fixture
def mika(team: Workspace) -> Person:
    person: Person = PersonFactory(workspace=team, slack_id="U1", name="mika")
    return person


@pytest.fixture
def channel(team: Workspace, mika: Person) -> Channel:
    made: Channel = ChannelFactory(
        workspace=team, slack_id="C0OPEN", name="launch", is_followed=True, members=[mika]
    )
    return made


def tell(event: dict[str, Any], *, at: Any = NOW, **more: Any) -> SlackEvent:
    """As it comes in; the row that is kept."""
    known = f"Ev{next(numbers)}"
    store_payload(
        {
            "type": "event_callback",
            "team_id": "T0TEAM",
            "event_id": known,
            "event_time": int(at.timestamp()),
            "event": event,
            **more,
        }
    )
    return SlackEvent.objects.get(event_id=known)


def work(event: dict[str, Any], **more: Any) -> SlackEvent:
    row = tell(event, **more)
    if row.state == STATE.WAITING:
        assert process_event(row, timezone.now())
    row.refresh_from_db()
    return row


def said(minutes_ago: float, text: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "channel": "C0OPEN",
        "channel_type": "channel",
        "user": "U1",
        "ts": ts(minutes_ago),
        "event_ts": ts(minutes_ago),
        "text": text,
        **more,
    }


def edited(minutes_ago: float, text: str, edited_ago: float, **more: Any) -> dict[str, Any]:
    message = {"type": "message", "user": "U1", "ts": ts(minutes_ago), "text": text, **more}
    message["edited"] = {"user": "U1", "ts": ts(edited_ago)}
    return said(edited_ago, "", subtype="message_changed", message=message)


def deleted(minutes_ago: float, at: float = 0) -> dict[str, Any]:
    return said(at, "", subtype="message_deleted", deleted_ts=ts(minutes_ago))


def texts(channel: Channel) -> list[tuple[str, str]]:
    return list(channel.messages.in_order().values_list("text", "state"))


class TestMessages:
    def test_one(self, channel: Channel, mika: Person) -> None:
        event = work(said(5, "we launch on friday"))
        assert (event.state, event.reason, event.body) == (STATE.DONE, "", "")
        message = channel.messages.get()
        assert (message.text, message.author, message.ts) == ("we launch on friday", mika, ts(5))
        assert set(json.loads(message.raw)) == {"type", "user", "ts", "text"}

    @pytest.mark.slow
    @pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
    def test_any_order_ends_the_same(self, channel: Channel, order: tuple[int, ...]) -> None:
        """Edits before the message, an older edit after a newer one."""
        events = [said(9, "a"), edited(9, "b", 7), edited(9, "c", 6), said(9, "a")]
        for position in order:
            work(events[position])
        assert texts(channel) == [("c", LIVE)]

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_a_deletion_stays(self, channel: Channel, order: tuple[int, ...]) -> None:
        events = [said(9, "a"), edited(9, "b", 7), deleted(9)]
        for position in order:
            work(events[position])
        assert texts(channel) == [("", DELETED)]
        assert not channel.messages.get().raw

    def test_told_twice_under_another_id(self, channel: Channel) -> None:
        for _ in range(3):
            assert work(said(5, "once")).state == STATE.DONE
        assert texts(channel) == [("once", LIVE)]

    def test_an_edit_marks_what_rests_on_it(self, channel: Channel) -> None:
        message = MessageFactory(channel=channel, ts=ts(60), text="on friday")
        segment = make_segment(messages=[message])
        work(edited(60, "on monday", 5))
        segment.refresh_from_db()
        assert segment.stale

    def test_a_reply_to_a_root_that_nobody_has_seen(self, channel: Channel) -> None:
        work(said(5, "agreed", thread_ts=ts(50_000)))
        root, reply = channel.messages.in_order()
        assert (root.ts, root.state) == (ts(50_000), Message.State.MISSING)
        assert (reply.thread_ts, reply.text) == (root.ts, "agreed")

    def test_a_broadcast_is_one_message_in_its_thread(self, channel: Channel) -> None:
        work(said(9, "root"))
        work(said(5, "also here", subtype="thread_broadcast", thread_ts=ts(9)))
        reply = channel.messages.get(ts=ts(5))
        assert (reply.broadcast, reply.thread_ts) == (True, ts(9))

    def test_a_deleted_root_keeps_its_replies(self, channel: Channel) -> None:
        work(said(9, "root"))
        work(said(5, "reply", thread_ts=ts(9)))
        tombstone = {"type": "message", "subtype": "tombstone", "ts": ts(9), "thread_ts": ts(9)}
        work(said(1, "", subtype="message_changed", message={**tombstone, "reply_count": 1}))
        assert texts(channel) == [("", DELETED), ("reply", LIVE)]

    def test_a_notice(self, channel: Channel) -> None:
        work(said(5, "joined", subtype="channel_join"))
        assert channel.messages.get().is_notice

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("event", "reason"),
        [
            (said(5, "x", channel="C0OTHER"), "channel is not known"),
            ({**said(5, "x"), "ts": "soon"}, "ts is not a number"),
            ({**said(5, "x"), "ts": None}, "no ts"),
            (said(5, "x", subtype="message_changed"), "a change without its message"),
            (said(5, "x", subtype="message_replied"), "reply notice"),
            (said(5, "x", channel="D1"), "direct messages"),
        ],
    )
    def test_what_is_left_out(self, channel: Channel, event: dict[str, Any], reason: str) -> None:
        row = work(event)
        assert (row.state, row.reason, row.body) == (STATE.SKIPPED, reason, "")
        assert not Message.objects.exists()

    @pytest.mark.parametrize("why", ["not chosen", "forgotten", "of another team"])
    def test_only_what_is_followed(self, channel: Channel, why: str) -> None:
        if why == "of another team":
            Workspace.objects.update(team_id="T9")
            WorkspaceFactory(team_id="T0TEAM")
        else:
            Channel.objects.update(
                is_followed=why != "not chosen", forgotten_at=NOW if why == "forgotten" else None
            )
        row = work(said(5, "not for us"))
        assert (row.state, row.body) == (STATE.SKIPPED, "")
        assert not Message.objects.exists()

    def test_a_deletion_reaches_what_is_no_longer_followed(self, channel: Channel) -> None:
        MessageFactory(channel=channel, ts=ts(60), text="please forget this")
        Channel.objects.update(is_followed=False)
        work(edited(60, "not read any more", 5))
        assert texts(channel) == [("please forget this", LIVE)]
        assert work(deleted(60)).state == STATE.DONE
        assert texts(channel) == [("", DELETED)]

    def test_two_workspaces_of_one_team(self, channel: Channel) -> None:
        other = ChannelFactory(
            workspace=WorkspaceFactory(team_id="T0TEAM"), slack_id="C0OPEN", is_followed=True
        )
        work(said(5, "both"))
        assert texts(channel) == texts(other) == [("both", LIVE)]


class TestAudience:
    @pytest.mark.parametrize(
        "event",
        [
            {"type": "channel_convert_to_private", "channel": "C0OPEN"},
            said(1, "made private", subtype="channel_convert_to_private"),
            said(1, "a secret", channel_type="group"),
            {"type": "channel_deleted", "channel": "C0OPEN"},
        ],
        ids=["told", "notice", "a message of a group", "deleted"],
    )
    @pytest.mark.parametrize("followed", [True, False])
    def test_turned_private_hides_at_once(
        self, channel: Channel, event: dict[str, Any], followed: bool
    ) -> None:
        Channel.objects.update(is_followed=followed)
        workspace_memory = self.rests_on(channel)
        work(event)
        channel.refresh_from_db()
        assert channel.kind == Channel.Kind.PRIVATE
        workspace_memory.refresh_from_db()
        assert workspace_memory.current is None

    def rests_on(self, channel: Channel) -> Memory:
        """The workspace's memory, made of this channel's."""
        source = make_channel_memory(channel=channel)
        memory = make_workspace_memory(workspace=channel.workspace)
        job = memory.jobs.create(as_of_us=0, input_key="k", state="done")
        JobInput.objects.create(job=job, version=source.current, revision=1)
        memory.versions.update(job=job)
        memory.refresh_from_db()
        assert memory.current is not None
        return memory

    def test_shared_with_another_organisation(self, channel: Channel) -> None:
        memory = self.rests_on(channel)
        work({"type": "channel_shared", "channel": "C0OPEN", "connected_team_id": "T9"})
        channel.refresh_from_db()
        memory.refresh_from_db()
        assert (channel.is_shared, memory.current) == (True, None)

    @pytest.mark.parametrize(
        "event",
        [
            {"type": "channel_created", "channel": {"id": "C0OPEN", "name": "launch"}},
            {
                "type": "channel_created",
                "channel": {"id": "C0OPEN", "name": "launch", "is_private": False},
            },
            said(1, "", subtype="channel_convert_to_public"),
            said(1, "hello"),
            {"type": "channel_unshared", "channel": "C0OPEN", "is_ext_shared": False},
            {"type": "channel_unarchive", "channel": "C0OPEN"},
        ],
    )
    def test_nothing_widens(self, channel: Channel, event: dict[str, Any]) -> None:
        Channel.objects.update(kind=Channel.Kind.PRIVATE, is_shared=True)
        work(event)
        channel.refresh_from_db()
        assert (channel.kind, channel.is_shared) == (Channel.Kind.PRIVATE, True)

    @pytest.mark.parametrize("asked_s_later", [-1, 1])
    def test_a_list_that_slack_gave_before_does_not_widen_it_again(
        self, channel: Channel, asked_s_later: int
    ) -> None:
        work({"type": "channel_convert_to_private", "channel": "C0OPEN"})
        work({"type": "channel_shared", "channel": "C0OPEN"})
        asked_at = timezone.now() + timedelta(seconds=asked_s_later)
        Channel.objects.update(members_known_at=None)
        raw = {"id": "C0OPEN", "name": "launch", "is_private": False, "is_ext_shared": False}
        store_channels(channel.workspace, [(raw, "public")], known_at=asked_at, live=True)
        channel.refresh_from_db()
        narrow = (Channel.Kind.PRIVATE, True)
        found = (channel.kind, channel.is_shared)
        assert found == (narrow if asked_s_later < 0 else (Channel.Kind.PUBLIC, False))

    def test_who_left_reads_no_more(self, channel: Channel, mika: Person) -> None:
        work({"type": "member_left_channel", "channel": "C0OPEN", "user": "U1"})
        assert not channel.memberships.exists()
        channel.refresh_from_db()
        assert channel.members_known_at is not None and channel.have_members_changed

    def test_who_joined_waits_for_the_next_sync(self, channel: Channel, mika: Person) -> None:
        PersonFactory(workspace=channel.workspace, slack_id="U2")
        work({"type": "member_joined_channel", "channel": "C0OPEN", "user": "U2"})
        assert list(channel.memberships.values_list("person", flat=True)) == [mika.pk]
        assert not channel.have_members_changed
        channel.refresh_from_db()
        assert channel.have_members_changed
        channel.set_members_known(timezone.now())
        assert not channel.have_members_changed

    @pytest.mark.parametrize("kind", [Channel.Kind.PUBLIC, Channel.Kind.PRIVATE])
    def test_the_bot_comes_and_goes(self, channel: Channel, kind: str) -> None:
        Channel.objects.update(kind=kind)
        bot = {"authorizations": [{"team_id": "T0TEAM", "user_id": "U0BOT", "is_bot": True}]}
        work({"type": "member_joined_channel", "channel": "C0OPEN", "user": "U0BOT"}, **bot)
        channel.refresh_from_db()
        assert channel.bot_is_in and channel.members_known_at
        work({"type": "member_left_channel", "channel": "C0OPEN", "user": "U0BOT"}, **bot)
        channel.refresh_from_db()
        assert not channel.bot_is_in
        # Nobody tells any more who leaves a private one.
        assert (channel.members_known_at is None) is (kind == Channel.Kind.PRIVATE)

    def test_a_guest_is_one_at_once(self, team: Workspace, mika: Person) -> None:
        work({"type": "user_change", "user": {"id": "U1", "name": "mika", "is_restricted": True}})
        mika.refresh_from_db()
        assert mika.is_guest

    def test_a_new_person_waits_for_the_next_list(self, team: Workspace) -> None:
        work({"type": "team_join", "user": {"id": "U7", "profile": {"display_name": "aya"}}})
        made = team.people.get(slack_id="U7")
        assert (made.name, made.is_placeholder) == ("aya", True)

    def test_whom_the_list_left_out_is_not_named_by_an_event(
        self, team: Workspace, mika: Person
    ) -> None:
        demote_unlisted_people(team, ())
        work({"type": "user_change", "user": {"id": "U1", "name": "mika", "updated": 5}})
        mika.refresh_from_db()
        assert (mika.updated, mika.is_placeholder) == (5, True)


class TestChannels:
    def test_renamed_and_archived(self, channel: Channel) -> None:
        work({"type": "channel_rename", "channel": {"id": "C0OPEN", "name": "start"}})
        work({"type": "channel_archive", "channel": "C0OPEN", "user": "U1"})
        channel.refresh_from_db()
        assert (channel.name, channel.is_archived) == ("start", True)
        work({"type": "channel_unarchive", "channel": "C0OPEN", "user": "U1"})
        channel.refresh_from_db()
        assert not channel.is_archived

    @pytest.mark.parametrize("raw", [{"is_private": False}, {}, {"is_private": True}])
    def test_a_new_one_is_not_followed_and_opens_with_the_next_list(
        self, team: Workspace, raw: dict[str, Any]
    ) -> None:
        work({"type": "channel_created", "channel": {"id": "C0NEW", "name": "new", **raw}})
        made = team.channels.get(slack_id="C0NEW")
        assert (made.name, made.kind, made.is_followed) == ("new", "private", False)

    def test_a_known_one_is_not_described_again(self, channel: Channel) -> None:
        Channel.objects.update(topic="what we launch", is_archived=True)
        event = {"type": "channel_created", "channel": {"id": "C0OPEN", "name": "x"}}
        assert work(event).reason == "channel is known"
        channel.refresh_from_db()
        assert (channel.name, channel.topic, channel.is_archived) == (
            *("launch", "what we launch"),
            True,
        )


class TestToken:
    @pytest.mark.parametrize(
        ("event", "state"),
        [
            ({"type": "app_uninstalled"}, "uninstalled"),
            ({"type": "tokens_revoked", "tokens": {"bot": ["U0BOT"]}}, "revoked"),
        ],
    )
    @pytest.mark.parametrize("of_environment", [True, False])
    def test_it_stops(
        self,
        team: Workspace,
        settings: Any,
        event: dict[str, Any],
        state: str,
        of_environment: bool,
    ) -> None:
        if of_environment:
            settings.SLACK_BOT_TOKEN = "xoxb-1-abcd"
        else:
            SlackConnection.objects.of(team).set_token("xoxb-1-abcd", by=None)
        assert work(event).state == STATE.DONE
        held = SlackConnection.objects.get(workspace=team)
        assert (held.state, held.token_end) == (state, "abcd")
        held.use_environment_token("xoxb-1-abcd")  # the same token does not bring it back
        held.refresh_from_db()
        assert held.state == state
        SlackConnection.objects.of(team).set_token("xoxb-2-efgh", by=None)
        held.refresh_from_db()
        assert held.is_live

    def test_a_late_word_about_an_earlier_token(self, team: Workspace) -> None:
        SlackConnection.objects.create(workspace=team, checked_at=NOW)
        row = work({"type": "app_uninstalled"}, at=NOW - timedelta(minutes=10))
        assert row.reason == "older than the token"
        assert SlackConnection.objects.get().is_live

    def test_tokens_of_people_are_not_ours(self, team: Workspace) -> None:
        assert work({"type": "tokens_revoked", "tokens": {"oauth": ["U1"]}}).state == STATE.SKIPPED
        assert not SlackConnection.objects.exists()


class TestQueue:
    def test_the_first_that_waits_calls_a_task(self, channel: Channel) -> None:
        def called(event_id: str) -> bool:
            raw = {"type": "event_callback", "team_id": "T0TEAM", "event_id": event_id}
            taken = store_payload({**raw, "event": said(5, event_id)})
            assert taken is not None
            return taken.workspace_id is not None

        assert called("A1") is True
        assert called("A2") is False
        assert called("A1") is True  # sent again: its task may be lost
        assert process_events(channel.workspace, seconds=60) is False
        assert called("A3") is True
        assert called("A1") is False  # long done

    def test_what_rests_after_a_failure_holds_up_no_call(self, channel: Channel) -> None:
        row = tell(said(5, "x"))
        row.claim(NOW, NOW)
        row.fail("OperationalError", NOW + timedelta(hours=1))
        later = tell(said(4, "y"))
        assert SlackEvent.objects.is_first_queued(later.event_id)
        assert workspaces_with_events(timezone.now()) == [channel.workspace_id]

    @pytest.mark.slow
    def test_all_that_waits_the_oldest_first(self, channel: Channel) -> None:
        for minute in range(250):
            tell(said(1000 - minute, str(minute)))
        assert process_events(channel.workspace, seconds=600) is False
        assert [text for text, _ in texts(channel)] == [str(n) for n in range(250)]
        assert workspaces_with_events(timezone.now()) == []

    def test_time_is_up(self, channel: Channel) -> None:
        tell(said(5, "x"))
        assert process_events(channel.workspace, seconds=-1) is True
        assert workspaces_with_events(timezone.now()) == [channel.workspace_id]

    def test_the_last_event_is_noted(self, channel: Channel) -> None:
        connected = SlackConnection.objects.of(channel.workspace)
        process_events(channel.workspace, seconds=60)
        connected.refresh_from_db()
        assert connected.event_at is None
        tell(said(5, "x"))
        process_events(channel.workspace, seconds=60)
        connected.refresh_from_db()
        assert connected.event_at is not None

    def test_one_at_a_time(self, channel: Channel) -> None:
        row = tell(said(5, "x"))
        other = SlackEvent.objects.get(pk=row.pk)
        assert row.claim(NOW, NOW + timedelta(minutes=3))
        assert not process_event(other, NOW + timedelta(minutes=2))
        assert not Message.objects.exists()
        assert process_event(SlackEvent.objects.get(pk=row.pk), NOW + timedelta(minutes=4))
        assert not row.finish()  # the first one is too late
        assert SlackEvent.objects.get().state == STATE.DONE

    def test_one_that_kills_its_worker_is_given_up(self, channel: Channel) -> None:
        tell(said(5, "x"))
        now = NOW
        for _ in range(MAX_ATTEMPTS):
            now += timedelta(hours=1)
            assert SlackEvent.objects.get().claim(now, now + timedelta(minutes=3))
        now += timedelta(hours=1)
        assert not process_event(SlackEvent.objects.get(), now)
        row = SlackEvent.objects.get()
        assert (row.state, row.reason) == (STATE.FAILED, "lost its worker")

    def test_an_error_is_kept_and_tried_again_later(self, channel: Channel, settings: Any) -> None:
        settings.MEMORYHUB_BACK_OFF = 30.0
        tell(said(5, "x"))
        now, waits = timezone.now(), []
        with connection.execute_wrapper(no_messages):
            for _ in range(MAX_ATTEMPTS):
                assert process_event(SlackEvent.objects.get(), now)
                row = SlackEvent.objects.get()
                assert row.reason == "Refused"
                if row.not_before:
                    waits.append((row.not_before - now).total_seconds())
                    now = row.not_before
        assert waits == [30, 60, 120, 240]
        assert row.state == STATE.FAILED
        assert row.body
        assert not process_event(row, now + timedelta(days=1))
        assert row.retry(None)
        assert process_event(SlackEvent.objects.get(), now)
        assert texts(channel) == [("x", LIVE)]

    def test_a_deletion_finds_no_copy_in_what_was_given_up(self, channel: Channel) -> None:
        given_up, other = tell(said(5, "please forget")), tell(said(4, "stays"))
        SlackEvent.objects.update(state=STATE.FAILED)
        work(deleted(5))
        given_up.refresh_from_db()
        other.refresh_from_db()
        assert (given_up.state, given_up.body) == (STATE.SKIPPED, "")
        assert "stays" in other.body

    @pytest.mark.parametrize("state", STATE.values)
    def test_old_ones_go(self, channel: Channel, state: str) -> None:
        old, young = tell(said(5, "x")), tell(said(4, "y"))
        SlackEvent.objects.update(state=state)
        for row, days in ((old, 7.1), (young, 6.9)):
            at = NOW - timedelta(days=days)
            SlackEvent.objects.filter(pk=row.pk).update(received_at=at)
        assert prune(NOW) == 1
        assert SlackEvent.objects.get() == young

    def test_a_team_that_went_away(self, channel: Channel) -> None:
        row = tell(said(5, "x"))
        Workspace.objects.update(team_id="T9")
        assert workspaces_with_events(timezone.now()) == []
        process_event(row, timezone.now())
        row.refresh_from_db()
        assert (row.state, row.body) == (STATE.SKIPPED, "")

    def test_queries_of_one_message(self, channel: Channel) -> None:
        row = tell(said(5, "x"))
        with CaptureQueriesContext(connection) as captured:
            process_event(row, timezone.now())
        assert len(captured) <= 16


class Refused(Exception):
    pass


@pytest.mark.parametrize("switched_on", [False, True])
def test_of_a_private_channel_only_deletions_are_heard_unless_it_may_be_read(
    channel: Channel, switched_on: bool
) -> None:
    assert work(said(3, "in public")).state == STATE.DONE
    Channel.objects.update(kind=Channel.Kind.PRIVATE)
    channel.workspace.change_settings({"read_private_channels": switched_on})
    row = work(said(2, "in private", channel_type="group"))
    assert ("in private", "live") in texts(channel) or not switched_on
    assert row.reason == ("" if switched_on else "private channels are switched off")
    assert work(deleted(3)).state == STATE.DONE
    assert ("in public", "live") not in texts(channel)


def no_messages(execute: Any, sql: str, *args: Any) -> Any:
    if sql.startswith("INSERT") and "memories_message" in sql:
        raise Refused
    return execute(sql, *args)
