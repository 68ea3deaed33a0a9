"""Accounts in the admin: only operators change rights, and the last operator stays."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from memories.models import User
from tests.admin.conftest import staff
from tests.factories import MemberFactory, PersonFactory, UserFactory, WorkspaceFactory

pytestmark = pytest.mark.django_db


def page(user: User) -> str:
    return reverse("admin:memories_user_change", args=[user.pk])


def form_data(client: Client, user: User) -> dict[str, Any]:
    form = client.get(page(user)).context["adminform"].form
    data = {name: form[name].value() for name in form.fields}
    data = {name: value for name, value in data.items() if value not in (None, False)}
    return data | {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}


@pytest.mark.slow
def test_the_last_operator_cannot_be_removed(client: Client, operator: User) -> None:
    data = form_data(client, operator)
    for right in ("is_superuser", "is_active"):
        reduced = {key: value for key, value in data.items() if key != right}
        response = client.post(page(operator), reduced)
        assert response.status_code == 200 and "last operator" in response.content.decode()
    delete = reverse("admin:memories_user_delete", args=[operator.pk])
    assert client.post(delete, {"post": "yes"}).status_code == 403
    deletion = {"action": "delete_selected", "post": "yes", "_selected_action": [operator.pk]}
    assert client.post(reverse("admin:memories_user_changelist"), deletion).status_code == 403
    assert User.objects.get().is_operator


def test_the_last_operator_cannot_be_deleted(client: Client, operator: User) -> None:
    second = UserFactory(is_staff=True, is_superuser=True)
    both = [operator.pk, second.pk]
    listed = reverse("admin:memories_user_changelist")
    data = {"action": "delete_selected", "post": "yes", "_selected_action": both}
    assert client.post(listed, data).status_code == 403
    client.post(listed, {**data, "_selected_action": [second.pk]})
    assert User.objects.get() == operator


def test_a_deletion_includes_roles_but_refuses_a_last_admin(client: Client, operator: User) -> None:
    workspace = WorkspaceFactory()
    first, second = (MemberFactory(workspace=workspace, role="admin").user for _ in range(2))
    listed = reverse("admin:memories_user_changelist")
    data = {"action": "delete_selected", "post": "yes"}
    both = {**data, "_selected_action": [first.pk, second.pk]}
    assert client.post(listed, both).status_code == 403
    client.post(listed, {**data, "_selected_action": [first.pk]})
    assert client.post(listed, {**data, "_selected_action": [second.pk]}).status_code == 403
    assert set(User.objects.all()) == {operator, second}


def test_a_new_name_differs_from_all_others_also_in_case(client: Client, operator: User) -> None:
    """Else neither of the two accounts could sign in."""
    mika = UserFactory(username="mika")
    UserFactory(username="Zoë")
    data = form_data(client, mika)
    for name in ("Boss", "zoë", "ZOË"):
        assert client.post(page(mika), data | {"username": name}).status_code == 200
        with pytest.raises(ValidationError):
            User(username=name, password="x").full_clean()
    assert client.post(page(mika), data | {"username": "Mika"}).status_code == 302
    mika.refresh_from_db()
    assert mika.username == "Mika"


def test_staff_see_the_people_of_their_workspaces_alone(client: Client) -> None:
    account, workspace = UserFactory(), WorkspaceFactory()
    PersonFactory(workspace=workspace, user=account, linked_by="slack", name="Mika M")
    for role, is_shown in (("", False), ("member", True)):
        staff(client, "view_user", workspace=workspace, role=role)
        assert ("Mika M" in client.get(page(account)).content.decode()) == is_shown


def test_staff_cannot_raise_their_rights(client: Client, clerk: User) -> None:
    client.force_login(clerk)
    data = form_data(client, clerk) | {"is_superuser": "on", "first_name": "Al"}
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


def test_staff_cannot_change_the_account_of_an_operator(client: Client, clerk: User) -> None:
    operator = UserFactory(username="boss", is_staff=True, is_superuser=True)
    old_password = operator.password
    client.force_login(clerk)
    passwords = {
        "password1": "a long word 7",
        "password2": "a long word 7",
        "usable_password": "true",
    }
    change = reverse("admin:auth_user_password_change", args=[operator.pk])
    assert client.post(change, passwords).status_code == 403
    assert client.post(page(operator), {"username": "mine"}).status_code == 403
    delete = reverse("admin:memories_user_delete", args=[operator.pk])
    assert client.post(delete, {"post": "yes"}).status_code == 403
    operator.refresh_from_db()
    assert (operator.username, operator.password) == ("boss", old_password)
