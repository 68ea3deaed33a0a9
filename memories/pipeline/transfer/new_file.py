"""Files that appear under their name only when they are complete and on the disk."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Yield a file that only its owner may read. It gets its name at the end.

    Raises `FileExistsError`, at the start or at the end, if the name exists, unless ``force``.
    """
    if not force and os.path.lexists(path):
        raise FileExistsError(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:  # mkstemp gives it mode 0600
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            unfinished.replace(path)
        else:
            _link(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name too
    finally:
        os.close(folder)


def _link(unfinished: Path, path: Path) -> None:
    """Give the file its name. A plain rename would replace a file that came meanwhile."""
    try:
        os.link(unfinished, path)
    except FileExistsError:
        raise
    except OSError:  # a disk without links, such as a memory stick
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        unfinished.replace(path)
