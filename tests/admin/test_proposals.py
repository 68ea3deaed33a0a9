"""Proposals in the admin: editors change, approve and reject them, as on the pages."""

from collections.abc import Callable

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from memories.models import AuditEvent, Note, Proposal, User
from memories.models.memory.proposals import MAX_LENGTH
from memories.pipeline.memory import review
from tests.admin.conftest import act, change_page, content_of, opened, sent_data, staff
from tests.factories import (
    ChannelFactory,
    PersonFactory,
    UserFactory,
    make_channel_memory,
)

pytestmark = pytest.mark.django_db


def propose(note_type: str = "", **channel: object) -> Proposal:
    memory = make_channel_memory(channel=ChannelFactory(**channel), texts=["- Anna leads"])
    line = None if note_type else memory.current.lines.get()
    return Proposal.objects.propose(memory.current, line, "Ben leads", note_type=note_type)


@pytest.fixture
def proposal() -> Proposal:
    return propose()


@pytest.mark.parametrize(
    ("text", "button", "state", "content"),
    [
        ("Ben leads", "_save", "approved", "- Ben leads"),
        ("Cleo leads\r\n", "_save", "approved", "- Cleo leads"),
        ("", "_save", "approved", "- Ben leads"),
        ("Cleo leads", "_reject", "rejected", "- Anna leads"),
        ("", "_reject", "rejected", "- Anna leads"),
    ],
)
def test_the_form_decides_about_a_proposal(
    client: Client,
    operator: User,
    proposal: Proposal,
    text: str,
    button: str,
    state: str,
    content: str,
) -> None:
    form = opened(client, proposal)
    assert form["text"] == "Ben leads"
    response = client.post(change_page(proposal), form | {"text": text, button: ""}, follow=True)
    assert [str(message) for message in response.context["messages"]] == [f"1 proposal {state}."]
    proposal.refresh_from_db()
    assert (proposal.state, proposal.decided_by, proposal.text) == (state, operator, "Ben leads")
    assert content_of(proposal) == content
    action = {"approved": "proposal_accept", "rejected": "proposal_reject"}[state]
    assert AuditEvent.objects.get(action=action).actor == operator.username
    assert "leads" not in str([*LogEntry.objects.values(), *AuditEvent.objects.values()])
    page = client.get(change_page(proposal)).content.decode()
    assert "Ben leads" in page and "<textarea" not in page and "_reject" not in page


def test_a_note_is_approved_with_another_text(client: Client, operator: User) -> None:
    proposal = propose("solution")
    form = opened(client, proposal) | {"text": "Cleo knows", "_save": ""}
    assert client.post(change_page(proposal), form).status_code == 302
    note = Note.objects.get()
    assert (note.content, note.kind, note.channel) == (
        "Cleo knows",
        "solution",
        proposal.memory.channel,
    )
    assert content_of(proposal) == "- Anna leads"


def approve_elsewhere(proposal: Proposal) -> None:
    assert review.approve(Proposal.objects.get(pk=proposal.pk), by=UserFactory())


def reject_elsewhere(proposal: Proposal) -> None:
    assert review.reject(Proposal.objects.get(pk=proposal.pk), by=UserFactory())


def edit_elsewhere(proposal: Proposal) -> None:
    proposal.memory.revise("- Anna leads\n- Dan writes", by=None, based_on=1)


def nothing(proposal: Proposal) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "text", "button", "words", "content"),
    [
        (approve_elsewhere, "Cleo leads", "_save", "decided already: approved.", "- Ben leads"),
        (approve_elsewhere, "Cleo leads", "_reject", "decided already: approved.", "- Ben leads"),
        (reject_elsewhere, "Cleo leads", "_save", "decided already: rejected.", "- Anna leads"),
        (edit_elsewhere, "Cleo leads", "_save", "has changed", "- Anna leads\n- Dan writes"),
        (nothing, "Anna leads", "_save", "has it already", "- Anna leads"),
    ],
)
def test_a_conflict_keeps_the_typed_text(
    client: Client,
    operator: User,
    proposal: Proposal,
    change: Callable[[Proposal], None],
    text: str,
    button: str,
    words: str,
    content: str,
) -> None:
    form = opened(client, proposal) | {"text": text, button: ""}
    change(proposal)
    state = Proposal.objects.get().state
    response = client.post(change_page(proposal), form)
    assert response.status_code == 409
    page = response.content.decode()
    assert words in page and f"{text}</textarea>" in page
    assert (Proposal.objects.get().state, content_of(proposal)) == (state, content)
    assert not LogEntry.objects.exists()


def test_a_text_is_approved_again_after_another_edit(
    client: Client, operator: User, proposal: Proposal
) -> None:
    form = opened(client, proposal) | {"text": "Cleo leads", "_save": ""}
    edit_elsewhere(proposal)
    bound = client.post(change_page(proposal), form).context["adminform"].form
    assert client.post(change_page(proposal), sent_data(bound)).status_code == 302
    assert content_of(proposal) == "- Cleo leads\n- Dan writes"


@pytest.mark.parametrize(
    "fields",
    [{"text": "x" * (MAX_LENGTH + 1)}, {"based_on": ""}, {"revision": "two"}],
)
def test_invalid_input_decides_nothing(
    client: Client, operator: User, proposal: Proposal, fields: dict[str, str]
) -> None:
    form = opened(client, proposal) | fields
    response = client.post(change_page(proposal), form)
    assert response.context["adminform"].form.errors.keys() == fields.keys()
    assert Proposal.objects.get().state == "open" and content_of(proposal) == "- Anna leads"


VIEW = ("view_proposal",)
EDIT = ("view_proposal", "change_memory")


@pytest.mark.parametrize(
    ("role", "permissions", "status"),
    [
        ("admin", EDIT, 302),
        ("editor", EDIT, 302),
        ("editor", VIEW, 403),
        ("editor", ("change_memory",), 403),
        ("member", EDIT, 403),
        ("guest", EDIT, 302),  # the row is not visible: a redirect to the index
        ("", EDIT, 302),
    ],
)
@pytest.mark.parametrize("way", ["form", "action"])
def test_only_editors_decide(
    client: Client,
    proposal: Proposal,
    role: str,
    permissions: tuple[str, ...],
    status: int,
    way: str,
) -> None:
    staff(client, *permissions, workspace=proposal.memory.workspace, role=role)
    may_decide = role in ("admin", "editor") and permissions == EDIT
    if way == "form":
        form = {"text": "Cleo leads", "based_on": "1", "revision": "0", "shown": "x", "_save": ""}
        assert ("_reject" in client.get(change_page(proposal)).content.decode()) == may_decide
        assert client.post(change_page(proposal), form).status_code == status
    elif status == 302:
        act(client, "approve", proposal)
    else:
        client.post("/admin/memories/proposal/", {"action": "approve", "_selected_action": [1]})
    assert Proposal.objects.get().state == ("approved" if may_decide else "open")


def test_an_operator_decides_nothing_in_a_private_channel(client: Client, operator: User) -> None:
    person = PersonFactory()
    proposal = propose(workspace=person.workspace, kind="private", members=[person])
    form = {"text": "Cleo leads", "based_on": "1", "revision": "0", "shown": "x"}
    for button in ("_save", "_reject"):
        assert client.post(change_page(proposal), form | {button: ""}).status_code == 302
    assert Proposal.objects.get().state == "open"
    person.link(operator, "slack")
    assert client.post(change_page(proposal), form | {"_save": ""}).status_code == 302
    assert content_of(proposal) == "- Cleo leads"
