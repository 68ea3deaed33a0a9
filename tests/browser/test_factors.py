"""A security key in Chromium, which plays one itself: added, and asked for at the next login."""

import pytest
from allauth.mfa.models import Authenticator
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from memories.models import User
from tests.browser.states import States
from tests.factories import PASSWORD, UserFactory

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
    page.get_by_role("button", name="Go on").click()
    page.fill("#id_name", "The blue one")
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    expect(page.get_by_text("The key is added.")).to_be_visible()
    assert Authenticator.objects.get(user=user, type="webauthn").wrap().name == "The blue one"

    page.get_by_role("button", name="Sign out").click()
    sign_in()
    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
    page.get_by_role("button", name="With a security key").click()
    expect(page.get_by_role("heading", name="Your settings")).to_be_visible()
