"""The worker: a qcluster that is restarted when it dies or hangs."""

import secrets
import socket
import sys

from django.conf import settings

from memoryhub.heartbeat import HeartbeatMonitor
from memoryhub.supervise import YOUNG_SECONDS, Child

NICENESS = 5  # on the machine of the web processes, pages come first


def worker_child() -> Child:
    """Return the qcluster of the settings as a child with a unique name, and start its monitor."""
    # Machines share a database and containers share a host name, so a host or a pid is not unique.
    name = f"{socket.gethostname()[:60]}-{secrets.token_hex(4)}"
    monitor = HeartbeatMonitor(name, settings.MEMORYHUB_HEARTBEAT)
    monitor.start()
    return Child(
        "worker",
        # `worker` and `serve` have run the checks.
        [sys.executable, "-m", "memoryhub", "qcluster", "--skip-checks"],
        env={"MEMORYHUB_WORKER_NAME": name},
        hangs=monitor.hangs,
        poll_seconds=monitor.poll_seconds,
        young_seconds=min(YOUNG_SECONDS, 2 * settings.MEMORYHUB_HEARTBEAT),
        niceness=NICENESS,
    )
