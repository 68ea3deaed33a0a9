"""Learning from conversations: lasting lines of a merge become proposals of notes."""

import pytest

from memories.models import Note, Proposal
from memories.pipeline.access.channel_audience import publish
from memories.pipeline.generate.learning import propose_notes
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.memory import review
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    UserFactory,
    make_channel_memory,
    make_version,
    make_workspace_memory,
)
from tests.pipeline.conversations import Scribe, hours, remembering, talk

pytestmark = pytest.mark.django_db
RULE = "From now on deploys always run at noon"
TEXT = f"- {RULE}\n- Mika was on holiday last week"


@pytest.fixture
def channel():
    channel = ChannelFactory()
    channel.workspace.change_settings({"propose_notes": True})
    return channel


def learn(channel, **values):
    memory = make_channel_memory(channel=channel, texts=["- old"])
    version = make_version(memory=memory, text=TEXT, **values)
    propose_notes(version)
    return list(Proposal.objects.notes())


def test_a_lasting_line_is_proposed_once_with_its_sources(channel):
    message = MessageFactory(channel=channel)
    [proposal] = learn(channel, sources=[message])
    assert (proposal.text, proposal.note_type) == (RULE, "pattern")
    assert list(proposal.sources.all()) == [message]
    assert proposal.reject(by=None)
    assert learn(ChannelFactory(workspace=channel.workspace)) == [proposal]


def test_an_approved_note_belongs_to_the_channel(channel):
    later, first = (MessageFactory(channel=channel, ts=f"{n}.000100") for n in (200, 100))
    [proposal] = learn(channel, sources=[later, first])
    anna = UserFactory()
    assert review.approve(proposal, by=anna, text="Deploys run at noon")
    note = Note.objects.get()
    assert (note.content, note.kind, note.channel) == ("Deploys run at noon", "pattern", channel)
    assert (note.source, note.was_private) == (first, False)
    assert note.author == anna and not review.approve(proposal, by=anna)


def test_a_note_keeps_no_source_that_some_of_its_readers_may_not_read(channel):
    private = MessageFactory(channel=channel, was_private=True)
    elsewhere = MessageFactory(channel__workspace=channel.workspace)
    deleted = MessageFactory(channel=channel, state="deleted")
    [proposal] = learn(channel)
    proposal.sources.set([private, elsewhere, deleted])
    assert review.approve(proposal, by=UserFactory())
    note = Note.objects.get()
    assert (note.source, note.was_private) == (None, False)


def test_a_note_is_for_the_members_if_its_proposal_is(channel):
    message = MessageFactory(channel=channel)
    [proposal] = learn(channel, sources=[message])
    publish(channel)  # the channel was private until now
    proposal = Proposal.objects.get()
    assert review.approve(proposal, by=UserFactory())
    message.refresh_from_db()
    note = Note.objects.get()
    assert (note.source, note.was_private, message.was_private) == (message, True, True)


def test_a_note_of_members_without_a_source_is_for_them_alone(channel):
    learn(channel)
    publish(channel)  # the channel was private until now
    assert review.approve(Proposal.objects.get(), by=UserFactory())
    note = Note.objects.get()
    assert (note.source, note.was_private) == (None, True)


@pytest.mark.parametrize(
    "settings", [{"propose_notes": False}, {"propose_notes": True, "notes_enabled": False}]
)
def test_nothing_is_proposed_where_it_is_switched_off(channel, settings):
    channel.workspace.change_settings(settings)
    assert learn(channel) == []


def test_workspace_memory_and_restricted_versions_propose_nothing(channel):
    memory = make_workspace_memory(workspace=channel.workspace, texts=[TEXT])
    propose_notes(memory.current)
    assert learn(channel, audience="members") == []


@pytest.mark.slow
def test_a_merge_proposes_notes(channel):
    channel = remembering(channel.workspace)
    talk(channel, 6, words="From now on we always deploy at noon.")
    run_pass(channel.workspace, MONDAY + hours(3), Scribe())
    assert Proposal.objects.notes().exists()
    assert all(proposal.sources.exists() for proposal in Proposal.objects.notes())
