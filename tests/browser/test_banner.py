"""The banner as people meet it; its button works. (test_pages.py looks at how it looks.)"""

import pytest
from playwright.sync_api import Page, expect

from memories.models import Endpoint
from tests.browser.conftest import sign_in
from tests.browser.story import Story

pytestmark = [
    pytest.mark.browser,
    pytest.mark.nightly("the state is in test_pages.py, the answer in tests/views"),
]


def test_banner(page: Page, story: Story) -> None:
    Endpoint.objects.create(fingerprint="f", name="tiny", needs_person=True, fault="out_of_credit")
    sign_in(page, story)
    page.goto(story.at(f"/w/{story.workspace.slug}/"))
    banner = page.locator(".banner")
    expect(banner).to_be_visible()
    banner.get_by_role("button").click()
    expect(page.locator(".toast")).to_be_visible()
    expect(banner).to_have_count(0)
