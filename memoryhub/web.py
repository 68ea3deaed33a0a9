"""The web process: waitress on a socket that its parent bound, `python -m memoryhub.web FD`.

waitress reads requests and sends responses in one thread that never blocks. Its worker threads handle
complete requests only. So a slow client uses a connection and no thread.
"""

import copy
import gc
import signal
import socket
import sys
import time
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher, WSGITask

from memoryhub.uploads import MAX_BYTES, is_ticket

PROCESSES = 2
THREADS = 4  # in each process
CONNECTIONS = 400
"""In each process. An open request uses at most two files, and many systems allow 1024."""
HEADER_BYTES = 32 * 1024
BODY_BYTES_IN_MEMORY = 64 * 1024  # a larger body is buffered in a temporary file
IDLE_SECONDS = 30
RECEIVE_SECONDS = 60
"""The time for a request to arrive, except an upload."""
STOP_SECONDS = 10
FORM_BYTES = 1024 * 1024  # of a form without its file


class Request(HTTPRequestParser):  # type: ignore[misc]  # waitress has no types
    """A request whose body may be larger than Django's limit only with the ticket of an upload form."""

    adj: Any

    def __init__(self, adj: Adjustments) -> None:
        super().__init__(adj)
        self.began_at = time.time()
        self.is_upload = False

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        self.is_upload = is_ticket(parse_qs(self.query).get("ticket", [""])[0])
        if self.is_upload:
            self.adj = copy.copy(self.adj)
            self.adj.max_request_body_size = MAX_BYTES + FORM_BYTES

    def is_late(self, now: float) -> bool:
        return not self.is_upload and now - self.began_at > RECEIVE_SECONDS


class Task(WSGITask):  # type: ignore[misc]
    """A task that keeps the connection after a response without a body, such as 304.

    waitress closes it, since the response has no Content-Length. A client knows its end anyway.
    """

    def set_close_on_finish(self) -> None:
        closes = self.request.headers.get("CONNECTION", "").lower() == "close"
        if self.has_body or closes or self.version == "1.0":
            super().set_close_on_finish()


class Channel(HTTPChannel):  # type: ignore[misc]
    parser_class = Request
    task_class = Task


class Server(TcpWSGIServer):  # type: ignore[misc]
    channel_class = Channel
    is_stopping = False

    def maintenance(self, now: float) -> None:
        super().maintenance(now)
        for channel in self.active_channels.values():
            if channel.request is not None and channel.request.is_late(now):
                channel.will_close = True

    def run(self) -> None:
        """Serve until `stop` is called, then finish the requests that have arrived."""
        while not self.is_stopping:
            self._poll()
        self.accepting = False
        deadline = time.time() + STOP_SECONDS
        self.task_dispatcher.shutdown(cancel_pending=False, timeout=STOP_SECONDS)
        while time.time() < deadline and self._has_responses_to_send():
            self._poll()

    def stop(self, *signal_and_frame: Any) -> None:
        self.is_stopping = True
        self.pull_trigger()

    def _poll(self) -> None:
        self.asyncore.loop(timeout=1.0, map=self._map, use_poll=True, count=1)

    def _has_responses_to_send(self) -> bool:
        return any(channel.total_outbufs_len for channel in self.active_channels.values())


def build_server(listener: socket.socket, application: Any) -> Server:
    """Return a server on this socket. It passes proxy headers to Django, which checks them."""
    adjustments = Adjustments(
        sockets=[listener],
        threads=THREADS,
        connection_limit=CONNECTIONS,
        channel_timeout=IDLE_SECONDS,
        cleanup_interval=5,
        max_request_header_size=HEADER_BYTES,
        max_request_body_size=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
        inbuf_overflow=BODY_BYTES_IN_MEMORY,
        clear_untrusted_proxy_headers=False,
        ident=None,
    )
    dispatcher = ThreadedTaskDispatcher()
    dispatcher.set_thread_count(THREADS)
    return Server(
        application,
        map={},
        _sock=listener,
        dispatcher=dispatcher,
        adj=adjustments,
        bind_socket=False,
        sockinfo=(listener.family, listener.type, listener.proto, listener.getsockname()),
    )


def main() -> None:
    from memoryhub.wsgi import application  # importing it sets up Django

    # A page creates many objects and few cycles. Without this, 6 % of its time is looking for cycles.
    gc.freeze()
    gc.set_threshold(50_000)
    server = build_server(socket.socket(fileno=int(sys.argv[1])), application)
    signal.signal(signal.SIGTERM, server.stop)
    server.run()


if __name__ == "__main__":
    main()
