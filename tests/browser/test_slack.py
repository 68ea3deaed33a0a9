"""The Slack page as its admin meets it: tested in place, channels found and chosen, with and
without JavaScript."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings

from memories.models import Channel, Member, SlackConnection
from tests.browser.conftest import sign_in
from tests.browser.story import Story
from tests.browser.test_pages import LOOKS, look_at
from tests.factories import ChannelFactory
from tests.slack.fake_slack import TOKEN, FakeSlack

pytestmark = pytest.mark.browser


@pytest.fixture
def team(story: Story, settings: Settings) -> Iterator[Story]:
    """A token, a scope too few, and eighty channels."""
    with FakeSlack() as slack:
        settings.SLACK_BASE_URL = slack.url
        slack.scopes = {"channels:history", "channels:read"}
        SlackConnection.objects.of(story.workspace).keep_token(TOKEN, by=None)
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


def at(team: Story, rest: str = "") -> str:
    return team.at(f"/w/{team.workspace.slug}/slack/{rest}")


def test_tested_found_and_chosen_in_place(page: Page, team: Story, complaints: list[str]) -> None:
    sign_in(page, team)
    page.goto(at(team))
    page.get_by_role("button", name="Test").click()
    section = page.locator("#connection")
    expect(section).to_contain_text("Something is missing")
    expect(section).to_contain_text("users:read")
    assert page.url == at(team)
    page.get_by_role("searchbox").fill("team-1")
    expect(page.locator("#channels li")).to_have_count(10)
    page.get_by_label("team-12").check()
    page.get_by_role("button", name="Save the choice").click()
    expect(page.get_by_text("1 channel is read from now on.")).to_be_visible()
    assert [c.slack_id for c in Channel.objects.filter(is_followed=True)] == ["CX12"]
    expect(page.get_by_label("team-12")).to_be_checked()
    assert page.get_by_role("searchbox").input_value() == "team-1"


@pytest.mark.parametrize("look", ["light", "narrow"])
def test_it_looks_right(
    browser: Browser, browser_context_args: dict[str, Any], team: Story, look: str
) -> None:
    context = browser.new_context(**{**browser_context_args, **LOOKS[look]})
    page = context.new_page()
    sign_in(page, team)
    page.goto(at(team))
    assert look_at(page) == []
    page.locator("#connection button").first.click()
    expect(page.locator("#connection .band.warn")).to_have_count(1)
    assert look_at(page) == []
    context.close()


def test_without_javascript(
    browser: Browser, browser_context_args: dict[str, Any], team: Story
) -> None:
    context = browser.new_context(**browser_context_args, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, team)
    page.goto(at(team))
    page.get_by_role("button", name="Test").click()
    expect(page.locator("#connection")).to_contain_text("Something is missing")
    page.get_by_role("searchbox").fill("team-7")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#channels li")).to_have_count(10)
    page.get_by_label("team-70").check()
    page.get_by_role("button", name="Save the choice").click()
    expect(page.get_by_label("team-70")).to_be_checked()
    assert [c.slack_id for c in Channel.objects.filter(is_followed=True)] == ["CX70"]
    context.close()
