"""The banner: why no memories are written, and who may resume."""

import re
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memories.models import AuditEvent, Endpoint, Job, Memory, Workspace
from memories.rules.memory.identity import MemoryType
from tests.factories import WorkspaceFactory, make_job
from tests.views.conftest import Cast

pytestmark = pytest.mark.slow

MEMBERS = ("editor", "member", "insider", "operator")
ADMINS = ("insider", "operator")
STATES = {
    "needs_person": {"needs_person": True, "fault": "out_of_credit"},
    "breaker_open": {"failures": 5, "open_until": timedelta(minutes=3), "fault": "timeout"},
    "rate_limited": {"retry_at": timedelta(minutes=3), "fault": "rate_limited"},
}
WORDS = {
    "needs_person": "no credit left",
    "breaker_open": "is not responding",
    "rate_limited": "is limiting requests",
}


def endpoint(**state: object) -> Endpoint:
    now = timezone.now()
    values = {k: now + v if isinstance(v, timedelta) else v for k, v in state.items()}
    name = f"e{Endpoint.objects.count()}"
    return Endpoint.objects.create(fingerprint=name, name="tiny at example.com", **values)


def over_budget(workspace: Workspace, until: datetime, **given: object) -> Job:
    memory = Memory.objects.of_workspace(workspace, MemoryType.LONG_TERM)
    return make_job(
        memory=memory,
        fault="over_budget",
        fault_text="said to readers only",
        retry_at=until,
        **given,
    )


def banner(client: Client, path: str) -> str:
    """Return the banner of a page, or an empty text."""
    page = client.get(path).content.decode()
    _, _, html = page.partition('<div class="band warn banner"')
    return " ".join(html.partition("</div>")[0].split())


@pytest.mark.parametrize(
    "state",
    [
        "needs_person",
        *(
            pytest.param(state, marks=pytest.mark.nightly("other words for the same readers"))
            for state in STATES
            if state != "needs_person"
        ),
    ],
)
def test_members_see_the_banner_and_guests_do_not(cast: Cast, state: str) -> None:
    endpoint(**STATES[state])
    paths = (cast.path("c/C0PUBLIC/"), f"/m/{cast.memory.pk}/versions/")
    for name, path in [*((name, cast.path()) for name in MEMBERS), *(("editor", p) for p in paths)]:
        report = banner(cast.clients[name], path)
        assert 'role="status"' in report
        assert WORDS[state] in report
        assert "All messages are kept" in report
        assert ("This resumes automatically, at <time" in report) is (state != "needs_person")
        assert ("Try again" in report) is (name in ADMINS)
    assert banner(cast.clients["guest"], cast.path("c/C0PUBLIC/")) == ""


@pytest.mark.parametrize(
    "states",
    [
        pytest.param([], id="no endpoint"),
        [{}],
        [{"failures": 4, "fault": "timeout"}],
        [{"retry_at": timedelta(seconds=30), "fault": "rate_limited"}],
        [{"retry_at": timedelta(minutes=-3), "fault": "rate_limited"}],
        [{"failures": 5, "open_until": timedelta(minutes=-3), "fault": "timeout"}],
        pytest.param([STATES["needs_person"], {}], id="an endpoint of an earlier key"),
    ],
)
def test_there_is_no_banner_while_calls_work(cast: Cast, states: list[dict[str, object]]) -> None:
    for state in states:
        endpoint(**state)
    for name in ("insider", "member"):
        assert banner(cast.clients[name], cast.path()) == ""


@pytest.mark.nightly("quicker tests run the same lines")
def test_a_reached_budget_is_shown_until_it_ends_or_is_raised(cast: Cast) -> None:
    endpoint()
    waits = over_budget(cast.workspace, timezone.now() + timedelta(hours=5))
    for name in MEMBERS:
        report = banner(cast.clients[name], cast.path())
        assert "Budget reached" in report and "This resumes automatically" in report
        assert "said to readers only" not in report
        assert "Try again" not in report  # it would be refused again
        assert ("raise the budget" in report) is (name in ADMINS)
    Job.objects.filter(pk=waits.pk).update(retry_at=None)
    assert banner(cast.clients["member"], cast.path()) == ""


def test_a_budget_of_another_workspace_is_not_shown(cast: Cast) -> None:
    endpoint()
    over_budget(WorkspaceFactory(), timezone.now() + timedelta(hours=5))
    assert banner(cast.clients["member"], cast.path()) == ""


def test_the_banner_is_translated(cast: Cast) -> None:
    endpoint(**STATES["breaker_open"])
    client = cast.clients["member"]
    client.post("/i18n/setlang/", {"language": "ja", "next": "/w/team/"})
    assert 'role="status"' in banner(client, cast.path())


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_the_banner_needs_one_query(cast: Cast) -> None:
    def queries() -> tuple[int, int]:
        """All of a page's, and the banner's."""
        with CaptureQueriesContext(connection) as captured:
            cast.clients["member"].get(cast.path())
        arguments = [query["sql"] for query in captured]
        return len(arguments), sum("memories_endpoint" in sql for sql in arguments)

    Memory.objects.of_workspace(cast.workspace, MemoryType.LONG_TERM)
    queries()
    before = queries()
    for hours in range(5):
        over_budget(cast.workspace, timezone.now() + timedelta(hours=hours + 1))
        endpoint(**STATES["needs_person"])
    assert banner(cast.clients["member"], cast.path())
    assert queries() == before
    assert before[1] == 1


def test_a_page_that_refreshes_updates_the_banner(cast: Cast) -> None:
    closed = endpoint()
    client = cast.clients["insider"]
    address = cast.path("jobs/")
    page = client.get(address).content.decode()
    again = re.search(r'hx-get="([^"]*seen=[^"]*)"', page)
    assert again is not None and banner(client, address) == ""
    for name, value in STATES["needs_person"].items():
        setattr(closed, name, value)
    closed.save()
    part = client.get(again[1], headers={"HX-Request": "true"}).content.decode()
    above = part.partition('id="banners" hx-swap-oob="innerHTML"')[2]
    assert WORDS["needs_person"] in above
    assert f'name="next" value="{address}"' in above  # not the address of the request


class TestResume:
    def test_an_admin_resumes_calls(self, cast: Cast) -> None:
        closed = endpoint(**STATES["needs_person"])
        client = cast.clients["insider"]
        path = cast.path("c/C0PUBLIC/")
        response = client.post(cast.path("jobs/resume/"), {"next": path})
        assert (response.status_code, response["Location"]) == (302, path)
        closed.refresh_from_db()
        assert closed.breaker.find_refusal(timezone.now()) is None
        page = client.get(path).content.decode()
        assert "Calls to the model are resumed" in page
        assert 'class="band warn banner"' not in page
        event = AuditEvent.objects.get(action="endpoint_resume")
        assert event.actor == "insider"

    @pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", ""])
    def test_the_form_returns_to_paths_of_this_site_only(self, cast: Cast, target: str) -> None:
        response = cast.clients["insider"].post(cast.path("jobs/resume/"), {"next": target})
        assert response["Location"] == cast.path()

    def test_other_readers_cannot_resume_calls(self, cast: Cast) -> None:
        closed = endpoint(**STATES["needs_person"])
        for name, status in (("editor", 403), ("member", 403), ("guest", 403), ("outsider", 404)):
            assert cast.clients[name].post(cast.path("jobs/resume/")).status_code == status
        assert cast.clients["insider"].get(cast.path("jobs/resume/")).status_code == 405
        closed.refresh_from_db()
        assert closed.needs_person
