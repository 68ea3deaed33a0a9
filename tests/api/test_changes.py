"""The changes feed: versions, notes and decided proposals, each once, for those who may read them."""

from datetime import UTC, datetime, timedelta

import pytest

from memories.models import MemoryVersion, Message, Note, Proposal
from memories.pipeline.redaction.forget import forget_message
from tests.factories import NoteFactory, make_version

START = datetime(2026, 11, 24, 9, tzinfo=UTC)


@pytest.fixture
def clock(cast, time_machine):
    """Set the time to some minutes after the start. What exists is a day old."""
    past = START - timedelta(days=1)
    MemoryVersion.objects.update(created_at=past, updated_at=past)

    def move(minutes):
        time_machine.move_to(START + timedelta(minutes=minutes), tick=False)

    move(0)
    return move


@pytest.fixture
def feed(ask):
    def read(token, since="", **options):
        answer = ask(token, "changes", data={"since": since, **options})
        assert answer.status_code == 200, answer.content
        document = answer.json()
        return [(row["kind"], row["event"]) for row in document["items"]], document["next"]

    return read


def test_every_change_appears_once_in_its_order(clock, cast, token, feed):
    key = token("member")
    cursor = feed(key)[1]
    clock(1)
    note = NoteFactory(workspace=cast.workspace, content="Ship on Fridays")
    clock(2)
    proposal = Proposal.objects.propose(cast.memory.current, None, "A line")
    proposal.approve(by=cast.users["editor"], based_on=2)
    clock(3)
    note.rewrite("Ship on Mondays", by=cast.users["editor"])
    clock(4)
    note.remove()
    clock(10)
    changes, cursor = feed(key, cursor)
    # The feed has the last state of each row.
    assert changes == [
        ("proposal", "approved"),
        ("version", "added"),
        ("note", "deleted"),
    ]
    assert feed(key, cursor) == ([], cursor)
    Note.objects.get(pk=note.pk).undelete()
    clock(12)
    assert feed(key, cursor)[0] == [("note", "changed")]


@pytest.mark.parametrize(
    "flags", [{"is_pinned": True}, {"in_context": False}, {"review_on": START.date()}]
)
def test_a_flag_of_a_note_is_a_change(clock, cast, token, feed, flags):
    key = token("member")
    note = NoteFactory(workspace=cast.workspace, content="Ship on Fridays")
    clock(5)
    changes, cursor = feed(key)
    assert ("note", "added") in changes
    note.set_flags(**flags)
    clock(10)
    changes, cursor = feed(key, cursor)
    assert changes == [("note", "changed")]
    note.set_flags(**flags)  # nothing differs
    clock(15)
    assert feed(key, cursor)[0] == []


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_have_all_changes_even_at_the_same_time(clock, cast, token, feed, limit):
    for n in range(4):
        NoteFactory(workspace=cast.workspace, content=f"Note {n}")
    Proposal.objects.propose(cast.memory.current, None, "A line").reject(by=None)
    clock(5)
    key = token("member")
    whole, end = feed(key)
    assert len(whole) >= 7 and len(set(whole)) == 3
    paged, cursor = [], ""
    while (page := feed(key, cursor, limit=limit))[0]:
        paged, cursor = paged + page[0], page[1]
    assert (paged, cursor) == (whole, end)


def test_a_change_appears_after_transactions_that_began_earlier(clock, cast, token, feed):
    """A version with an earlier time that is committed later comes before it in the feed."""
    clock(5)
    key = token("member")
    cursor = feed(key)[1]
    late = make_version(memory=cast.memory, text="- Saved first, committed last")
    MemoryVersion.objects.filter(pk=late.pk).update(
        created_at=START + timedelta(minutes=4, seconds=30),
        updated_at=START + timedelta(minutes=4, seconds=30),
    )
    assert feed(key, cursor)[0] == []
    clock(6)
    assert feed(key, cursor)[0] == [("version", "added")]


def test_a_text_that_was_redacted_as_a_whole_has_changed(clock, cast, token, feed):
    """An agent with a copy of a forgotten text hears of it."""
    key = token("member")
    clock(5)
    cursor = feed(key)[1]
    version = cast.memory.current
    for source in Message.objects.filter(lines__version=version).distinct():
        forget_message(source.channel, source.ts, by=None)
    version.refresh_from_db()
    assert version.content == "[…]"
    clock(10)
    assert ("version", "changed") in feed(key, cursor)[0]


def test_the_feed_follows_the_current_audience(clock, cast, token, feed):
    key = token("insider")
    clock(5)
    private = cast.private_memory.versions.count()
    count = len(feed(key)[0])
    cast.private.memberships.all().delete()
    assert len(feed(key)[0]) == count - private < count
    assert feed(token("outsider"))[0] == []


@pytest.mark.parametrize("since", ["x", "1", "1-version", "1-version-2-3", "-", "1-VERSION-2"])
def test_an_invalid_cursor_is_refused(cast, token, ask, since):
    assert ask(token("member"), "changes", data={"since": since}).status_code == 422
