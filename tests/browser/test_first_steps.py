"""From an empty database to a first briefing, and the parts of the frame that need a browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from memories.models import Proposal, Upload, User, Workspace
from memories.pipeline.access.first_account import setup_token
from memories.tasks import import_upload, remember
from tests.browser.conftest import sign_in
from tests.browser.measures import look_at
from tests.browser.states import States
from tests.browser.story import Story
from tests.slackexports import export_files, slack_message, write_zip

pytestmark = pytest.mark.browser

TALK = [
    "Decided: we ship the new search on 20 November 2023.",
    "I will write the announcement by Friday.",
    "The beta has 14 testers now, it was 9 last week.",
    "Who tests the export on Windows?",
]


def test_six_pages_from_an_empty_database_to_a_briefing(
    page: Page, states: States, live_server: LiveServer, tmp_path: Path, complaints: list[str]
) -> None:
    """Only the pages are used. The worker's tasks run where the page waits for them."""
    seen: list[str] = []
    page.on("framenavigated", lambda frame: seen.append(frame.url.partition("?")[0]))
    messages = [slack_message(600 * n, text) for n, text in enumerate(TALK)]
    export = write_zip(tmp_path / "export.zip", export_files({"general/2023-11-14": messages}))

    page.goto(f"{live_server.url}/setup/?token={setup_token()}")
    page.get_by_label("Username").fill("mika")
    page.get_by_label("Password", exact=True).fill("a long phrase")
    page.get_by_label("Repeat the password").fill("a long phrase")
    page.get_by_role("button", name="Create account").click()
    page.get_by_role("link", name="Choose a file").click()
    page.set_input_files("#id_export", export)
    page.get_by_role("button", name="Check file").click()
    page.wait_for_url("**/setup/import/*/")
    upload = Upload.objects.get()
    import_upload(upload.pk)
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("heading", name="Importing")).to_be_visible()
    import_upload(upload.pk)
    remember(Workspace.objects.get().pk)
    page.locator("main").get_by_role("link", name="Catch up").click()
    expect(page.locator(".opening")).to_contain_text("we ship the new search")
    assert User.objects.get().is_operator
    pages = list(dict.fromkeys(seen))
    assert len(pages) <= 6, pages


def test_the_palette_by_keyboard_alone(page: Page, story: Story, complaints: list[str]) -> None:
    sign_in(page, story)
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox")
    expect(field).to_be_focused()
    assert look_at(page) == []
    page.keyboard.type("launch")
    expect(page.get_by_role("option", selected=True)).to_have_text("#launch")
    page.keyboard.press("Enter")
    page.wait_for_url("**/c/C0LAUNCH/")
    page.keyboard.press("Control+k")
    page.keyboard.type("follow")
    expect(page.get_by_role("option", selected=True)).to_have_text("Follow channel #launch")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Unfollow channel")).to_be_visible()
    assert page.locator("#nav [id^=nav-channel]").count() == 1, "only followed channels are listed"
    page.keyboard.press("Control+k")
    page.keyboard.type("costs")
    page.keyboard.press("Backspace")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", selected=True)).to_have_text("Search for: cost")
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    page.get_by_role("button", name="Go to…").click()
    page.keyboard.type("freeze")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=freeze")


def test_the_palette_leaves_out_buttons_of_equal_words(page: Page, story: Story) -> None:
    """It cannot say which row is meant."""
    version = story.memory.current
    for line in version.lines.all()[:2]:
        Proposal.objects.propose(version, line, "Another text")
    sign_in(page, story)
    page.goto(story.at(f"/m/{story.memory.pk}/proposal/"))
    expect(page.get_by_role("button", name="Reject")).to_have_count(2)
    page.keyboard.press("Control+k")
    page.keyboard.type("reject")
    expect(page.get_by_role("option")).to_have_text(["Search for: reject"])
    page.keyboard.press("Control+A")
    page.keyboard.type("notes")
    expect(page.get_by_role("option").first).to_have_text("Notes")


def test_a_preset_fills_in_its_values(page: Page, story: Story, complaints: list[str]) -> None:
    sign_in(page, story)
    page.goto(story.at("/w/kazoe/settings/"))
    page.get_by_text("Advanced", exact=True).click()
    hours = page.get_by_label("End of a conversation")
    expect(hours).to_have_value("2")
    page.get_by_label("Quiet team").check()
    expect(hours).to_have_value("8")
    assert look_at(page) == []
    hours.fill("3")
    expect(page.get_by_label("Custom")).to_be_checked()
    page.get_by_role("button", name="Save settings").click()
    expect(page.get_by_text("Settings saved.")).to_be_visible()
    story.workspace.refresh_from_db()
    assert story.workspace.settings["conversation_idle_seconds"] == 3 * 3600
    assert story.workspace.settings["message_threshold"] == 20


def test_the_jump_list_opens_a_channel(page: Page, story: Story, complaints: list[str]) -> None:
    sign_in(page, story)
    page.goto(story.at("/w/kazoe/catch-up/"))
    jump = page.locator(".jump a")
    if jump.count() == 0:
        pytest.fail("the story has more than three channels with news")
    jump.last.click()
    expect(page.locator(".channel-news[open]")).to_have_count(1)
