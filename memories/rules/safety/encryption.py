"""Encryption of secrets in the database, with keys that are stored elsewhere.

``keys`` are Fernet keys as text. The first key encrypts, and each key decrypts.
"""

from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet


class DecryptionError(Exception):
    """No key decrypts the text: the right key is missing, or the text was altered."""


def encrypt(text: str, keys: Sequence[str]) -> str:
    return MultiFernet(map(Fernet, keys)).encrypt(text.encode()).decode("ascii")


def decrypt(encrypted: str, keys: Sequence[str]) -> str:
    """Return the text. Raises `DecryptionError`."""
    try:
        return MultiFernet(map(Fernet, keys)).decrypt(encrypted.encode()).decode()
    except InvalidToken:
        raise DecryptionError("None of the keys decrypts the stored value.") from None


def uses_first_key(encrypted: str, keys: Sequence[str]) -> bool:
    """Return whether the text can be decrypted without the other keys."""
    try:
        Fernet(keys[0]).decrypt(encrypted.encode())
    except InvalidToken:
        return False
    return True


def reencrypt(encrypted: str, keys: Sequence[str]) -> str:
    """Return the text encrypted with the first key, unchanged if it is. Raises `DecryptionError`."""
    return encrypted if uses_first_key(encrypted, keys) else encrypt(decrypt(encrypted, keys), keys)


def new_key() -> str:
    return Fernet.generate_key().decode("ascii")
