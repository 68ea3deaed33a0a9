"""The page of a rebuild, and its proposal."""

from datetime import timedelta

import pytest

from memories.models import AuditEvent, Job, Memory
from memories.pipeline.generate.passes import run_pass
from memories.rules.memory.identity import MemoryType
from tests.factories import MONDAY, make_segment, make_version
from tests.pipeline.conversations import Scribe
from tests.views.conftest import Cast


def path(cast: Cast, suffix: str = "rebuild/") -> str:
    return f"/m/{cast.memory.pk}/{suffix}"


@pytest.fixture
def rebuilt(cast: Cast) -> Cast:
    """Request a rebuild on its page, and run it."""
    short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM)
    segment = make_segment(messages=cast.messages[4:], outcome="remembered")
    make_version(memory=short, text="- Ben pays 900 dollars on 3 May.", segment=segment)
    short.versions.update(merged=True)
    assert cast.clients["editor"].post(path(cast)).status_code == 302
    run_pass(cast.workspace, MONDAY + timedelta(hours=30), Scribe())
    cast.memory.refresh_from_db()
    return cast


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status"),
    [("editor", 200), ("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)],
)
def test_a_rebuild_is_for_editors_who_read_the_memory(cast: Cast, name: str, status: int) -> None:
    client = cast.clients[name]
    assert client.get(path(cast)).status_code == status
    page = client.get(cast.path("c/C0PUBLIC/")).content.decode()
    assert (path(cast) in page) == (name == "editor")
    if name != "editor":
        assert client.post(path(cast)).status_code == status
        assert not Job.objects.rebuilds().exists()


def test_a_private_channel_is_for_its_members(cast: Cast) -> None:
    private = f"/m/{cast.private_memory.pk}/rebuild/"
    assert cast.clients["editor"].post(private).status_code == 404
    assert cast.clients["insider"].get(private).status_code == 200


def test_short_term_memories_have_no_rebuild(cast: Cast) -> None:
    short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM)
    assert cast.clients["editor"].get(f"/m/{short.pk}/rebuild/").status_code == 404


def test_the_page_has_the_size_of_the_sources(cast: Cast) -> None:
    page = cast.clients["editor"].get(path(cast)).content.decode()
    assert "rebuilt from 1 short-term text" in page


def test_a_memory_without_sources_is_not_rebuilt(cast: Cast) -> None:
    private = f"/m/{cast.private_memory.pk}/rebuild/"
    assert "There are no texts to rebuild it from." in (
        cast.clients["insider"].get(private).content.decode()
    )
    assert cast.clients["insider"].post(private).status_code == 302
    assert not Job.objects.rebuilds().exists()


def test_a_request_leads_to_its_job(cast: Cast) -> None:
    response = cast.clients["editor"].post(path(cast))
    job = Job.objects.rebuilds().get()
    assert response["Location"] == f"/w/team/jobs/{job.pk}/"
    page = cast.clients["editor"].get(response["Location"]).content.decode()
    assert "rebuilt from 1 summary" in page
    assert AuditEvent.objects.get(action="memory_rebuild").actor == "editor"


@pytest.mark.nightly("quicker tests run the same lines")
def test_both_texts_and_their_drift_are_compared(rebuilt: Cast) -> None:
    page = rebuilt.clients["member"].get(path(rebuilt, "proposal/")).content.decode()
    assert "A rebuilt text needs your approval" in page and "/accept/" not in page
    assert "Differences in facts" in page
    assert "<dt>Numbers</dt>" in page and "900" in page
    card = rebuilt.clients["editor"].get(rebuilt.path("c/C0PUBLIC/")).content.decode()
    assert "A rebuilt text needs your approval." in card


@pytest.mark.slow
@pytest.mark.parametrize(("word", "ahead"), [("accept", 1), ("reject", 0)])
def test_a_rebuild_is_approved_or_rejected(rebuilt: Cast, word: str, ahead: int) -> None:
    head = rebuilt.memory.head
    job = Job.objects.rebuilds().get()
    seen = {"job": job.pk, "based_on": rebuilt.memory.current.number}
    decide = path(rebuilt, f"proposal/{word}/")
    assert rebuilt.clients["editor"].post(decide, seen).status_code == 302
    rebuilt.memory.refresh_from_db()
    assert rebuilt.memory.head == head + ahead
