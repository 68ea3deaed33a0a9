"""Logins are recorded: who came, who went, who was refused. Names only, never a password."""

from typing import Any

from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.dispatch import receiver

from memories.models import AuditEvent, User


@receiver(user_logged_in)
def came(user: User, **kwargs: Any) -> None:
    AuditEvent.objects.record("login", by=user)


@receiver(user_logged_out)
def went(user: User | None, **kwargs: Any) -> None:
    if user is not None:
        AuditEvent.objects.record("logout", by=user)


@receiver(user_login_failed)
def was_refused(credentials: dict[str, Any], **kwargs: Any) -> None:
    """What is no name of an account may be a password typed into the wrong field: left out."""
    given = credentials.get(User.USERNAME_FIELD, "")
    user = User.objects.filter(username=given).first()
    AuditEvent.objects.record("login_failed", by=None, subject=user.get_username() if user else "")
