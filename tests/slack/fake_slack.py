"""A Slack workspace on loopback: tests change it by methods, apps read it over HTTP.

It accepts form posts, queries and JSON with a bearer token, as the Web API does. Tests can inject
`Fault`s. `budgets` refuse calls that come too often, and ``calls`` records every call.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.slack.fake_app import FakeApp
from tests.slack.fake_faults import Fault, RandomFaults
from tests.slack.fake_limits import SLOW_PLAN, Budgets, VirtualClock, busiest_minute
from tests.slack.fake_page import act, render_page
from tests.slack.fake_workspace import APP_TOKEN, TEAM_ID, TOKEN

__all__ = [
    "APP_TOKEN",
    "REQUIRED_SCOPES",
    "TEAM_ID",
    "TOKEN",
    "Call",
    "FakeSlack",
    "Fault",
    "VirtualClock",
    "RandomFaults",
]

REQUIRED_SCOPES = frozenset({"channels:history", "channels:read", "users:read"})


@dataclass(frozen=True)
class Call:
    """``at``: seconds of the fake's clock. ``status`` 0: the connection was dropped. ``error``: the
    error code."""

    method: str
    params: dict[str, str]
    at: float
    status: int
    error: str = ""


class FakeSlack(FakeApp):
    """Use as a context manager; ``url`` is a value for SLACK_BASE_URL.

    ``budgets``: calls a minute by method (fake_limits.INTERNAL_APP, SLOW_PLAN); none without.
    ``slow``: the slow plan, with its budgets and its pages of 15.
    """

    def __init__(
        self,
        page_size: int = 1000,
        *,
        clock: Callable[[], float] = time.time,
        budgets: Mapping[str, int] | None = None,
        slow: bool = False,
        port: int = 0,
    ) -> None:
        super().__init__(page_size, clock)
        self.calls: list[Call] = []
        self.too_early: list[Call] = []  # calls that came before a Retry-After had passed
        self.over_budget: list[Call] = []  # calls that a budget refused
        self.random_faults: Callable[[str], Fault | None] | None = None
        self.slow_plan = slow
        self.budgets = Budgets(budgets if budgets is not None else SLOW_PLAN if slow else None)
        self._call_counts: Counter[str] = Counter()
        self._faults: dict[str, dict[int, Fault]] = {}
        self._retry_at: dict[str, float] = {}
        self.hub_url = ""  # of the hub, for the page
        self.send_digests: Callable[[], int] | None = None  # the page has a button for it
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
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

    # Faults

    def inject_fault(self, method: str, fault: Fault, *, on: int = 1, times: int = 1) -> None:
        """Return the fault for the ``on``-th call of the method from now on, ``times`` in a row."""
        with self._lock:
            first = self._call_counts[method] + on
            faults = self._faults.setdefault(method, {})
            faults.update({first + i: fault for i in range(times)})

    def clear_faults(self) -> None:
        with self._lock:
            self._faults.clear()
            self.random_faults = None

    # Calls

    def count(self, method: str) -> int:
        with self._lock:
            return sum(call.method == method for call in self.calls)

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(Counter(call.method for call in self.calls))

    def busiest_minute(self, method: str) -> int:
        """Return the highest number of calls within any 60 seconds, with refused ones."""
        with self._lock:
            return busiest_minute([call.at for call in self.calls if call.method == method])

    def clear_calls(self) -> None:
        """Clear the recorded calls. Injected faults and spent budgets stay."""
        with self._lock:
            self.calls.clear()

    # HTTP

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length).decode()
                folder, _, key = self.path.rpartition("/")
                if self.path == "/act":
                    self.send_response(303)
                    self.send_header("Location", act(fake, dict(parse_qsl(body))))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                elif folder == "/response":
                    self._send(fake.accept_response(key, json.loads(body)))
                else:
                    self._answer(self._params(body))

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                if url.path == "/":
                    given = dict(parse_qsl(url.query))
                    page = render_page(fake, given.get("user", ""), given.get("channel", ""))
                    self._send(200, page, "text/html")
                else:
                    self._answer({})

            def _params(self, body: str) -> dict[str, str]:
                if self.headers.get_content_type() == "application/json":
                    return {key: _text(value) for key, value in json.loads(body or "{}").items()}
                return dict(parse_qsl(body))

            def _answer(self, params: dict[str, str]) -> None:
                url = urlsplit(self.path)
                params = dict(parse_qsl(url.query)) | params
                method = url.path.rpartition("/")[2]
                fault = fake._answer_call(method, params, self.headers.get("Authorization", ""))
                if fault.body is None:
                    self.close_connection = True
                    return
                body = fault.body.encode()
                self.send_response(fault.status)
                for name, value in fault.headers.items():
                    self.send_header(name, value)
                kind = "text/html" if fault.body.startswith("<") else "application/json"
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(body) + fault.cut))
                self.end_headers()
                self.wfile.write(body)
                if fault.cut:
                    self.close_connection = True

            def _send(self, status: int, body: str = "ok", kind: str = "text/plain") -> None:
                raw = body.encode()
                self.send_response(status)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler

    def _answer_call(self, method: str, params: dict[str, str], authorization: str) -> Fault:
        """Return the answer or a fault, and record the call."""
        with self._lock:
            now = self.clock()
            self._call_counts[method] += 1
            error = ""
            refused = False
            answer = self._faults.get(method, {}).pop(self._call_counts[method], None)
            if answer is None and (seconds := self.budgets.spend(method, now)):
                answer, refused = Fault.rate_limited(seconds), True
            if answer is None and self.random_faults is not None:
                answer = self.random_faults(method)
            if answer is None:
                body = self.answer(method, params, authorization)
                error = str(body.get("error", ""))
                answer = Fault(200, json.dumps(body), self.scope_headers(body))
            call = Call(method, params, now, answer.status, error)
            self.calls.append(call)
            if refused:
                self.over_budget.append(call)
            # A float of seconds since 1970 is not exact to the microsecond.
            if now < self._retry_at.get(method, 0.0) - 1e-6:
                self.too_early.append(call)
            if answer.status == 429 and (wait := answer.headers.get("Retry-After", "")).isdigit():
                self._retry_at[method] = now + int(wait)
            return answer


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
