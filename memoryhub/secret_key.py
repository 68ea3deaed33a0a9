"""The secret key of an installation that was given none."""

import os
import tempfile
from pathlib import Path

from django.core.management.utils import get_random_secret_key


def kept_secret_key(folder: Path) -> str:
    """Return the key kept in `folder/secret_key` (mode 0600), making it the first time.

    Two processes that start at once end with the same key: the file appears whole, by a link
    that fails when another came first.
    """
    path = folder / "secret_key"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=folder, prefix=".secret_key-")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(get_random_secret_key() + get_random_secret_key())
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)
    return path.read_text().strip()
