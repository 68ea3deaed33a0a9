"""The page of all open proposals: several are decided at once."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from memories.models import Job, Memory, Note, Proposal, Reader
from memories.pipeline.context.build import build_context
from memories.pipeline.memory import proposals
from memories.rules.memory.lines import hash_text
from tests.factories import ChannelFactory, make_proposed_merge
from tests.views.conftest import Cast


def propose(cast: Cast, text: str, memory=None, **values) -> Proposal:
    current = (memory or cast.memory).current
    return Proposal.objects.propose(current, None, text, **values)


def post(cast: Cast, do: str, *chosen: Proposal, name: str = "editor", **data: str):
    keys = [f"line-{proposal.pk}" for proposal in chosen]
    path = cast.path("proposals/")
    return cast.clients[name].post(path, {"do": do, "chosen": keys, **data}, follow=True)


@pytest.mark.parametrize(
    ("name", "status"), [("editor", 200), ("member", 403), ("guest", 403), ("outsider", 404)]
)
def test_it_is_for_editors(cast: Cast, name: str, status: int) -> None:
    proposal = propose(cast, "We launch on Tuesday")
    assert cast.clients[name].get(cast.path("proposals/")).status_code == status
    if status != 200:
        assert post(cast, "approve", proposal, name=name).status_code == status
        proposal.refresh_from_db()
        assert proposal.state == "open"


@pytest.mark.slow
def test_several_proposals_are_approved_or_rejected_at_once(cast: Cast) -> None:
    line = cast.memory.current.lines.first()
    first = Proposal.objects.propose(cast.memory.current, line, "We launch on Tuesday")
    second, third = propose(cast, "Anna leads"), propose(cast, "Nobody leads")
    note = propose(cast, "Deploys run at noon", note_type="pattern")
    page = cast.clients["editor"].get(cast.path("proposals/")).content.decode()
    assert page.count('name="chosen"') == 4
    data = {f"text-of-line-{second.pk}": "Anna and Ben lead"}
    page = post(cast, "approve", first, second, note, **data).content.decode()
    assert "3 proposals approved." in page and page.count('name="only"') == 2
    assert 'name="chosen"' not in page and "Approve selected" not in page
    cast.memory.refresh_from_db()
    content = cast.memory.current.content
    assert "- We launch on Tuesday" in content and "- Anna and Ben lead" in content
    assert "Monday" not in content
    assert (Note.objects.get().content, Note.objects.get().channel) == (
        "Deploys run at noon",
        cast.public,
    )
    path = cast.path("proposals/")
    answer = cast.clients["editor"].post(path, {"only": f"reject line-{third.pk}"}, follow=True)
    assert "1 proposal rejected." in answer.content.decode()
    assert (
        "No open proposals." in cast.clients["editor"].get(cast.path("proposals/")).content.decode()
    )


def test_proposals_that_cannot_be_decided_are_reported(cast: Cast) -> None:
    proposal = propose(cast, "Anna leads")
    assert "Select at least one proposal." in post(cast, "approve").content.decode()
    proposal.reject(by=None)
    assert "1 proposal was not decided." in post(cast, "approve", proposal).content.decode()
    assert post(cast, "publish", proposal).status_code == 404


def test_the_button_of_a_proposal_decides_it_alone(cast: Cast) -> None:
    chosen, only = propose(cast, "Anna leads"), propose(cast, "Ben leads")
    data = {"chosen": [f"line-{chosen.pk}"], "only": f"approve line-{only.pk}"}
    data[f"text-of-line-{only.pk}"] = "Ben and Mika lead"
    page = cast.clients["editor"].post(cast.path("proposals/"), data, follow=True)
    assert "1 proposal approved." in page.content.decode()
    cast.memory.refresh_from_db()
    assert "- Ben and Mika lead" in cast.memory.current.content
    chosen.refresh_from_db()
    assert chosen.state == "open"


def test_a_proposal_for_an_unreadable_memory_is_not_there(cast: Cast) -> None:
    proposal = propose(cast, "Tom earns less", memory=cast.private_memory)
    page = cast.clients["editor"].get(cast.path("proposals/")).content.decode()
    assert "Tom earns" not in page
    post(cast, "approve", proposal)
    proposal.refresh_from_db()
    assert proposal.state == "open"


@pytest.fixture
def merges(cast: Cast) -> list[Job]:
    """Merges of two channels that wait for approval."""
    return [make_proposed_merge(ChannelFactory(workspace=cast.workspace)) for _ in range(2)]


def approve_texts(cast: Cast, *jobs: Job, **data: str) -> str:
    chosen = [f"text-{job.pk}" for job in jobs]
    answer = cast.clients["editor"].post(
        cast.path("proposals/"), {"do": "approve", "chosen": chosen, **data}, follow=True
    )
    return answer.content.decode()


def content_of(job: Job) -> str:
    return Memory.objects.get(pk=job.memory_id).current.content


def texts(job: Job, text: str) -> dict[str, str]:
    shown = hash_text(proposals.proposed_text(job))
    return {f"text-of-text-{job.pk}": text, f"shown-of-text-{job.pk}": shown}


def test_whole_texts_are_edited_and_approved_at_once(cast: Cast, merges: list[Job]) -> None:
    edited, unchanged = merges
    page = cast.clients["editor"].get(cast.path("proposals/")).content.decode()
    assert page.count("Ben ships the beta</textarea>") == 2
    assert page.count(hash_text("- Ben ships the beta")) == 2
    data = texts(edited, "- Cleo ships the beta\r\n") | texts(unchanged, "- Ben ships the beta")
    assert "2 proposals approved." in approve_texts(cast, edited, unchanged, **data)
    assert content_of(edited) == "- Cleo ships the beta"
    assert content_of(unchanged) == "- Ben ships the beta"
    assert Memory.objects.get(pk=unchanged.memory_id).current.author is None


def edit(job: Job) -> None:
    job.memory.revise("- by hand", by=None, based_on=1)


def pin(job: Job) -> None:
    job.memory.pin(1, by=None, based_on=1)


def nothing(_job: Job) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "text"),
    [(edit, "- Cleo ships"), (pin, "- Cleo ships"), (nothing, "x" * 20_001)],
)
def test_a_typed_text_that_is_not_saved_stays_on_the_page(
    cast: Cast, merges: list[Job], change: Callable[[Job], None], text: str
) -> None:
    job = merges[0]
    data = texts(job, text)
    change(job)
    before = content_of(job)
    page = approve_texts(cast, job, **data)
    assert "1 proposal was not decided." in page and f"{text}</textarea>" in page
    assert ("Your text was not saved:" in page) == (change is not nothing)
    assert content_of(job) == before


def test_texts_that_were_not_chosen_stay_in_their_forms(cast: Cast, merges: list[Job]) -> None:
    chosen, only_typed = merges
    data = texts(chosen, "- Cleo ships") | texts(only_typed, "- Dan ships")
    page = approve_texts(cast, chosen, **data)
    assert "1 proposal approved." in page and "not decided" not in page
    assert "<details open>" in page and ">- Dan ships</textarea>" in page
    assert (content_of(chosen), content_of(only_typed)) == ("- Cleo ships", "- one\n- two\n- three")
    page = approve_texts(cast, **texts(only_typed, "- Dan ships"))
    assert "Select at least one proposal." in page and ">- Dan ships</textarea>" in page


@pytest.mark.parametrize("text", ["", "x" * 2_001])
def test_a_line_is_not_approved_with_an_impossible_text(cast: Cast, text: str) -> None:
    proposal = propose(cast, "Anna leads")
    page = post(cast, "approve", proposal, **{f"text-of-line-{proposal.pk}": text})
    assert "1 proposal was not decided." in page.content.decode()
    assert page.status_code == (409 if text else 200)
    proposal.refresh_from_db()
    assert proposal.state == "open"


def test_texts_from_before_the_review_stay_in_contexts(cast: Cast) -> None:
    before = build_context(cast.workspace, Reader.public(), now=timezone.now()).text
    cast.workspace.settings = {**cast.workspace.settings, "review_merges": "all"}
    cast.workspace.save()
    assert cast.memory.current.content in before
    after = build_context(cast.workspace, Reader.public(), now=timezone.now()).text
    assert cast.memory.current.content in after


def test_typed_texts_are_shown_after_the_session_ended(cast: Cast) -> None:
    first, second = propose(cast, "Anna leads"), propose(cast, "Nobody leads")
    page = cast.clients["editor"].get(cast.path("proposals/"))
    data = {
        f"{name}-of-{item.key}": getattr(item, name)
        for item in page.context["items"]
        for name in ("text", "shown")
    }
    data |= {"only": f"approve line-{first.pk}", f"text-of-line-{second.pk}": "Everybody leads"}
    cast.clients["editor"].logout()
    cast.clients["editor"].get("/login/")
    response = cast.clients["editor"].post(cast.path("proposals/"), data)
    assert response.status_code == 403
    assert response.context["texts"] == ["Everybody leads"]
