"""Places at which a process can be made to die or to stand still, for tests of what survives that.

MEMORYHUB_FAIL_POINTS names a folder; without it nothing here does anything. A file in it is an
order: `in_call.7` is for the first process that comes to `in_call` (it takes the file away, so each
order hits once), `in_call@12` for everybody who comes there with job 12. The file says
`kill` or `stop`.
"""

import os
import signal
from pathlib import Path

from django.conf import settings

POINTS = ("before_claim", "in_call", "reply_saved", "in_commit", "before_acknowledge")


def fail_point(name: str, job: int | None = None) -> None:
    """Obey the orders for this place. Returns at once when there is none."""
    if not settings.MEMORYHUB_FAIL_POINTS:
        return
    folder = Path(settings.MEMORYHUB_FAIL_POINTS)
    standing = folder / f"{name}@{job}"
    if job is not None and standing.exists():
        _obey(standing.read_text())
    for order_file in sorted(folder.glob(f"{name}.*")):
        if order_file.suffix == ".taken":
            continue
        claimed_file = order_file.with_name(f"{order_file.name}.{os.getpid()}.taken")
        try:
            word = order_file.read_text()
            order_file.rename(claimed_file)
        except FileNotFoundError:
            continue  # somebody else was faster
        _obey(word)
        return


def _obey(word: str) -> None:
    os.kill(os.getpid(), signal.SIGSTOP if word.strip() == "stop" else signal.SIGKILL)
