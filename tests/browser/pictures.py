"""A picture of every page, to be looked at: `make screenshots` leaves them in var/screenshots."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from playwright.sync_api import Page, expect
from pytest_playwright.pytest_playwright import CreateContextCallback

from memories.models import SlackConnection, User, Workspace
from tests.browser.conftest import sign_in
from tests.browser.looks import LOOKS
from tests.browser.measures import AT_WORK
from tests.browser.page_states import states
from tests.browser.story import Story
from tests.factories import PASSWORD, MemberFactory, WorkspaceFactory
from tests.secondfactors import give_factor

pytestmark = pytest.mark.browser

PICTURES = Path(settings.BASE_DIR) / "var" / "screenshots"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("look", LOOKS)
def test_pictures(new_context: CreateContextCallback, story: Story, look: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page = new_context(**LOOKS[look]).new_page()
    for name in seen(page, story):
        expect(page.locator(AT_WORK)).to_have_count(0)
        page.screenshot(path=PICTURES / f"{name}-{look}.png", full_page=True)


def seen(page: Page, story: Story) -> Iterator[str]:
    """Each is on the screen when its name is given."""
    page.goto(story.at("/login/"))
    yield "login"
    sign_in(page, story)
    for name, path in story.pages().items():
        page.goto(story.at(path))
        yield name
    yield from states(page, story)
    yield from second_factors(page, story)
    yield from troubles(page, story)
    for name, path in story.admin_pages().items():
        page.goto(story.at(path))
        yield f"admin-{name}"
    yield from empty(page, story)


def second_factors(page: Page, story: Story) -> Iterator[str]:
    page.goto(story.at("/factors/totp/activate/"))
    yield "reauthenticate"
    page.fill("#id_password", PASSWORD)
    page.click("form.stack button")
    page.wait_for_url("**/totp/activate/")
    yield "factors-app"
    page.goto(story.at("/factors/webauthn/add/"))
    yield "factors-key"
    give_factor(story.user)
    page.goto(story.at("/factors/recovery-codes/"))
    yield "factors-codes"
    page.goto(story.at("/factors/"))
    yield "factors-in-use"


def troubles(page: Page, story: Story) -> Iterator[str]:
    slack = story.at("/w/kazoe/slack/")
    connections = SlackConnection.objects.filter(workspace=story.workspace)
    connections.update(slow_plan=True)
    page.goto(slack)
    yield "slack-slow"
    connections.update(slow_plan=False, state="revoked", trouble="token_revoked")
    page.goto(slack)
    yield "slack-stopped"
    connections.update(state="live", trouble="")
    page.goto(story.at("/setup/"))
    yield "forbidden"
    User.objects.filter(pk=story.user.pk).update(is_staff=True, is_superuser=True)
    page.goto(story.at("/setup/"))
    yield "setup"


def empty(page: Page, story: Story) -> Iterator[str]:
    """A workspace where nothing has happened yet, a server that fails, and one without accounts."""
    workspace = WorkspaceFactory(slug="hatake", name="Hatake")
    MemberFactory(workspace=workspace, user=story.user, role="admin")
    for name in (
        "",
        "catch-up",
        "search",
        "context",
        "notes",
        "jobs",
        "jobs/cost",
        "backfill",
        "slack",
        "people",
    ):
        page.goto(story.at(f"/w/hatake/{name}/".replace("//", "/")))
        yield f"empty-{name.replace('/', '-') or 'workspace'}"
    page.goto(story.at("/"))
    yield "workspaces"
    Workspace.objects.filter(pk=workspace.pk).update(settings={"time_zone": "nowhere"})
    page.goto(story.at("/w/hatake/catch-up/"))
    yield "error"
    page.context.clear_cookies()
    User.objects.update(is_active=False)
    page.goto(story.at("/setup/"))
    yield "setup-new"
