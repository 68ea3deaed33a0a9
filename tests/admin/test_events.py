"""Slack events in the admin, without their text."""

import pytest
from django.test import Client

from memories.models import SlackEvent, User
from tests.admin.conftest import change_page, page_of

pytestmark = pytest.mark.django_db

LIST = page_of(SlackEvent)
SECRET = "the salaries of all"


def test_the_list_shows_results_and_no_text(client: Client, operator: User) -> None:
    body = f'{{"event": {{"text": "{SECRET}"}}}}'
    failed = SlackEvent.objects.create(
        event_id="Ev1", team_id="T1", kind="message", state="failed", reason="OnFire", body=body
    )
    for path in (LIST, change_page(failed), f"{LIST}?q=Ev1", f"{LIST}?state__exact=failed"):
        shown = client.get(path).content.decode()
        assert "OnFire" in shown
        assert SECRET not in shown
    assert "1 result" not in client.get(f"{LIST}?q=salaries").content.decode()
