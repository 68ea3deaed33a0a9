"""Second factors: allauth's adapter, and audit events.

The secrets of authenticator apps and recovery codes are encrypted (`rules.safety.encryption`). Of a
security key only the public key is stored.
"""

from typing import Any

from allauth.core import context
from allauth.mfa import signals
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.dispatch import receiver
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memories.models import AuditEvent, User
from memories.rules.safety import encryption

ISSUER = "Memory Hub"


class Factors(DefaultMFAAdapter):  # type: ignore[misc]
    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": gettext_lazy("This code is not correct, or it was used already."),
        "cannot_generate_recovery_codes": gettext_lazy(
            "Recovery codes need an app or a security key. Add one of these first."
        ),
        "decryption_failed": gettext_lazy(
            "The server does not have the key that encrypts your second factor. Contact an "
            "operator."
        ),
    }

    def encrypt(self, text: str) -> str:
        return encryption.encrypt(text, settings.MEMORYHUB_KEYS)

    def decrypt(self, encrypted_text: str) -> str:
        """Decrypt a secret, or raise a validation error, which refuses the sign-in.

        An empty secret in its place would accept codes that anybody can compute.
        """
        try:
            return encryption.decrypt(encrypted_text, settings.MEMORYHUB_KEYS)
        except encryption.DecryptionError:
            raise self.validation_error("decryption_failed") from None

    def get_totp_label(self, user: Any) -> str:
        return str(user.get_username())

    def get_totp_issuer(self) -> str:
        """Return the issuer with the host, which differs between installations."""
        return f"{ISSUER} ({context.request.get_host()})"

    def generate_authenticator_name(self, user: Any, type: Any) -> str:
        number = Authenticator.objects.filter(user=user, type=type).count() + 1
        return _("Key %(number)d") % {"number": number}

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        return {**super().get_public_key_credential_rp_entity(), "name": ISSUER}

    def get_public_key_credential_user_entity(self, user: Any) -> dict[str, Any]:
        """Show the user name on a security key instead of the e-mail address."""
        name = user.get_username()
        return {**super().get_public_key_credential_user_entity(user), "name": name}


@receiver(signals.authenticator_added)
def record_added(user: User, authenticator: Authenticator, **kwargs: Any) -> None:
    _record("factor_added", user, authenticator)


@receiver(signals.authenticator_removed)
def record_removed(user: User, authenticator: Authenticator, **kwargs: Any) -> None:
    _record("factor_removed", user, authenticator)


@receiver(signals.authenticator_reset)
def record_renewed(user: User, authenticator: Authenticator, **kwargs: Any) -> None:
    _record("factor_renewed", user, authenticator)


@receiver(signals.authentication_failed)
def record_failed(user: User, authenticator: Authenticator, **kwargs: Any) -> None:
    """Record a wrong code. The event has no actor, because anybody may have entered the code."""
    AuditEvent.objects.record(
        "factor_failed", by=None, subject=user.get_username(), kind=str(authenticator.type)
    )


def _record(action: str, user: User, authenticator: Authenticator) -> None:
    AuditEvent.objects.record(
        action, by=user, subject=user.get_username(), kind=str(authenticator.type)
    )
