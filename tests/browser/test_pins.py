"""A line is pinned in place, and a proposal of a shorter text is decided."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from memories.models import Job
from memories.pipeline.memory import proposals
from memories.rules.summariser import Reply
from tests.browser.conftest import sign_in
from tests.browser.measures import look_at
from tests.browser.story import Story
from tests.factories import make_job

pytestmark = [pytest.mark.browser, pytest.mark.nightly("no script of ours takes part")]


def test_a_line_is_pinned_and_the_keyboard_stays_where_it_was(
    page: Page, story: Story, complaints: list[str]
) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    page.locator("#memory-text-1").click()
    expect(page.locator("#line-text")).to_be_focused()
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


@pytest.mark.parametrize("look", ["light", "narrow"])
def test_a_shorter_text_is_compared_and_rejected(
    page: Page, story: Story, complaints: list[str], look: str
) -> None:
    if look == "narrow":
        page.set_viewport_size({"width": 320, "height": 640})
    story.memory.workspace.change_settings({"merge_mode": "rewrite"})
    reply = Reply(
        text="- Little is left [1]", finish_reason="stop", model="tiny", prompt_version="p"
    )
    make_job(
        memory=story.memory,
        base=story.memory.current,
        state=Job.State.PROPOSED,
        reply=reply.as_json(),
        reply_sources=[[]],
        finished_at=timezone.now() - timedelta(minutes=5),
    )
    sign_in(page, story)
    page.goto(story.channel)
    expect(page.locator(".proposal")).to_contain_text("A shorter text needs your approval.")
    assert look_at(page) == []
    page.locator(".proposal a.button").click()
    expect(page.locator("h1")).to_have_text("A shorter text needs your approval")
    assert look_at(page) == []
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".toast")).to_contain_text("Rejected. The text is unchanged.")
    assert proposals.find_proposal(story.memory) is None
