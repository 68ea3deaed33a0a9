"""Corrections of a line: at once by an editor, or as a proposal that an editor decides."""

from datetime import timedelta

import pytest

from memories.models import (
    AuditEvent,
    Line,
    MemoryVersion,
    Proposal,
    Reader,
    StaleBase,
    Unchanged,
)
from memories.rules.redaction.shingles import REDACTED, QuoteMatcher
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    UserFactory,
    make_channel_memory,
    make_version,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def memory():
    memory = make_channel_memory(channel=ChannelFactory(), texts=["- old"])
    message = MessageFactory(channel=memory.channel)
    make_version(
        memory=memory,
        text="- Anna leads\n- Launch on 18 Nov",
        sources=[message],
        until=MONDAY + timedelta(days=1),
    )
    memory.refresh_from_db()
    return memory


def line(memory, position):
    return memory.current.lines.get(position=position)


def propose(memory, text="Ben leads", position=0, **values):
    return Proposal.objects.propose(memory.current, line(memory, position), text, **values)


def test_an_equal_open_proposal_of_the_same_author_is_the_first(memory):
    anna = UserFactory()
    first = propose(memory, author=anna, reason="I asked her")
    assert propose(memory, " - Ben leads", author=anna, reason="I asked her ") == first
    others = {
        propose(memory, author=anna),
        propose(memory, position=1, author=anna, reason="I asked her"),
        propose(memory, author=UserFactory(), reason="I asked her"),
    }
    assert first not in others and len(others) == 3
    assert AuditEvent.objects.filter(action="proposal_add").count() == 4
    first.reject(by=None)
    assert propose(memory, author=anna, reason="I asked her") not in {first, *others}


def test_an_editor_corrects_a_line(memory):
    anna = UserFactory()
    before = line(memory, 0)
    Line.objects.filter(pk=before.pk).update(kind="decision", pinned=True, unverified=True)
    version = before.correct("  Ben\nleads ", by=anna, based_on=2)
    assert version.content == "- Ben leads\n- Launch on 18 Nov"
    corrected, second = version.lines.all()
    assert (corrected.author, corrected.origin, corrected.since) == (anna, "person", 3)
    assert (corrected.kind, corrected.pinned, corrected.unverified) == ("decision", True, False)
    assert corrected.at_us == before.at_us
    assert list(corrected.sources.all()) == list(before.sources.all())
    assert (second.author, second.origin, second.since) == (None, "model", 2)


@pytest.mark.parametrize(
    ("text", "based_on", "error"),
    [
        ("", 2, ValueError),
        (" - ", 2, ValueError),
        ("Anna  leads", 2, Unchanged),
        ("Ben leads", 1, StaleBase),
    ],
)
def test_a_refused_correction_changes_nothing(memory, text, based_on, error):
    with pytest.raises(error):
        line(memory, 0).correct(text, by=None, based_on=based_on)
    assert MemoryVersion.objects.filter(memory=memory).count() == 2


def test_a_deleted_line_is_not_corrected(memory):
    removed = line(memory, 0)
    memory.revise("- Launch on 18 Nov", by=None, based_on=2)
    with pytest.raises(LookupError):
        removed.correct("Ben leads", by=None, based_on=3)


def test_an_approved_line_is_its_authors(memory):
    ben, editor = UserFactory(), UserFactory()
    source = MessageFactory(channel=memory.channel)
    proposal = propose(memory, author=ben, sources=[source], reason="she left")
    others = [propose(memory, "Nobody leads"), propose(memory, "Launch on 26 Nov", 1)]
    version = proposal.approve(by=editor, based_on=2)
    assert version.author == editor
    first = version.lines.get(position=0)
    assert (first.text, first.author, list(first.sources.all())) == ("- Ben leads", ben, [source])
    assert proposal.approve(by=editor, based_on=3) is None, "it is decided"
    assert set(memory.proposals.open()) == set(others)
    assert AuditEvent.objects.filter(action="proposal_accept").count() == 1


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_new_line_is_added(memory, is_gone):
    proposal = propose(memory)
    if is_gone:
        memory.revise("- Launch on 18 Nov", by=None, based_on=2)
    else:
        proposal = Proposal.objects.propose(memory.current, None, "- Ben leads")
    based_on = memory.current.number
    version = proposal.approve(by=None, based_on=based_on, text="Ben leads from Monday")
    assert version.content.endswith("- Launch on 18 Nov\n- Ben leads from Monday")


def test_a_stale_approval_stays_open(memory):
    proposal = propose(memory)
    with pytest.raises(StaleBase):
        proposal.approve(by=None, based_on=1)
    assert list(Proposal.objects.open()) == [proposal]


def test_a_rejected_proposal_changes_nothing(memory):
    proposal = propose(memory)
    assert proposal.reject(by=None) is True
    assert proposal.reject(by=None) is False
    assert proposal.approve(by=None, based_on=2) is None
    assert (memory.head, list(memory.proposals.open())) == (2, [])


@pytest.mark.parametrize("text", ["", "- ", "Anna leads", "x" * 2001])
def test_a_proposal_differs_from_the_line(memory, text):
    with pytest.raises(ValueError, match=r"text"):
        propose(memory, text)


@pytest.mark.parametrize("audience", ["scope", "members", "nobody"])
def test_the_readers_of_the_version_read_the_proposal(memory, audience):
    member = MemberFactory(workspace=memory.workspace)
    propose(memory)
    MemoryVersion.objects.filter(pk=memory.current_id).update(audience=audience)
    readable = Proposal.objects.visible_to(Reader.of(member.user)).exists()
    assert readable is (audience == "scope")
    assert not Proposal.objects.visible_to(Reader.of(UserFactory())).exists()


def test_redaction_deletes_the_proposals_that_repeat_words(memory):
    message = line(memory, 0).sources.get()
    about_line, second = propose(memory), propose(memory, "Launch on 26 Nov", 1)
    resting = propose(memory, "Launch in May", 1, sources=[message])
    memory.current.redact(QuoteMatcher(frozenset()), [line(memory, 0).pk])
    assert line(memory, 0).text == f"- {REDACTED}"
    assert set(Proposal.objects.all()) == {second, resting}, about_line
    Proposal.objects.all().delete_quoting(QuoteMatcher(frozenset()), {message.pk})
    assert list(Proposal.objects.all()) == [second]


def test_a_text_that_makes_no_line_is_refused():
    memory = make_channel_memory(channel=ChannelFactory(), texts=["Anna leads"])
    proposal = propose(memory)
    with pytest.raises(ValueError, match="cannot have a line"):
        proposal.approve(by=None, based_on=1, text="- - x")
    proposal.refresh_from_db()
    assert proposal.state == "open"
