import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memories.models import Channel, Message, Person, Reader, Segment, Workspace
from memories.pipeline.ingest import store
from memories.pipeline.ingest.roster import set_members, store_channels, store_people
from memories.pipeline.ingest.store import store_messages
from memories.rules.ingest.outcomes import ObjectType, Result, Tally
from tests.factories import ChannelFactory, PersonFactory, UserFactory
from tests.slackexports import START, channel, person, slack_message, ts

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("upserts")]
NOW = datetime.fromtimestamp(START, UTC) + timedelta(days=10)


@pytest.fixture
def workspace() -> Workspace:
    return Workspace.objects.create(slug="team", name="Team", team_id="T1")


@pytest.fixture
def general(workspace: Workspace) -> Channel:
    return workspace.channels.create(slack_id="C1", name="general", kind="public")


def results(tally: Tally) -> dict[str, int]:
    """Return the number of objects by result, without zeros."""
    assert tally.is_complete
    return {result.value: n for result in Result if (n := tally.count(result=result))}


def deleted(seconds: int, **previous: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "subtype": "message_deleted",
        "ts": ts(99_999),
        "deleted_ts": ts(seconds),
        "previous_message": previous,
    }


def edited(seconds: int, text: str, at: int, **fields: Any) -> dict[str, Any]:
    return slack_message(seconds, text, edited={"user": "U1", "ts": ts(at)}, **fields)


def state() -> list[tuple[Any, ...]]:
    """Return everything of the messages that a reader can see."""
    return list(
        Message.objects.order_by("channel__slack_id", "ts").values_list(
            *("channel__slack_id", "ts", "micros", "thread_ts", "author__slack_id", "username"),
            *("subtype", "is_notice", "is_bot", "broadcast", "state", "text", "edited_ts"),
            *("reply_count", "latest_reply"),
        )
    )


# Messages


def test_messages_are_stored_once(general: Channel) -> None:
    raws = [
        slack_message(1, "a"),
        slack_message(2, "b", user="U2"),
        slack_message(3, "joined", subtype="channel_join"),
    ]
    assert results(store_messages(general, raws, NOW)) == {"stored": 3}
    before = state()
    assert results(store_messages(general, raws, NOW)) == {"duplicate": 3}
    assert state() == before
    assert results(store_messages(general, [raws[0], raws[0]], NOW)) == {"duplicate": 2}


def test_a_message_may_occur_twice_in_a_batch(general: Channel) -> None:
    raws = [slack_message(1, "a"), slack_message(1, "a"), edited(1, "b", 5), slack_message(1, "a")]
    tally = store_messages(general, raws, NOW)
    assert results(tally) == {"stored": 1, "updated": 1, "duplicate": 2}
    assert Message.objects.get().text == "b"


def test_the_same_ts_in_two_channels_is_two_messages(general: Channel) -> None:
    second = general.workspace.channels.create(slack_id="C2", name="other")
    raw = slack_message(1, "a", client_msg_id="same", thread_ts=ts(0))
    store_messages(general, [raw], NOW)
    store_messages(second, [raw], NOW)
    assert [row[:2] for row in state()] == [
        ("C1", ts(0)),
        ("C1", ts(1)),
        ("C2", ts(0)),
        ("C2", ts(1)),
    ]


def test_the_later_edit_stays(general: Channel) -> None:
    store_messages(general, [edited(1, "second", 20)], NOW)
    assert results(store_messages(general, [edited(1, "first", 10)], NOW)) == {"duplicate": 1}
    assert results(store_messages(general, [slack_message(1, "original, longer")], NOW)) == {
        "duplicate": 1
    }
    assert Message.objects.get().text == "second"
    assert results(store_messages(general, [edited(1, "third", 30)], NOW)) == {"updated": 1}
    message = Message.objects.get()
    assert (message.text, message.edited_ts) == ("third", ts(30))
    assert '"third"' in message.raw


def test_a_live_version_removes_attachments_without_an_edit(general: Channel) -> None:
    plan = {"id": "F1", "title": "Plan of the merger"}
    store_messages(general, [slack_message(1, "see", files=[plan])], NOW)
    without_file = slack_message(1, "see", files=[{"id": "F1", "mode": "tombstone"}])
    assert results(store_messages(general, [without_file], NOW)) == {"duplicate": 1}
    assert results(store_messages(general, [without_file], NOW, live=True)) == {"updated": 1}
    message = Message.objects.get()
    assert "merger" not in message.text + message.raw
    assert results(store_messages(general, [without_file], NOW, live=True)) == {"duplicate": 1}


def test_a_live_version_without_an_edit_time_replaces_an_earlier_edit(general: Channel) -> None:
    """Slack dates no edit by an app. An event of it has a time, and a later event may be lost."""
    store_messages(general, [slack_message(1, "deploy: 0 %")], NOW)
    event = {
        "type": "message",
        "subtype": "message_changed",
        "event_ts": ts(50),
        "message": slack_message(1, "deploy: 50 %"),
        "previous_message": slack_message(1, "deploy: 0 %"),
    }
    store_messages(general, [event], NOW)
    assert Message.objects.get().text == "deploy: 50 %"
    before = datetime.fromtimestamp(START + 49, UTC)
    store_messages(general, [slack_message(1, "deploy: 0 %")], before, live=True)
    assert Message.objects.get().text == "deploy: 50 %", "read before the edit"
    store_messages(general, [slack_message(1, "deploy: finished")], NOW, live=True)
    assert Message.objects.get().text == "deploy: finished"
    assert results(store_messages(general, [event], NOW)) == {"duplicate": 1}


def test_new_block_ids_without_an_edit_are_a_duplicate(general: Channel) -> None:
    blocks = [{"type": "rich_text", "block_id": "a", "elements": []}]
    store_messages(general, [slack_message(1, "a", blocks=blocks)], NOW)
    blocks = [{"type": "rich_text", "block_id": "b", "elements": []}]
    assert results(store_messages(general, [slack_message(1, "a", blocks=blocks)], NOW)) == {
        "duplicate": 1
    }


def test_a_deletion_purges_the_message_and_is_final(general: Channel) -> None:
    raw = edited(1, "secret", 5, username="x", bot_id="B1")
    store_messages(general, [raw], NOW)
    assert results(store_messages(general, [deleted(1)], NOW)) == {"updated": 1}
    message = Message.objects.get()
    assert message.state == Message.State.DELETED
    assert "secret" not in "".join(str(value) for value in vars(message).values())
    assert (message.raw, message.author, message.username) == ("", None, "")
    later = edited(1, "secret again", 50)
    assert results(store_messages(general, [raw, later, deleted(1)], NOW)) == {"duplicate": 3}
    assert Message.objects.get().text == ""


def test_a_deletion_of_an_unknown_message_is_final(general: Channel) -> None:
    assert results(store_messages(general, [deleted(1)], NOW)) == {"stored": 1}
    assert results(store_messages(general, [slack_message(1, "late")], NOW)) == {"duplicate": 1}
    assert Message.objects.get().text == ""


def test_a_reply_creates_a_placeholder_for_its_root(general: Channel) -> None:
    store_messages(general, [slack_message(5, "reply", thread_ts=ts(1))], NOW)
    root = Message.objects.get(ts=ts(1))
    assert (root.state, root.is_root, root.text) == (Message.State.MISSING, True, "")
    # In an export from before the thread the root has no thread_ts.
    tally = store_messages(general, [slack_message(1, "root")], NOW)
    assert results(tally) == {"stored": 1}
    root.refresh_from_db()
    assert (root.state, root.is_root, root.text) == (Message.State.LIVE, True, "root")
    assert root.author is not None and root.author.slack_id == "U1"


def test_a_broadcast_is_one_message_in_its_thread(general: Channel) -> None:
    store_messages(general, [slack_message(9, "root")], NOW)
    both = slack_message(10, "both", subtype="thread_broadcast", thread_ts=ts(9))
    store_messages(general, [both, both], NOW)
    reply = general.messages.get(ts=ts(10))
    assert (reply.broadcast, reply.is_reply, reply.thread_ts) == (True, True, ts(9))


def test_a_plain_message_becomes_a_root(general: Channel) -> None:
    store_messages(general, [slack_message(1, "root")], NOW)
    store_messages(general, [slack_message(5, "reply", thread_ts=ts(1))], NOW)
    assert Message.objects.get(ts=ts(1)).is_root


def test_a_deleted_root_keeps_its_replies(general: Channel) -> None:
    tombstone = slack_message(
        1, "This message was deleted.", user="USLACKBOT", subtype="tombstone", thread_ts=ts(1)
    )
    store_messages(general, [slack_message(5, "reply", thread_ts=ts(1)), tombstone], NOW)
    root, reply = Message.objects.in_order()
    assert (root.state, root.text, root.is_root) == (Message.State.DELETED, "", True)
    assert (reply.state, reply.text, reply.thread_ts) == (Message.State.LIVE, "reply", ts(1))


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_order(general: Channel) -> None:
    raws = [
        slack_message(1, "root"),
        edited(1, "root, edited", 50, thread_ts=ts(1), reply_count=2, latest_reply=ts(20)),
        slack_message(1, "root", thread_ts=ts(1), reply_count=1, latest_reply=ts(10)),
        slack_message(10, "reply", thread_ts=ts(1)),
        slack_message(20, "both", subtype="thread_broadcast", thread_ts=ts(1)),
        deleted(10, thread_ts=ts(1)),
        slack_message(30, "alone", thread_ts=ts(2), user=None),
        slack_message(30, "alone", thread_ts=ts(2)),
        slack_message(40, "bot", user=None, subtype="bot_message", bot_id="B1", username="ci"),
    ]
    chance = random.Random(7)
    store_messages(general, raws, NOW)
    expected = state()
    assert len(expected) == 6
    for _ in range(25):
        Message.objects.all().delete()
        shuffled = chance.sample(raws, len(raws))
        cut = chance.randrange(len(raws))
        for part in (shuffled[:cut], shuffled[cut:], raws):
            store_messages(general, part, NOW)
        assert state() == expected, shuffled


def test_reply_counts_are_stored(general: Channel) -> None:
    def root(count: int, latest: int) -> dict[str, Any]:
        return slack_message(1, "r", thread_ts=ts(1), reply_count=count, latest_reply=ts(latest))

    store_messages(general, [root(5, 50)], NOW)
    assert results(store_messages(general, [root(3, 30)], NOW)) == {"duplicate": 1}
    assert Message.objects.get().reply_count == 5
    # A live count replaces it, also after a reply was deleted.
    assert results(store_messages(general, [root(4, 40)], NOW, live=True)) == {"updated": 1}
    without_replies = slack_message(
        1, "r", thread_ts=ts(1), reply_count=0, latest_reply="0000000000.000000"
    )
    store_messages(general, [without_replies], NOW, live=True)
    message = Message.objects.get()
    assert (message.reply_count, message.latest_reply, message.is_root) == (0, "", True)


def segment(channel: Channel, thread_ts: str = "") -> Segment:
    return Segment.objects.create(
        channel=channel,
        thread_ts=thread_ts,
        number=1,
        first_us=0,
        last_us=0,
        closed_us=0,
        message_count=1,
        reason="idle",
    )


@pytest.mark.parametrize(
    ("raw", "stale"),
    [
        (slack_message(1, "a"), False),
        (slack_message(1, "a", thread_ts=ts(1), reply_count=3, latest_reply=ts(9)), False),
        (edited(1, "b", 5), True),
        (deleted(1), True),
    ],
    ids=["same", "new replies", "edited", "deleted"],
)
def test_a_change_makes_its_segments_stale(
    raw: dict[str, Any], stale: bool, general: Channel
) -> None:
    store_messages(general, [slack_message(1, "a"), slack_message(2, "b")], NOW)
    ours, unrelated, thread = segment(general), segment(general, "x"), segment(general, ts(1))
    general.messages.filter(ts=ts(1)).update(segment=ours, thread_segment=thread)
    general.messages.filter(ts=ts(2)).update(segment=unrelated)
    store_messages(general, [raw], NOW)
    for row in (ours, unrelated, thread):
        row.refresh_from_db()
    assert (ours.stale, thread.stale, unrelated.stale) == (stale, stale, False)
    assert Message.objects.get(ts=ts(1)).segment == ours


def test_authors_in_no_list_become_placeholders(general: Channel) -> None:
    general.workspace.people.create(slack_id="U1", name="Ann")
    raws = [
        slack_message(1, "a"),
        slack_message(2, "b", user="W2", user_team="T9", user_profile={"display_name": "Wim"}),
        slack_message(3, "c", user="USLACKBOT"),
        slack_message(4, "d", user=None, subtype="bot_message", bot_id="B1", username="ci"),
    ]
    store_messages(general, raws, NOW)
    rows = Person.objects.order_by("slack_id")
    assert [
        (row.slack_id, row.name, row.is_bot, row.is_external, row.is_placeholder) for row in rows
    ] == [
        ("B1", "ci", True, False, True),
        ("U1", "Ann", False, False, False),
        ("USLACKBOT", "Slackbot", True, False, True),
        ("W2", "Wim", False, True, True),
    ]


@pytest.mark.slow
def test_a_batch_needs_few_queries(general: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    def queries(count: int) -> int:
        Message.objects.all().delete()
        raws = [slack_message(n, "x", thread_ts=ts(n - n % 5)) for n in range(count)]
        with CaptureQueriesContext(
            connection,
        ) as captured:
            store_messages(general, raws, NOW)
        return sum("INSERT" not in query["sql"] for query in captured)

    store_messages(general, [slack_message(0, "x")], NOW)
    assert queries(1000) == queries(10)


def test_a_batch_ends_at_its_size(general: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    store_batch = store._store_batch

    def store_and_record(channel: Channel, batch: Any, *args: Any, **options: Any) -> Any:
        sizes.append(len(batch))
        return store_batch(channel, batch, *args, **options)

    monkeypatch.setattr(store, "_store_batch", store_and_record)
    monkeypatch.setattr(store, "BATCH", 3)
    monkeypatch.setattr(store, "BATCH_CHARACTERS", 5000)
    texts = ["x"] * 7 + ["y" * 6000] + ["x"] * 2
    store_messages(general, [slack_message(n, text) for n, text in enumerate(texts)], NOW)
    assert sizes == [3, 3, 2, 2]
    assert Message.objects.count() == 10


@pytest.mark.parametrize("stop", [1, 4, 6, 9])
def test_a_stopped_import_can_be_repeated(
    stop: int, general: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BATCH", 3)
    raws = [slack_message(n, f"{n}", thread_ts=ts(n // 4 * 4)) for n in range(10)] + [
        edited(2, "e", 50)
    ]

    def until(count: int) -> Any:
        yield from itertools.islice(raws, count)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store_messages(general, until(stop), NOW)
    assert Message.objects.filter(state="live").count() == stop // 3 * 3
    store_messages(general, raws, NOW)
    repeated = state()
    Message.objects.all().delete()
    store_messages(general, raws, NOW)
    assert state() == repeated


def test_insert_stores_the_same_values_as_bulk_create(general: Channel) -> None:
    def row(ts: str) -> Message:
        person = general.workspace.people.get_or_create(slack_id="U1", name="Ann")[0]
        return Message(
            channel=general,
            ts=ts,
            micros=1,
            author=person,
            is_bot=True,
            text="a % b \N{FIRE}",
            segment=segment(general, ts),
        )

    Message.objects.bulk_create([row(ts(1))])
    Message.objects.insert([row(ts(2))])
    Message.objects.insert([])
    created, inserted = (
        {key: value for key, value in row.items() if key not in ("id", "ts", "segment_id")}
        for row in Message.objects.order_by("ts").values()
    )
    moments = created.pop("stored_at"), inserted.pop("stored_at")
    assert created == inserted
    assert abs(moments[0] - moments[1]) < timedelta(minutes=1)
    assert Message.objects.get(ts=ts(2)).segment is not None


# People and channels


def test_people(workspace: Workspace) -> None:
    raws = [person("U1", "Ann", updated=10), person("U2", "Bob"), None, {"name": "?"}]
    tally = store_people(workspace, raws)
    assert results(tally) == {"stored": 2, "quarantined": 2}
    assert results(store_people(workspace, raws[:2])) == {"duplicate": 2}
    assert results(store_people(workspace, [person("U1", "Anna", updated=20)])) == {"updated": 1}
    assert results(store_people(workspace, [person("U1", "Ann", updated=10)])) == {"duplicate": 1}
    assert Person.objects.names() == {"U1": "Anna", "U2": "Bob"}


@pytest.mark.parametrize(
    ("connected", "live", "stays_narrow"),
    [(True, False, True), (True, True, False), (False, False, False)],
    ids=["an export", "slack itself", "before there is a connection"],
)
@pytest.mark.parametrize("updated", [0, 30], ids=["undated", "dated"])
def test_only_live_lists_make_a_person_a_full_member_again(
    workspace: Workspace, connected: bool, live: bool, stays_narrow: bool, updated: int
) -> None:
    workspace.connected_at = NOW if connected else None
    narrow = {"UG": {"is_restricted": True}, "UX": {"is_stranger": True}, "UD": {"deleted": True}}
    people = [person(key, updated=20) | flags for key, flags in narrow.items()]
    store_people(workspace, people, live=True)
    widened = [
        person(key, updated=updated) | dict.fromkeys(flags, False) for key, flags in narrow.items()
    ]
    store_people(workspace, widened, live=live)
    rows = {row.slack_id: row for row in Person.objects.all()}
    flags = (rows["UG"].is_guest, rows["UX"].is_external, rows["UD"].is_deleted)
    assert flags == (stays_narrow,) * 3
    assert results(store_people(workspace, widened, live=live)) == {"duplicate": 3}


def test_a_placeholder_is_completed_by_a_list(general: Channel) -> None:
    store_messages(general, [slack_message(1, "a", user="U1")], NOW)
    tally = store_people(general.workspace, [person("U1", "Ann")])
    assert results(tally) == {"stored": 1}
    author = Message.objects.get().author
    assert author is not None
    assert (author.name, author.is_placeholder) == ("Ann", False)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_date_in_an_export_hides_no_profile_of_slack(workspace: Workspace, before: bool) -> None:
    """Its author can write any date, and their own address, into the profile of another person."""
    forged = person("U1", "Ann", updated=99_999_999_999, email="eve@example.com")
    current = person("U1", "Anna", updated=20, email="ann@example.com")
    if before:
        store_people(workspace, [forged])
        workspace.connect("T1", name="", domain="", now=NOW)
        store_people(workspace, [current], live=True)
    else:
        workspace.connect("T1", name="", domain="", now=NOW)
        store_people(workspace, [current], live=True)
        store_people(workspace, [forged])
    store_people(workspace, [current | {"deleted": True, "updated": 21}], live=True)
    row = Person.objects.get()
    assert (row.name, row.updated, row.is_deleted) == ("Anna", 21, True)
    assert row.email != "eve@example.com"


@pytest.mark.parametrize("updated", [0, 20, 30], ids=["undated", "the same", "later"])
@pytest.mark.parametrize("is_known", [True, False])
def test_only_live_lists_complete_a_placeholder(
    workspace: Workspace, is_known: bool, updated: int
) -> None:
    """An export or event gives an unlisted person no access to public channels."""
    workspace.connected_at = NOW
    if is_known:
        workspace.people.create(slack_id="U1", is_placeholder=True, updated=20)
    people = [person("U1", "Ann", updated=updated)]
    assert results(store_people(workspace, people)) == {"updated" if is_known else "stored": 1}
    assert results(store_people(workspace, people)) == {"duplicate": 1}
    assert Person.objects.get().is_placeholder
    assert results(store_people(workspace, people, live=True)) == {"stored": 1}
    assert not Person.objects.get().is_placeholder
    assert results(store_people(workspace, people)) == {"duplicate": 1}
    assert not Person.objects.get().is_placeholder


def listed(workspace: Workspace, *raws: Any, at: datetime = NOW, live: bool = False) -> Tally:
    return store_channels(workspace, raws, known_at=at, live=live)


def test_a_channel_is_renamed_by_its_id(workspace: Workspace) -> None:
    assert results(listed(workspace, (channel("C1", "old"), "public"))) == {"stored": 1}
    assert results(listed(workspace, (channel("C1", "old"), "public"))) == {"duplicate": 1}
    both = (channel("C1", "new", is_archived=True), "public"), (channel("C2", "old"), "public")
    assert results(listed(workspace, *both)) == {"stored": 1, "updated": 1}
    assert Channel.objects.names() == {"C1": "new", "C2": "old"}
    assert Channel.objects.get(slack_id="C1").is_archived


def test_an_older_list_of_channels_changes_nothing(workspace: Workspace) -> None:
    listed(workspace, (channel("C1", "new", members=["U1"]), "private"))
    older = (channel("C1", "old", members=["U1", "U2"]), "public")
    assert results(listed(workspace, older, at=NOW - timedelta(days=1), live=True)) == {
        "duplicate": 1
    }
    row = Channel.objects.get()
    assert (row.name, row.kind, row.people.count()) == ("new", "private", 1)


@pytest.mark.parametrize(
    ("stored", "listed_as", "live", "expected"),
    [
        ("public", "private", False, "private"),
        ("private", "public", False, "private"),
        ("private", "public", True, "public"),
        ("public", "private", True, "private"),
    ],
)
def test_only_a_live_list_makes_a_private_channel_public(
    stored: str, listed_as: str, live: bool, expected: str, workspace: Workspace
) -> None:
    listed(workspace, (channel("C1", "a"), stored))
    listed(workspace, (channel("C1", "a"), listed_as), live=live)
    assert Channel.objects.get().kind == expected


@pytest.mark.parametrize("connected", [True, False])
def test_only_a_live_list_ends_the_sharing_of_a_connected_channel(
    connected: bool, workspace: Workspace
) -> None:
    workspace.connected_at = NOW if connected else None
    listed(workspace, (channel("C1", "a", is_ext_shared=True), "public"), live=True)
    listed(workspace, (channel("C1", "a"), "public"))
    assert Channel.objects.get().is_shared is connected
    listed(workspace, (channel("C1", "a"), "public"), live=True)
    assert not Channel.objects.get().is_shared


def described(topic: str, **fields: Any) -> tuple[Any, str]:
    return channel(
        "C1", "a", topic={"value": topic}, purpose={"value": "plans"}, **fields
    ), "public"


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("topic", ["old words", "so […] it is", ""])
def test_an_export_restores_no_redacted_topic(
    topic: str, connected: bool, workspace: Workspace
) -> None:
    """A later export sets a topic without redactions. In a connected workspace only Slack does."""
    workspace.connected_at = NOW if connected else None
    listed(workspace, described("first"))
    Channel.objects.update(topic=topic)
    listed(workspace, described("new words"), at=NOW + timedelta(days=1))
    row = Channel.objects.get()
    stays = connected or "[…]" in topic
    assert (row.topic, row.purpose) == (topic if stays else "new words", "plans")
    listed(workspace, described("new words"), at=NOW + timedelta(days=2), live=True)
    assert Channel.objects.get().topic == "new words"


@pytest.mark.parametrize("live", [True, False])
def test_a_forgotten_channel_gets_no_topic(live: bool, workspace: Workspace) -> None:
    listed(workspace, described("secret"))
    Channel.objects.update(topic="", purpose="refilled before", forgotten_at=NOW)
    raw, _ = described("secret", is_archived=True, is_ext_shared=True)
    listed(workspace, (raw | {"name": "b"}, "private"), live=live)
    row = Channel.objects.get()
    assert (row.name, row.kind, row.is_archived, row.is_shared) == ("b", "private", True, True)
    assert (row.topic, row.purpose) == ("", "")


@pytest.mark.parametrize("connected", [True, False])
def test_an_export_adds_no_public_channel_to_a_connected_workspace(
    connected: bool, workspace: Workspace
) -> None:
    """It may have become private since the export, and messages from then on are private."""
    workspace.connected_at = NOW if connected else None
    long_ago = NOW - timedelta(days=400)
    listed(workspace, (channel("C1", "merger"), "public"), at=long_ago)
    row = Channel.objects.get()
    assert row.is_public is not connected
    store_messages(row, [slack_message(-400 * 86400 - 60, "then"), slack_message(1, "since")], NOW)
    listed(workspace, (channel("C1", "merger"), "public"), live=True)
    row.refresh_from_db()
    assert row.is_public
    hidden = row.messages.filter(was_private=True).values_list("text", flat=True)
    assert list(hidden) == (["since"] if connected else [])


def test_direct_messages_are_skipped(workspace: Workspace) -> None:
    tally = listed(workspace, ({"id": "D1"}, "im"), ({"id": "G1"}, "mpim"), (5, "public"))
    assert results(tally) == {"skipped": 2, "quarantined": 1}
    assert not Channel.objects.exists()


def test_members(general: Channel) -> None:
    general.workspace.people.create(slack_id="U1", name="Ann")
    assert set_members(general, ["U1", "U2"], NOW)
    assert not set_members(general, ["U2", "U1"], NOW + timedelta(hours=1))
    assert set_members(general, ["U2", "U3"], NOW + timedelta(hours=2))
    assert set(general.people.values_list("slack_id", flat=True)) == {"U2", "U3"}
    general.refresh_from_db()
    assert general.members_known_at == NOW + timedelta(hours=2)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("members", [["U1"], ["U2"], ["U1", "U2"]])
def test_an_export_adds_no_members_to_a_connected_channel(
    workspace: Workspace, members: list[str], is_known: bool
) -> None:
    """An event reported that U2 left, or that the bot did: then the members are unknown."""
    workspace.connect("T1", name="", domain="", now=NOW)
    workspace.mark_listed(NOW)
    readers = {}
    for slack_id in ("U1", "U2"):
        user = UserFactory()
        PersonFactory(workspace=workspace, slack_id=slack_id, user=user)
        readers[slack_id] = Reader.of(user, NOW)
    known_at = NOW - timedelta(hours=10) if is_known else None
    row = ChannelFactory(workspace=workspace, slack_id="C1", kind="private")
    row.memberships.create(person=workspace.people.get(slack_id="U1"))
    row.update_fields({"members_known_at": known_at, "members_changed_at": NOW})
    raw = channel("C1", "a", members=members)
    listed(workspace, (raw, "private"), at=NOW - timedelta(hours=5))
    row.refresh_from_db()
    assert row.members_known_at == known_at
    with_access = {
        slack_id for slack_id, reader in readers.items()
        if Channel.objects.visible_to(reader).exists()
    }  # fmt: skip
    assert with_access == ({"U1"} & set(members) if is_known else set())
    listed(workspace, (raw, "private"), at=NOW + timedelta(hours=1), live=True)
    assert set(row.people.values_list("slack_id", flat=True)) == set(members)


def test_a_list_without_members_leaves_them_unknown(workspace: Workspace) -> None:
    raw = channel("C1", "a")
    del raw["members"]
    listed(workspace, (raw, "private"))
    assert Channel.objects.get().members_known_at is None


def test_a_tally_counts_each_raw_object(general: Channel) -> None:
    raws = [
        slack_message(1, "a"),
        None,
        "x",
        {},
        slack_message(2, "b", user="U00"),
        slack_message(1, "a"),
    ]
    tally = store_messages(general, raws, NOW)
    assert tally.seen[ObjectType.MESSAGE] == 6
    assert results(tally) == {"stored": 1, "duplicate": 1, "skipped": 1, "quarantined": 3}
