"""Catch up in a browser: the query string of its form."""

import re

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from tests.browser.conftest import sign_in
from tests.browser.story import Story

pytestmark = pytest.mark.browser


def test_a_day_written_beside_the_choices_is_the_choice(page: Page, story: Story) -> None:
    sign_in(page, story)
    today = timezone.localdate().isoformat()
    page.get_by_label("Day", exact=True).fill(today)
    expect(page.get_by_label("a date")).to_be_checked()
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page).to_have_url(re.compile(f"since=day&day={today}"))
