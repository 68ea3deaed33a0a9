"""Memories: their identities, their versions, and the methods that write them."""

from dataclasses import replace

import pytest
from django.db import IntegrityError, transaction

from memories.models import (
    Line,
    Memory,
    MemoryVersion,
    Message,
    NewVersion,
    StaleBase,
    Unchanged,
)
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory import lines as line_rules
from memories.rules.memory.identity import InvalidMemoryCombination, MemoryType
from memories.rules.memory.lines import Origin
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_segment,
    make_thread_memory,
    make_version,
    make_workspace_memory,
)

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("constraints and conditional updates")]

TS = "1767603600.000100"
SHORT, LONG = MemoryType.SHORT_TERM, MemoryType.LONG_TERM


def draft(text="- made", **given):
    lines = [line_rules.Line(line, Origin.MODEL) for line in text.splitlines()]
    return NewVersion(**{"lines": lines, "origin": Origin.MODEL, **given})


def texts_of(memory):
    return list(memory.versions.order_by("number").values_list("number", "content"))


class TestAddVersion:
    def test_numbers_count_up_and_the_newest_is_current(self):
        memory = make_channel_memory(channel=ChannelFactory(), texts=["- one", "- two"])
        assert texts_of(memory) == [(1, "- one"), (2, "- two")]
        assert memory.head == memory.current.number == 2

    def test_lines_and_sources_are_written(self):
        message = MessageFactory()
        memory = Memory.objects.of_channel(message.channel, SHORT)
        lines = [
            line_rules.Line("- a", Origin.MODEL, None, (message.pk, message.pk)),
            line_rules.Line("- b", Origin.PERSON, 7),
        ]
        version = memory.add_version(draft(lines=lines, source_message_count=1), expected_head=0)
        assert version.content == "- a\n- b"
        assert version.line_values() == [
            line_rules.Line("- a", Origin.MODEL, 1, (message.pk,), at_us=message.micros),
            line_rules.Line("- b", Origin.PERSON, 7, at_us=to_micros(version.created_at)),
        ]

    def test_a_stale_head_writes_nothing(self):
        memory = make_channel_memory(channel=ChannelFactory(), texts=["- one", "- two"])
        with pytest.raises(StaleBase) as caught:
            memory.add_version(draft("- late"), expected_head=1)
        assert caught.value.current == memory.current
        assert texts_of(memory) == [(1, "- one"), (2, "- two")]
        assert Memory.objects.get(pk=memory.pk).head == 2
        assert Line.objects.count() == 2

    def test_a_stale_instance_writes_nothing_old(self):
        memory = make_channel_memory(channel=ChannelFactory(), texts=["- one"])
        old = Memory.objects.get(pk=memory.pk)
        memory.add_version(draft("- two"), expected_head=1)
        with pytest.raises(StaleBase):
            old.add_version(draft("- late"), expected_head=old.head)
        assert old.head == 2

    def test_an_invalid_text_does_not_change_the_head(self):
        memory = make_channel_memory(channel=ChannelFactory(), texts=["- one"])
        with pytest.raises(IntegrityError), transaction.atomic():
            memory.add_version(draft(""), expected_head=1)
        assert Memory.objects.get(pk=memory.pk).head == 1

    def test_an_invalid_pair_is_refused(self):
        memory = make_thread_memory(channel=ChannelFactory(), thread_ts=TS)
        memory.memory_type = "long_term"
        with pytest.raises(InvalidMemoryCombination):
            memory.add_version(draft("- late"), expected_head=1)
        assert texts_of(memory) == [(1, "- something was decided")]

    def test_an_older_period_never_becomes_current(self):
        """A wider backfill adds versions of earlier days. Readers keep the newest period."""
        memory = Memory.objects.of_channel(ChannelFactory(), SHORT)
        make_version(memory=memory, text="- today", until=MONDAY)
        late = make_version(memory=memory, text="- in 2020", until=MONDAY.replace(year=2020))
        memory.refresh_from_db()
        assert (late.number, memory.head, memory.current.number) == (2, 2, 1)
        assert [v.content for v in memory.versions.in_order()] == ["- in 2020", "- today"]
        assert [v.content for v in memory.versions.newest_first()] == ["- in 2020", "- today"]


@pytest.fixture
def user():
    return UserFactory()


class TestRevise:
    @pytest.fixture
    def memory(self):
        first, second = MessageFactory.create_batch(2, channel=ChannelFactory())
        memory = Memory.objects.of_channel(first.channel, SHORT)
        segment = make_segment(messages=[first, second])
        make_version(memory=memory, text="- one\n- two", sources=[first], segment=segment)
        memory.refresh_from_db()
        return memory

    def test_an_edit_is_a_new_version(self, memory, user):
        base = memory.current
        version = memory.revise("- one\n- three", by=user, based_on=1)
        assert texts_of(memory) == [(1, "- one\n- two"), (2, "- one\n- three")]
        assert memory.current == version
        assert (version.origin, version.author, version.base) == ("person", user, base)
        assert version.is_by_person
        assert not base.is_by_person
        assert (version.segment, version.until_us) == (base.segment, base.until_us)
        assert version.source_message_count == base.source_message_count == 1
        assert version.source_latest_message_ts == base.source_latest_message_ts != ""

    def test_lines_keep_origin_and_sources(self, memory, user):
        (source,) = memory.current.line_values()[0].sources
        version = memory.revise("- one\n- two!\n- four", by=user, based_on=1)
        said_us = Message.objects.get(pk=source).micros
        written_us = to_micros(version.created_at)
        assert version.line_values() == [
            line_rules.Line("- one", Origin.MODEL, 1, (source,), at_us=said_us),
            line_rules.Line("- two!", Origin.PERSON, 2, (source,), at_us=said_us, author=user.pk),
            line_rules.Line("- four", Origin.PERSON, 2, at_us=written_us, author=user.pk),
        ]

    def test_the_exact_text_is_kept(self, memory, user):
        version = memory.revise("# Ours\r\n\r\n  - one  \r\n", by=user, based_on=1)
        assert version.content == "# Ours\n\n  - one  "

    def test_a_stale_save_is_refused(self, memory, user):
        memory.revise("- mine", by=user, based_on=1)
        same_memory = Memory.objects.get(pk=memory.pk)
        with pytest.raises(StaleBase) as caught:
            same_memory.revise("- yours", by=UserFactory(), based_on=1)
        assert caught.value.current.content == "- mine"
        assert texts_of(memory) == [(1, "- one\n- two"), (2, "- mine")]

    @pytest.mark.parametrize("based_on", [0, 2, 99])
    def test_a_base_that_was_not_current_is_refused(self, memory, user, based_on):
        with pytest.raises(StaleBase):
            memory.revise("- mine", by=user, based_on=based_on)
        assert memory.versions.count() == 1

    def test_a_save_over_a_text_rewritten_in_place_is_refused(self, memory, user):
        """The number is the same, but not the text that the person saw."""
        assert memory.current.rewrite(draft("- made again"))
        with pytest.raises(StaleBase) as caught:
            memory.revise("- mine", by=user, based_on=1, revision=0)
        assert caught.value.current.content == "- made again"
        assert memory.revise("- mine", by=user, based_on=1, revision=1).number == 2

    @pytest.mark.parametrize("text", ["- one\n- two", "- one\r\n- two\r\n", "\n- one\r- two\n\n"])
    def test_the_same_text_is_no_version(self, memory, user, text):
        with pytest.raises(Unchanged):
            memory.revise(text, by=user, based_on=1)
        assert memory.versions.count() == 1

    def test_the_first_text_is_an_edit_of_number_0(self, user):
        memory = Memory.objects.of_workspace(WorkspaceFactory(), LONG)
        version = memory.revise("- by hand", by=user, based_on=0)
        assert (version.number, version.base, version.origin) == (1, None, "person")
        assert memory.current == version

    @pytest.mark.parametrize("text", ["", "\n\n", "   ", "- "])
    def test_an_empty_text_is_refused(self, memory, user, text):
        with pytest.raises(ValueError, match="no text"):
            memory.revise(text, by=user, based_on=1)
        assert Memory.objects.get(pk=memory.pk).head == 1

    def test_an_edit_after_a_late_backfill_is_of_the_current_text(self, memory, user):
        """The newest number then belongs to an older period."""
        make_version(memory=memory, text="- in 2020", until=MONDAY.replace(year=2020))
        memory.refresh_from_db()
        assert (memory.head, memory.current.number) == (2, 1)
        with pytest.raises(StaleBase):
            memory.revise("- mine", by=user, based_on=2)
        version = memory.revise("- one\n- mine", by=user, based_on=1)
        assert (version.number, version.base.number) == (3, 1)
        assert [line.since for line in version.line_values()] == [1, 3]
        assert memory.current == version


class TestRestore:
    @pytest.fixture
    def memory(self):
        message = MessageFactory()
        memory = Memory.objects.of_channel(message.channel, LONG)
        make_version(memory=memory, text="- old\n- both", sources=[message])
        make_version(memory=memory, text="- both\n- new")
        memory.refresh_from_db()
        return memory

    def test_an_older_text_is_restored_as_a_new_version(self, memory, user):
        old, newest = memory.versions.order_by("number")
        version = memory.restore(old, by=user, based_on=2)
        assert texts_of(memory)[2] == (3, "- old\n- both")
        assert memory.current == version
        assert (version.origin, version.author) == ("restore", user)
        assert (version.restored_from, version.base) == (old, newest)
        assert version.is_by_person
        assert version.source_message_count == old.source_message_count == 1
        assert version.until_us == newest.until_us

    def test_lines_are_marked_as_restored(self, memory, user):
        old, newest = memory.versions.order_by("number")
        before = old.line_values()[0]
        lines = memory.restore(old, by=user, based_on=2).line_values()
        assert lines == [
            replace(before, origin=Origin.RESTORE, since=3),
            newest.line_values()[0],
        ]
        assert before.sources

    def test_a_stale_restore_is_refused(self, memory, user):
        old = memory.versions.get(number=1)
        memory.revise("- mine", by=user, based_on=2)
        with pytest.raises(StaleBase) as caught:
            memory.restore(old, by=user, based_on=2)
        assert caught.value.current.content == "- mine"
        assert memory.versions.count() == 3

    def test_the_current_text_is_not_restored(self, memory, user):
        with pytest.raises(Unchanged):
            memory.restore(memory.current, by=user, based_on=2)
        assert memory.versions.count() == 2

    def test_a_version_of_another_memory_is_refused(self, memory, user):
        foreign = make_channel_memory(channel=ChannelFactory()).current
        with pytest.raises(ValueError, match="another memory"):
            memory.restore(foreign, by=user, based_on=2)

    def test_a_restore_after_a_late_backfill(self, memory, user):
        make_version(memory=memory, text="- in 2020", until=MONDAY.replace(year=2020))
        make_version(memory=memory, text="- today", until=MONDAY)
        make_version(memory=memory, text="- in 2019", until=MONDAY.replace(year=2019))
        memory.refresh_from_db()
        assert (memory.head, memory.current.number) == (5, 4)
        version = memory.restore(memory.versions.get(number=1), by=user, based_on=4)
        assert (version.number, version.base.number) == (6, 4)
        assert memory.current == version


class TestRewrite:
    @pytest.fixture
    def memory(self):
        return make_channel_memory(channel=ChannelFactory(), memory_type=SHORT, texts=["- one"])

    def test_a_rewrite_keeps_the_number(self, memory):
        version = memory.current
        assert version.rewrite(draft("- again\n- more", trigger={"reason": "edited"})) is True
        assert texts_of(memory) == [(1, "- again\n- more")]
        assert (version.revision, version.content) == (1, "- again\n- more")
        assert [line.text for line in version.line_values()] == ["- again", "- more"]
        assert version.trigger == {"reason": "edited"}
        assert Memory.objects.get(pk=memory.pk).head == 1
        assert version.updated_at > version.created_at

    def test_a_version_of_a_person_is_not_rewritten(self, memory, user):
        memory.revise("- mine", by=user, based_on=1)
        assert memory.current.rewrite(draft("- again")) is False
        assert texts_of(memory) == [(1, "- one"), (2, "- mine")]

    def test_a_restored_version_is_not_rewritten(self, memory, user):
        make_version(memory=memory, text="- two", until=MONDAY.replace(month=2))
        memory.restore(memory.versions.get(number=1), by=user, based_on=2)
        assert memory.current.rewrite(draft("- again")) is False
        assert memory.current.content == "- one"

    def test_the_first_of_concurrent_rewrites_wins(self, memory):
        first, second = (MemoryVersion.objects.get(pk=memory.current_id) for _ in range(2))
        assert first.rewrite(draft("- first")) is True
        assert second.rewrite(draft("- second")) is False
        assert texts_of(memory) == [(1, "- first")]
        assert [line.text for line in first.line_values()] == ["- first"]

    def test_an_empty_rewrite_changes_nothing(self, memory):
        with pytest.raises(IntegrityError), transaction.atomic():
            memory.current.rewrite(draft(""))
        assert texts_of(memory) == [(1, "- one")]
        assert Line.objects.count() == 1


def test_a_workspace_memory_has_versions_too():
    memory = make_workspace_memory(workspace=WorkspaceFactory(), texts=["- one", "- two"])
    assert Memory.objects.with_current().get(pk=memory.pk).current.content == "- two"
