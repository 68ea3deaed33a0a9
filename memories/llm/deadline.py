"""A call that ends in time, whatever the other side does.

The client's own time-out starts anew with each byte that comes, and a look-up of a name has none.
So the call has a thread of its own, and when its time is over its connection is cut.
"""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlineError(Exception):
    """The time is over."""


class CallConnection:
    """The connection of one call. ``sent``: the question went out, so it may be charged."""

    def __init__(self) -> None:
        self.sent = False
        self._stream: Any = None
        self._is_cut = False
        self._lock = threading.Lock()

    def __call__(self, event: str, info: dict[str, Any]) -> None:
        """Told of each step by the client (its "trace" extension)."""
        with self._lock:
            if self._is_cut:
                raise DeadlineError
            stream = info.get("return_value")
            if hasattr(stream, "get_extra_info"):
                self._stream = stream
            # "http11.send_request_body.started", or http2's
            self.sent = self.sent or event.endswith("send_request_body.started")

    def cut(self) -> None:
        """Wake the thread that waits for it; nothing is sent any more."""
        with self._lock:
            self._is_cut = True
            connection = self._stream and self._stream.get_extra_info("socket")
        if connection is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # closed already
                pass


_of_this_thread = threading.local()


def trace_request(request: Any) -> None:
    """The client's hook before a request: lets the call's wire see it."""
    if wire := getattr(_of_this_thread, "wire", None):
        request.extensions["trace"] = wire


def run_with_deadline(seconds: float, wire: CallConnection, work: Callable[[], T]) -> T:
    """What the work returns or raises; OverdueError once the time is over."""
    outcome: Future[T] = Future()

    def run() -> None:
        _of_this_thread.wire = wire
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    # A daemon: a name that nobody can look up must not hold up the end of the process.
    threading.Thread(target=run, name="model-call", daemon=True).start()
    wait([outcome], seconds)
    if not outcome.done():
        wire.cut()
        raise DeadlineError
    return outcome.result()
