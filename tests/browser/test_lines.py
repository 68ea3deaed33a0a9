"""One line of a memory, in as few clicks as it takes."""

import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, expect

from tests.browser.conftest import sign_in
from tests.browser.measures import look_at
from tests.browser.story import Story

pytestmark = pytest.mark.browser


def test_a_line_is_fixed_in_two_clicks(page: Page, story: Story, complaints: list[str]) -> None:
    """It takes no scrolling, and the keyboard is on the line afterwards."""
    sign_in(page, story)
    page.goto(story.channel)
    before = story.now
    page.locator("#memory-text-0").click()
    expect(page.get_by_label("Text of this line")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("Kazoe 3 launches on Friday.")
    save = page.get_by_role("button", name="Save line")
    expect(save).to_be_in_viewport()
    assert look_at(page) == []
    scrolled = page.evaluate("scrollY")
    save.click()
    expect(page.locator("#toast")).to_contain_text(f"Saved as version {before + 1}.")
    line = page.locator("#memory-text-0")
    expect(line).to_contain_text("Kazoe 3 launches on Friday.")
    expect(line).to_be_focused()
    expect(line).to_be_in_viewport()
    assert page.evaluate("scrollY") == scrolled
    assert story.texts()[-1].startswith("- Kazoe 3 launches on Friday.\n")


def test_cancel_closes_the_form(page: Page, story: Story, complaints: list[str]) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    line = page.locator("#memory-text-0")
    line.hover()
    page.locator("#memory-line-0").get_by_role("link", name="Edit").click()
    page.get_by_label("Text of this line").fill("Half a thought")
    page.get_by_role("button", name="Cancel").click()
    expect(line).to_be_focused()
    expect(page.get_by_label("Text of this line")).to_be_hidden()
    page.goto(story.at("/help/"))


def test_two_open_forms_have_their_own_labels(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    for position in (0, 1):
        page.locator(f"#memory-text-{position}").click()
        form = page.locator(f"#memory-line-{position} .line-form")
        expect(form.get_by_label("Text of this line")).to_be_focused()
    assert look_at(page) == []
    form.get_by_label("Text of this line").fill(" ")
    form.get_by_role("button", name="Save line").click()
    expect(form.locator(".band.danger")).to_contain_text("A line cannot be empty.")


def test_text_in_another_open_form_is_not_lost_silently(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    before, fields = story.now, page.locator(".line-form textarea")
    for position in (0, 1):
        page.locator(f"#memory-text-{position}").click()
        expect(fields).to_have_count(position + 1)
        fields.nth(position).fill(f"Half a thought about line {position}")
    questions: list[str] = []

    def refuse(dialog: Dialog) -> None:
        questions.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", refuse)
    save = page.get_by_role("button", name="Save line").first
    save.click()
    expect(fields.nth(1)).to_have_value("Half a thought about line 1")
    assert (story.now, len(questions)) == (before, 1) and "will be lost" in questions[0]
    page.locator("#memory-line-1").get_by_role("button", name="Cancel").click()
    page.locator("#memory-pin-1").focus()
    page.keyboard.press("Enter")  # the answer would replace the form of line 0
    expect(fields.first).to_have_value("Half a thought about line 0")
    assert len(questions) == 2
    save.click()
    expect(page.locator("#toast")).to_contain_text(f"Saved as version {before + 1}.")
    assert len(questions) == 2


def test_a_line_is_fixed_without_scripts(plain: BrowserContext, story: Story) -> None:
    page = plain.new_page()
    sign_in(page, story)
    page.goto(story.channel)
    page.locator("#memory-text-0").click()
    page.locator("#memory-line-0").get_by_role("link", name="Edit").click()
    page.get_by_label("Text of this line").fill("Kazoe 3 launches on Friday.")
    page.get_by_role("button", name="Save line").click()
    expect(page.locator("#memory-text-0")).to_contain_text("Kazoe 3 launches on Friday.")


def test_from_a_line_to_slack_in_two_clicks(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    page.locator("#memory-line-0").hover()
    page.locator("#memory-line-0 .chip").first.click()
    message = page.locator(".message.source:target")
    expect(message).to_be_in_viewport()
    slack = message.locator("a.slack")
    expect(slack).to_be_in_viewport()
    assert (slack.get_attribute("href") or "").startswith(
        "https://kazoe.slack.com/archives/C0LAUNCH/p"
    )


def test_new_lines_of_a_channel_need_two_clicks_and_one_screen(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.locator("#nav").get_by_role("link", name="launch").first.click()
    page.get_by_role("link", name="7 days").click()
    news = page.locator(".new-lines")
    expect(news).to_be_visible()
    box = news.bounding_box()
    assert box and box["y"] + box["height"] <= 900
    assert page.evaluate("scrollY") == 0
    assert look_at(page) == []


def test_the_keyboard_alone_shows_what_can_be_done_with_a_line(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    actions = page.locator("#memory-line-0 .line-actions")
    expect(actions).to_be_hidden()
    page.locator("#memory-text-0").focus()
    expect(actions).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.line-actions') !== null")
    page.locator("#memory-text-1").focus()
    expect(actions).to_be_hidden()
