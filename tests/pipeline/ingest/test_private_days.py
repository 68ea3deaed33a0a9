"""Messages from days when a public channel was private are for its members only."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from memories.models import Channel, Message
from memories.pipeline.access import channel_audience
from memories.pipeline.ingest import store
from memories.pipeline.ingest.store import add_placeholders, store_messages
from tests.factories import ChannelFactory
from tests.processes import PATIENCE
from tests.slackexports import START, slack_message, ts

pytestmark = pytest.mark.django_db
NOW = datetime.fromtimestamp(START, UTC) + timedelta(days=10)


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(START + seconds, UTC)


def notice(seconds: int, kind: str) -> dict[str, Any]:
    return slack_message(seconds, f"made {kind}", subtype=f"channel_convert_to_{kind}")


@pytest.fixture
def channel() -> Channel:
    return ChannelFactory(kind="private")


def publish(channel: Channel) -> None:
    channel.update_fields({"kind": "public"})
    channel_audience.publish(channel)


def turn_private(channel: Channel, since: int) -> None:
    channel.update_fields({"kind": "private", "private_since": at(since)})


def say(channel: Channel, *raws: dict[str, Any]) -> None:
    store_messages(channel, raws, NOW)


def readable(channel: Channel) -> list[str]:
    """Return the texts for everybody, in order of time."""
    live = channel.messages.filter(state="live", is_notice=False).without_private_days()
    return list(live.in_order().values_list("text", flat=True))


def reply_first(channel: Channel) -> None:
    reply = slack_message(50, "a late answer", thread_ts=ts(10), subtype="thread_broadcast")
    say(channel, reply)
    say(channel, notice(40, "public"))


def reply_last(channel: Channel) -> None:
    say(channel, notice(40, "public"))
    add_placeholders(channel, [ts(10)])
    say(channel, slack_message(50, "a late answer", thread_ts=ts(10)))


@pytest.mark.parametrize("prepare", [reply_first, reply_last])
def test_a_private_root_after_a_public_reply_is_for_the_members(
    channel: Channel, prepare: Callable[[Channel], None]
) -> None:
    say(channel, slack_message(1, "between us"))
    publish(channel)
    prepare(channel)
    say(channel, slack_message(10, "a secret", thread_ts=ts(10)))
    assert channel.messages.filter(text="a secret", state="live").exists()
    assert readable(channel) == ["a late answer"]


def test_a_notice_restricts_messages_of_earlier_batches(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(channel, slack_message(1, "between us"))
    publish(channel)
    monkeypatch.setattr(store, "BATCH", 2)
    talk = [slack_message(n, f"secret {n}") for n in range(10, 15)]
    say(channel, *talk, notice(40, "public"), slack_message(50, "hello all"))
    assert readable(channel) == ["hello all"]


def test_a_notice_restricts_no_text_from_before_the_private_days(channel: Channel) -> None:
    """The notice of the begin of these days comes last, or never."""
    channel.update_fields({"kind": "public"})
    say(channel, slack_message(1, "for all"), slack_message(6, "after the list"))
    turn_private(channel, since=5)
    publish(channel)
    say(channel, slack_message(10, "a secret"))
    say(channel, notice(40, "public"))
    assert readable(channel) == ["for all"]
    say(channel, notice(8, "private"))
    assert readable(channel) == ["for all"]


def test_private_days_of_unknown_begin_restrict_stored_messages_once_it_is_known(
    channel: Channel,
) -> None:
    """The hub was never told about the second ones while they lasted."""
    say(channel, slack_message(1, "between us"))
    publish(channel)
    say(channel, notice(10, "public"), slack_message(15, "for all"), slack_message(30, "a secret"))
    assert readable(channel) == ["for all", "a secret"]
    say(channel, notice(40, "public"))
    assert readable(channel) == ["for all", "a secret"]
    say(channel, notice(20, "private"))
    assert readable(channel) == ["for all"]


def test_a_notice_restricts_no_text_from_between_two_private_times(channel: Channel) -> None:
    say(channel, slack_message(1, "between us"), notice(10, "public"))
    publish(channel)
    say(channel, slack_message(15, "for all"), notice(20, "private"))
    turn_private(channel, since=17)
    say(channel, slack_message(25, "a secret"))
    publish(channel)
    say(channel, slack_message(30, "another secret"))
    say(channel, notice(40, "public"), slack_message(50, "hello all"))
    assert readable(channel) == ["for all", "hello all"]


def test_a_channel_that_was_never_read_in_private_is_public_as_a_whole(channel: Channel) -> None:
    channel.update_fields({"kind": "public"})
    say(channel, slack_message(50, "hello all", thread_ts=ts(10)), slack_message(5, "first"))
    say(channel, notice(40, "public"), slack_message(10, "a root", thread_ts=ts(10)))
    assert readable(channel) == ["first", "a root", "hello all"]


@pytest.mark.postgres("locks of rows", only=True)
@pytest.mark.django_db(transaction=True)
def test_a_message_that_waits_for_the_publication_is_for_the_members(channel: Channel) -> None:
    say(channel, slack_message(1, "between us"), notice(40, "public"))

    def store_late() -> None:
        try:
            say(Channel.objects.get(pk=channel.pk), slack_message(10, "a secret"))
        finally:
            connection.close()

    late = threading.Thread(target=store_late)
    with transaction.atomic():
        publish(channel)
        late.start()
        wait_for_a_lock()
    late.join()
    assert Message.objects.get(text="a secret").was_private


def wait_for_a_lock() -> None:
    """Wait until another session waits for a lock in this database."""
    waiting = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with connection.cursor() as cursor:
            # A transaction reads the statistics only once otherwise.
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(waiting)
            if cursor.fetchone()[0]:
                return
        time.sleep(0.05)
    raise AssertionError("no session waits")
