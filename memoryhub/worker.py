"""The worker: one qcluster in a session of its own, started again when it dies or hangs."""

import secrets
import socket
import sys

from django.conf import settings

from memoryhub.env import BASE_DIR
from memoryhub.pulse import Watch
from memoryhub.supervise import YOUNG_SECONDS, Child


def worker_child() -> Child:
    """The cluster of the settings, with a name of its own, and somebody who feels its pulse."""
    # Neither a host nor a pid alone is unique: machines share a database, containers share a host.
    name = f"{socket.gethostname()[:60]}-{secrets.token_hex(4)}"
    watch = Watch(name, settings.MEMORYHUB_HEARTBEAT)
    watch.start()
    return Child(
        "worker",
        # `worker` and `serve` have run the checks.
        [sys.executable, str(BASE_DIR / "manage.py"), "qcluster", "--skip-checks"],
        env={"MEMORYHUB_WORKER_NAME": name},
        hangs=watch.hangs,
        look_seconds=watch.look_seconds,
        young_seconds=min(YOUNG_SECONDS, 2 * settings.MEMORYHUB_HEARTBEAT),
    )
