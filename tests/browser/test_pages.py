"""Every page and state in every look: axe finds nothing, it fits, it keeps still, and the console is
silent. test_journey.py looks at each page once."""

import re

import pytest
from playwright.sync_api import Page
from pytest_playwright.pytest_playwright import CreateContextCallback

from tests.browser.conftest import enter, listen_to_console
from tests.browser.looks import LANGUAGES, WIDTHS
from tests.browser.measures import (
    WATCH,
    axe_in_all_looks,
    delay_scripts,
    shifts,
    sideways,
    too_narrow,
    too_small,
)
from tests.browser.page_states import EMPTY, STATES, open_new
from tests.browser.story import Story, fail_a_job

pytestmark = [pytest.mark.browser, pytest.mark.nightly("every look"), pytest.mark.timeout(600)]

PARTS = 8  # for several processes to share
NO_ANSWER = re.compile("ERR_FAILED|htmx:")  # of the state in which a save fails


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_in_every_look(
    new_context: CreateContextCallback, story: Story, language: str, part: int
) -> None:
    """Full pages, each loaded once and then looked at in both themes and three widths: axe finds
    nothing (criterion 15); it is as wide as the window, also at 320 px, which is 1280 px at 400
    percent, and with more space between the letters (18); targets are large enough (19); nothing
    had shifted when it was loaded (22)."""
    fail_a_job(story.memory)
    width = {"en": 1280, "ja": 320}[language]
    size = {"width": width, "height": WIDTHS[width]}
    page = new_context(locale=language, viewport=size).new_page()
    messages = listen_to_console(page)
    page.add_init_script(WATCH)
    delay_scripts(page)

    def look(path: str) -> list[str]:
        page.goto(story.at(path.partition("#")[0]))
        return shifts(page) + axe_in_all_looks(page) + too_narrow(page) + too_small(page)

    faults = {"login": look("/login/")} if part == 0 else {}
    enter(page.context, story.url, story.user)
    faults |= {name: look(path) for name, path in list(story.pages().items())[part::PARTS]}
    assert {name: problems for name, problems in faults.items() if problems} == {}
    assert messages == []


@pytest.mark.parametrize("group", STATES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_state_in_every_look(
    new_context: CreateContextCallback, story: Story, language: str, group: str
) -> None:
    page = new_context(locale=language).new_page()
    messages = listen_to_console(page)
    enter(page.context, story.url, story.user)
    faults = {name: axe_in_all_looks(page) + sideways(page) for name in STATES[group](page, story)}
    assert {name: problems for name, problems in faults.items() if problems} == {}
    assert [line for line in messages if not NO_ANSWER.search(line)] == []


# Where nothing is to be done but on the form, or by the next pass, which the words say.
ITSELF = {
    "/w/new/ask/?q=news",
    "/w/new/context/",
    "/w/new/invitations/",
    "/w/new/keys/",
    "/w/new/slack/",
}


def test_every_empty_page_has_a_reason_and_a_next_step(page: Page, story: Story) -> None:
    """A new workspace as its admin sees it, and empty lists: each page shows a reason and a next
    step.
    """
    enter(page.context, story.url, story.user)
    open_new(story)
    # The list of people is never empty.
    paths = [f"/w/new/{suffix}" for suffix in EMPTY if suffix != "people/"]
    paths[paths.index("/w/new/ask/")] += "?q=news"
    lists = ("messages-empty", "threads-none", "notes-none", "search-none")
    for path in [*paths, *(story.pages()[name] for name in lists)]:
        page.goto(story.at(path))
        empty = page.locator("main .empty")
        assert (path, empty.count() > 0) == (path, True)
        assert (path, len(empty.first.inner_text()) > 25) == (path, True)
        where = page.locator("main") if path in ITSELF else empty
        offered = where.locator("a, button, code").locator("visible=true")
        assert (path, offered.count() > 0) == (path, True)
