"""A Slack workspace on loopback: people talk in it through methods, apps read it over HTTP.

It takes form posts with a bearer token, as the Web API does. `Fault`s are laid in the way of
calls, and every call is in the log.
"""

import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl

from tests.slack.fake_workspace import TEAM_ID, TOKEN, FakeWorkspace

__all__ = ["TEAM_ID", "TOKEN", "Call", "FakeSlack", "Fault"]


@dataclass
class Fault:
    """What happens instead of an answer; ``body`` None drops the connection."""

    status: int = 500
    body: str | None = "<html>Bad gateway</html>"
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def rate_limited(cls, seconds: int) -> "Fault":
        body = json.dumps({"ok": False, "error": "ratelimited"})
        return cls(429, body, {"Retry-After": str(seconds)})

    @classmethod
    def error(cls, code: str, **more: str) -> "Fault":
        return cls(200, json.dumps({"ok": False, "error": code, **more}))

    @classmethod
    def answer(cls, answer: dict[str, Any]) -> "Fault":
        """Slack's own words, altered."""
        return cls(200, json.dumps(answer))

    @classmethod
    def dropped(cls) -> "Fault":
        return cls(body=None)


@dataclass(frozen=True)
class Call:
    method: str
    params: dict[str, str]
    at: float  # time.monotonic
    status: int


class FakeSlack(FakeWorkspace):
    """Use as a context manager; ``url`` is what SLACK_BASE_URL takes."""

    def __init__(self, page_size: int = 1000) -> None:
        super().__init__(page_size)
        self.calls: list[Call] = []
        self.too_early: list[Call] = []  # calls that came before a Retry-After had passed
        self._met: Counter[str] = Counter()  # calls ever, by method
        self._faults: dict[str, dict[int, Fault]] = {}
        self._not_before: dict[str, float] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/api/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> "FakeSlack":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # What goes wrong

    def lay(self, method: str, fault: Fault, *, on: int = 1, times: int = 1) -> None:
        """Let the ``on``-th call of the method from now on meet the fault, ``times`` in a row."""
        with self._lock:
            first = self._met[method] + on
            faults = self._faults.setdefault(method, {})
            faults.update({first + i: fault for i in range(times)})

    # What was asked

    def count(self, method: str) -> int:
        with self._lock:
            return sum(call.method == method for call in self.calls)

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(Counter(call.method for call in self.calls))

    def forget_calls(self) -> None:
        """Begin a new log; faults that were laid stay."""
        with self._lock:
            self.calls.clear()

    def heal(self) -> None:
        with self._lock:
            self._faults.clear()

    # HTTP

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                params = dict(parse_qsl(self.rfile.read(length).decode()))
                method = self.path.rpartition("/")[2]
                fault = fake._meet(method, params, self.headers.get("Authorization", ""))
                if fault.body is None:
                    self.close_connection = True
                    return
                body = fault.body.encode()
                self.send_response(fault.status)
                for name, value in fault.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler

    def _meet(self, method: str, params: dict[str, str], authorization: str) -> Fault:
        """The answer, right or wrong, and a line in the log."""
        with self._lock:
            now = time.monotonic()
            self._met[method] += 1
            answer = self._faults.get(method, {}).pop(self._met[method], None)
            if answer is None:
                answer = Fault(200, json.dumps(self.answer(method, params, authorization)))
            call = Call(method, params, now, answer.status)
            self.calls.append(call)
            if now < self._not_before.get(method, 0.0):
                self.too_early.append(call)
            if answer.status == 429 and (wait := answer.headers.get("Retry-After", "")).isdigit():
                self._not_before[method] = now + int(wait)
            return answer
