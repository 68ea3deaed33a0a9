"""Hashes of secret tokens, which the database stores in place of the tokens."""

from django.conf import settings
from django.utils.crypto import salted_hmac


def token_hashes(salt: str, token: str) -> list[str]:
    """Return HMACs of a token with the current SECRET_KEY, then with its fallbacks."""
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [salted_hmac(salt, token, secret=key, algorithm="sha256").hexdigest() for key in keys]
