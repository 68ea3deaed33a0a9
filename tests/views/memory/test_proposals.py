"""The page of a proposal."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.http import HttpResponse

from memories.models import AuditEvent
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.memory import proposals
from memories.rules.memory.lines import MAX_TEXT_LENGTH
from memories.views.memory import memories
from tests.factories import MONDAY, make_version
from tests.pipeline.memory.test_proposals import Forgetful
from tests.views.conftest import Cast

PLANS = [f"- The plan of week {n} stands as everybody agreed on Monday" for n in range(8)]


@pytest.fixture
def proposed(cast: Cast, shared_proposal: None) -> Cast:
    cast.memory.refresh_from_db()
    return cast


@pytest.fixture(scope="module", autouse=True)
def shared_proposal(shared_cast: Cast) -> None:
    """A long-term memory with many lines, which a merge would drop."""
    cast = shared_cast
    make_version(
        memory=cast.memory,
        text="\n".join(PLANS),
        sources=cast.messages[:1],
        until=MONDAY + timedelta(hours=1),
    )
    cast.memory.refresh_from_db()
    run_pass(cast.workspace, MONDAY + timedelta(hours=30), Forgetful())
    cast.memory.refresh_from_db()
    assert cast.memory.head == 3 and proposals.find_proposal(cast.memory)


def decide(cast: Cast, word: str, name: str = "editor", **given: object) -> HttpResponse:
    proposal = proposals.find_proposal(cast.memory)
    seen = {"job": proposal.pk if proposal else 0, "based_on": 3}
    path = f"/m/{cast.memory.pk}/proposal/{word}/"
    return cast.clients[name].post(path, seen | given)


def compared(cast: Cast, name: str = "member") -> str:
    response = cast.clients[name].get(f"/m/{cast.memory.pk}/proposal/")
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.slow
def test_the_card_counts_the_kept_lines(proposed: Cast) -> None:
    page = proposed.clients["member"].get(proposed.path("c/C0PUBLIC/")).content.decode()
    assert "A shorter text needs your approval." in page
    assert re.search(r"It keeps [01] of 8 lines\.", page)
    assert f"/m/{proposed.memory.pk}/proposal/" in page
    assert "/accept/" not in page
    page = proposed.clients["editor"].get(proposed.path("c/C0PUBLIC/")).content.decode()
    assert "/accept/" in page and "/reject/" in page


def test_there_is_no_page_without_a_proposal(cast: Cast) -> None:
    page = cast.clients["insider"].get(cast.path("c/C0PRIVATE/")).content.decode()
    assert "/proposal/" not in page
    path = f"/m/{cast.private_memory.pk}/proposal/"
    assert cast.clients["insider"].get(path).status_code == 404


@pytest.mark.slow
def test_both_texts_are_compared(proposed: Cast) -> None:
    page = compared(proposed)
    assert '<ul class="diff">' in page and 'class="removed"' in page
    assert "plan of week 5" in page
    assert "/accept/" not in page and "/accept/" in compared(proposed, "editor")


@pytest.mark.slow
def test_an_approved_proposal_is_the_next_version(proposed: Cast) -> None:
    waiting = proposals.find_proposal(proposed.memory)
    assert waiting
    text = "\n".join(line.text for line in proposals.proposed_lines(waiting))
    response = decide(proposed, "accept")
    assert (response.status_code, response["Location"]) == (302, "/w/team/c/C0PUBLIC/#memory")
    proposed.memory.refresh_from_db()
    assert (proposed.memory.head, proposed.memory.current.content) == (4, text)
    assert AuditEvent.objects.get(action="proposal_accept").actor == "editor"
    page = proposed.clients["editor"].get(proposed.path("c/C0PUBLIC/")).content.decode()
    assert "Approved. It is version 4." in page and "needs your approval" not in page


def shown(cast: Cast) -> str:
    match = re.search('name="shown" [^>]*value="([^"]+)"', compared(cast, "editor"))
    assert match
    return match[1]


def test_an_edited_text_takes_the_place_of_the_proposed_one(proposed: Cast) -> None:
    text = "- Mika wrote this in its place\r\n- And this"
    assert decide(proposed, "accept", text=text, shown=shown(proposed)).status_code == 302
    proposed.memory.refresh_from_db()
    version = proposed.memory.current
    assert (version.number, version.content) == (4, text.replace("\r", ""))
    page = proposed.clients["member"].get(proposed.path("c/C0PUBLIC/")).content.decode()
    assert 'edited by <span lang="en">editor</span>' in page


def test_a_form_with_the_shown_text_edits_nothing(proposed: Cast) -> None:
    job = proposals.find_proposal(proposed.memory)
    assert job
    text = proposals.proposed_text(job)
    assert decide(proposed, "accept", text=text, shown=shown(proposed)).status_code == 302
    proposed.memory.refresh_from_db()
    assert (proposed.memory.current.content, proposed.memory.current.author) == (text, None)


@pytest.mark.parametrize("text", [" \r\n", "x" * (MAX_TEXT_LENGTH + 1)])
def test_an_invalid_text_stays_in_the_form(proposed: Cast, text: str) -> None:
    text_hash = shown(proposed)
    proposed.memory.pin(6, by=None, based_on=3)
    response = decide(proposed, "accept", text=text, shown=text_hash)
    assert response.status_code == 422
    assert text_hash in response.content.decode()
    assert 'id="text-error"' in response.content.decode()
    assert f">{text.strip()}" in response.content.decode().replace("\n", "")
    proposed.memory.refresh_from_db()
    assert proposed.memory.head == 3 and proposals.find_proposal(proposed.memory)


def test_an_unchanged_text_may_be_longer_than_an_edited_one(
    proposed: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = proposals.find_proposal(proposed.memory)
    assert job
    text, text_hash = proposals.proposed_text(job), shown(proposed)
    monkeypatch.setattr(memories.text_error, "__defaults__", (1, ""))
    assert decide(proposed, "accept", text="- Mine", shown=text_hash).status_code == 422
    assert decide(proposed, "accept", text=text, shown=text_hash).status_code == 302


def edit(cast: Cast) -> None:
    cast.memory.revise("- By hand", by=None, based_on=3)


def pin(cast: Cast) -> None:
    cast.memory.pin(6, by=None, based_on=3)


@pytest.mark.parametrize("change", [edit, pin])
@pytest.mark.parametrize("is_edited", [True, False])
def test_a_typed_text_stays_on_the_page_of_a_conflict(
    proposed: Cast, change: Callable[[Cast], None], is_edited: bool
) -> None:
    job, text_hash = proposals.find_proposal(proposed.memory), shown(proposed)
    assert job
    text = "- Written by the editor" if is_edited else proposals.proposed_text(job)
    change(proposed)
    before = proposed.memory.current.content
    response = decide(proposed, "accept", job=job.pk, text=text, shown=text_hash)
    assert response.status_code == 409
    page = response.content.decode()
    assert ("Your text was not saved:" in page) == is_edited
    assert ("- Written by the editor</textarea>" in page) == is_edited
    proposed.memory.refresh_from_db()
    assert proposed.memory.current.content == before


@pytest.mark.slow
def test_the_text_stays_after_a_rejection(proposed: Cast) -> None:
    assert decide(proposed, "reject").status_code == 302
    proposed.memory.refresh_from_db()
    assert (proposed.memory.head, proposals.find_proposal(proposed.memory)) == (3, None)
    assert AuditEvent.objects.get(action="proposal_reject").actor == "editor"
    page = proposed.clients["editor"].get(proposed.path("c/C0PUBLIC/")).content.decode()
    assert "Rejected. The text is unchanged." in page


@pytest.mark.slow
@pytest.mark.parametrize("word", ["accept", "reject"])
@pytest.mark.parametrize("given", [{"job": 0}, {"job": ""}, {"based_on": 2}, {"based_on": "x"}])
def test_only_the_seen_proposal_is_decided(proposed: Cast, word: str, given: dict) -> None:
    response = decide(proposed, word, **given)
    assert response.status_code == 409
    assert "Nothing was changed" in response.content.decode()
    assert proposals.find_proposal(proposed.memory)


@pytest.mark.slow
def test_a_changed_memory_is_not_overwritten(proposed: Cast) -> None:
    text = f"{proposed.memory.current.content}\n- By hand"
    proposed.memory.revise(text, by=None, based_on=3)
    # The card disappears at once; a second decision gets a message.
    page = proposed.clients["editor"].get(proposed.path("c/C0PUBLIC/")).content.decode()
    assert "needs your approval" not in page
    response = decide(proposed, "accept")
    assert response.status_code == 409
    assert "The memory or the proposal has changed" in response.content.decode()
    proposed.memory.refresh_from_db()
    assert (proposed.memory.head, proposals.find_proposal(proposed.memory)) == (4, None)


@pytest.mark.slow
def test_the_second_of_two_decisions_is_refused(proposed: Cast) -> None:
    waiting = proposals.find_proposal(proposed.memory)
    assert waiting
    assert decide(proposed, "reject").status_code == 302
    assert decide(proposed, "accept", "insider", job=waiting.pk).status_code == 409
    proposed.memory.refresh_from_db()
    assert proposed.memory.head == 3


@pytest.mark.slow
@pytest.mark.parametrize("word", ["accept", "reject"])
@pytest.mark.parametrize(
    ("name", "status"), [("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)]
)
def test_other_readers_cannot_decide(proposed: Cast, word: str, name: str, status: int) -> None:
    assert decide(proposed, word, name).status_code == status
    assert proposals.find_proposal(proposed.memory)


@pytest.mark.nightly("quicker tests run the same lines")
def test_protected_lines_are_in_the_proposal(proposed: Cast) -> None:
    proposed.memory.pin(6, by=None, based_on=3)
    page = compared(proposed)
    assert 'class="same" lang="en">The plan of week 6' in page
    decide(proposed, "accept")
    proposed.memory.refresh_from_db()
    (line,) = proposed.memory.current.lines.filter(pinned=True)
    assert (line.text, proposed.memory.current.kept) == (PLANS[6], [PLANS[6]])
