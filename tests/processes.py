"""Start processes, and watch those that a command has started."""

import contextlib
import os
import socket
import time
import urllib.request
from collections.abc import Callable

import psutil

OURS = (
    *("MEMORYHUB_", "OPENAI_", "SLACK_", "DATABASE_URL", "SECRET_KEY", "PORT", "Q_CLUSTER_NAME"),
    "PYTHONDONTWRITEBYTECODE",  # otherwise each process compiles everything again
)
PATIENCE = 120.0  # seconds; a bound for a broken test, not a measure


def clean_environment(*prefixes: str) -> dict[str, str]:
    """Return the environment without variables of the project, or with one of these prefixes."""
    return {
        key: value for key, value in os.environ.items() if not key.startswith((*OURS, *prefixes))
    }


def wait_until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Return as soon as the condition is true, or fail after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:.0f} s in vain: {what}")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_live(url: str) -> bool:
    """Return whether a hub answers at this address."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/livez", timeout=20) as page:
        return bool(page.read() == b"ok")
    return False


def descendants(pid: int) -> list[psutil.Process]:
    """Return all processes below `pid`, also in other sessions."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def alive_in_sessions(sessions: set[int]) -> list[psutil.Process]:
    """Return every living process of these sessions, regardless of its parent."""
    results = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) in sessions and process.status() != psutil.STATUS_ZOMBIE:
                results.append(process)
    return results


def sessions_of(processes: list[psutil.Process]) -> set[int]:
    """Return the sessions of these processes, except the session of the caller."""
    sessions = set()
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            sessions.add(os.getsid(process.pid))
    return sessions - {os.getsid(0)}
