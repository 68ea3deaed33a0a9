"""The admin as an operator meets it: accessible in both themes, and within the strict policy."""

from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage

from memories.models import User
from tests.browser.conftest import sign_in
from tests.browser.story import Story
from tests.browser.test_pages import LOOKS, look_at

pytestmark = pytest.mark.browser


@pytest.mark.timeout(600)
@pytest.mark.parametrize("look", ["light", "dark"])
def test_the_admin(
    browser: Browser, browser_context_args: dict[str, Any], story: Story, look: str
) -> None:
    User.objects.filter(pk=story.user.pk).update(is_staff=True, is_superuser=True)
    context = browser.new_context(**{**browser_context_args, **LOOKS[look]})
    page = context.new_page()
    said: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            said.append(f"{page.url}: {message.text}")

    page.on("console", listen)
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    sign_in(page, story)
    faults = {}
    for name, path in story.admin_pages().items():
        page.goto(story.at(path))
        faults[name] = look_at(page, f"admin-{name}", look)
    context.close()
    assert {name: found for name, found in faults.items() if found} == {}
    assert said == []
