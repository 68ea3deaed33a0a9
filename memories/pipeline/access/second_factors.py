"""Second factors where they are kept: sealed with a new key, and taken from who lost them."""

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import transaction

from memories.models import AuditEvent, User
from memories.rules.safety import encryption

SECRETS = ("secret", "seed")  # of an app's codes, of recovery codes; a key's are in the key


def with_secrets() -> list[Authenticator]:
    """Those that keep something sealed, with their accounts."""
    kept = Authenticator.objects.exclude(type=Authenticator.Type.WEBAUTHN)
    return list(kept.select_related("user").order_by("pk"))


@transaction.atomic
def reseal(factor: Authenticator) -> bool:
    """Seal what it keeps with the first key; False: it is, or it is gone meanwhile. Raises
    `rules.sealed.Unsealable`."""
    row = Authenticator.objects.select_for_update().filter(pk=factor.pk).first()
    if row is None:
        return False
    again = {
        name: encryption.reseal(row.data[name], settings.MEMORYHUB_KEYS)
        for name in SECRETS
        if name in row.data
    }
    if row.data == {**row.data, **again}:
        return False
    row.data = {**row.data, **again}
    row.save(update_fields=["data"])
    return True


@transaction.atomic
def reset(user: User, *, by: User | None) -> list[str]:
    """Take all second factors of an account away, on the record; returns what kinds there were."""
    rows = Authenticator.objects.filter(user=user)
    kinds = sorted(rows.values_list("type", flat=True))
    if kinds:
        rows.delete()
        AuditEvent.objects.record("factors_reset", by=by, subject=user.get_username(), kinds=kinds)
    return kinds
