"""Stop the children of a supervisor that was killed.

The supervisor writes `+PID` for each child that starts and `-PID` when its process group has ended.
When the pipe closes, each child gets SIGTERM, and SIGKILL for its group after GRACE seconds. This runs
as a script without Django, to use little memory.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable

GRACE = 10.0
"""Seconds between SIGTERM for the leaders and SIGKILL for their process groups."""

POLL_SECONDS = 0.1


def signal_group(leader: int, number: int) -> None:
    """Send a signal to all processes of this leader's group."""
    with contextlib.suppress(
        ProcessLookupError, PermissionError
    ):  # macOS: the group has only zombies
        os.killpg(leader, number)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def stop_groups(leaders: Iterable[int], grace: float) -> None:
    """Send SIGTERM to the leaders, and SIGKILL to each group when its leader ends or after `grace` seconds.

    Only leaders get SIGTERM. A qcluster hangs if all of its processes get it.
    """
    waiting = set(leaders)
    for leader in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(leader, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while waiting:
        is_late = time.monotonic() > deadline
        for leader in [leader for leader in waiting if is_late or not is_alive(leader)]:
            signal_group(leader, signal.SIGKILL)
            waiting.discard(leader)
        time.sleep(POLL_SECONDS)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    leaders: set[int] = set()
    for line in sys.stdin:
        leader = int(line[1:])
        if line.startswith("+"):
            leaders.add(leader)
        else:
            leaders.discard(leader)
    stop_groups(leaders, GRACE)


if __name__ == "__main__":
    main()
