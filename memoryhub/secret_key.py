"""The keys that an installation creates for sessions and for encrypted columns."""

import os
import tempfile
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key

from memoryhub.env import PROGRAM

KEY_BYTES = 32  # a Fernet key is their base64


def kept_secret_key(folder: Path) -> str:
    """Return the content of `folder/secret_key` (mode 0600). Create it with a random key if missing."""
    return _read_or_create(
        folder, "secret_key", lambda: get_random_secret_key() + get_random_secret_key()
    )


def kept_keys(folder: Path) -> str:
    """Return the content of `folder/keys` (mode 0600). Create it with a new Fernet key if missing."""
    return _read_or_create(
        folder, "keys", lambda: urlsafe_b64encode(os.urandom(KEY_BYTES)).decode("ascii")
    )


def read_keys(text: str, variable: str) -> list[str]:
    """Parse Fernet keys, separated by commas or newlines.

    ``ImproperlyConfigured`` names a wrong key only by its position, because most of it may be right.
    """
    keys = text.replace(",", " ").split()
    for position, key in enumerate(keys, 1):
        if not _is_key(key):
            raise ImproperlyConfigured(
                f"{variable} must hold Fernet keys between commas; number {position} of {len(keys)}"
                f" is invalid. `{PROGRAM} rotate_keys --new` creates one."
            )
    if not keys:
        raise ImproperlyConfigured(f"{variable} contains no key.")
    return keys


def _is_key(text: str) -> bool:
    try:
        return len(urlsafe_b64decode(text.encode("ascii"))) == KEY_BYTES
    except ValueError:
        return False


def _read_or_create(folder: Path, name: str, make: Callable[[], str]) -> str:
    """Read the file, or create it. Two processes that start at once read the same content.

    The file appears complete, by a hard link that fails if another process was first.
    """
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=folder, prefix=f".{name}-")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(make())
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)
    return path.read_text().strip()
