"""`manage.py socket`: receive events where Slack cannot reach the machine."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError
from django.db import close_old_connections, connection

from memories.management import arguments
from memories.pipeline.ingest import events
from memories.pipeline.ingest.requests import store_request
from memories.rules.slack_app.payloads import COMMAND, parse_request
from memories.slack.socket import Socket
from memories.slack.web import SlackError
from memories.tasks import schedule_received, schedule_request
from memoryhub.supervise import STOP_SIGNALS

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
MAX_PAUSE = 60.0  # seconds between two attempts to connect


class Command(BaseCommand):
    help = (
        "Receive events from Slack over a WebSocket (Socket Mode, SLACK_APP_TOKEN) until Ctrl-C or"
        " SIGTERM. A worker must also run. Exit status 1: Slack refuses the token."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.SLACK_APP_TOKEN:
            raise CommandError(
                "Set SLACK_APP_TOKEN to an app-level token (xapp-…) of your Slack app, with the"
                " scope connections:write."
            )
        arguments.check_migrations()
        connection.close()  # each thread that stores events opens its own
        socket = Socket(settings.SLACK_APP_TOKEN, take, settings.SLACK_BASE_URL)
        try:
            with _stop_signals() as stop:
                self._keep_connected(socket, stop)
        finally:
            socket.close()

    def _keep_connected(self, socket: Socket, stop: threading.Event) -> None:
        pause = POLL_SECONDS
        while not stop.is_set():
            if socket.is_connected:
                stop.wait(POLL_SECONDS)
                continue
            try:
                socket.connect()
            except SlackError as error:
                if error.permanent:
                    raise CommandError(error.message) from error
                logger.warning("%s Again in %.0f s.", error.message, pause)
                stop.wait(pause)
                pause = min(2 * pause, MAX_PAUSE)
            else:
                pause = POLL_SECONDS
                self.stdout.write("Connected to Slack. Ctrl-C stops it.")
                self.stdout.flush()


def take(body: object) -> dict[str, Any] | None:
    """Store an event or a request as the endpoints do; raises when it cannot.

    Return the answer to a request that is refused.
    """
    close_old_connections()
    try:
        request = parse_request(body)
        if request is not None:
            stored = store_request(request)
            if not isinstance(stored, int):
                return stored if request.kind == COMMAND else None
            schedule_request(stored)
            return None
        received = events.store_payload(body)
        if received is None:
            logger.warning("an event of an unknown kind")
            return None
        schedule_received(received)
        return None
    finally:
        close_old_connections()


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Yield an event that a stop signal sets."""
    stop = threading.Event()

    def on_stop(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, on_stop) for number in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
