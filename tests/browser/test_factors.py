"""Second factors in Chromium, which emulates a security key: adding it, signing in, and the
pages.
"""

import pytest
from allauth.mfa.models import Authenticator
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer
from pytest_playwright.pytest_playwright import CreateContextCallback

from memories.models import User
from tests.browser.conftest import enter
from tests.browser.measures import axe_in_all_looks, too_narrow, too_small
from tests.browser.states import States
from tests.browser.story import Story
from tests.browser.test_japanese import left_in_english, names
from tests.factories import PASSWORD, UserFactory
from tests.secondfactors import give_factor

pytestmark = pytest.mark.browser


@pytest.fixture
def address(states: States, live_server: LiveServer) -> str:
    """Keys serve https and localhost alone, which it is."""
    return str(live_server.url)


def plug_in(page: Page) -> None:
    tools = page.context.new_cdp_session(page)
    tools.send("WebAuthn.enable")
    tools.send(
        "WebAuthn.addVirtualAuthenticator",
        {
            "options": {
                "protocol": "ctap2",
                "transport": "usb",
                "hasUserVerification": True,
                "isUserVerified": True,
                "automaticPresenceSimulation": True,
            }
        },
    )


def test_a_security_key(page: Page, address: str, complaints: list[str]) -> None:
    user: User = UserFactory(username="alice")
    plug_in(page)

    def sign_in() -> None:
        page.goto(f"{address}/login/?next=/settings/")
        page.fill("#id_username", "alice")
        page.fill("#id_password", PASSWORD)
        page.click("form.stack button")

    sign_in()
    page.get_by_role("link", name="Second factor").click()
    page.get_by_role("link", name="Add a key").click()
    page.fill("#id_password", PASSWORD)
    page.get_by_role("button", name="Continue").click()
    page.fill("#id_name", "The blue one")
    page.get_by_role("button", name="Add key").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    expect(page.get_by_text("The key was added.")).to_be_visible()
    assert Authenticator.objects.get(user=user, type="webauthn").wrap().name == "The blue one"

    page.get_by_role("button", name="Sign out").click()
    sign_in()
    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
    page.get_by_role("button", name="Use a security key").click()
    expect(page.get_by_role("heading", name="Your settings")).to_be_visible()


PAGES = (
    "",
    "totp/deactivate/",
    "recovery-codes/",
    "recovery-codes/generate/",
    "webauthn/",
    "webauthn/add/",
    "reauthenticate/",
)


@pytest.mark.nightly("every look")
@pytest.mark.timeout(600)
def test_the_pages_of_second_factors(new_context: CreateContextCallback, story: Story) -> None:
    """The pages are checked like all others: in Japanese, in each theme and width.

    This includes the fresh sign-in, a wrong code, and the second step of a login.
    """
    page = new_context(locale="ja").new_page()
    enter(page.context, story.url, story.user)
    names_shown, faults = names(story), {}

    def look(name: str) -> None:
        problems = [*left_in_english(page, names_shown), *axe_in_all_looks(page)]
        faults[name] = problems + too_narrow(page) + too_small(page)

    page.goto(story.at("/factors/totp/activate/"))
    look("who is it")
    page.fill("#id_password", PASSWORD)
    page.click("main form.stack button")
    expect(page.locator("img.qr")).to_be_visible()
    look("set up")
    page.fill("#id_code", "0")
    page.click("main form.stack button")
    expect(page.locator("#errors")).to_be_visible()
    look("wrong code")
    give_factor(story.user)
    for path in PAGES:
        page.goto(story.at(f"/factors/{path}"))
        look(path)
    page.context.clear_cookies()
    page.goto(story.at("/login/"))
    page.fill("#id_username", story.user.username)
    page.fill("#id_password", PASSWORD)
    page.click("form.stack button")
    page.wait_for_url(story.at("/factors/authenticate/"))
    look("second half")
    assert {name: problems for name, problems in faults.items() if problems} == {}
