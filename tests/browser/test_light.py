"""Page weight, and layout shifts during loading and polling."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import brotli
import pytest
from django.contrib.staticfiles import finders
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from playwright.sync_api import Page, expect

from memories.models import Job
from tests.browser.conftest import enter
from tests.browser.measures import SHIFT, WATCH
from tests.browser.page_states import backfilling, running
from tests.browser.story import Story
from tests.browser.team import Team

pytestmark = [pytest.mark.browser, pytest.mark.nightly("in the large team; counts and measures")]

REQUESTS, BYTES = 6, 100_000


@pytest.mark.parametrize(
    "path",
    [lambda team: team.at("/w/kazoe/catch-up/"), lambda team: team.channel],
    ids=["catch-up", "channel"],
)
def test_a_cold_load_is_light(page: Page, team: Team, path: Callable[[Team], str]) -> None:
    """As it comes over the wire; a static file as it is served outside of tests: compressed."""
    enter(page.context, team.url, team.user)
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    response = page.goto(path(team), wait_until="networkidle")
    assert response is not None
    assert response.headers["content-encoding"] == "gzip"
    weight = response.request.sizes()["responseBodySize"]
    static = f"{team.url}/static/"
    for url in urls:
        if url.startswith(static):
            file = finders.find(url.removeprefix(static).partition("?")[0])
            weight += len(brotli.compress(Path(str(file)).read_bytes()))
    assert all(url.startswith(team.url) for url in urls)
    assert len(urls) <= REQUESTS, urls
    assert weight <= BYTES


# The maximum of queries: of pages, and of parts of them. The part of Catch up is nearly the page.
# A channel shows two texts with versions, jobs, threads, notes, a timeline and its cost.
PAGE, PART = 30, 20
SLOWEST = {
    "catch-up": (lambda team: "/w/kazoe/catch-up/", PAGE, PAGE - 1),
    "workspace": (lambda team: "/w/kazoe/", PAGE + 4, None),
    "channel": (lambda team: f"/w/kazoe/c/{team.long.channel.slack_id}/", PAGE + 6, None),
    "messages": (lambda team: f"/w/kazoe/c/{team.long.channel.slack_id}/messages/", PAGE, PART),
    "200 versions": (lambda team: f"/m/{team.long.pk}/versions/", PAGE, PART),
    "far versions": (lambda team: far(team), PAGE, PART),
    "search": (lambda team: "/w/kazoe/search/?q=移行", PAGE, PART),
    "jobs": (lambda team: "/w/kazoe/jobs/", PAGE, PART),
    "context": (lambda team: "/w/kazoe/context/?channel=C0LAUNCH&budget=4000", PAGE, PART),
}


@pytest.mark.parametrize("name", SLOWEST)
def test_a_page_makes_few_queries(team: Team, client: Client, name: str) -> None:
    """How long it takes beside a bare page is measured by `make bench` (docs/measured.md)."""
    path, *bounds = SLOWEST[name]
    client.force_login(team.user)
    for bound, headers in zip(bounds, ({}, {"HX-Request": "true"}), strict=True):
        if bound is None:
            continue
        with CaptureQueriesContext(connection) as queries:
            assert client.get(path(team), headers=headers).status_code == 200
        assert len(queries) <= bound


def far(team: Team) -> str:
    first, *_, last = team.long.versions.in_order().values_list("pk", flat=True)
    return f"/diff/{first}..{last}/"


def test_the_foot_of_the_navigation_stays_where_it_is(page: Page, story: Story) -> None:
    """At the foot of the window. At that of the page it would move down as the page comes in."""
    enter(page.context, story.url, story.user)
    page.set_viewport_size({"width": 1280, "height": 1100})
    page.goto(story.channel)
    assert page.evaluate("document.documentElement.scrollHeight") > 1500
    for down in (0, 1000):
        page.evaluate(f"scrollTo(0, {down})")
        expect(page.locator("nav .brand")).to_be_in_viewport()
        expect(page.locator(".nav-foot")).to_be_in_viewport(ratio=1)


def test_a_minute_of_polling_moves_nothing(page: Page, story: Story) -> None:
    """The jobs page polls every few seconds while a job runs. This does not disturb reading or
    typing.
    """
    running(story)
    enter(page.context, story.url, story.user)
    page.add_init_script(WATCH)
    page.clock.install()
    page.goto(story.at("/w/kazoe/jobs/"))
    page.set_viewport_size({"width": 1280, "height": 400})
    job = Job.objects.get(input_key="running")
    page.locator(f"#run-{job.pk}").focus()
    page.evaluate("scrollTo(0, 200)")
    before = page.evaluate("[scrollY, shifted]")
    answers: list[int] = []
    page.on("response", lambda answer: answers.append(answer.status))
    for minute in range(20):
        with page.expect_response(lambda answer: "/jobs/" in answer.url):
            page.clock.run_for(3000)
        if minute == 10:  # new rows are loaded, and still nothing moves
            Job.objects.filter(pk=job.pk).update(attempts=2)
    expect(page.locator(f"#row-{job.pk}")).to_contain_text("attempt 2")
    assert 200 in answers
    assert page.evaluate("scrollY") == before[0]
    assert page.evaluate("shifted") - before[1] < SHIFT
    expect(page.locator(f"#run-{job.pk}")).to_be_focused()


def test_focus_stays_when_a_part_is_loaded_again(page: Page, story: Story) -> None:
    """The focus is on links in parts that poll: a running backfill, and a job whose state
    changes.
    """
    backfill = backfilling(story)
    running(story)
    job = Job.objects.get(input_key="running")
    enter(page.context, story.url, story.user)
    page.clock.install()

    def come_anew(part: str, path: str, link: str) -> None:
        page.goto(story.at(path))
        page.locator(f"{part} a", has_text=link).first.focus()
        page.evaluate("part => { document.querySelector(part).isOld = true }", part)
        job.retry_at, job.state = timezone.now() + timedelta(hours=1), "waiting"
        job.save()
        page.clock.run_for(3000)
        page.wait_for_function("part => !document.querySelector(part).isOld", arg=part)
        expect(page.locator(f"{part} a", has_text=link).first).to_be_focused()

    come_anew("#progress", f"/w/kazoe/backfill/{backfill.pk}/", "beta-testers")
    job.state = "claimed"
    job.save()
    come_anew("#update", f"/m/{job.memory_id}/generate/?job={job.pk}", "See the job")
