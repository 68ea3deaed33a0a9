"""Accounts that use the admin, and their requests."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from memories.models import Job, Proposal, User, Workspace
from tests.factories import MemberFactory, UserFactory


@pytest.fixture
def operator(client: Client, db: None) -> User:
    """An operator who is signed in and reads no private channel."""
    user: User = UserFactory(username="boss", is_staff=True, is_superuser=True)
    client.force_login(user)
    return user


@pytest.fixture
def clerk() -> User:
    """Staff with every permission of Django."""
    user: User = UserFactory(username="clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    return user


def staff(
    client: Client, *permissions: str, workspace: Workspace | None = None, role: str = "member"
) -> User:
    """Sign in staff with these permissions, with this role in the workspace unless it is empty."""
    user: User = UserFactory(is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    if workspace and role:
        MemberFactory(workspace=workspace, user=user, role=role)
    client.force_login(user)
    return user


def page_of(model: type[Model], page: str = "changelist", *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def change_page(row: Model) -> str:
    return page_of(type(row), "change", row.pk)


def act(client: Client, action: str, *rows: Model, **data: Any) -> list[str]:
    """Run an action on these rows, and return its messages."""
    data = {"action": action, "_selected_action": [row.pk for row in rows], **data}
    response = client.post(page_of(type(rows[0])), data, follow=True)
    return [str(message) for message in response.context["messages"]]


def sent_data(form: Any) -> dict[str, Any]:
    """Return what a browser sends for an unchanged form. It sends no unchecked boxes."""
    values = {name: form[name].value() for name in form.fields}
    return {
        name: value for name, value in values.items() if value is not None and value is not False
    }


def opened(client: Client, row: Model) -> dict[str, Any]:
    """Open the page of a row, and return what its unchanged form sends."""
    return sent_data(client.get(change_page(row)).context["adminform"].form)


def content_of(row: Job | Proposal) -> str:
    """Return the current text of the memory of a proposal."""
    row.memory.refresh_from_db()
    assert row.memory.current is not None
    return row.memory.current.content
