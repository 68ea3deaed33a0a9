"""Messages expire after some days: their words are deleted, and derived texts stay."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from memories import tasks
from memories.models import MemoryVersion, Message, Segment
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.ingest.store import store_messages
from memories.pipeline.redaction import forget, retention
from memories.pipeline.redaction.retention import delete_expired
from memories.rules.ingest.timestamps import to_micros
from tests.factories import MONDAY, ChannelFactory, MessageFactory, ts_at
from tests.pipeline.current import long, short

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
TEXT = "We decided that the copper gate of warehouse nine ships on Friday the ninth"


@pytest.fixture
def channel():
    channel = ChannelFactory(workspace__settings={"retention_days": 30})
    channel.remember_from(to_micros(MONDAY))
    return channel


def say(channel, at, text=TEXT):
    return MessageFactory(channel=channel, at=at, text=text, raw='{"text": "as it was"}')


@pytest.mark.slow
def test_words_go_and_memories_stay(channel):
    old, young = say(channel, MONDAY), say(channel, MONDAY + 20 * DAY, "And the lamps are green")
    run_pass(channel.workspace, MONDAY + 21 * DAY)
    assert delete_expired(channel.workspace, MONDAY + 30 * DAY) == (0, True)
    assert delete_expired(channel.workspace, MONDAY + 31 * DAY) == (1, True)
    old.refresh_from_db()
    young.refresh_from_db()
    assert (old.state, old.text, old.raw, old.username) == ("expired", "", "", "")
    assert young.state == Message.State.LIVE
    run_pass(channel.workspace, MONDAY + 32 * DAY)
    assert "copper gate" in short(channel).versions.get(number=1).content
    assert "copper gate" in long(channel).current.content
    assert delete_expired(channel.workspace, MONDAY + 31 * DAY) == (0, True)


def test_nothing_is_deleted_without_a_retention_setting(channel):
    message = say(ChannelFactory(), MONDAY)
    assert delete_expired(message.channel.workspace, MONDAY + 3000 * DAY) == (0, True)


def test_a_message_that_is_deleted_meanwhile_stays_deleted(channel):
    """It is deleted between the scan and the update."""
    deleted, expired = say(channel, MONDAY), say(channel, MONDAY + DAY)
    to_delete = [deleted.pk]

    def delete_first(execute, sql, *arguments):
        if sql.startswith("UPDATE") and to_delete:
            Message.objects.filter(pk=to_delete.pop()).purge(Message.State.DELETED)
        return execute(sql, *arguments)

    with connection.execute_wrapper(delete_first):
        assert delete_expired(channel.workspace, MONDAY + 40 * DAY) == (1, True)
    for message, state in ((deleted, "deleted"), (expired, "expired")):
        message.refresh_from_db()
        assert message.state == state


def test_an_import_does_not_restore_expired_messages(channel):
    say(channel, MONDAY)
    now = MONDAY + 31 * DAY
    delete_expired(channel.workspace, now)
    raws = [
        {"type": "message", "ts": ts_at(MONDAY + n * timedelta(minutes=1)), "text": TEXT, **more}
        for n, more in enumerate([{}, {}, {"thread_ts": ts_at(MONDAY)}])
    ]
    raws.append({"type": "message", "ts": ts_at(MONDAY + 29 * DAY), "text": "young"})
    tally = store_messages(channel, raws, now)
    assert tally.is_complete
    reasons = tally.as_json()["messages"]["reasons"]
    assert reasons == {"skipped: older than messages are kept": 3}
    assert [(m.state, m.text) for m in Message.objects.in_order()] == [
        ("expired", ""), ("expired", ""), ("expired", ""), ("live", "young"),
    ]  # fmt: skip


def test_younger_messages_keep_no_copy_of_expired_ones(channel):
    """A reply that was also sent to the channel has the root, a share has its text."""
    now, address = MONDAY + 31 * DAY, {"channel_id": channel.slack_id, "ts": ts_at(MONDAY)}
    raws = [
        {"type": "message", "ts": ts_at(MONDAY), "text": TEXT, "thread_ts": ts_at(MONDAY)},
        {
            "type": "message",
            "ts": ts_at(MONDAY + 20 * DAY),
            "thread_ts": ts_at(MONDAY),
            "text": "I agree",
            "root": {"ts": ts_at(MONDAY), "text": TEXT},
        },
        {
            "type": "message",
            "ts": ts_at(MONDAY + 21 * DAY),
            "text": "",
            "attachments": [{"is_share": True, "text": TEXT, **address}],
        },
    ]
    store_messages(channel, raws, MONDAY + 22 * DAY)
    assert Message.objects.filter(raw__contains=TEXT).count() == 3
    assert Message.objects.filter(text__contains=TEXT).count() == 2
    assert delete_expired(channel.workspace, now) == (1, True)
    for _ in range(2):
        assert not Message.objects.filter(raw__contains=TEXT).exists()
        assert not Message.objects.filter(text__contains=TEXT).exists()
        store_messages(channel, raws, now)
    assert Message.objects.filter(text="I agree").exists()


def test_an_old_message_stays_until_the_next_deletion(channel):
    message = say(channel, MONDAY)
    raw = {"type": "message", "ts": message.ts, "text": TEXT}
    store_messages(channel, [raw], MONDAY + 31 * DAY)
    message.refresh_from_db()
    assert message.text == TEXT


@pytest.mark.slow
def test_deleting_an_expired_message_redacts_lines_that_cite_it(channel):
    message = say(channel, MONDAY)
    say(
        channel,
        MONDAY + timedelta(minutes=1),
        "We decided that the lamps of the harbour office turn green",
    )
    run_pass(channel.workspace, MONDAY + DAY)
    delete_expired(channel.workspace, MONDAY + 31 * DAY)
    raw = {"type": "message", "subtype": "message_deleted", "ts": "1790000000.000000",
           "deleted_ts": message.ts}  # fmt: skip
    store_messages(channel, [raw], MONDAY + 300 * DAY)
    run_pass(channel.workspace, MONDAY + 32 * DAY)
    message.refresh_from_db()
    assert message.state == Message.State.DELETED
    text = short(channel).versions.get().content
    assert "copper" not in text
    assert "lamps" in text  # a rebuild would lose it, because its message has expired
    assert not Segment.objects.filter(stale=True).exists()


@pytest.mark.slow
def test_forgetting_a_person_redacts_texts_of_expired_messages(channel):
    message = say(channel, MONDAY)
    run_pass(channel.workspace, MONDAY + DAY)
    delete_expired(channel.workspace, MONDAY + 31 * DAY)
    forget.forget_person(message.author, MONDAY + 32 * DAY, by=None)
    message.refresh_from_db()
    assert (message.state, message.author) == (Message.State.DELETED, None)
    assert not MemoryVersion.objects.filter(content__contains="copper").exists()


def test_batches_are_bounded_and_continue(channel, monkeypatch):
    for n in range(7):
        say(channel, MONDAY + timedelta(minutes=n))
    monkeypatch.setattr(retention, "BATCH", 3)
    now = MONDAY + 31 * DAY
    assert delete_expired(channel.workspace, now, seconds=0) == (0, False)
    assert delete_expired(channel.workspace, now) == (7, True)


def test_the_daily_task(channel):
    channel.workspace.change_settings({"retention_days": 1})
    say(channel, timezone.now() - 2 * DAY)
    say(channel, timezone.now())
    tasks.retention()
    assert [m.state for m in Message.objects.in_order()] == ["expired", "live"]
