"""One journey over every page: axe finds nothing, all of it fits, the console is silent.

The journey has one look: light, English, 1280 px. The tests of `make nightly` cover the others.
"""

import re

import pytest
from playwright.sync_api import Page, Request, expect

from memories.models import Note, Seen
from tests.browser.conftest import enter, sign_in
from tests.browser.measures import look_at
from tests.browser.states import data_version
from tests.browser.story import Story, fail_a_job
from tests.factories import PASSWORD

pytestmark = pytest.mark.browser

PARTS = 3  # for several processes to share


@pytest.mark.parametrize("part", range(PARTS))
def test_every_page(page: Page, story: Story, complaints: list[str], part: int) -> None:
    """Looking at the pages writes nothing to the database."""
    fail_a_job(story.memory)
    enter(page.context, story.url, story.user)
    before = data_version()
    faults = {}
    for name, path in list(story.pages().items())[part::PARTS]:
        page.goto(story.at(path))
        faults[name] = look_at(page)
    assert {name: problems for name, problems in faults.items() if problems} == {}
    assert data_version() == before


def test_a_day_of_work(page: Page, story: Story, complaints: list[str]) -> None:
    """A person signs in, catches up, searches, adds a note, and chooses a theme and a language."""
    page.goto(story.at("/w/kazoe/catch-up/"))
    page.wait_for_url(re.compile(r"/login/\?next="))
    assert look_at(page) == []
    page.fill("#id_username", story.user.username)
    page.fill("#id_password", PASSWORD)
    page.click("form.stack button")
    page.wait_for_url(story.at("/w/kazoe/catch-up/"))

    entry = page.locator(f"#entry-{story.memory.pk}")
    entry.locator("summary").first.click()
    entry.get_by_role("button", name="Mark as seen").click()
    expect(page.locator("#toast")).to_contain_text("is marked as seen up to")
    expect(entry).to_contain_class("folded")
    assert Seen.objects.get(user=story.user, memory=story.memory).number == story.now

    page.click("nav >> text=Search")
    page.get_by_role("searchbox").press_sequentially("frozen")
    expect(page.locator(".hit mark").first).to_be_visible()
    expect(page).to_have_url(re.compile("q=frozen"))

    page.click("nav >> text=Notes")
    page.fill("#id_content", "Count the shelves twice.")
    page.locator("#id_content").press("Control+Enter")
    expect(page.locator("#notes")).to_contain_text("Count the shelves twice.")
    expect(page.locator("#id_content")).to_have_value("")
    assert Note.objects.filter(content="Count the shelves twice.").exists()

    root = page.locator("html")
    page.evaluate("window.isTheSamePage = true")
    page.click("nav >> text=Dark")
    expect(root).to_have_attribute("data-theme", "dark")
    assert page.evaluate("window.isTheSamePage") is True
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)"
    page.click("nav >> text=日本語")
    expect(root).to_have_attribute("lang", "ja")
    new_tab = page.context.new_page()
    answer = new_tab.goto(story.channel)
    assert answer is not None
    # The server's own page has the theme, so that no other one flashes up first.
    assert answer.text().split("<head>")[0].count('data-theme="dark"') == 1
    expect(new_tab.locator("html")).to_have_attribute("lang", "ja")


def test_a_memory_is_edited_and_restored(page: Page, story: Story, complaints: list[str]) -> None:
    """A save takes three interactions and loads no page. A restore and its undo take two; each adds
    a version, and every older text stays."""
    first = story.now
    sign_in(page, story)
    page.goto(story.channel)
    loads: list[Request] = []
    page.on(
        "request",
        lambda request: loads.append(request) if request.is_navigation_request() else None,
    )
    page.click("#memory >> text=Edit")
    page.locator("#text").press_sequentially("- Nao tests on Tuesday.\n")
    page.click("#memory >> text=Save as new version")
    expect(page.locator("#memory .lines")).to_contain_text("Nao tests on Tuesday.")
    expect(page.locator("#rail li").first).to_contain_text(f"v{first + 1}")
    assert loads == []
    assert story.now == first + 1

    before, old = story.texts(), first - 1
    page.locator("#rail").get_by_role("link", name=f"v{old}", exact=True).click()
    page.click(f"text=Restore v{old}")
    toast = page.locator("#toast")
    expect(toast).to_contain_text(f"Version {old} was restored as version {first + 2}.")
    toast.locator("text=Undo").click()
    expect(page.locator("h1")).to_contain_text(f"v{first + 3} of {first + 3}")
    assert story.texts() == [*before, before[old - 1], before[-1]]
