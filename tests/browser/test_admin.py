"""The admin as an operator meets it: accessible in both themes and languages, and within the strict policy."""

from typing import Any

import pytest
from playwright.sync_api import Browser

from memories.models import User
from tests.browser.conftest import sign_in
from tests.browser.story import Story
from tests.browser.test_pages import LOOKS, errors_of, look_at

pytestmark = pytest.mark.browser


@pytest.mark.timeout(600)
@pytest.mark.parametrize("look", ["light", "dark", "ja"])
def test_the_admin(
    browser: Browser, browser_context_args: dict[str, Any], story: Story, look: str
) -> None:
    User.objects.filter(pk=story.user.pk).update(is_staff=True, is_superuser=True)
    context = browser.new_context(**{**browser_context_args, **LOOKS[look]})
    page = context.new_page()
    said = errors_of(page)
    sign_in(page, story)
    faults = {}
    for name, path in story.admin_pages().items():
        page.goto(story.at(path))
        faults[name] = look_at(page)
    context.close()
    assert {name: found for name, found in faults.items() if found} == {}
    assert said == []
