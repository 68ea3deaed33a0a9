"""Who runs the installation: given and taken, on the record, and never nobody."""

from django.db import transaction

from memories.models import AuditEvent, RoleRefused, User
from memories.rules.roles import LAST_OPERATOR


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
