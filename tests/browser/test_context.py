"""The context preview is exact, and looking at anything changes nothing."""

import io
from urllib.parse import urlencode

import pytest
from django.core.management import call_command
from django.db import connection
from playwright.sync_api import Page

from tests.browser.conftest import enter, sign_in
from tests.browser.story import Story
from tests.browser.test_pages import ALL

pytestmark = pytest.mark.browser


def test_24_the_preview_is_the_context(page: Page, story: Story) -> None:
    """Byte for byte what the command prints for the same reader; the sections' tokens are its sum."""
    sign_in(page, story)
    asked = {"channel": "C0LAUNCH", "budget": "4000", "at": "2031-01-05T09:00:00Z"}
    page.goto(story.at(f"/w/kazoe/context/?{urlencode(asked)}"))
    out = io.StringIO()
    words = [word for name, value in asked.items() for word in (f"--{name}", value)]
    call_command("context", "--workspace", "kazoe", "--as", story.user.username, *words, stdout=out)
    shown = page.locator("#text pre").all_text_contents()
    assert len(shown) > 3
    assert "\n\n".join(shown) + "\n" == out.getvalue()
    with page.expect_download() as download:
        page.click("text=Download")
    assert download.value.path().read_bytes() == out.getvalue().encode()
    numbers = page.locator("tbody td:nth-child(3)").all_inner_texts()
    total = page.locator("#sum").inner_text()
    assert sum(int(number.replace(",", "")) for number in numbers) == int(total.replace(",", ""))


@pytest.mark.timeout(1200 if ALL else 180)
def test_24_looking_changes_nothing(page: Page, story: Story) -> None:
    """Over all pages, whole and as parts, again and again (with AXE=all a hundred times each):
    nobody wrote to the database."""
    enter(page.context, story.url, story.user)
    ask = page.context.request
    before = written()
    for path in story.pages().values():
        for headers in ({}, {"HX-Request": "true"}) * (50 if ALL else 2):
            answer = ask.get(story.at(path.partition("#")[0]), headers=headers)
            assert answer.status in (200, 204, 286, 404), path
    assert written() == before


def written() -> int:
    """SQLite's own word of changes by others."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA data_version")
        return int(cursor.fetchone()[0])
