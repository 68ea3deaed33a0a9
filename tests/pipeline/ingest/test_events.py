"""Processing of Slack events: once, in any order, and without extending who may read."""

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
    store_payload,
    workspaces_with_events,
)
from memories.pipeline.ingest.roster import demote_unlisted_people, store_channels
from memories.rules.ingest.events import EVENT_RETENTION, MAX_ATTEMPTS
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
    created: Channel = ChannelFactory(
        workspace=team, slack_id="C0OPEN", name="launch", is_followed=True, members=[mika]
    )
    return created


def receive(event: dict[str, Any], *, at: Any = NOW, **payload: Any) -> SlackEvent:
    """Store an event; return its row."""
    event_id = f"Ev{next(numbers)}"
    store_payload(
        {
            "type": "event_callback",
            "team_id": "T0TEAM",
            "event_id": event_id,
            "event_time": int(at.timestamp()),
            "event": event,
            **payload,
        }
    )
    return SlackEvent.objects.get(event_id=event_id)


def process(event: dict[str, Any], **payload: Any) -> SlackEvent:
    row = receive(event, **payload)
    if row.state == STATE.WAITING:
        assert process_event(row, timezone.now())
    row.refresh_from_db()
    return row


def message_event(minutes_ago: float, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "channel": "C0OPEN",
        "channel_type": "channel",
        "user": "U1",
        "ts": ts(minutes_ago),
        "event_ts": ts(minutes_ago),
        "text": text,
        **fields,
    }


def edited(minutes_ago: float, text: str, edited_ago: float, **fields: Any) -> dict[str, Any]:
    message = {"type": "message", "user": "U1", "ts": ts(minutes_ago), "text": text, **fields}
    message["edited"] = {"user": "U1", "ts": ts(edited_ago)}
    return message_event(edited_ago, "", subtype="message_changed", message=message)


def deleted(minutes_ago: float, at: float = 0) -> dict[str, Any]:
    return message_event(at, "", subtype="message_deleted", deleted_ts=ts(minutes_ago))


def texts(channel: Channel) -> list[tuple[str, str]]:
    return list(channel.messages.in_order().values_list("text", "state"))


class TestMessages:
    def test_a_message_is_stored(self, channel: Channel, mika: Person) -> None:
        event = process(message_event(5, "we launch on friday"))
        assert (event.state, event.reason, event.body) == (STATE.DONE, "", "")
        message = channel.messages.get()
        assert (message.text, message.author, message.ts) == ("we launch on friday", mika, ts(5))
        assert set(json.loads(message.raw)) == {"type", "user", "ts", "text"}

    def test_a_message_of_the_hub_itself_is_not_stored(self, channel: Channel) -> None:
        SlackConnection.objects.create(workspace=channel.workspace, bot_id="B0BOT")
        event = process(message_event(5, "an answer that was shared", bot_id="B0BOT"))
        assert (event.state, event.reason) == (STATE.SKIPPED, "posted by the hub")
        assert process(message_event(4, "of another bot", bot_id="B0OTHER")).state == STATE.DONE
        assert texts(channel) == [("of another bot", LIVE)]

    @pytest.mark.slow
    @pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
    def test_edits_in_any_order_have_the_same_result(
        self, channel: Channel, order: tuple[int, ...]
    ) -> None:
        events = [
            message_event(9, "a"),
            edited(9, "b", 7),
            edited(9, "c", 6),
            message_event(9, "a"),
        ]
        for position in order:
            process(events[position])
        assert texts(channel) == [("c", LIVE)]

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_a_deletion_is_final_in_any_order(
        self, channel: Channel, order: tuple[int, ...]
    ) -> None:
        events = [message_event(9, "a"), edited(9, "b", 7), deleted(9)]
        for position in order:
            process(events[position])
        assert texts(channel) == [("", DELETED)]
        assert not channel.messages.get().raw

    def test_an_edit_makes_its_segment_stale(self, channel: Channel) -> None:
        message = MessageFactory(channel=channel, ts=ts(60), text="on friday")
        segment = make_segment(messages=[message])
        process(edited(60, "on monday", 5))
        segment.refresh_from_db()
        assert segment.stale

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("event", "reason"),
        [
            (message_event(5, "x", channel="C0OTHER"), "channel is not known"),
            ({**message_event(5, "x"), "ts": "soon"}, "ts is not a number"),
            (message_event(5, "x", subtype="message_replied"), "reply notice"),
            (message_event(5, "x", channel="D1"), "direct messages"),
        ],
    )
    def test_skipped_events(self, channel: Channel, event: dict[str, Any], reason: str) -> None:
        row = process(event)
        assert (row.state, row.reason, row.body) == (STATE.SKIPPED, reason, "")
        assert not Message.objects.exists()

    @pytest.mark.parametrize("why", ["not chosen", "forgotten", "of another team"])
    def test_only_followed_channels_are_stored(self, channel: Channel, why: str) -> None:
        if why == "of another team":
            Workspace.objects.update(team_id="T9")
            WorkspaceFactory(team_id="T0TEAM")
        else:
            Channel.objects.update(
                is_followed=why != "not chosen", forgotten_at=NOW if why == "forgotten" else None
            )
        row = process(message_event(5, "not for us"))
        assert (row.state, row.body) == (STATE.SKIPPED, "")
        assert not Message.objects.exists()

    def test_a_deletion_counts_in_an_unfollowed_channel(self, channel: Channel) -> None:
        MessageFactory(channel=channel, ts=ts(60), text="please forget this")
        Channel.objects.update(is_followed=False)
        process(edited(60, "not read any more", 5))
        assert texts(channel) == [("please forget this", LIVE)]
        assert process(deleted(60)).state == STATE.DONE
        assert texts(channel) == [("", DELETED)]

    def test_both_workspaces_of_a_team_store_a_message(self, channel: Channel) -> None:
        second = ChannelFactory(
            workspace=WorkspaceFactory(team_id="T0TEAM"), slack_id="C0OPEN", is_followed=True
        )
        process(message_event(5, "both"))
        assert texts(channel) == texts(second) == [("both", LIVE)]


class TestAudience:
    @pytest.mark.parametrize(
        "event",
        [
            {"type": "channel_convert_to_private", "channel": "C0OPEN"},
            message_event(1, "created private", subtype="channel_convert_to_private"),
            message_event(1, "a secret", channel_type="group"),
            {"type": "channel_deleted", "channel": "C0OPEN"},
        ],
        ids=["event", "notice", "a message of a group", "deleted"],
    )
    @pytest.mark.parametrize("followed", [True, False])
    def test_a_channel_that_becomes_private_is_hidden(
        self, channel: Channel, event: dict[str, Any], followed: bool
    ) -> None:
        Channel.objects.update(is_followed=followed)
        workspace_memory = self.memory_of(channel)
        process(event)
        channel.refresh_from_db()
        assert channel.kind == Channel.Kind.PRIVATE
        workspace_memory.refresh_from_db()
        assert workspace_memory.current is None

    def memory_of(self, channel: Channel) -> Memory:
        """Make a workspace memory that rests on this channel's."""
        source = make_channel_memory(channel=channel)
        memory = make_workspace_memory(workspace=channel.workspace)
        job = memory.jobs.create(as_of_us=0, input_key="k", state="done")
        JobInput.objects.create(job=job, version=source.current, revision=1)
        memory.versions.update(job=job)
        memory.refresh_from_db()
        assert memory.current is not None
        return memory

    def test_a_shared_channel_leaves_the_workspace_memory(self, channel: Channel) -> None:
        memory = self.memory_of(channel)
        process({"type": "channel_shared", "channel": "C0OPEN", "connected_team_id": "T9"})
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
            message_event(1, "", subtype="channel_convert_to_public"),
            message_event(1, "hello"),
            {"type": "channel_unshared", "channel": "C0OPEN", "is_ext_shared": False},
            {"type": "channel_unarchive", "channel": "C0OPEN"},
        ],
    )
    def test_no_event_extends_the_readers(self, channel: Channel, event: dict[str, Any]) -> None:
        Channel.objects.update(kind=Channel.Kind.PRIVATE, is_shared=True)
        process(event)
        channel.refresh_from_db()
        assert (channel.kind, channel.is_shared) == (Channel.Kind.PRIVATE, True)

    @pytest.mark.parametrize("seconds_after", [-1, 1])
    def test_a_list_read_before_the_event_does_not_extend_the_readers(
        self, channel: Channel, seconds_after: int
    ) -> None:
        process({"type": "channel_convert_to_private", "channel": "C0OPEN"})
        process({"type": "channel_shared", "channel": "C0OPEN"})
        read_at = timezone.now() + timedelta(seconds=seconds_after)
        Channel.objects.update(members_known_at=None)
        raw = {"id": "C0OPEN", "name": "launch", "is_private": False, "is_ext_shared": False}
        store_channels(channel.workspace, [(raw, "public")], known_at=read_at, live=True)
        channel.refresh_from_db()
        narrowed, widened = (Channel.Kind.PRIVATE, True), (Channel.Kind.PUBLIC, False)
        expected = narrowed if seconds_after < 0 else widened
        assert (channel.kind, channel.is_shared) == expected

    def test_a_person_who_left_has_no_access(self, channel: Channel, mika: Person) -> None:
        process({"type": "member_left_channel", "channel": "C0OPEN", "user": "U1"})
        assert not channel.memberships.exists()
        channel.refresh_from_db()
        assert channel.members_known_at is not None and channel.have_members_changed

    def test_a_person_who_joined_waits_for_the_next_sync(
        self, channel: Channel, mika: Person
    ) -> None:
        PersonFactory(workspace=channel.workspace, slack_id="U2")
        process({"type": "member_joined_channel", "channel": "C0OPEN", "user": "U2"})
        assert list(channel.memberships.values_list("person", flat=True)) == [mika.pk]
        assert not channel.have_members_changed
        channel.refresh_from_db()
        assert channel.have_members_changed
        channel.set_members_known(timezone.now())
        assert not channel.have_members_changed

    @pytest.mark.parametrize("kind", [Channel.Kind.PUBLIC, Channel.Kind.PRIVATE])
    def test_the_bot_joins_and_leaves(self, channel: Channel, kind: str) -> None:
        Channel.objects.update(kind=kind)
        bot = {"authorizations": [{"team_id": "T0TEAM", "user_id": "U0BOT", "is_bot": True}]}
        process({"type": "member_joined_channel", "channel": "C0OPEN", "user": "U0BOT"}, **bot)
        channel.refresh_from_db()
        assert channel.bot_is_in and channel.members_known_at
        process({"type": "member_left_channel", "channel": "C0OPEN", "user": "U0BOT"}, **bot)
        channel.refresh_from_db()
        assert not channel.bot_is_in
        # No event reports who leaves a private channel without the bot.
        assert (channel.members_known_at is None) is (kind == Channel.Kind.PRIVATE)

    def test_a_person_becomes_a_guest_at_once(self, team: Workspace, mika: Person) -> None:
        process(
            {"type": "user_change", "user": {"id": "U1", "name": "mika", "is_restricted": True}}
        )
        mika.refresh_from_db()
        assert mika.is_guest

    def test_a_new_person_is_a_placeholder_until_the_next_list(self, team: Workspace) -> None:
        process({"type": "team_join", "user": {"id": "U7", "profile": {"display_name": "aya"}}})
        created = team.people.get(slack_id="U7")
        assert (created.name, created.is_placeholder) == ("aya", True)

    def test_an_event_does_not_restore_an_unlisted_person(
        self, team: Workspace, mika: Person
    ) -> None:
        demote_unlisted_people(team, ())
        process({"type": "user_change", "user": {"id": "U1", "name": "mika", "updated": 5}})
        mika.refresh_from_db()
        assert (mika.updated, mika.is_placeholder) == (5, True)


class TestChannels:
    def test_a_channel_is_renamed_and_archived(self, channel: Channel) -> None:
        process({"type": "channel_rename", "channel": {"id": "C0OPEN", "name": "start"}})
        process({"type": "channel_archive", "channel": "C0OPEN", "user": "U1"})
        channel.refresh_from_db()
        assert (channel.name, channel.is_archived) == ("start", True)
        process({"type": "channel_unarchive", "channel": "C0OPEN", "user": "U1"})
        channel.refresh_from_db()
        assert not channel.is_archived

    @pytest.mark.parametrize("raw", [{"is_private": False}, {}, {"is_private": True}])
    def test_a_new_channel_is_private_and_not_followed(
        self, team: Workspace, raw: dict[str, Any]
    ) -> None:
        process({"type": "channel_created", "channel": {"id": "C0NEW", "name": "new", **raw}})
        created = team.channels.get(slack_id="C0NEW")
        assert (created.name, created.kind, created.is_followed) == ("new", "private", False)

    def test_a_known_channel_is_not_created_again(self, channel: Channel) -> None:
        Channel.objects.update(topic="what we launch", is_archived=True)
        event = {"type": "channel_created", "channel": {"id": "C0OPEN", "name": "x"}}
        assert process(event).reason == "channel is known"
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
    def test_the_connection_stops(
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
        assert process(event).state == STATE.DONE
        row = SlackConnection.objects.get(workspace=team)
        assert (row.state, row.token_end) == (state, "abcd")
        row.use_environment_token("xoxb-1-abcd")  # the same token does not bring it back
        row.refresh_from_db()
        assert row.state == state
        SlackConnection.objects.of(team).set_token("xoxb-2-efgh", by=None)
        row.refresh_from_db()
        assert row.is_live

    def test_a_late_event_about_an_earlier_token_is_skipped(self, team: Workspace) -> None:
        SlackConnection.objects.create(workspace=team, checked_at=NOW)
        row = process({"type": "app_uninstalled"}, at=NOW - timedelta(minutes=10))
        assert row.reason == "older than the token"
        assert SlackConnection.objects.get().is_live

    def test_revoked_tokens_of_people_are_skipped(self, team: Workspace) -> None:
        assert (
            process({"type": "tokens_revoked", "tokens": {"oauth": ["U1"]}}).state == STATE.SKIPPED
        )
        assert not SlackConnection.objects.exists()


class TestQueue:
    def test_the_first_queued_event_needs_a_task(self, channel: Channel) -> None:
        def needs_task(event_id: str) -> bool:
            raw = {"type": "event_callback", "team_id": "T0TEAM", "event_id": event_id}
            received = store_payload({**raw, "event": message_event(5, event_id)})
            assert received is not None
            return received.workspace_id is not None

        assert needs_task("A1") is True
        assert needs_task("A2") is False
        assert needs_task("A1") is True  # a retry: its task may be lost
        assert process_events(channel.workspace, seconds=60) is False
        assert needs_task("A3") is True
        assert needs_task("A1") is False  # done

    def test_an_event_in_backoff_does_not_delay_the_next_one(self, channel: Channel) -> None:
        row = receive(message_event(5, "x"))
        row.claim(NOW, NOW)
        row.fail("OperationalError", timezone.now())
        later = receive(message_event(4, "y"))
        assert SlackEvent.objects.is_first_queued(later.event_id)
        assert workspaces_with_events(timezone.now()) == [channel.workspace_id]

    @pytest.mark.slow
    def test_events_are_processed_oldest_first(self, channel: Channel) -> None:
        for minute in range(120):  # more than one batch
            receive(message_event(1000 - minute, str(minute)))
        assert process_events(channel.workspace, seconds=600) is False
        assert [text for text, _ in texts(channel)] == [str(n) for n in range(120)]
        assert workspaces_with_events(timezone.now()) == []

    def test_processing_stops_at_the_deadline(self, channel: Channel) -> None:
        receive(message_event(5, "x"))
        assert process_events(channel.workspace, seconds=-1) is True
        assert workspaces_with_events(timezone.now()) == [channel.workspace_id]

    def test_the_time_of_the_last_event_is_recorded(self, channel: Channel) -> None:
        connected = SlackConnection.objects.of(channel.workspace)
        process_events(channel.workspace, seconds=60)
        connected.refresh_from_db()
        assert connected.event_at is None
        receive(message_event(5, "x"))
        process_events(channel.workspace, seconds=60)
        connected.refresh_from_db()
        assert connected.event_at is not None

    def test_only_the_claiming_worker_processes_an_event(self, channel: Channel) -> None:
        row = receive(message_event(5, "x"))
        second = SlackEvent.objects.get(pk=row.pk)
        assert row.claim(NOW, NOW + timedelta(minutes=3))
        assert not process_event(second, NOW + timedelta(minutes=2))
        assert not Message.objects.exists()
        assert process_event(SlackEvent.objects.get(pk=row.pk), NOW + timedelta(minutes=4))
        assert not row.finish()  # the first worker is too late
        assert SlackEvent.objects.get().state == STATE.DONE

    def test_an_event_that_kills_its_workers_fails(self, channel: Channel) -> None:
        receive(message_event(5, "x"))
        now = NOW
        for _ in range(MAX_ATTEMPTS):
            now += timedelta(hours=1)
            assert SlackEvent.objects.get().claim(now, now + timedelta(minutes=3))
        now += timedelta(hours=1)
        assert not process_event(SlackEvent.objects.get(), now)
        row = SlackEvent.objects.get()
        assert (row.state, row.reason) == (STATE.FAILED, "lost its worker")

    def test_an_error_is_recorded_and_retried_with_backoff(
        self, channel: Channel, settings: Any
    ) -> None:
        settings.MEMORYHUB_BACK_OFF = 30.0
        receive(message_event(5, "x"))
        now, waits = timezone.now(), []
        with connection.execute_wrapper(no_messages):
            for _ in range(MAX_ATTEMPTS):
                assert process_event(SlackEvent.objects.get(), now)
                row = SlackEvent.objects.get()
                assert row.reason == "Refused"
                if row.retry_at:
                    waits.append((row.retry_at - now).total_seconds())
                    now = row.retry_at
        assert waits == [30, 60, 120, 240]
        assert row.state == STATE.FAILED
        assert row.body
        assert not process_event(row, now + timedelta(days=1))
        assert row.retry(None)
        assert process_event(SlackEvent.objects.get(), now)
        assert texts(channel) == [("x", LIVE)]

    def test_a_deletion_redacts_failed_events(self, channel: Channel) -> None:
        failed, unrelated = (
            receive(message_event(5, "please forget")),
            receive(message_event(4, "stays")),
        )
        SlackEvent.objects.update(state=STATE.FAILED)
        process(deleted(5))
        failed.refresh_from_db()
        unrelated.refresh_from_db()
        assert (failed.state, failed.body) == (STATE.SKIPPED, "")
        assert "stays" in unrelated.body

    @pytest.mark.parametrize("state", STATE.values)
    def test_old_events_are_pruned(self, channel: Channel, state: str) -> None:
        old, young = receive(message_event(5, "x")), receive(message_event(4, "y"))
        SlackEvent.objects.update(state=state)
        for row, days in ((old, 7.1), (young, 6.9)):
            at = NOW - timedelta(days=days)
            SlackEvent.objects.filter(pk=row.pk).update(received_at=at)
        assert SlackEvent.objects.prune(NOW - EVENT_RETENTION) == 1
        assert SlackEvent.objects.get() == young

    def test_an_event_of_a_removed_team_is_skipped(self, channel: Channel) -> None:
        row = receive(message_event(5, "x"))
        Workspace.objects.update(team_id="T9")
        assert workspaces_with_events(timezone.now()) == []
        process_event(row, timezone.now())
        row.refresh_from_db()
        assert (row.state, row.body) == (STATE.SKIPPED, "")

    def test_the_number_of_queries_for_a_message(self, channel: Channel) -> None:
        row = receive(message_event(5, "x"))
        with CaptureQueriesContext(connection) as captured:
            process_event(row, timezone.now())
        # One of them looks for private days. It has to follow the lock of the channel.
        assert len(captured) <= 17


class Refused(Exception):
    pass


@pytest.mark.parametrize("switched_on", [False, True])
def test_private_channels_need_the_setting_except_for_deletions(
    channel: Channel, switched_on: bool
) -> None:
    assert process(message_event(3, "in public")).state == STATE.DONE
    Channel.objects.update(kind=Channel.Kind.PRIVATE)
    channel.workspace.change_settings({"read_private_channels": switched_on})
    row = process(message_event(2, "in private", channel_type="group"))
    assert ("in private", "live") in texts(channel) or not switched_on
    assert row.reason == ("" if switched_on else "private channels are switched off")
    assert process(deleted(3)).state == STATE.DONE
    assert ("in public", "live") not in texts(channel)


def no_messages(execute: Any, sql: str, *args: Any) -> Any:
    if sql.startswith("INSERT") and "memories_message" in sql:
        raise Refused
    return execute(sql, *args)
