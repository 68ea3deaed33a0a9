"""Chromium against a live server, with a team that has talked for two weeks."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect
from pytest_django import DjangoDbBlocker
from pytest_django.live_server_helper import LiveServer
from pytest_playwright.pytest_playwright import CreateContextCallback

from memories.models import User
from tests.browser.states import States
from tests.browser.story import Story, tell
from tests.browser.team import Team, grow
from tests.factories import ChannelFactory, PersonFactory, UserFactory, WorkspaceFactory

# A bound for a broken test. It does not measure the pages, because the machine may be busy.
TIMEOUT = 60_000  # milliseconds
expect.set_options(timeout=TIMEOUT)

# Chromium's messages for expected statuses: a conflict, an invalid form, a refusal.
MEANT = ("status of 409", "status of 422", "status of 403", "status of 404")


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
        # Another process may have created the rows, so the sequences must not overlap.
        for factory in (UserFactory, WorkspaceFactory, PersonFactory, ChannelFactory):
            factory.reset_sequence(100_000 * (1 + int(worker.removeprefix("gw"))), force=True)
    with django_db_blocker.unblock():
        return States(folder)


@pytest.fixture
def states(kept_states: States, transactional_db: None) -> Iterator[States]:
    """Cleared at once after the test: emptying so many tables row by row would take seconds."""
    yield kept_states
    kept_states.clear()


@pytest.fixture
def story(states: States, live_server: LiveServer, settings: Any) -> Story:
    """Told before the browser asks; `url` is where it is read."""
    settings.MEMORYHUB_OAUTH = True
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
def new_context(
    browser: Browser, browser_context_args: dict[str, Any]
) -> Iterator[Callable[..., BrowserContext]]:
    """Opens contexts; the given options replace those of `browser_context_args`."""
    with ExitStack() as contexts:

        def open_context(**options: Any) -> BrowserContext:
            context = browser.new_context(**{**browser_context_args, **options})
            contexts.callback(context.close)
            context.set_default_timeout(TIMEOUT)
            return context

        yield open_context


@pytest.fixture
def plain(new_context: CreateContextCallback) -> BrowserContext:
    """A browser with JavaScript switched off."""
    return new_context(java_script_enabled=False)


@pytest.fixture
def complaints(page: Page) -> Iterator[list[str]]:
    """Collect messages of the browser's console. The test fails if there are any."""
    messages = listen_to_console(page)
    yield messages
    assert messages == []


def listen_to_console(page: Page) -> list[str]:
    """The list to which errors, warnings and violations of the policy will be added."""
    messages: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        is_meant = any(status in message.text for status in MEANT)
        if message.type in ("error", "warning") and not is_meant:
            messages.append(f"{page.url}: {message.text}")

    page.on("console", listen)
    page.on("pageerror", lambda error: messages.append(f"{page.url}: {error}"))
    return messages


def enter(context: BrowserContext, url: str, user: User) -> None:
    """Signed in, as the form of the login would do it (test_factors.py walks through that)."""
    client = Client()
    client.force_login(user)
    name = settings.SESSION_COOKIE_NAME
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": url}])


def sign_in(page: Page, story: Story) -> None:
    enter(page.context, story.url, story.user)
    page.goto(story.at(f"/w/{story.workspace.slug}/catch-up/"))
