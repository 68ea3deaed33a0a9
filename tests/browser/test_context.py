"""The context preview is exact, and looking at anything changes nothing."""

import io
from urllib.parse import urlencode

import pytest
from django.core.management import call_command
from playwright.sync_api import Page

from tests.browser.conftest import enter, sign_in
from tests.browser.states import data_version
from tests.browser.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.nightly("a long walk")]


def test_the_preview_is_the_context(page: Page, story: Story) -> None:
    """Byte for byte what the command prints for the same reader; the sections' tokens are its sum."""
    sign_in(page, story)
    parameters = {"channel": "C0LAUNCH", "budget": "4000", "at": "2031-01-05T09:00:00Z"}
    page.goto(story.at(f"/w/kazoe/context/?{urlencode(parameters)}"))
    out = io.StringIO()
    words = [word for name, value in parameters.items() for word in (f"--{name}", value)]
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


PARTS, TIMES = 4, 50  # for several processes to share; of each page


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_looking_changes_nothing(page: Page, story: Story, part: int) -> None:
    """All pages, whole and as parts, are opened repeatedly. None writes to the database."""
    enter(page.context, story.url, story.user)
    ask = page.context.request
    before = data_version()
    for path in list(story.pages().values())[part::PARTS]:
        for headers in ({}, {"HX-Request": "true"}) * TIMES:
            answer = ask.get(story.at(path.partition("#")[0]), headers=headers)
            assert answer.status in (200, 204, 286, 404), path
    assert data_version() == before
