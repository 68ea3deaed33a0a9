"""The main task in a browser: read, follow a line to its message, correct, compare, restore."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import sign_in
from tests.browser.story import Story

pytestmark = pytest.mark.browser


@pytest.fixture
def plain_page(browser: Browser, browser_context_args: dict) -> Page:
    """A page with JavaScript switched off."""
    context = browser.new_context(**{**browser_context_args, "java_script_enabled": False})
    yield context.new_page()
    context.close()


def test_read_correct_and_restore(page: Page, demo: Story, complaints: list[str]) -> None:
    first = demo.now
    sign_in(page, demo)
    page.click("nav >> text=launch")
    expect(page.locator("h1")).to_have_text("#launch")
    status = page.locator("#toast")
    expect(status).to_have_attribute("role", "status")
    follow_a_line(page)

    # Edit: three interactions, and the page stays.
    page.evaluate("window.stayed = true")
    page.click("#memory >> text=Edit")
    expect(page.locator("#text")).to_be_focused()
    page.locator("#text").press_sequentially("- Nao tests on Tuesday.\n")
    page.click("#memory >> text=Save over")
    expect(page.locator("#memory .lines")).to_contain_text("Nao tests on Tuesday.")
    expect(status).to_contain_text(f"Saved as version {first + 1}.")
    expect(page.locator("#memory-title")).to_be_focused()
    expect(page.locator("#rail li").first).to_contain_text(f"v{first + 1}")
    assert page.evaluate("window.stayed") is True

    # A conflict keeps the text; saving again works.
    page.click("#memory >> text=Edit")
    page.locator("#text").press_sequentially("- My own line.\n")
    demo.meanwhile("- Their own line.")
    page.click("#memory >> text=Save over")
    expect(page.locator("#conflict-title")).to_be_focused()
    expect(page.locator(".yours").first).to_contain_text("My own line.")
    expect(page.locator(".theirs").first).to_contain_text("Their own line.")
    page.locator(".hunk input[value=yours]").first.check()
    page.click("text=Put the choices together")
    expect(page.locator("#text")).to_be_focused()
    expect(page.locator("#text")).not_to_have_value(re.compile("Their own line"))
    page.locator(".hunk input[value=both]").first.check()
    page.click("text=Put the choices together")
    expect(page.locator("#text")).to_have_value(re.compile("My own line.*Their own line", re.S))
    page.click(f"#memory >> text=Save over v{first + 2}")
    expect(status).to_contain_text(f"Saved as version {first + 3}.")
    expect(page.locator("#memory .lines")).to_contain_text("My own line.")
    expect(page.locator("#memory .lines")).to_contain_text("Their own line.")
    assert page.evaluate("window.stayed") is True

    compare_restore_and_undo(page, first + 3)
    assert demo.memory.versions.count() == first + 5
    # The address that was pushed is a page of its own.
    assert re.search(r"/v/\d+/$", page.url)
    page.reload()
    expect(page.locator("h1")).to_contain_text(f"v{first + 5} of {first + 5}")


def test_the_same_without_javascript(plain_page: Page, demo: Story) -> None:
    page, first = plain_page, demo.now
    sign_in(page, demo)
    page.click("nav >> text=launch")
    follow_a_line(page)

    page.click("#memory >> text=Edit")
    text = page.locator("#text")
    text.fill(f"{text.input_value()}\n- Nao tests on Tuesday.")
    page.click(f"text=Save over v{first}")
    expect(page.locator("#toast")).to_contain_text(f"Saved as version {first + 1}.")
    expect(page.locator("#memory .lines")).to_contain_text("Nao tests on Tuesday.")

    page.click("#memory >> text=Edit")
    text.fill(f"- My own line.\n{text.input_value()}")
    demo.meanwhile("- Their own line.")
    page.click(f"text=Save over v{first + 1}")
    expect(page.locator("h1")).to_have_text("Two edits met")
    page.locator(".hunk input[value=both]").first.check()
    page.click("text=Put the choices together")
    page.click(f"text=Save over v{first + 2}")
    expect(page.locator("#memory .lines")).to_contain_text("My own line.")
    expect(page.locator("#memory .lines")).to_contain_text("Their own line.")

    compare_restore_and_undo(page, first + 3)
    assert demo.memory.versions.count() == first + 5

    page.click("nav >> text=Notes")
    page.fill("#id_content", "A note without a script")
    page.click("#add button")
    expect(page.locator("#notes")).to_contain_text("A note without a script")
    page.fill("#q", "without a script")
    page.click("form.search button")
    expect(page.locator("#notes article")).to_have_count(1)
    page.click("nav >> text=Dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.click("nav >> text=日本語")
    expect(page.locator("html")).to_have_attribute("lang", "ja")


def follow_a_line(page: Page) -> None:
    """From a line to its message: one interaction."""
    page.locator("#memory .chip").first.click()
    source = page.locator(".message.source:target")
    expect(source).to_be_in_viewport()
    expect(source).to_contain_text("source 1")
    page.go_back()


def compare_restore_and_undo(page: Page, newest: int) -> None:
    page.click("#memory >> text=Compare")
    expect(page.locator("h1")).to_have_text(f"v{newest - 1} to v{newest}")
    expect(page.locator(".diff ins")).to_contain_text("My own line.")
    expect(page.locator(".changes li")).to_contain_text("Added")
    page.click(".crumbs a >> nth=0")
    old = newest - 6
    page.locator("#rail").get_by_role("link", name=f"v{old}", exact=True).click()
    page.click(f"text=Restore v{old}")
    expect(page.locator("h1")).to_contain_text(f"v{newest + 1} of {newest + 1}")
    news = page.locator("#toast")
    expect(news).to_contain_text(f"Version {old} is current again, as version {newest + 1}.")
    news.locator("text=Undo").click()
    expect(page.locator("h1")).to_contain_text(f"v{newest + 2} of {newest + 2}")
    expect(news).to_contain_text(f"Version {newest} is current again, as version {newest + 2}.")
    expect(page.locator(".lines")).to_contain_text("My own line.")


def test_older_messages_come_above_and_focus_goes_with_them(
    page: Page, story: Story, complaints: list[str]
) -> None:
    sign_in(page, story)
    page.goto(f"{story.channel}messages/")
    rows = page.locator(".message")
    before = rows.count()
    first = rows.first.get_attribute("id")
    page.locator("#older a").click()
    expect(rows).not_to_have_count(before)
    assert rows.count() > before
    # Beside the row that was first before stands the one that has the focus now.
    ids = rows.evaluate_all("rows => rows.map(row => row.id)")
    expect(page.locator(f'[id="{ids[ids.index(first) - 1]}"]')).to_be_focused()
    days = page.locator(".day").evaluate_all("days => days.map(day => day.dataset.day)")
    assert len(days) == len(set(days))


def test_nothing_is_asked_while_a_japanese_word_is_composed(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.at("/w/kazoe/notes/"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "?q=" in request.url else None)
    page.focus("#q")
    keyboard = page.context.new_cdp_session(page)
    for so_far in ("せ", "せい", "せいす", "せいすう"):
        keyboard.send(
            "Input.imeSetComposition",
            {"text": so_far, "selectionStart": len(so_far), "selectionEnd": len(so_far)},
        )
    assert asked == []
    with page.expect_response(lambda response: "?q=" in response.url):
        keyboard.send("Input.insertText", {"text": "整数"})
    expect(page.locator("#notes article")).to_have_count(1)
    expect(page.locator("#notes-count")).to_contain_text("1 note holds “整数”")
    assert len(asked) == 1
    assert page.url.endswith("?q=%E6%95%B4%E6%95%B0")


def test_the_theme_changes_at_once_and_stays(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.evaluate("window.stayed = true")
    page.click("nav >> text=Dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("window.stayed") is True
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)"
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_server_that_fails_takes_no_text_away(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    page.click("#memory >> text=Edit")
    page.locator("#text").press_sequentially("- Typed and not lost.\n")
    page.route("**/edit/", lambda route: route.abort())
    page.click("text=Save over v8")
    band = page.locator("#failed")
    expect(band).to_contain_text("what you typed is kept")
    expect(page.locator("#text")).to_have_value(re.compile("Typed and not lost"))
    page.unroute("**/edit/")
    band.locator("text=Try again").click()
    expect(page.locator("#memory .lines")).to_contain_text("Typed and not lost.")
    expect(band).to_have_count(0)


def test_signed_out_meanwhile_the_page_stays(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    page.context.clear_cookies()
    page.click("#memory >> text=Edit")
    band = page.locator("#failed")
    expect(band).to_contain_text("You are signed out. What you see and what you typed is kept.")
    expect(band.get_by_role("link")).to_have_attribute("href", re.compile("^/login/.next=/w/"))
    expect(band.locator("[data-again]")).to_have_count(0)
    expect(page.locator("#memory .lines")).to_be_visible()
    expect(page.locator("#id_password")).to_have_count(0)


def test_unsaved_text_is_not_left_by_accident(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    page.click("#memory >> text=Edit")
    page.locator("#text").press_sequentially("half a thought")
    page.click("nav >> text=Notes")
    page.wait_for_url("**/notes/")
    assert asked == ["beforeunload"]
