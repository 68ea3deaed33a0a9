"""Operators: appoint and dismiss them, and set the passwords of other accounts."""

from typing import Any

from allauth.account.models import EmailAddress
from django.db import transaction
from django.utils import timezone

from memories.models import AuditEvent, Person, RoleRefused, User
from memories.models.access.users import ACCESS_LASTS
from memories.models.ingest.people import BY_OPERATOR
from memories.rules.access.roles import LAST_OPERATOR


@transaction.atomic
def appoint(user: User, *, by: User | None) -> bool:
    """Make an account an operator with access to the admin. Returns False if it is one."""
    user = _lock(user)
    if user.is_operator and user.is_staff:
        return False
    user.is_active = user.is_staff = user.is_superuser = True
    return _save(user, by)


@transaction.atomic
def dismiss(user: User, *, by: User | None) -> bool:
    """End the role of an operator. Returns False if the account is none.

    Raises `RoleRefused` for the last operator.
    """
    user = _lock(user)
    if not user.is_superuser:
        return False
    if user.is_last_operator():
        raise RoleRefused(LAST_OPERATOR)
    user.is_staff = user.is_superuser = False
    return _save(user, by)


def _lock(user: User) -> User:
    """Lock all operators, who could dismiss each other at once, and return the account anew."""
    operators = User.objects.select_for_update().filter(is_superuser=True).order_by("pk")
    list(operators.values_list("pk", flat=True))
    return User.objects.select_for_update().get(pk=user.pk)


def _save(user: User, by: User | None) -> bool:
    user.save(update_fields=["is_active", "is_staff", "is_superuser"])
    AuditEvent.objects.record(
        "account",
        by=by,
        subject=user.get_username(),
        is_active=user.is_active,
        is_staff=user.is_staff,
        is_superuser=user.is_superuser,
    )
    return True


@transaction.atomic
def give_password(user: User, password: str | None, *, by: User, reason: str = "") -> None:
    """Set the password of another account, or remove it (None), with an audit event.

    A person who signs in with this password is not proven to own the account. Until a sign-in with
    Slack the account opens private channels for an hour, and only with a ``reason``. Raises
    ValueError if ``by`` is no operator.
    """
    if not by.is_operator:
        raise ValueError("Only an operator sets the password of somebody else.")
    reason, now = reason.strip()[:200], timezone.now()
    user.set_password(password)
    if password is not None and user != by:
        user.password_set_at = user.password_set_at or now
        link_valid_until = now + ACCESS_LASTS if reason else now
        people = Person.objects.filter(user=user)
        people.update(linked_by=BY_OPERATOR, link_valid_until=link_valid_until)
        EmailAddress.objects.filter(user=user).update(verified=False)
    user.save(update_fields=["password", "password_set_at"])
    details: dict[str, Any] = {"reason": reason} if reason else {}
    AuditEvent.objects.record(
        "password_given", by=by, subject=user.get_username(), usable=password is not None, **details
    )
