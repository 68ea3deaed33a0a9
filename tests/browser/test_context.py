"""Looking at anything changes nothing."""

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import enter
from tests.browser.states import data_version
from tests.browser.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.nightly("a long walk")]


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
