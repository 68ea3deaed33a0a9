"""The keys of an installation that was given none: of its sessions, and of what it keeps sealed."""

import os
import tempfile
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key

KEY_BYTES = 32  # of a Fernet key, which is these in base64


def kept_secret_key(folder: Path) -> str:
    """Return the key kept in `folder/secret_key` (mode 0600), making it the first time."""
    return _kept(folder, "secret_key", lambda: get_random_secret_key() + get_random_secret_key())


def kept_keys(folder: Path) -> str:
    """Return the text of `folder/keys` (mode 0600), the first time one new Fernet key."""
    return _kept(folder, "keys", lambda: urlsafe_b64encode(os.urandom(KEY_BYTES)).decode("ascii"))


def read_keys(text: str, variable: str) -> list[str]:
    """Fernet keys between commas or on lines of their own. A wrong one is told by its place alone:
    it may be a good key with a letter too many."""
    keys = text.replace(",", " ").split()
    for place, key in enumerate(keys, 1):
        if not _is_key(key):
            raise ImproperlyConfigured(
                f"{variable} must hold Fernet keys between commas; number {place} of {len(keys)}"
                " is none. `manage.py rotate_keys --new` makes one."
            )
    if not keys:
        raise ImproperlyConfigured(f"{variable} holds no key.")
    return keys


def _is_key(text: str) -> bool:
    try:
        return len(urlsafe_b64decode(text.encode("ascii"))) == KEY_BYTES
    except ValueError:
        return False


def _kept(folder: Path, name: str, make: Callable[[], str]) -> str:
    """Two processes that start at once end with the same one: the file appears whole, by a link
    that fails when another came first."""
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
