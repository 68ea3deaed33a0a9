"""The web server with slow clients and large requests."""

import contextlib
import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest
from waitress.adjustments import Adjustments

from memoryhub.uploads import make_ticket
from memoryhub.web import PROCESSES, Request
from tests.processes import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("/livez", "/help/")
STATIC = "/static/memories/app.css"

Start = Callable[..., int]


@pytest.fixture
def start(process_environment: dict[str, str]) -> Iterator[Start]:
    """Start the web processes after a line of Python, and return their port."""
    with contextlib.ExitStack() as stack:

        def start(before: str = "") -> int:
            with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
                for _ in range(PROCESSES):
                    code = f"from memoryhub import web\n{before}\nweb.main()"
                    process = subprocess.Popen(
                        [sys.executable, "-c", code, str(listener.fileno())],
                        cwd=ROOT,
                        env=process_environment | {"MEMORYHUB_DEBUG": "true"},  # static files
                        pass_fds=(listener.fileno(),),
                    )
                    stack.callback(process.wait)
                    stack.callback(process.terminate)
                port = int(listener.getsockname()[1])
            wait_until(lambda: status(port, "/livez") == 200, "the web server")
            return port

        yield start


def status(
    port: int,
    path: str,
    body: bytes | None = None,
    seconds: float = PATIENCE,
    **headers: str,
) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    with contextlib.closing(connection):
        connection.request("GET" if body is None else "POST", path, body, headers)
        return connection.getresponse().status


class SlowClients:
    """Clients that send endless headers or endless bodies."""

    def __init__(self, port: int, each: int, stack: contextlib.ExitStack) -> None:
        self.port, self.stack = port, stack
        self.headers = [
            self._begin(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ") for _ in range(each)
        ]
        # Django reads the body of a request with this cookie, to find the token of its form.
        body = (
            b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nCookie: csrftoken=" + b"a" * 32 + b"\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 10000\r\n\r\nlogin="
        )
        self.bodies = [self._begin(body) for _ in range(each)]

    def _begin(self, text: bytes) -> socket.socket:
        client = self.stack.enter_context(socket.create_connection(("127.0.0.1", self.port)))
        client.sendall(text)
        return client

    def send_more(self) -> int:
        """Send a byte from each client, and return how many are still connected."""
        listening = 0
        for client in [*self.headers, *self.bodies]:
            with contextlib.suppress(OSError):
                listening += client.send(b"a")
        return listening


@pytest.mark.cluster
@pytest.mark.django_db(transaction=True)
def test_slow_clients_do_not_stop_other_clients(start: Start) -> None:
    """None of them ends, so a server that waits for one never responds."""
    port = start()
    with contextlib.ExitStack() as stack:
        slow = SlowClients(port, 100, stack)
        for _ in range(5):
            assert slow.send_more() == 200
            assert [status(port, page) for page in PAGES] == [200, 200]


@pytest.mark.cluster
@pytest.mark.django_db(transaction=True)
@pytest.mark.nightly("lasts a minute, and its bound of 2 s needs an idle machine")
def test_slow_clients_do_not_slow_other_clients_down(start: Start) -> None:
    port = start()
    for _ in range(20):  # each process compiles its templates once
        assert [status(port, page) for page in PAGES] == [200, 200]
    slowest, responses = 0.0, 0
    with contextlib.ExitStack() as stack:
        slow = SlowClients(port, 100, stack)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            slow.send_more()
            for page in PAGES:
                began = time.monotonic()
                assert status(port, page, seconds=2) == 200
                slowest, responses = max(slowest, time.monotonic() - began), responses + 1
    assert responses > 100
    assert slowest < 2


@pytest.mark.nightly("starts servers; slow clients show that others are served")
@pytest.mark.cluster
@pytest.mark.django_db(transaction=True)
def test_an_endless_request_is_closed(start: Start) -> None:
    port = start("web.RECEIVE_SECONDS = 1")
    with contextlib.ExitStack() as stack:
        slow = SlowClients(port, 3, stack)
        wait_until(lambda: slow.send_more() == 0, "every slow client cut off")


@pytest.mark.cluster
@pytest.mark.django_db(transaction=True)
def test_a_304_keeps_the_connection(start: Start) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", start(), timeout=PATIENCE)
    with contextlib.closing(connection):
        for given, expected, closes in (
            ({}, 200, False),
            ({"If-Modified-Since": formatdate(usegmt=True)}, 304, False),
            ({"If-Modified-Since": formatdate(usegmt=True)}, 304, False),
            ({"If-Modified-Since": formatdate(usegmt=True), "Connection": "close"}, 304, True),
        ):
            connection.request("GET", STATIC, headers=given)
            response = connection.getresponse()
            assert len(response.read()) > 0 or expected == 304
            assert (response.status, response.will_close) == (expected, closes)


@pytest.mark.cluster
@pytest.mark.django_db(transaction=True)
def test_only_a_form_with_a_ticket_may_be_large(start: Start) -> None:
    """An accepted request reaches Django, which refuses a form without its token."""
    port = start()
    length = 3_000_000
    announced = {"Content-Length": str(length)}  # its headers alone get a request refused
    assert status(port, "/login/", b"small") == 403
    assert status(port, "/setup/import/", b"", **announced) == 413
    assert status(port, "/setup/import/?ticket=upload:1:forged", b"", **announced) == 413
    assert status(port, f"/setup/import/?ticket={make_ticket()}", bytes(length)) == 403


@pytest.mark.cluster
@pytest.mark.django_db(transaction=True)
def test_headers_of_a_proxy_reach_django(start: Start) -> None:
    port = start("import os; os.environ['MEMORYHUB_URL'] = 'https://memory.example.com'")
    host = {"Host": "memory.example.com"}
    assert status(port, "/help/", **host) == 301
    assert status(port, "/help/", **host, **{"X-Forwarded-Proto": "https"}) == 200


def test_a_slow_upload_is_not_closed() -> None:
    late = {}
    for query in ("", f"?ticket={make_ticket()}"):
        request = Request(Adjustments())
        request.received(f"POST /{query} HTTP/1.1\r\nContent-Length: 9\r\n\r\n".encode())
        late[query[:7]] = request.is_late(request.began_at + 3600)
    assert late == {"": True, "?ticket": False}
