"""Search while typing: hits without a page load, and an address that can be kept."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from memories.models import Message
from memories.pipeline import search
from tests.browser.conftest import sign_in
from tests.browser.story import Story
from tests.browser.test_pages import look_at

pytestmark = pytest.mark.browser


def found_by(story: Story) -> Message:
    message = Message.objects.filter(channel=story.launch, thread_ts="").order_by("-micros").first()
    assert message is not None
    Message.objects.filter(pk=message.pk).update(text="来月のデータ鯨肉計画", is_notice=False)
    search.catch_up()
    return message


def test_hits_come_while_typing(page: Page, story: Story, complaints: list[str]) -> None:
    message = found_by(story)
    sign_in(page, story)
    page.goto(story.at(f"/w/{story.workspace.slug}/search/"))
    page.get_by_role("searchbox").press_sequentially("鯨肉", delay=30)
    expect(page.locator(".hit mark")).to_have_text("鯨肉")
    expect(page.locator("#results-count")).to_contain_text("1 result in")
    expect(page).to_have_url(re.compile(re.escape(quote("鯨肉"))))
    assert look_at(page, "search", "light") == []
    page.get_by_label("What").select_option("notes")
    expect(page.locator("#results")).to_contain_text("Nothing that you may read matches.")
    expect(page).to_have_url(re.compile("in=notes"))
    page.go_back()
    expect(page.locator(".hit mark")).to_have_text("鯨肉")
    page.locator(".hit a").click()
    expect(page.locator(f'[id="msg-{message.ts}"]')).to_be_visible()
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("鯨肉")
    assert complaints == []


def test_typing_leaves_no_trace_in_the_history(page: Page, story: Story) -> None:
    found_by(story)
    sign_in(page, story)
    page.goto(story.channel)
    page.goto(story.at(f"/w/{story.workspace.slug}/search/"))
    page.get_by_role("searchbox").press_sequentially("鯨肉計画", delay=300)
    expect(page.locator(".hit mark")).to_have_text("鯨肉計画")
    page.go_back()
    expect(page).to_have_url(story.channel)


def test_it_fits_on_a_telephone(page: Page, story: Story) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    page.emulate_media(color_scheme="dark")
    found_by(story)
    sign_in(page, story)
    page.goto(story.at(f"/w/{story.workspace.slug}/search/?q=鯨肉"))
    expect(page.locator(".hit mark")).to_have_text("鯨肉")
    assert look_at(page, "search", "narrow") == []
