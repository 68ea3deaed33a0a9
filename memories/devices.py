"""Known devices: browsers in which a person has signed in before.

Wrong passwords from elsewhere lock an account. A known device has a count of its own, so the right
person comes in meanwhile. A new password makes every device unknown again.
"""

import secrets
from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from memories.models import User

COOKIE = "known_device"
AGE = timedelta(days=180)


def remember_device(response: HttpResponse, user: User) -> None:
    """Set the signed cookie of a device in which this person has signed in."""
    response.set_signed_cookie(
        COOKIE,
        secrets.token_urlsafe(16),
        salt=_salt(user),
        max_age=AGE,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def find_device(request: HttpRequest, user: User) -> str:
    """Return the id of the device, or "" where this person has not signed in before."""
    return str(request.get_signed_cookie(COOKIE, default="", salt=_salt(user), max_age=AGE))


def _salt(user: User) -> str:
    return f"{user.pk}:{user.get_session_auth_hash()}"
