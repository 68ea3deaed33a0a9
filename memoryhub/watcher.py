"""A process that outlives a supervisor by a moment, to take down what it could not.

The supervisor writes one line for each child: `+PID` when it starts, `-PID` when its group is gone.
Every child leads a group of its own. When the pipe ends because the supervisor was killed, each
leader gets SIGTERM, and after GRACE seconds what is left of the groups is killed. Run as a script,
without Django, so that it costs little.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable

GRACE = 10.0
"""Seconds between SIGTERM for the leaders and SIGKILL for their groups."""

LOOK_AGAIN = 0.1


def signal_group(leader: int, number: int) -> None:
    """Send a signal to everybody who is left in this leader's group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: only zombies left
        os.killpg(leader, number)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def take_down(leaders: Iterable[int], grace: float) -> None:
    """End these groups: ask their leaders, wait for them up to `grace` seconds, kill the rest.

    Only the leader is asked. A qcluster whose every process gets SIGTERM hangs.
    """
    waiting = set(leaders)
    for leader in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(leader, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while waiting:
        late = time.monotonic() > deadline
        for leader in [leader for leader in waiting if late or not is_alive(leader)]:
            signal_group(leader, signal.SIGKILL)
            waiting.discard(leader)
        time.sleep(LOOK_AGAIN)


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
    take_down(leaders, GRACE)


if __name__ == "__main__":
    main()
