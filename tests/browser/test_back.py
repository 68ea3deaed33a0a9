"""Back after signing out, in a browser that keeps whole pages in memory."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from playwright.sync_api import BrowserType, Error, Page

from tests.browser.conftest import sign_in
from tests.browser.story import Story
from tests.processes import wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.nightly("needs a Chromium of its own, with its back/forward cache on"),
]

CACHE_OFF = "--disable-back-forward-cache"  # added by Playwright


@pytest.fixture
def keeping_page(
    browser_type: BrowserType,
    browser_type_launch_args: dict[str, Any],
    browser_context_args: dict[str, Any],
) -> Iterator[Page]:
    browser = browser_type.launch(**browser_type_launch_args, ignore_default_args=[CACHE_OFF])
    try:
        yield browser.new_context(**browser_context_args).new_page()
    finally:
        browser.close()


def go_back(page: Page, path: str) -> None:
    """Until the browser shows this path. `page.go_back` waits for a load that need not come."""
    page.evaluate("history.back()")

    def is_there() -> bool:
        with suppress(Error):  # between two pages
            return bool(page.evaluate("location.pathname + location.search") == path)
        return False

    wait_until(is_there, path)


def test_public_pages_come_back_from_memory(keeping_page: Page, story: Story) -> None:
    """Without this the next test would pass in a browser that keeps nothing."""
    keeping_page.goto(story.at("/help/"))
    keeping_page.evaluate("window.kept = true")
    keeping_page.goto(story.at("/login/"))
    go_back(keeping_page, "/help/")
    assert keeping_page.evaluate("window.kept") is True


def test_private_pages_do_not(keeping_page: Page, story: Story) -> None:
    """Back sends a request, which leads to the login with a `next` address."""
    sign_in(keeping_page, story)
    private = keeping_page.evaluate("location.pathname")
    keeping_page.evaluate("window.kept = true")
    keeping_page.get_by_role("button", name="Sign out").click()
    keeping_page.wait_for_url("**/login/")
    go_back(keeping_page, f"/login/?next={private}")
    assert keeping_page.evaluate("window.kept") is None
