"""The banner as people meet it: in both themes, in Japanese, narrow; its button works."""

from typing import Any

import pytest
from playwright.sync_api import Browser

from memories.models import Endpoint
from tests.browser.conftest import sign_in
from tests.browser.story import Story
from tests.browser.test_pages import LOOKS, look_at

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("look", LOOKS)
def test_banner(
    browser: Browser, browser_context_args: dict[str, Any], story: Story, look: str
) -> None:
    Endpoint.objects.create(fingerprint="f", name="tiny", needs_person=True, fault="out_of_credit")
    context = browser.new_context(**{**browser_context_args, **LOOKS[look]})
    page = context.new_page()
    sign_in(page, story)
    page.goto(story.at(f"/w/{story.workspace.slug}/"))
    banner = page.locator(".banner")
    assert banner.is_visible()
    assert look_at(page, "banner", look) == []
    banner.get_by_role("button").click()
    page.wait_for_load_state()
    assert page.locator(".toast").is_visible()
    assert page.locator(".banner").count() == 0
    context.close()
