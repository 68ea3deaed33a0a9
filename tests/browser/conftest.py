"""Chromium against a live server, with a team that has talked for two weeks."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect
from pytest_django import DjangoDbBlocker
from pytest_django.live_server_helper import LiveServer

from memories.models import User
from tests import chromium
from tests.browser.states import States
from tests.browser.story import Story, tell
from tests.browser.team import Team, grow
from tests.factories import ChannelFactory, PersonFactory, UserFactory, WorkspaceFactory

# Playwright's own loop runs in this thread; Django would refuse the ORM beside it.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

# A bound for a broken test: how fast a busy machine is says nothing about the pages.
expect.set_options(timeout=20_000)

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


@pytest.fixture(scope="session")
def kept_states(
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> States:
    folder = tmp_path_factory.getbasetemp()
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        folder = folder.parent  # of all of them
        # What another process made is found here: what both of them count must not meet.
        for one in (UserFactory, WorkspaceFactory, PersonFactory, ChannelFactory):
            one.reset_sequence(100_000 * (1 + int(worker.removeprefix("gw"))), force=True)
    with django_db_blocker.unblock():
        return States(folder)


@pytest.fixture
def states(kept_states: States, transactional_db: None) -> Iterator[States]:
    """Cleared at once after the test: emptying so many tables row by row would take seconds."""
    yield kept_states
    kept_states.clear()


@pytest.fixture
def story(states: States, live_server: LiveServer) -> Story:
    """Told before the browser asks; `url` is where it is read."""
    story = states.bring("story", tell)
    story.url = live_server.url
    return story


@pytest.fixture
def team(states: States, live_server: LiveServer) -> Team:
    """The story in a team of 60 channels and 20,000 messages."""
    team = states.bring("team", grow)
    team.url = live_server.url
    return team


@pytest.fixture
def plain(browser: Browser, browser_context_args: dict[str, Any]) -> Iterator[BrowserContext]:
    """A browser with JavaScript switched off."""
    context = browser.new_context(**{**browser_context_args, "java_script_enabled": False})
    yield context
    context.close()


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


def enter(context: BrowserContext, url: str, user: User) -> None:
    """Signed in, as the form of the login would do it (test_factors.py walks through that)."""
    client = Client()
    client.force_login(user)
    name = settings.SESSION_COOKIE_NAME
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": url}])


def sign_in(page: Page, story: Story) -> None:
    enter(page.context, story.url, story.user)
    page.goto(story.at(f"/w/{story.workspace.slug}/catch-up/"))
