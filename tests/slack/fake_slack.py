"""A Slack workspace on loopback: people talk in it through methods, apps read it over HTTP.

It takes form posts, queries and JSON with a bearer token, as the Web API does. `Fault`s are laid in
the way of calls, `budgets` refuse what comes too often, and every call is in the journal.
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

from tests.slack.fake_api import FakeApi
from tests.slack.fake_faults import Fault, Whims
from tests.slack.fake_limits import SLOW_PLAN, Budgets, VirtualClock, busiest_minute
from tests.slack.fake_workspace import APP_TOKEN, TEAM_ID, TOKEN

__all__ = [
    "APP_TOKEN",
    "TEAM_ID",
    "TOKEN",
    "Call",
    "FakeSlack",
    "Fault",
    "VirtualClock",
    "Whims",
]


@dataclass(frozen=True)
class Call:
    """``at``: seconds of the fake's clock; ``status`` 0: the connection was dropped; ``error``: Slack's
    word for why not."""

    method: str
    params: dict[str, str]
    at: float
    status: int
    error: str = ""


class FakeSlack(FakeApi):
    """Use as a context manager; ``url`` is what SLACK_BASE_URL takes.

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
        self.whims: Callable[[str], Fault | None] | None = None
        self.slow_plan = slow
        self.budgets = Budgets(budgets if budgets is not None else SLOW_PLAN if slow else None)
        self._met: Counter[str] = Counter()  # calls ever, by method
        self._faults: dict[str, dict[int, Fault]] = {}
        self._not_before: dict[str, float] = {}
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

    # What goes wrong

    def lay(self, method: str, fault: Fault, *, on: int = 1, times: int = 1) -> None:
        """Let the ``on``-th call of the method from now on meet the fault, ``times`` in a row."""
        with self._lock:
            first = self._met[method] + on
            faults = self._faults.setdefault(method, {})
            faults.update({first + i: fault for i in range(times)})

    def heal(self) -> None:
        with self._lock:
            self._faults.clear()
            self.whims = None

    # What was asked

    def count(self, method: str) -> int:
        with self._lock:
            return sum(call.method == method for call in self.calls)

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(Counter(call.method for call in self.calls))

    def busiest_minute(self, method: str) -> int:
        """The most calls within any 60 seconds, refused ones too."""
        with self._lock:
            return busiest_minute([call.at for call in self.calls if call.method == method])

    def forget_calls(self) -> None:
        """Begin a new journal; faults that were laid stay, and so does what budgets have spent."""
        with self._lock:
            self.calls.clear()

    # HTTP

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                self._answer(self._params(self.rfile.read(length).decode()))

            def do_GET(self) -> None:
                self._answer({})

            def _params(self, body: str) -> dict[str, str]:
                if self.headers.get_content_type() == "application/json":
                    return {key: _text(value) for key, value in json.loads(body or "{}").items()}
                return dict(parse_qsl(body))

            def _answer(self, params: dict[str, str]) -> None:
                url = urlsplit(self.path)
                params = dict(parse_qsl(url.query)) | params
                method = url.path.rpartition("/")[2]
                fault = fake._meet(method, params, self.headers.get("Authorization", ""))
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

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler

    def _meet(self, method: str, params: dict[str, str], authorization: str) -> Fault:
        """The answer, right or wrong, and a line in the journal."""
        with self._lock:
            now = self.clock()
            self._met[method] += 1
            error = ""
            refused = False
            answer = self._faults.get(method, {}).pop(self._met[method], None)
            if answer is None and (seconds := self.budgets.spend(method, now)):
                answer, refused = Fault.rate_limited(seconds), True
            if answer is None and self.whims is not None:
                answer = self.whims(method)
            if answer is None:
                said = self.answer(method, params, authorization)
                error = str(said.get("error", ""))
                answer = Fault(200, json.dumps(said), self.scope_headers(said))
            call = Call(method, params, now, answer.status, error)
            self.calls.append(call)
            if refused:
                self.over_budget.append(call)
            # Moments are kept to the microsecond, which a float of seconds since 1970 is not.
            if now < self._not_before.get(method, 0.0) - 1e-6:
                self.too_early.append(call)
            if answer.status == 429 and (wait := answer.headers.get("Retry-After", "")).isdigit():
                self._not_before[method] = now + int(wait)
            return answer


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
