"""Secrets as they lie in the database: sealed, and opened with keys that lie elsewhere.

``keys`` are Fernet keys as text: the first one seals, all of them open.
"""

from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet


class DecryptionError(Exception):
    """None of the keys opens it: the right one is missing, or it was altered."""


def seal(text: str, keys: Sequence[str]) -> str:
    """The text, to be read by nobody without a key. Sealed twice it does not look the same."""
    return _box(keys).encrypt(text.encode()).decode("ascii")


def unseal(sealed: str, keys: Sequence[str]) -> str:
    """What was sealed; raises `Unsealable`."""
    try:
        return _box(keys).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise DecryptionError("None of the keys opens what is sealed.") from None


def sealed_by_first(sealed: str, keys: Sequence[str]) -> bool:
    """Whether the other keys are not needed for it any more."""
    try:
        Fernet(keys[0]).decrypt(sealed.encode())
    except InvalidToken:
        return False
    return True


def reseal(sealed: str, keys: Sequence[str]) -> str:
    """The same secret under the first key, as it is where that seals it already; raises
    `Unsealable`."""
    return sealed if sealed_by_first(sealed, keys) else seal(unseal(sealed, keys), keys)


def new_key() -> str:
    return Fernet.generate_key().decode("ascii")


def _box(keys: Sequence[str]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])
