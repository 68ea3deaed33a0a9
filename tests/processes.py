"""Watching real processes in tests: what a command started, and whether it is gone."""

import contextlib
import os
import time
from collections.abc import Callable

import psutil

OURS = (
    *("MEMORYHUB_", "OPENAI_", "SLACK_", "DATABASE_URL", "SECRET_KEY", "PORT", "Q_CLUSTER_NAME"),
    "PYTHONDONTWRITEBYTECODE",  # else each of our many processes compiles everything anew
)
PATIENCE = 60.0  # seconds; a bound for a broken test, not a measure


def clean_environment(*more: str) -> dict[str, str]:
    """This process's environment without the options of whoever runs the tests, nor any that
    begins with one of ``more``."""
    return {key: value for key, value in os.environ.items() if not key.startswith((*OURS, *more))}


def wait_until(holds: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Return as soon as `holds()` is true; fail when it stays false."""
    deadline = time.monotonic() + patience
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:.0f} s in vain: {what}")
        time.sleep(0.05)


def descendants(pid: int) -> list[psutil.Process]:
    """All processes below `pid`, also those in sessions of their own."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def alive_in_sessions(sessions: set[int]) -> list[psutil.Process]:
    """Every living process of these sessions, whoever its parent is by now."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) in sessions and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def sessions_of(processes: list[psutil.Process]) -> set[int]:
    """The sessions of these processes, without the caller's own."""
    sessions = set()
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            sessions.add(os.getsid(process.pid))
    return sessions - {os.getsid(0)}
