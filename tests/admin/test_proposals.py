"""Proposals in the admin."""

import pytest
from django.urls import reverse

from memories.models import Channel, Proposal
from tests.factories import ChannelFactory, make_channel_memory

pytestmark = pytest.mark.django_db
LIST = "admin:memories_proposal_changelist"


def propose(kind=Channel.Kind.PUBLIC):
    memory = make_channel_memory(channel=ChannelFactory(kind=kind), texts=["- Anna leads"])
    return Proposal.objects.propose(memory.current, memory.current.lines.get(), "Ben leads")


@pytest.mark.parametrize(("action", "state"), [("approve", "approved"), ("reject", "rejected")])
def test_proposals_are_decided(client, operator, action, state):
    proposals = [propose(), propose()]
    assert "Ben leads" in client.get(reverse(LIST)).content.decode()
    given = {"action": action, "_selected_action": [proposal.pk for proposal in proposals]}
    page = client.post(reverse(LIST), given, follow=True).content.decode()
    assert f"2 proposals {state}." in page
    for proposal in proposals:
        proposal.refresh_from_db()
        proposal.memory.refresh_from_db()
        assert (proposal.state, proposal.decided_by) == (state, operator)
        words = "- Ben leads" if action == "approve" else "- Anna leads"
        assert proposal.memory.current.content == words


def test_private_proposals_are_not_shown(client, operator):
    proposal = propose(Channel.Kind.PRIVATE)
    assert "Ben leads" not in client.get(reverse(LIST)).content.decode()
    client.post(reverse(LIST), {"action": "approve", "_selected_action": [proposal.pk]})
    proposal.refresh_from_db()
    assert proposal.state == "open"
