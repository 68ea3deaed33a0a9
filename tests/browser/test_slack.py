"""The Slack page as its admin meets it: tested in place, channels found and chosen, with and
without JavaScript."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from pytest_django import Settings
from pytest_playwright.pytest_playwright import CreateContextCallback

from memories.models import Channel, Member, SlackConnection
from tests.browser.conftest import sign_in
from tests.browser.looks import LOOKS
from tests.browser.measures import look_at
from tests.browser.story import Story
from tests.factories import ChannelFactory
from tests.slack.fake_slack import TOKEN, FakeSlack

pytestmark = [pytest.mark.browser, pytest.mark.nightly("a long walk")]


@pytest.fixture
def team(story: Story, settings: Settings) -> Iterator[Story]:
    """A token, a scope too few, and eighty channels."""
    with FakeSlack() as slack:
        settings.SLACK_BASE_URL = slack.url
        slack.scopes = {"channels:history", "channels:read"}
        SlackConnection.objects.of(story.workspace).set_token(TOKEN, by=None)
        Member.objects.update_or_create(
            workspace=story.workspace, user=story.user, defaults={"role": "admin"}
        )
        for n in range(80):
            ChannelFactory(
                workspace=story.workspace,
                slack_id=f"CX{n}",
                name=f"team-{n:02}",
                bot_is_in=n % 2 == 0,
                is_shared=n == 3,
                is_archived=n == 79,
            )
        yield story


def at(team: Story, path: str = "") -> str:
    return team.at(f"/w/{team.workspace.slug}/slack/{path}")


def test_tested_found_and_chosen_in_place(page: Page, team: Story, complaints: list[str]) -> None:
    sign_in(page, team)
    page.goto(at(team))
    page.get_by_role("button", name="Test").click()
    section = page.locator("#connection")
    expect(section).to_contain_text("Scopes are missing")
    expect(section).to_contain_text("users:read")
    assert page.url == at(team)
    page.get_by_role("searchbox").fill("team-1")
    expect(page.locator("#channels li")).to_have_count(10)
    page.get_by_label("team-12").check()
    page.get_by_role("button", name="Save selection").click()
    expect(page.get_by_text("1 channel is now read.")).to_be_visible()
    assert [c.slack_id for c in Channel.objects.filter(is_followed=True)] == ["CX12"]
    expect(page.get_by_label("team-12")).to_be_checked()
    assert page.get_by_role("searchbox").input_value() == "team-1"


@pytest.mark.parametrize("look", ["light", "narrow"])
def test_it_looks_right(new_context: CreateContextCallback, team: Story, look: str) -> None:
    page = new_context(**LOOKS[look]).new_page()
    sign_in(page, team)
    page.goto(at(team))
    assert look_at(page) == []
    page.locator("#connection button").first.click()
    expect(page.locator("#connection .band.warn")).to_have_count(1)
    assert look_at(page) == []


def test_without_javascript(plain: BrowserContext, team: Story) -> None:
    page = plain.new_page()
    sign_in(page, team)
    page.goto(at(team))
    page.get_by_role("button", name="Test").click()
    expect(page.locator("#connection")).to_contain_text("Scopes are missing")
    page.get_by_role("searchbox").fill("team-7")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#channels li")).to_have_count(10)
    page.get_by_label("team-70").check()
    page.get_by_role("button", name="Save selection").click()
    expect(page.get_by_label("team-70")).to_be_checked()
    assert [c.slack_id for c in Channel.objects.filter(is_followed=True)] == ["CX70"]
