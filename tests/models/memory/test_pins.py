"""Pins of lines in the current version. They are recorded."""

import pytest

from memories.models import AuditEvent, NewVersion, StaleBase
from memories.rules.memory.lines import Line, Origin
from tests.factories import MONDAY, ChannelFactory, UserFactory, make_channel_memory, make_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def memory():
    return make_channel_memory(channel=ChannelFactory(), texts=["- old", "- one\n- two"])


def pinned(memory):
    memory.refresh_from_db()
    return [line.text for line in memory.current.protected_lines()]


def events():
    rows = AuditEvent.objects.filter(action__in=["line_pin", "line_unpin"]).order_by("pk")
    return list(rows.values_list("action", "actor", "details"))


def test_a_pin_adds_no_version_and_is_recorded(memory):
    anna = UserFactory(username="anna")
    assert memory.pin(1, by=anna, based_on=2) is True
    assert (memory.head, memory.current.revision, pinned(memory)) == (2, 0, ["- two"])
    assert memory.pin(1, by=anna, based_on=2) is False
    assert memory.pin(1, by=None, based_on=2, pinned=False) is True
    assert memory.pin(1, by=None, based_on=2, pinned=False) is False
    assert pinned(memory) == []
    details = {"version": 2, "line": 1}
    assert events() == [("line_pin", "anna", details), ("line_unpin", "", details)]


@pytest.mark.parametrize("position", [-1, 2])
def test_an_unknown_line_raises(memory, position):
    with pytest.raises(LookupError):
        memory.pin(position, by=None, based_on=2)
    assert events() == []


@pytest.mark.parametrize(("based_on", "revision"), [(1, None), (3, None), (0, 0), (2, 1)])
def test_only_the_seen_version_is_pinned(memory, based_on, revision):
    with pytest.raises(StaleBase):
        memory.pin(0, by=None, based_on=based_on, revision=revision)
    assert (pinned(memory), events()) == ([], [])


def test_the_current_version_is_pinned_not_the_newest(memory):
    """After a late backfill the newest number belongs to an older period."""
    make_version(memory=memory, text="- in 2020", until=MONDAY.replace(year=2020))
    memory.refresh_from_db()
    assert (memory.head, memory.current.number) == (3, 2)
    assert memory.pin(0, by=None, based_on=2)
    assert pinned(memory) == ["- one"]


def test_a_memory_without_a_text_has_no_lines_to_pin(memory):
    empty = make_channel_memory(channel=ChannelFactory(), texts=[])
    with pytest.raises(LookupError):
        empty.pin(0, by=None, based_on=0)


def test_edits_and_restores_keep_pins(memory):
    anna = UserFactory(username="anna")
    memory.pin(1, by=anna, based_on=2)
    memory.revise("- new\n- two", by=anna, based_on=2)
    assert pinned(memory) == ["- new", "- two"]
    assert memory.current.lines.get(text="- two").origin == Origin.MODEL
    memory.restore(memory.versions.get(number=2), by=anna, based_on=3)
    assert pinned(memory) == ["- two"]
    recorded = AuditEvent.objects.filter(action__startswith="memory_").order_by("pk")
    assert list(recorded.values_list("action", "actor", "details")) == [
        ("memory_edit", "anna", {"version": 3, "based_on": 2}),
        ("memory_restore", "anna", {"version": 4, "restored": 2}),
    ]


def test_a_refused_edit_leaves_no_record(memory):
    with pytest.raises(StaleBase):
        memory.revise("- late", by=None, based_on=1)
    assert not AuditEvent.objects.filter(action="memory_edit").exists()


def test_a_rewrite_keeps_pins(memory):
    lines = [Line("- one", Origin.MODEL, pinned=True), Line("- three", Origin.MODEL)]
    until = memory.current.until_us
    draft = NewVersion(lines=lines, origin=Origin.MODEL, until_us=until, kept=["- one"])
    assert memory.current.rewrite(draft)
    assert (pinned(memory), memory.current.kept) == (["- one"], ["- one"])
