"""Update now: the cost, the start, and the job until it is over."""

from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.utils import timezone

from memories.models import (
    AuditEvent,
    Channel,
    ChannelSync,
    Job,
    Memory,
    MemoryVersion,
    Segment,
    Workspace,
)
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.plan import plan_channel
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from tests.factories import ChannelFactory, MessageFactory, make_job, make_reply, make_thread_memory
from tests.views.conftest import Cast

PART = {"HX-Request": "true"}


@pytest.fixture
def talking(cast: Cast) -> Cast:
    return cast


@pytest.fixture(scope="module", autouse=True)
def shared_talk(shared_cast: Cast) -> None:
    """A channel with a new message that is not due."""
    cast = shared_cast
    at = timezone.now() - timedelta(minutes=3)
    MessageFactory(channel=cast.public, author=cast.author, at=at, text="the lamps are blue")
    plan_channel(cast.public.pk, timezone.now())
    run_pass(cast.workspace, timezone.now())


def short_of(channel: Channel) -> Memory:
    return Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)


def short(cast: Cast) -> Memory:
    return short_of(cast.public)


def post(cast: Cast, name: str = "editor", memory: Memory | None = None, **headers: str):
    path = f"/m/{(memory or short(cast)).pk}/generate/"
    response: HttpResponse = cast.clients[name].post(path, headers=headers)
    return response


@pytest.mark.nightly("quicker tests run the same lines")
def test_get_shows_the_cost_and_starts_nothing(talking: Cast) -> None:
    segments = Segment.objects.count()
    page = talking.clients["editor"].get(talking.path("c/C0PUBLIC/")).content.decode()
    path = f"/m/{short(talking).pk}/generate/"
    assert f'href="{path}"' in page
    for headers in ({}, PART):
        offer = talking.clients["editor"].get(path, headers=headers).content.decode()
        assert "Update now (no cost)" in offer and ("<html" in offer) is not bool(headers)
    assert Segment.objects.count() == segments
    member = talking.clients["member"].get(talking.path("c/C0PUBLIC/")).content.decode()
    assert "/generate/" not in member


@pytest.mark.slow
@pytest.mark.parametrize("of", [MemoryType.SHORT_TERM, MemoryType.LONG_TERM])
def test_post_summarises_waiting_messages(talking: Cast, of: MemoryType) -> None:
    memory = Memory.objects.of_channel(talking.public, of)
    answer = post(talking, memory=memory)
    job = Job.objects.unfinished().get()
    assert answer["Location"] == talking.path(f"jobs/{job.pk}/")
    assert (job.trigger["reason"], job.trigger["new"]) == ("asked", 1)
    assert AuditEvent.objects.filter(action="memory_update", actor="editor").count() == 1
    post(talking, memory=memory)
    assert Job.objects.unfinished().get() == job
    run_pass(talking.workspace, timezone.now())
    assert "the lamps are blue" in short(talking).current.content
    version = MemoryVersion.objects.get(job=job)
    page = talking.clients["editor"].get(f"/v/{version.pk}/").content.decode()
    assert "1 message, updated by hand" in page


def test_a_channel_in_its_first_sync_is_not_updated(talking: Cast) -> None:
    ChannelSync.objects.create(channel=talking.public, history_newest_ts="1.000000")
    post(talking)
    assert not Job.objects.unfinished().exists()


@pytest.mark.slow
def test_the_part_refreshes_until_the_job_is_over(talking: Cast) -> None:
    part = post(talking, **PART).content.decode()
    job = Job.objects.unfinished().get()
    path = f"/m/{short(talking).pk}/generate/?job={job.pk}"
    assert 'hx-trigger="every 3s"' in part and f'hx-get="{path}&amp;seen=queued"' in part
    client = talking.clients["editor"]
    assert client.get(f"{path}&seen=queued", headers=PART).status_code == 204
    assert client.get(f"{path}&seen=running", headers=PART).status_code == 200
    run_pass(talking.workspace, timezone.now())
    over = client.get(f"{path}&seen=queued", headers=PART)
    number = MemoryVersion.objects.get(job=job).number
    assert over["HX-Refresh"] == "true", "the page shows the new texts and counts"
    page = client.get(talking.path("c/C0PUBLIC/")).content.decode()
    assert f"Updated: v{number}." in page
    assert client.get(path).status_code == 200


@pytest.mark.slow
def test_the_page_waits_for_the_merge_as_well(talking: Cast) -> None:
    post(talking, **PART)
    job = Job.objects.unfinished().get()
    path = f"/m/{short(talking).pk}/generate/?job={job.pk}"
    run_pass(talking.workspace, timezone.now())
    merge = Job.objects.filter(memory__memory_type=MemoryType.LONG_TERM).latest("pk")
    state = merge.state
    Job.objects.filter(pk=merge.pk).update(state="waiting")
    waiting = talking.clients["editor"].get(path, headers=PART)
    assert "HX-Refresh" not in waiting and f"?job={merge.pk}" in waiting.content.decode()
    Job.objects.filter(pk=merge.pk).update(state=state)
    assert "HX-Refresh" in talking.clients["editor"].get(path, headers=PART)


@pytest.mark.slow
def test_a_reader_stops_the_refreshing(talking: Cast) -> None:
    part = post(talking, **PART).content.decode()
    job = Job.objects.unfinished().get()
    path = f"/m/{short(talking).pk}/generate/?job={job.pk}"
    assert f'href="{path}&amp;live=off"' in part
    client = talking.clients["editor"]
    for headers in ({}, PART):
        still = client.get(f"{path}&live=off", headers=headers).content.decode()
        assert "every 3s" not in still and f'href="{path}"' in still
    assert "every 3s" in client.get(path, headers=PART).content.decode()
    run_pass(talking.workspace, timezone.now())
    assert 'id="live"' not in client.get(path).content.decode()


@pytest.mark.slow
def test_a_failed_update_shows_its_fault_and_is_retried(talking: Cast) -> None:
    post(talking)
    job = Job.objects.unfinished().get()
    Job.objects.filter(pk=job.pk).update(state="dead", fault="timeout", finished_at=timezone.now())
    path = f"/m/{short(talking).pk}/generate/?job={job.pk}"
    over = talking.clients["editor"].get(path, headers=PART)
    text = over.content.decode()
    assert over.status_code == 286 and "The model did not reply in time" in text
    assert "Retry" in text
    post(talking, **PART)
    job.refresh_from_db()
    assert job.state == "waiting"


@pytest.mark.slow
def test_without_waiting_messages_no_job_is_made(talking: Cast) -> None:
    post(talking)
    run_pass(talking.workspace, timezone.now())
    before = Job.objects.count()
    answer = post(talking, **PART)
    assert "Nothing is waiting" in answer.content.decode()
    assert post(talking)["Location"].startswith(talking.path("c/C0PUBLIC/"))
    assert Job.objects.count() == before


@pytest.fixture
def unseen(talking: Cast) -> Channel:
    """A channel with a message that no pass has planned."""
    channel = ChannelFactory(workspace=talking.workspace, slack_id="C0UNSEEN", name="unseen")
    at = timezone.now() - timedelta(minutes=2)
    MessageFactory(channel=channel, author=talking.author, at=at, text="the roof is green")
    return channel


@pytest.mark.nightly("quicker tests run the same lines")
@pytest.mark.parametrize("marked", [False, True], ids=["never looked at", "with a start mark"])
def test_post_creates_the_memory_of_a_channel(talking: Cast, unseen: Channel, marked: bool) -> None:
    if marked:
        unseen.remember_from(to_micros(timezone.now() - timedelta(hours=1)))
    client, path = talking.clients["editor"], talking.path("c/C0UNSEEN/generate/")
    assert f'href="{path}"' in client.get(talking.path("c/C0UNSEEN/")).content.decode()
    for headers in ({}, PART):
        assert "Update now (no cost)" in client.get(path, headers=headers).content.decode()
    assert not Memory.objects.filter(channel=unseen).exists()
    part = client.post(path, headers=PART).content.decode()
    memory = Memory.objects.get(channel=unseen)
    job = memory.jobs.unfinished().get()
    assert f'hx-get="/m/{memory.pk}/generate/?job={job.pk}&amp;seen=queued"' in part
    run_pass(talking.workspace, timezone.now())
    assert "the roof is green" in short_of(unseen).current.content


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), [("member", 403), ("outsider", 404), ("nobody", 302)])
def test_only_editors_create_a_memory(
    talking: Cast, unseen: Channel, name: str, status: int
) -> None:
    path = talking.path("c/C0UNSEEN/generate/")
    assert talking.clients[name].get(path).status_code == status
    assert talking.clients[name].post(path).status_code == status
    assert not Memory.objects.filter(channel=unseen).exists()


@pytest.mark.slow
def test_an_empty_channel_has_no_update(talking: Cast, unseen: Channel) -> None:
    unseen.messages.all().delete()
    page = talking.clients["editor"].get(talking.path("c/C0UNSEEN/")).content.decode()
    assert "/generate/" not in page
    offer = talking.clients["editor"].get(talking.path("c/C0UNSEEN/generate/")).content.decode()
    assert "Nothing is waiting" in offer


@pytest.mark.slow
def test_a_workspace_that_was_never_synced_has_no_update(talking: Cast, unseen: Channel) -> None:
    Workspace.objects.update(connected_at=timezone.now(), listed_at=timezone.now(), synced_at=None)
    client, path = talking.clients["operator"], talking.path("c/C0UNSEEN/generate/")
    offer = client.get(path, headers=PART).content.decode()
    assert "never read completely" in offer and "<form" not in offer
    answer = client.post(path, follow=True)
    assert "never read completely" in answer.content.decode()
    assert not Job.objects.filter(memory__channel=unseen).exists()


@pytest.mark.slow
def test_a_thread_is_updated_alone(talking: Cast) -> None:
    now = timezone.now()
    root = MessageFactory(channel=talking.public, author=talking.author, at=now, text="who?")
    memory = make_thread_memory(channel=talking.public, thread_ts=root.ts)
    for i in range(5):
        make_reply(root=root, author=talking.author, at=now + timedelta(seconds=i + 1))
    # A place that has a memory is updated even by short messages.
    page = talking.clients["editor"].get(talking.path(f"c/C0PUBLIC/t/{root.ts}/"))
    assert f"/m/{memory.pk}/generate/" in page.content.decode()
    later = now + timedelta(minutes=1)
    plan_channel(talking.public.pk, later)
    assert not memory.jobs.exists()
    plan_channel(talking.public.pk, later, close_now=root.ts)
    assert memory.jobs.get().trigger["reason"] == "asked"
    assert not Segment.objects.filter(thread_ts="", reason="asked").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), [("member", 403), ("outsider", 404), ("nobody", 302)])
def test_only_editors_update(talking: Cast, name: str, status: int) -> None:
    assert post(talking, name).status_code == status
    path = f"/m/{short(talking).pk}/generate/"
    assert talking.clients[name].get(path).status_code == status
    assert not Job.objects.unfinished().exists()


@pytest.mark.slow
def test_a_job_of_another_channel_is_not_shown(talking: Cast) -> None:
    job = make_job(memory=talking.private_memory)
    path = f"/m/{short(talking).pk}/generate/?job={job.pk}"
    assert talking.clients["insider"].get(path).status_code == 404
