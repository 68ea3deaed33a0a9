"""Slack events in the admin, without their text."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memories.models import AuditEvent, SlackEvent, User
from memories.rules.ingest.events import MAX_ATTEMPTS
from tests.factories import MemberFactory, UserFactory, WorkspaceFactory

pytestmark = pytest.mark.django_db

STATE = SlackEvent.State
LIST = reverse("admin:memories_slackevent_changelist")
SECRET = "the salaries of all"


def event(number: int = 1, **given: Any) -> SlackEvent:
    return SlackEvent.objects.create(
        **{
            "event_id": f"Ev{number}",
            "team_id": "T1",
            "kind": "message",
            "state": STATE.FAILED,
            "reason": "OperationalError",
            "attempts": MAX_ATTEMPTS,
            "body": f'{{"event": {{"text": "{SECRET}"}}}}',
            **given,
        }
    )


def retry(client: Client, *rows: SlackEvent) -> list[str]:
    keys = [row.pk for row in rows]
    response = client.post(LIST, {"action": "retry", "_selected_action": keys}, follow=True)
    return [str(message) for message in response.context["messages"]]


def test_the_list_shows_results_and_no_text(client: Client, operator: User) -> None:
    failed = event()
    page = reverse("admin:memories_slackevent_change", args=[failed.pk])
    for path in (LIST, page, f"{LIST}?q=Ev1", f"{LIST}?state__exact=failed"):
        shown = client.get(path).content.decode()
        assert "OperationalError" in shown
        assert SECRET not in shown
    assert "1 result" not in client.get(f"{LIST}?q=salaries").content.decode()
    response = client.get(f"{LIST}?body__contains=salaries")
    assert response.status_code in (302, 400), "an address guesses at what is not shown"


def test_nothing_is_added_changed_or_deleted(client: Client, operator: User) -> None:
    failed = event()
    for name, args in (("add", []), ("delete", [failed.pk])):
        path = reverse(f"admin:memories_slackevent_{name}", args=args)
        assert client.post(path, {"post": "yes"}).status_code == 403
    page = reverse("admin:memories_slackevent_change", args=[failed.pk])
    assert client.post(page, {"state": "done"}).status_code == 403


def test_failed_events_are_retried(client: Client, operator: User) -> None:
    failed, done = event(1), event(2, state=STATE.DONE, body="")
    assert retry(client, failed, done) == ["1 event will be retried."]
    failed.refresh_from_db()
    done.refresh_from_db()
    assert (failed.state, failed.attempts, failed.reason) == (STATE.WAITING, 0, "")
    assert done.state == STATE.DONE
    record = AuditEvent.objects.get(action="event_retry")
    assert (record.actor, record.subject) == ("boss", f"event {failed.pk}")
    assert retry(client, done) == ["0 events will be retried."]


def test_only_operators_see_events(client: Client) -> None:
    event()
    user = UserFactory(is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(codename__in=["view_slackevent", "change_slackevent"])
    )
    MemberFactory(workspace=WorkspaceFactory(team_id="T1"), user=user, role="admin")
    client.force_login(user)
    assert ">Ev1<" not in client.get(LIST).content.decode()
    retry(client, SlackEvent.objects.get())
    assert SlackEvent.objects.get().state == STATE.FAILED


def test_the_number_of_queries_does_not_depend_on_rows(
    client: Client, operator: User, django_assert_num_queries: Any
) -> None:
    event(1)
    with CaptureQueriesContext(connection) as captured:
        client.get(LIST)
    for number in range(2, 12):
        event(number)
    with django_assert_num_queries(len(captured)):
        client.get(LIST)
