"""Where a long command is, on stderr."""

import time
from collections.abc import Callable

from django.core.management.base import OutputWrapper

EVERY = 5.0  # seconds
EVERY_ON_TERMINAL = 0.2


def progress(stderr: OutputWrapper) -> Callable[[str, int], None]:
    """Says where it is and how far: in place on a terminal, else a line every few seconds."""
    on_terminal = stderr.isatty()
    every = EVERY_ON_TERMINAL if on_terminal else EVERY
    told = time.monotonic()

    def tell(where: str, seen: int) -> None:
        nonlocal told
        if time.monotonic() - told < every:
            return
        told = time.monotonic()
        if on_terminal:
            stderr.write(f"\r\033[K{seen:,} rows, {where}", ending="")
        else:
            stderr.write(f"{seen:,} rows, {where}")

    return tell
