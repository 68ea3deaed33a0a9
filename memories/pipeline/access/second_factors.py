"""Second factors: encrypt them with a new key, and reset those of an account."""

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import transaction

from memories.models import AuditEvent, User
from memories.rules.safety import encryption

SECRETS = ("secret", "seed")  # of codes by an app, and of recovery codes


def with_secrets() -> list[Authenticator]:
    """Return the authenticators that hold encrypted secrets, with their accounts."""
    kept = Authenticator.objects.exclude(type=Authenticator.Type.WEBAUTHN)
    return list(kept.select_related("user").order_by("pk"))


@transaction.atomic
def reencrypt(factor: Authenticator) -> bool:
    """Encrypt the secrets of an authenticator with the first key. Raises DecryptionError.

    Returns False if nothing changed, or the authenticator was deleted meanwhile.
    """
    row = Authenticator.objects.select_for_update().filter(pk=factor.pk).first()
    if row is None:
        return False
    secrets = {
        name: encryption.reencrypt(row.data[name], settings.MEMORYHUB_KEYS)
        for name in SECRETS
        if name in row.data
    }
    if row.data == {**row.data, **secrets}:
        return False
    row.data = {**row.data, **secrets}
    row.save(update_fields=["data"])
    return True


@transaction.atomic
def reset(user: User, *, by: User | None) -> list[str]:
    """Delete all second factors of an account, with an audit event. Returns their kinds."""
    rows = Authenticator.objects.filter(user=user)
    kinds = sorted(rows.values_list("type", flat=True))
    if kinds:
        rows.delete()
        AuditEvent.objects.record("factors_reset", by=by, subject=user.get_username(), kinds=kinds)
    return kinds
