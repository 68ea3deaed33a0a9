"""A file that appears under its name once it is whole and on the disk, else not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Only its owner may read it. FileExistsError, at the beginning or at the end, when something
    has this name already, unless ``force``."""
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
            _name(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name too
    finally:
        os.close(folder)


def _name(unfinished: Path, path: Path) -> None:
    """Unless something has that name by now: a plain rename would replace it."""
    try:
        os.link(unfinished, path)
    except FileExistsError:
        raise
    except OSError:  # a disk without links, such as a memory stick
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        unfinished.replace(path)
