"""Light and still: what a cold load weighs, what a page moves while it loads and while it polls."""

from collections.abc import Callable
from pathlib import Path

import brotli
import pytest
from django.contrib.staticfiles import finders
from playwright.sync_api import Page, expect

from memories.models import Generation
from tests.browser.conftest import enter
from tests.browser.measures import SHIFT, WATCH
from tests.browser.story import Story
from tests.browser.team import Team
from tests.browser.test_pages import running

pytestmark = pytest.mark.browser

REQUESTS, BYTES = 6, 100_000


@pytest.mark.parametrize(
    "path",
    [lambda team: team.at("/w/kazoe/catch-up/"), lambda team: team.channel],
    ids=["catch-up", "channel"],
)
def test_20_a_cold_load_is_light(page: Page, team: Team, path: Callable[[Team], str]) -> None:
    """As it comes over the wire; a static file as it is served outside of tests: compressed."""
    enter(page.context, team.url, team.user)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    response = page.goto(path(team), wait_until="networkidle")
    assert response is not None
    assert response.headers["content-encoding"] == "gzip"
    weight = response.request.sizes()["responseBodySize"]
    static = f"{team.url}/static/"
    for url in asked:
        if url.startswith(static):
            found = finders.find(url.removeprefix(static).partition("?")[0])
            weight += len(brotli.compress(Path(str(found)).read_bytes()))
    assert all(url.startswith(team.url) for url in asked)
    assert len(asked) <= REQUESTS, asked
    assert weight <= BYTES


def test_22_a_minute_of_polling_moves_nothing(page: Page, story: Story) -> None:
    """The jobs page asks every few seconds while one runs; who reads and types there is left alone."""
    running(story)
    enter(page.context, story.url, story.user)
    page.add_init_script(WATCH)
    page.clock.install()
    page.goto(story.at("/w/kazoe/jobs/"))
    page.set_viewport_size({"width": 1280, "height": 400})
    job = Generation.objects.get(input_key="running")
    page.locator(f"#run-{job.pk}").focus()
    page.evaluate("scrollTo(0, 200)")
    before = page.evaluate("[scrollY, shifted]")
    answers: list[int] = []
    page.on("response", lambda answer: answers.append(answer.status))
    for minute in range(20):
        with page.expect_response(lambda answer: "/jobs/" in answer.url):
            page.clock.run_for(3000)
        if minute == 10:  # what is new comes in, and still nothing moves
            Generation.objects.filter(pk=job.pk).update(attempts=2)
    expect(page.locator(f"#row-{job.pk}")).to_contain_text("attempt 2")
    assert 200 in answers
    assert page.evaluate("scrollY") == before[0]
    assert page.evaluate("shifted") - before[1] < SHIFT
    expect(page.locator(f"#run-{job.pk}")).to_be_focused()
