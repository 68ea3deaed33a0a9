"""Accounts in the admin: rights are an operator's to give, and the last one stays."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse

from memories.models import User
from tests.factories import MemberFactory, PersonFactory, UserFactory, WorkspaceFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def boss(client: Client) -> User:
    user: User = UserFactory(username="boss", is_staff=True, is_superuser=True)
    client.force_login(user)
    return user


@pytest.fixture
def clerk() -> User:
    """Staff with every right of Django's."""
    user: User = UserFactory(username="clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    return user


def page(user: User) -> str:
    return reverse("admin:memories_user_change", args=[user.pk])


def filled(client: Client, user: User) -> dict[str, Any]:
    form = client.get(page(user)).context["adminform"].form
    data = {name: form[name].value() for name in form.fields}
    data = {name: value for name, value in data.items() if value not in (None, False)}
    return data | {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}


@pytest.mark.slow
def test_the_last_operator_stays(client: Client, boss: User) -> None:
    data = filled(client, boss)
    for right in ("is_superuser", "is_active"):
        less = {key: value for key, value in data.items() if key != right}
        answer = client.post(page(boss), less)
        assert answer.status_code == 200 and "last operator" in answer.content.decode()
    delete = reverse("admin:memories_user_delete", args=[boss.pk])
    assert client.post(delete, {"post": "yes"}).status_code == 403
    all_of_them = {"action": "delete_selected", "post": "yes", "_selected_action": [boss.pk]}
    assert client.post(reverse("admin:memories_user_changelist"), all_of_them).status_code == 403
    assert User.objects.get().is_operator


def test_one_of_two_goes_and_not_both(client: Client, boss: User) -> None:
    other = UserFactory(is_staff=True, is_superuser=True)
    both = [boss.pk, other.pk]
    listed = reverse("admin:memories_user_changelist")
    data = {"action": "delete_selected", "post": "yes", "_selected_action": both}
    assert client.post(listed, data).status_code == 403
    client.post(listed, {**data, "_selected_action": [other.pk]})
    assert User.objects.get() == boss


def test_an_account_goes_with_its_roles_but_not_a_last_admin(client: Client, boss: User) -> None:
    workspace = WorkspaceFactory()
    first, second = (MemberFactory(workspace=workspace, role="admin").user for _ in range(2))
    listed = reverse("admin:memories_user_changelist")
    data = {"action": "delete_selected", "post": "yes"}
    both = {**data, "_selected_action": [first.pk, second.pk]}
    assert client.post(listed, both).status_code == 403
    client.post(listed, {**data, "_selected_action": [first.pk]})
    assert client.post(listed, {**data, "_selected_action": [second.pk]}).status_code == 403
    assert set(User.objects.all()) == {boss, second}


def test_staff_do_not_raise_themselves(client: Client, clerk: User) -> None:
    client.force_login(clerk)
    data = filled(client, clerk) | {"is_superuser": "on", "first_name": "Al"}
    assert client.post(page(clerk), data).status_code == 302
    clerk.refresh_from_db()
    assert clerk.first_name == "Al" and not clerk.is_superuser
    person = PersonFactory()
    client.post(reverse("admin:memories_person_change", args=[person.pk]), {"user": clerk.pk})
    person.refresh_from_db()
    assert person.user is None
    group = Group.objects.create(name="many")
    for path in (
        reverse("admin:auth_group_add"),
        reverse("admin:auth_group_change", args=[group.pk]),
    ):
        assert client.post(path, {"name": "all"}).status_code == 403


def test_staff_do_not_touch_an_operators_account(client: Client, clerk: User) -> None:
    boss = UserFactory(username="boss", is_staff=True, is_superuser=True)
    was = boss.password
    client.force_login(clerk)
    word = {"password1": "a long word 7", "password2": "a long word 7", "usable_password": "true"}
    change = reverse("admin:auth_user_password_change", args=[boss.pk])
    assert client.post(change, word).status_code == 403
    assert client.post(page(boss), {"username": "mine"}).status_code == 403
    delete = reverse("admin:memories_user_delete", args=[boss.pk])
    assert client.post(delete, {"post": "yes"}).status_code == 403
    boss.refresh_from_db()
    assert (boss.username, boss.password) == ("boss", was)
