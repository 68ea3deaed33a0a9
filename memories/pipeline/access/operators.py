"""Who runs the installation: given and taken, on the record, and never nobody. And the passwords that
operators set for others."""

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
    """From now on an operator, with the admin. False: they are."""
    user = _alone(user)
    if user.is_operator and user.is_staff:
        return False
    user.is_active = user.is_staff = user.is_superuser = True
    return _keep(user, by)


@transaction.atomic
def dismiss(user: User, *, by: User | None) -> bool:
    """No operator any more. False: they are none. Raises `RoleRefused` for the last one."""
    user = _alone(user)
    if not user.is_superuser:
        return False
    if user.would_leave_none():
        raise RoleRefused(LAST_OPERATOR)
    user.is_staff = user.is_superuser = False
    return _keep(user, by)


def _alone(user: User) -> User:
    """As it is now, while nobody else changes any operator: two of them may dismiss each other."""
    operators = User.objects.select_for_update().filter(is_superuser=True).order_by("pk")
    list(operators.values_list("pk", flat=True))
    return User.objects.select_for_update().get(pk=user.pk)


def _keep(user: User, by: User | None) -> bool:
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
    """Set somebody else's password, or take it away (None); on the record. Whoever knows a password
    is not shown to be the account's person: until they sign in with Slack, the account opens private
    channels for an hour, and only with a ``reason``. Raises ValueError when ``by`` is no operator.
    """
    if not by.is_operator:
        raise ValueError("Only an operator sets the password of somebody else.")
    reason, now = reason.strip()[:200], timezone.now()
    user.set_password(password)
    if password is not None and user != by:
        user.password_given_at = now
        opens_until = now + ACCESS_LASTS if reason else now
        people = Person.objects.filter(user=user)
        people.update(linked_by=BY_OPERATOR, opens_until=opens_until)
        EmailAddress.objects.filter(user=user).update(verified=False)
    user.save(update_fields=["password", "password_given_at"])
    details: dict[str, Any] = {"reason": reason} if reason else {}
    AuditEvent.objects.record(
        "password_given", by=by, subject=user.get_username(), usable=password is not None, **details
    )
