"""Forms for codes and security keys, with limits of attempts that strangers cannot use up.

allauth counts the attempts of a person alone. So somebody who knows the password could lock the
person out. Here the attempts from a known device have a count of their own. All others count twice:
for the person and the IP address together, and for the person.
"""

from collections.abc import Callable
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.core import context, ratelimit
from allauth.core.internal.ratelimit import get_ip
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.webauthn.forms import AuthenticateWebAuthnForm, ReauthenticateWebAuthnForm

from memories.devices import find_device
from memories.models import User


def _check(user: User, clean: Callable[[], Any]) -> Any:
    """Count an attempt and clean the field. A right answer resets the counts."""
    request = context.request
    if device := find_device(request, user):
        counts = [("factor", f"device:{device}")]
    else:
        counts = [("factor", f"{user.pk}:{get_ip(request)}"), ("factor_person", str(user.pk))]
    if not all(ratelimit.consume(request, action=action, key=key) for action, key in counts):
        raise get_adapter().validation_error("too_many_login_attempts")
    # allauth's own count, which it checks next.
    ratelimit.clear(request, action="login_failed", key=f"mfa-auth-user-{user.pk}")
    answer = clean()
    for action, key in counts:
        ratelimit.clear(request, action=action, key=key)
    return answer


class _Limited:
    user: User

    def clean_code(self) -> Any:
        return _check(self.user, super().clean_code)  # type: ignore[misc]  # of allauth's form

    def clean_credential(self) -> Any:
        return _check(self.user, super().clean_credential)  # type: ignore[misc]  # the same


class CodeForm(_Limited, AuthenticateForm):  # type: ignore[misc]
    pass


class CodeAgainForm(_Limited, ReauthenticateForm):  # type: ignore[misc]
    pass


class KeyForm(_Limited, AuthenticateWebAuthnForm):  # type: ignore[misc]
    pass


class KeyAgainForm(_Limited, ReauthenticateWebAuthnForm):  # type: ignore[misc]
    pass
