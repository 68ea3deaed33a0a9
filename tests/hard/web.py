"""The web server as `serve` runs it, without a worker."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from memoryhub.static import collect_static_when_changed
from memoryhub.web import PROCESSES
from tests.hard.model_client import ROOT


@contextlib.contextmanager
def served(work: Path) -> Iterator[str]:
    """Serve the database of this process, and return the address."""
    collect_static_when_changed()
    with (
        socket.create_server(("127.0.0.1", 0), backlog=128) as listener,
        (work / "web.log").open("w") as output,
    ):
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "memoryhub.web", str(listener.fileno())],
                cwd=ROOT,
                stdout=output,
                stderr=output,
                pass_fds=(listener.fileno(),),
            )
            for _ in range(PROCESSES)
        ]
    try:
        yield address
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
