"""Single keys: each does the same as its control, and nothing while a person types."""

import re

import pytest
from playwright.sync_api import Page, expect

from memories.models import Seen
from tests.browser.conftest import sign_in
from tests.browser.measures import look_at
from tests.browser.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.nightly("each key by itself")]

PRESS = """(init) => document.activeElement.dispatchEvent(
    new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...init }))"""


def test_a_morning_by_keys(page: Page, story: Story, complaints: list[str]) -> None:
    sign_in(page, story)
    page.keyboard.press("m")  # of several entries none is meant
    page.keyboard.press("j")
    page.keyboard.press("j")
    entry = page.locator("article.entry:focus-within")
    key = entry.get_attribute("id")
    page.keyboard.press("m")
    expect(page.locator(f"#{key}.folded")).to_be_focused()
    assert Seen.objects.filter(number__gt=0).count() == 1
    page.keyboard.press("k")
    first = page.locator("article.entry").first
    expect(first.locator("summary").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(first.locator(".came").first).to_be_visible()
    for keys, path in (("gc", "context"), ("gn", "notes"), ("gj", "jobs"), ("gh", "catch-up")):
        for pressed in keys:
            page.keyboard.press(pressed)
        page.wait_for_url(story.at(f"/w/kazoe/{path}/"))
    page.keyboard.press("/")
    page.wait_for_url(story.at("/w/kazoe/search/"))
    page.locator("h1").click()
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("/?j")
    expect(page.locator("#q")).to_have_value("/?j")


def test_versions_by_keys(page: Page, story: Story, complaints: list[str]) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    page.keyboard.press("d")
    page.wait_for_url(re.compile(r"/diff/\d+\.\.\d+/$"))
    first = page.url
    for view in ("", "?view=split"):
        page.goto(f"{first}{view}")
        page.keyboard.press("n")
        change = page.evaluate("document.activeElement.id")
        assert change.startswith("change-")
        assert page.locator(f'a[href="#{change}"]').is_visible()  # the same by hand
        page.keyboard.press("p")
        assert page.evaluate("document.activeElement.id") == change
    page.keyboard.press("[")
    page.wait_for_url(lambda url: url != f"{first}?view=split")
    page.keyboard.press("]")
    page.wait_for_url(f"{first}?view=split")
    page.goto(story.at(f"/v/{story.version(2)}/"))
    for key, name in (("[", "v1 of"), ("]", "v2 of")):
        page.keyboard.press(key)
        expect(page.locator("h1")).to_contain_text(name)
    page.keyboard.press("Escape")
    page.wait_for_url(story.channel)
    page.keyboard.press("e")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.press("Escape")  # typed into a field, it is the field's
    expect(page.locator("#text")).to_be_visible()
    page.locator("#editor-title").click()
    page.keyboard.press("Escape")
    expect(page.locator("#text")).to_have_count(0)


def test_an_open_editor_is_left_before_its_page(page: Page, story: Story) -> None:
    """A thread's page has two ways to leave then."""
    sign_in(page, story)
    page.goto(story.at(story.pages()["thread"]))
    page.keyboard.press("e")
    expect(page.locator("#text")).to_be_focused()
    page.locator("#editor-title").click()
    page.keyboard.press("Escape")
    expect(page.locator("#text")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/t/[\d.]+/"))
    page.keyboard.press("Escape")
    page.wait_for_url(story.channel)


def test_the_list_of_keys(page: Page, story: Story, complaints: list[str]) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    page.keyboard.press("?")
    expect(page.locator("#keys-title")).to_be_focused()
    assert look_at(page) == []
    page.keyboard.press("e")  # it lies above the page
    expect(page.locator("#text")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.locator("#keys")).to_be_visible()


def test_with_a_modifier_they_are_not_ours(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    requests = requests_of(page)
    for modifier in ("ctrlKey", "metaKey", "altKey", "isComposing"):
        for key in ("e", "?"):
            page.evaluate(PRESS, {"key": key, modifier: True})
        assert page.locator("#keys").is_hidden()
    page.evaluate(PRESS, {"key": "e"})
    expect(page.locator("#text")).to_be_focused()
    assert requests == [story.at(f"/m/{story.memory.pk}/edit/")]


def test_switched_off_they_do_nothing(page: Page, story: Story, complaints: list[str]) -> None:
    sign_in(page, story)
    page.goto(story.at("/settings/"))
    page.uncheck("#id_shortcuts")
    page.click("form.settings button.primary")
    expect(page.locator("#toast")).not_to_be_empty()
    page.goto(story.channel)
    requests = requests_of(page)
    for key in "e?j/gh":
        page.keyboard.press(key)
    assert page.locator("#text, #keys").count() == 0
    assert page.evaluate("document.activeElement === document.body")
    page.click("nav >> text=Notes")
    page.wait_for_url("**/notes/")
    assert requests == [page.url]


def requests_of(page: Page) -> list[str]:
    """The list to which the addresses of pages and of their parts will be added."""
    addresses: list[str] = []
    kinds = ("document", "xhr", "fetch")
    page.on(
        "request",
        lambda request: addresses.append(request.url) if request.resource_type in kinds else None,
    )
    return addresses
