"""Proposals of agents: added with a scope, decided by people, repeated safely."""

import pytest

from memories.models import ApiKey, Line, Proposal
from memories.pipeline.memory import review
from memories.pipeline.safety.revoking import revoke_message
from tests.factories import MessageFactory, make_channel_memory

PROPOSE = [ApiKey.Scope.PROPOSE]
JSON = "application/json"


@pytest.fixture
def line(cast):
    return cast.memory.current.lines.first()


@pytest.fixture
def propose(cast, ask, line):
    def send(token, memory=None, headers=None, **body):
        data = {"line": line.pk, "text": "We launch on Tuesday", **body}
        path = f"memories/{memory or cast.memory.pk}/proposals"
        return ask(token, path, "post", data=data, content_type=JSON, headers=headers or {})

    return send


def test_a_proposal_waits_until_a_person_decides(cast, token, ask, propose, line):
    key = token("member", scopes=PROPOSE)
    source = cast.messages[0]
    answer = propose(key, reason="It was moved.", sources=[source.pk])
    assert answer.status_code == 202
    added = answer.json()
    assert (added["state"], added["line"]) == ("open", "We launch on Monday")
    assert added["url"].endswith(f"/m/{cast.memory.pk}/proposal/")
    cast.memory.refresh_from_db()
    assert "Tuesday" not in cast.memory.current.content
    proposal = Proposal.objects.get()
    assert (proposal.author, proposal.api_key.name) == (cast.users["member"], "member")
    assert list(proposal.sources.all()) == [source]
    assert review.approve(proposal, by=cast.users["editor"])
    cast.memory.refresh_from_db()
    assert "- We launch on Tuesday" in cast.memory.current.content
    assert ask(key, f"proposals/{added['id']}").json()["state"] == "approved"
    assert [row["id"] for row in ask(key, "proposals").json()["items"]] == [added["id"]]
    assert ask(token("editor"), f"proposals/{added['id']}").status_code == 404


@pytest.mark.parametrize(
    "user, options, body, status",
    [
        ("member", {}, {}, 403),
        ("guest", {"scopes": PROPOSE}, {}, 403),
        ("outsider", {"scopes": PROPOSE}, {}, 403),
        ("", {"scopes": PROPOSE}, {}, 202),
        ("member", {"scopes": PROPOSE}, {"line": None, "text": "A new line"}, 202),
        ("member", {"scopes": PROPOSE}, {"line": 999_999}, 404),
        ("member", {"scopes": PROPOSE}, {"text": " "}, 422),
        ("member", {"scopes": PROPOSE}, {"text": "x" * 2_001}, 422),
        ("member", {"scopes": PROPOSE}, {"text": "- We launch on Monday"}, 422),
        ("member", {"scopes": PROPOSE}, {"sources": [999_999]}, 422),
        ("insider", {"scopes": PROPOSE}, {"sources": "private"}, 422),
        ("member", {"scopes": PROPOSE}, {"memory": "private"}, 404),
        ("member", {"scopes": PROPOSE}, {"memory": 999_999}, 404),
    ],
)
def test_a_key_proposes_within_its_scope_and_audience(
    cast, token, propose, user, options, body, status
):
    if body.get("sources") == "private":
        body = {"sources": [cast.private.messages.get().pk]}
    if body.get("memory") == "private":
        body = {"memory": cast.private_memory.pk}
    answer = propose(token(user, **options), **body)
    assert answer.status_code == status
    assert Proposal.objects.count() == (status == 202)


def test_a_revoked_message_is_no_source_of_a_proposal(cast, token, propose):
    """A redaction deletes proposals that rest on one, so no later one may rest on it either."""
    revoked = cast.messages[5]
    revoke_message(revoked, by=None)
    assert propose(token("member", scopes=PROPOSE), sources=[revoked.pk]).status_code == 422
    assert not Proposal.objects.exists()


def test_a_line_of_an_older_version_is_found_by_its_words(cast, token, propose):
    old = Line.objects.get(version__memory=cast.memory, version__number=1, text="- Aya owns iOS")
    key = token("member", scopes=PROPOSE)
    assert propose(key, line=old.pk, text="Ben owns iOS").status_code == 202
    removed = Line.objects.get(text="- We launch on Friday")
    assert propose(key, line=removed.pk).status_code == 409


def test_a_repeated_request_adds_nothing(cast, token, propose):
    key, headers = token("member", scopes=PROPOSE), {"Idempotency-Key": "first"}
    first, second = (propose(key, headers=headers) for _ in range(2))
    assert first.json() == second.json() and Proposal.objects.count() == 1
    assert propose(key, headers=headers, text="Other words").status_code == 422
    reworded = propose(key, headers={"Idempotency-Key": "other"}, text="Other words")
    assert reworded.status_code == 202 and reworded.json() != first.json()
    assert propose(token("editor", scopes=PROPOSE), headers=headers).status_code == 202
    assert Proposal.objects.count() == 3
    wrong = propose(key, headers={"Idempotency-Key": "wrong"}, line=999_999)
    right = propose(key, headers={"Idempotency-Key": "wrong"})
    assert (wrong.status_code, right.status_code) == (404, 202)
    assert right.json() == first.json()  # equal to one that waits


def test_a_key_has_a_limited_number_of_open_proposals(cast, token, propose, monkeypatch):
    monkeypatch.setattr("memories.api.queries.MAX_OPEN_PROPOSALS", 1)
    key = token("member", scopes=PROPOSE)
    assert [propose(key, text=text).status_code for text in ("One", "Two")] == [202, 409]


def test_a_key_that_lost_access_sees_its_proposals_no_more(cast, token, ask, propose):
    key = token("insider", scopes=PROPOSE)
    line = cast.private_memory.current.lines.first()
    added = propose(key, memory=cast.private_memory.pk, line=line.pk, text="Tom earns less").json()
    assert ask(key, f"proposals/{added['id']}").status_code == 200
    cast.private.memberships.all().delete()
    assert ask(key, f"proposals/{added['id']}").status_code == 404


def test_workspace_memory_refuses_private_sources(cast, token, propose):
    short_term = make_channel_memory(channel=cast.public, memory_type="short_term")
    message = MessageFactory(channel=cast.public, was_private=True)
    key = token("insider", scopes=PROPOSE)
    line = short_term.current.lines.first()
    answer = propose(key, memory=short_term.pk, line=line.pk, sources=[message.pk])
    assert answer.status_code == 422
