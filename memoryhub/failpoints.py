"""Points at which a test can kill or stop a process.

MEMORYHUB_FAIL_POINTS names a folder. A file in it says `kill` or `stop`. `in_call.7` applies once, to
the first process at `in_call`, which renames the file. `in_call@12` applies to every process there with
job 12.
"""

import os
import signal
from pathlib import Path

from django.conf import settings

POINTS = ("before_claim", "in_call", "reply_saved", "in_commit", "before_acknowledge")


def fail_point(name: str, job: int | None = None) -> None:
    """Kill or stop this process if a file says so."""
    if not settings.MEMORYHUB_FAIL_POINTS:
        return
    folder = Path(settings.MEMORYHUB_FAIL_POINTS)
    job_file = folder / f"{name}@{job}"
    if job is not None and job_file.exists():
        _send_signal(job_file.read_text())
    for order_file in sorted(folder.glob(f"{name}.*")):
        if order_file.suffix == ".taken":
            continue
        claimed_file = order_file.with_name(f"{order_file.name}.{os.getpid()}.taken")
        try:
            order = order_file.read_text()
            order_file.rename(claimed_file)
        except FileNotFoundError:
            continue  # another process was faster
        _send_signal(order)
        return


def _send_signal(order: str) -> None:
    os.kill(os.getpid(), signal.SIGSTOP if order.strip() == "stop" else signal.SIGKILL)
