"""Chromium against a live server, with a team that has talked for two weeks."""

import io
import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from playwright.sync_api import ConsoleMessage, Page

from memories.demo.workspace import DEMO_PASSWORD, DEMO_USER
from memories.models import Channel, Memory, User
from memories.rules.memory import MemoryType
from tests import chromium
from tests.browser.story import Story, tell

# Playwright's own loop runs in this thread; Django would refuse the ORM beside it.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

# What Chromium says of answers that are meant: a conflict, a form to be corrected, a refusal.
MEANT = ("status of 409", "status of 422", "status of 403", "status of 404")


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    return {
        **browser_type_launch_args,
        "executable_path": chromium.find(),
        "args": ["--no-sandbox", "--disable-dev-shm-usage"],
    }


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "locale": "en", "viewport": {"width": 1280, "height": 900}}


@pytest.fixture
def story(transactional_db: None, live_server: Any) -> Story:
    """Told before the browser asks; `url` is where it is read."""
    return tell(live_server.url)


@pytest.fixture
def demo(transactional_db: None, live_server: Any) -> Story:
    """The demo workspace, as `make demo` makes it."""
    call_command("demo", stdout=io.StringIO(), stderr=io.StringIO())
    launch = Channel.objects.get(name="launch")
    memory = Memory.objects.of_channel(launch, MemoryType.LONG_TERM)
    user = User.objects.get(username=DEMO_USER)
    return Story(live_server.url, launch.workspace, launch, memory, "", user, DEMO_PASSWORD)


@pytest.fixture
def complaints(page: Page) -> Iterator[list[str]]:
    """What the browser's console holds against the pages: errors and violations of the policy."""
    said: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(m in message.text for m in MEANT):
            said.append(message.text)

    page.on("console", listen)
    page.on("pageerror", lambda error: said.append(str(error)))
    yield said
    assert said == []


def sign_in(page: Page, story: Story) -> None:
    page.goto(f"{story.url}/login/")
    page.fill("#id_username", story.user.username)
    page.fill("#id_password", story.password)
    page.click("form.stack button")
    page.wait_for_url(f"{story.url}/w/{story.workspace.slug}/catch-up/")
