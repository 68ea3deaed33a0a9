"""Every page as people meet it: accessible in both themes, narrow, light to load, nothing inline.

The pictures land in var/screenshots, made anew each time.
"""

from pathlib import Path
from typing import Any

import brotli
import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.staticfiles import finders
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import sign_in
from tests.browser.story import Story

pytestmark = pytest.mark.browser

PICTURES = Path(settings.BASE_DIR) / "var" / "screenshots"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
AT_WORK = ".htmx-request, .htmx-swapping, .htmx-settling, .htmx-added"
LOOKS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "ja": {"color_scheme": "light", "locale": "ja"},
    "narrow": {"color_scheme": "light", "viewport": {"width": 320, "height": 640}},
    "narrow-ja": {
        "color_scheme": "dark",
        "locale": "ja",
        "viewport": {"width": 320, "height": 640},
    },
}


@pytest.mark.timeout(600)  # forty pages, each looked at by axe
@pytest.mark.parametrize("look", LOOKS)
def test_pages(
    browser: Browser, browser_context_args: dict[str, Any], story: Story, look: str
) -> None:
    """axe finds nothing in both themes, nothing scrolls sideways, the console is silent."""
    context = browser.new_context(**{**browser_context_args, **LOOKS[look]})
    page = context.new_page()
    said: list[str] = []
    page.on(
        "console",
        lambda message: (
            said.append(f"{page.url}: {message.text}") if message.type == "error" else 0
        ),
    )
    page.goto(story.at("/login/"))
    faults = {"login": look_at(page, "login", look)}
    sign_in(page, story)
    for name, path in story.pages().items():
        page.goto(story.at(path.partition("#")[0]))
        faults[name] = look_at(page, name, look)
        top = page.evaluate("document.querySelector('h1').getBoundingClientRect().top")
        if look.startswith("narrow") and top > 120:
            faults[name].append("h1 comes late")
    faults |= {name: look_at(page, name, look) for name in states(page, story)}
    context.close()
    assert {name: found for name, found in faults.items() if found} == {}
    assert [text for text in said if "status of 4" not in text] == []


def look_at(page: Page, name: str, look: str) -> list[str]:
    PICTURES.mkdir(parents=True, exist_ok=True)
    # Playwright hides carets by a style attribute, which htmx would copy to what it swaps in.
    expect(page.locator(AT_WORK)).to_have_count(0)
    page.screenshot(path=PICTURES / f"{name}-{look}.png", full_page=True)
    found = []
    if look in ("light", "dark", "narrow"):
        options = {"runOnly": {"type": "tag", "values": RULES}}
        found += [
            f"{fault['id']}: {node['target']} {node['failureSummary']}"
            for fault in Axe().run(page, options=options).response["violations"]
            for node in fault["nodes"]
        ]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append("scrolls sideways")
    return found


def states(page: Page, story: Story):
    """Pages in the middle of something; each is on the screen when its name is given."""
    edit = story.at(f"/m/{story.memory.pk}/edit/")
    page.goto(edit)
    page.fill("#text", " ")
    page.click("button.primary")
    yield "edit-refused"
    page.goto(edit)
    page.fill("#text", "- Mine alone.")
    story.meanwhile("- Theirs.")
    page.click("button.primary")
    page.wait_for_selector(".conflict")
    yield "conflict"
    page.goto(story.at(f"/v/{story.version(1)}/"))
    page.click(".band button.primary")
    page.wait_for_selector(".toast")
    yield "restored"
    page.goto(story.at("/w/kazoe/notes/"))
    page.fill("#id_content", " ")
    page.click("#add button")
    yield "note-refused"
    page.goto(story.channel)
    if page.is_visible(".topbar button"):
        page.click(".topbar button")
        yield "menu"


def test_a_cold_load_is_light(page: Page, story: Story) -> None:
    """At most 6 requests and 100 KB for a channel page, static files compressed as served."""
    sign_in(page, story)
    page.goto("about:blank")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    response = page.goto(story.channel, wait_until="networkidle")
    assert response is not None
    weight = len(response.body())
    for url in asked[1:]:
        found = finders.find(url.removeprefix(f"{story.url}/static/").partition("?")[0])
        weight += len(brotli.compress(Path(str(found)).read_bytes()))
    assert len(asked) <= 6
    assert weight <= 100_000
    assert all(url.startswith(story.url) for url in asked)
