"""A line is pinned in place."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import sign_in
from tests.browser.measures import look_at
from tests.browser.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.nightly("no script of ours takes part")]


def test_a_line_is_pinned_and_the_keyboard_stays_where_it_was(
    page: Page, story: Story, complaints: list[str]
) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    page.locator("#memory-text-1").click()
    expect(page.get_by_label("Text of this line")).to_be_focused()
    pin = page.locator("#memory-pin-1")
    expect(pin).to_have_attribute("aria-pressed", "false")
    pin.focus()
    page.keyboard.press("Enter")
    expect(pin).to_have_attribute("aria-pressed", "true")
    expect(pin).to_have_text("Pinned")
    expect(pin).to_be_focused()
    assert [line.position for line in story.memory.current.lines.filter(pinned=True)] == [1]
    assert look_at(page) == []
    page.keyboard.press("Enter")
    expect(pin).to_have_attribute("aria-pressed", "false")
    assert not story.memory.current.lines.filter(pinned=True).exists()
