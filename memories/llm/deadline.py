"""Run a call with a deadline for the call as a whole.

The client's own timeout restarts with each received byte, and name resolution has none. So each call has
a thread, and at the deadline its connection is shut down.
"""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlineError(Exception):
    pass


class CallConnection:
    """The connection of one call. ``is_sent``: the request body went out, so the call may be charged."""

    def __init__(self) -> None:
        self.is_sent = False
        self._stream: Any = None
        self._is_closed = False
        self._lock = threading.Lock()

    def __call__(self, event: str, info: dict[str, Any]) -> None:
        """Receive the events of the client's "trace" extension."""
        with self._lock:
            stream = info.get("return_value")
            if hasattr(stream, "get_extra_info"):
                self._stream = stream
            if self._is_closed:
                self._shut_down()  # it was opened after the deadline
                raise DeadlineError
            # "http11.send_request_body.started", or http2's
            self.is_sent = self.is_sent or event.endswith("send_request_body.started")

    def close(self) -> None:
        """Shut the connection down, which wakes the waiting thread. Nothing is sent any more."""
        with self._lock:
            self._is_closed = True
            self._shut_down()

    def _shut_down(self) -> None:
        connection = self._stream and self._stream.get_extra_info("socket")
        if connection is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # closed already
                pass


_thread = threading.local()


def trace_request(request: Any) -> None:
    """Let the connection of the thread's call trace a request. This is a hook of the client."""
    if connection := getattr(_thread, "connection", None):
        request.extensions["trace"] = connection


def run_with_deadline(seconds: float, connection: CallConnection, function: Callable[[], T]) -> T:
    """Return what the function returns, or raise what it raises; DeadlineError after ``seconds``."""
    outcome: Future[T] = Future()

    def run() -> None:
        _thread.connection = connection
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    # A daemon: a hanging name resolution must not delay the end of the process.
    threading.Thread(target=run, name="model-call", daemon=True).start()
    wait([outcome], seconds)
    if not outcome.done():
        connection.close()
        raise DeadlineError
    return outcome.result()
