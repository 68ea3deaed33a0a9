"""Accounts that use the admin."""

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from memories.models import User
from tests.factories import UserFactory


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
