"""The admin as an operator meets it: accessible in both themes and languages, and within the strict policy."""

import pytest
from pytest_playwright.pytest_playwright import CreateContextCallback

from memories.models import User
from tests.browser.conftest import listen_to_console, sign_in
from tests.browser.looks import LOOKS
from tests.browser.measures import look_at
from tests.browser.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

OTHER_LOOKS = [
    pytest.param(look, marks=pytest.mark.nightly("every look")) for look in ("dark", "ja")
]


@pytest.mark.parametrize("look", ["light", *OTHER_LOOKS])
def test_the_pages_of_an_operator(
    new_context: CreateContextCallback, story: Story, look: str
) -> None:
    """The admin, the setup and the second factor."""
    User.objects.filter(pk=story.user.pk).update(is_staff=True, is_superuser=True)
    page = new_context(**LOOKS[look]).new_page()
    messages = listen_to_console(page)
    sign_in(page, story)
    faults = {}
    more = {path: path for path in ("/setup/", "/setup/import/", "/factors/")}
    for name, path in {**story.admin_pages(), **more}.items():
        page.goto(story.at(path))
        faults[name] = look_at(page)
    assert {name: problems for name, problems in faults.items() if problems} == {}
    assert messages == []
