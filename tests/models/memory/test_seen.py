"""Marks as seen, and the undo of the last one."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from memories.models import Memory, Seen
from memories.models.memory.seen import with_seen
from tests.factories import MONDAY, ChannelFactory, UserFactory, make_channel_memory, make_version

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("constraints and conditional updates")]


@pytest.fixture
def memory():
    return make_channel_memory(channel=ChannelFactory(), texts=["- a", "- a\n- b", "- c"])


def marked(seen):
    seen.refresh_from_db()
    return (seen.number, seen.at)


def annotations_of(memory, user):
    row = with_seen(Memory.objects.all(), user.pk).get(pk=memory.pk)
    return (row.seen, row.seen_at, row.news)


def test_all_versions_are_new_without_a_mark(memory):
    user = UserFactory()
    assert annotations_of(memory, user) == (0, None, 3)
    assert Seen.objects.count() == 0
    assert with_seen(Memory.objects.all(), None).get(pk=memory.pk).news == 3


def test_a_mark_belongs_to_its_user(memory):
    anna, ben = UserFactory(), UserFactory()
    assert Seen.objects.of(anna, memory).mark(2, MONDAY)
    assert annotations_of(memory, anna) == (2, MONDAY, 1)
    assert annotations_of(memory, ben) == (0, None, 3)


def test_a_second_mark_changes_nothing(memory):
    """The mark for an undo stays the same too."""
    seen = Seen.objects.of(UserFactory(), memory)
    assert seen.mark(1, MONDAY) and seen.mark(3, MONDAY + timedelta(hours=1))
    assert not seen.mark(3, MONDAY + timedelta(hours=2))
    assert not seen.mark(2, MONDAY + timedelta(hours=2))
    assert marked(seen) == (3, MONDAY + timedelta(hours=1))
    assert seen.undo(3)
    assert marked(seen) == (1, MONDAY)


def test_only_the_last_mark_is_undone(memory):
    seen = Seen.objects.of(UserFactory(), memory)
    assert not seen.undo(0)
    seen.mark(2, MONDAY)
    assert not seen.undo(1) and not seen.undo(3)
    assert seen.undo(2)
    assert marked(seen) == (0, None)
    assert not seen.undo(2) and not seen.undo(0)


def test_a_user_has_one_row_per_memory(memory):
    user = UserFactory()
    assert Seen.objects.of(user, memory) == Seen.objects.of(user, memory)
    with pytest.raises(IntegrityError), transaction.atomic():
        Seen.objects.create(user=user, memory=memory)
    with pytest.raises(IntegrityError), transaction.atomic():
        Seen.objects.filter(user=user).update(number=1, at=None)


def test_a_mark_is_deleted_with_its_account_and_memory(memory):
    anna, ben = UserFactory(), UserFactory()
    Seen.objects.of(anna, memory).mark(1, MONDAY)
    Seen.objects.of(ben, memory).mark(1, MONDAY)
    anna.delete()
    assert [seen.user for seen in Seen.objects.all()] == [ben]
    memory.delete()
    assert not Seen.objects.exists()


def test_only_versions_for_all_readers_are_counted(memory):
    user = UserFactory()
    make_version(memory=memory, text="- for members", audience="members")
    late = make_version(memory=memory, text="- of 2020", until=MONDAY.replace(year=2020))
    memory.refresh_from_db()
    assert memory.current.number == 3 < late.number
    assert annotations_of(memory, user)[2] == 3
    Seen.objects.of(user, memory).mark(3, MONDAY)
    assert annotations_of(memory, user)[2] == 0


OPS = st.lists(st.tuples(st.sampled_from(["mark", "undo"]), st.integers(0, 4)), max_size=12)


@pytest.mark.slow
@settings(max_examples=40)
@given(OPS)
def test_marks_and_undos_in_any_order(ops):
    """A mark only goes forward. An undo restores the mark before the last one."""
    with transaction.atomic():
        memory = make_channel_memory(channel=ChannelFactory())
        seen = Seen.objects.of(UserFactory(), memory)
        now, before = (0, None), None
        for i, (verb, number) in enumerate(ops):
            at = MONDAY + timedelta(minutes=i)
            if verb == "mark":
                expected = number > now[0]
                assert seen.mark(number, at) is expected
                if expected:
                    before, now = now, (number, at)
            else:
                expected = before is not None and number == now[0]
                assert seen.undo(number) is expected
                if expected:
                    now, before = before, None
            assert marked(seen) == now
        assert Seen.objects.filter(memory=memory).count() == 1
        transaction.set_rollback(True)
