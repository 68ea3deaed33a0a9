"""Close the files of the installation to other users of the machine."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import connection

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""The permission bits of everybody except the owner."""


def write_privately() -> None:
    """Create all later files of this process and its children without access for others."""
    os.umask(OTHERS)


def close_to_others() -> None:
    """Remove the access of others to `MEMORYHUB_VAR`, the files in it, and the SQLite database.

    Files of another user and folders with a sticky bit, such as /tmp, stay as they are.
    """
    for path in _private_paths():
        with contextlib.suppress(FileNotFoundError):  # SQLite may remove its WAL at any time
            status = path.stat()
            mode = stat.S_IMODE(status.st_mode)
            if status.st_uid == os.geteuid() and mode & OTHERS and not mode & stat.S_ISVTX:
                path.chmod(mode & ~OTHERS)


def find_open_paths() -> list[Path]:
    """Return the private paths that others can reach. They reach no file in a closed folder."""
    return [path for path in _private_paths() if _is_open(path) and _is_open(path.parent)]


def _is_open(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & OTHERS)
    except FileNotFoundError:
        return False


def _private_paths() -> Iterator[Path]:
    folder = Path(settings.MEMORYHUB_VAR)
    if folder.is_dir():
        yield folder
        yield from (path for path in folder.iterdir() if not path.is_symlink())
    if connection.vendor == "sqlite":
        name = str(connection.settings_dict["NAME"])
        files = [Path(f"{name}{suffix}") for suffix in ("", "-wal", "-shm", "-journal")]
        yield from (path for path in files if path.is_file())
