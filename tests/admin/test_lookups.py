"""Filters in the URL of an admin list, on both databases."""

import pytest
from django.contrib import admin
from django.test import Client

from memories.admin.lookups import CheckedLookups
from memories.models import AuditEvent
from tests.factories import UserFactory

HUGE = "9" * 30


@pytest.fixture
def operator(client: Client, db: None) -> Client:
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    AuditEvent.objects.record("memory_edit", by=None, subject="memory 7", version=3)
    return client


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "status"),
    [
        # Look-ups that the admin's own links use
        ("memories/auditevent/?action=memory_edit", 200),
        ("memories/auditevent/?action__exact=memory_edit", 200),
        ("memories/auditevent/?at__year=2026", 200),
        ("memories/auditevent/?at__year=2026&at__month=1&at__day=5", 200),
        ("memories/auditevent/?at__gte=2026-01-05 00:00:00%2B00:00", 200),
        ("memories/auditevent/?id__in=1,2", 200),
        ("memories/auditevent/?subject__icontains=memory", 200),
        ("memories/auditevent/?details__isnull=False", 200),
        ("memories/channel/?is_archived__exact=1", 200),
        ("memories/channel/?workspace__id__exact=1", 200),
        ("memories/user/?is_active__exact=1", 200),
        ("memories/person/?user__isempty=1", 200),
        ("memories/person/?user__isempty=x", 302),
        # JSON
        ("memories/auditevent/?details__contains=x", 400),
        ("memories/auditevent/?details__has_key=x", 400),
        ("memories/auditevent/?details=x", 400),
        ("memories/workspace/?settings__contains={}", 400),
        # Numbers and dates that there are not
        (f"memories/auditevent/?at__year={10**20}", 400),
        (f"memories/auditevent/?at__year={HUGE * 200}", 400),
        ("memories/auditevent/?at__year=0", 400),
        ("memories/auditevent/?at__year=9999", 400),
        ("memories/auditevent/?at__year=2026&at__month=13", 400),
        ("memories/auditevent/?at__year=x", 400),
        ("memories/auditevent/?at__gte=0000-00-00", 400),
        ("memories/auditevent/?at__gte=0001-01-01 00:00:00%2B14:00", 400),
        (f"memories/auditevent/?id={HUGE}", 400),
        (f"memories/auditevent/?id__in=1,{HUGE}", 400),
        ("memories/auditevent/?id=x", 400),
        (f"memories/channel/?workspace__id__exact={HUGE}", 400),
        ("memories/modelcall/?day__year=99999", 400),
        # No look-ups
        ("memories/auditevent/?action__regex=(", 400),
        ("memories/auditevent/?at__year__gt=2026", 400),
        ("memories/auditevent/?action____class__=x", 400),
        ("memories/auditevent/?__class__=x", 400),
        ("memories/user/?date_joined__week_day=x", 400),
        ("memories/user/?foo=x", 400),
        ("django_q/success/?args__contains=x", 400),
    ],
)
def test_a_filter_works_or_is_refused(operator: Client, address: str, status: int) -> None:
    response = operator.get(f"/admin/{address}")
    assert response.status_code == status
    if status == 400:
        assert "an invalid value" in response.content.decode()


def test_an_empty_to_field_means_the_key(operator: Client) -> None:
    assert operator.get("/admin/memories/member/x/delete/?_to_field=").status_code in (302, 403)


@pytest.mark.parametrize("key", ["[", "", HUGE])
def test_an_action_on_an_impossible_row_is_refused(operator: Client, key: str) -> None:
    data = {"action": "delete_selected", "_selected_action": key, "index": "0"}
    assert operator.post("/admin/memories/user/", data).status_code == 400


@pytest.mark.parametrize("key", ["x", "0001-01-01", HUGE, "\ufffd", "-1"])
def test_a_form_with_an_invalid_key_is_shown_again(operator: Client, key: str) -> None:
    response = operator.post("/admin/memories/budget/add/", {"workspace": key, "period": "day"})
    assert response.status_code == 200
    assert "workspace" in response.context["adminform"].form.errors


def test_every_admin_checks_its_lookups() -> None:
    unchecked = [a for a in admin.site._registry.values() if not isinstance(a, CheckedLookups)]
    assert unchecked == []
