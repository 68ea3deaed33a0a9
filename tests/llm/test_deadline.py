"""Calls to endpoints that hang, send slowly or close the connection."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memories.llm import ModelSummariser, summarise
from memories.rules.summariser import SummariserError
from tests.llm.requests import messages, short
from tests.processes import PATIENCE, wait_until

HELLO = short(messages("hello"))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
Answer = Callable[[socket.socket, threading.Event], None]


def hang(client: socket.socket, over: threading.Event) -> None:
    over.wait(PATIENCE)


def hang_after_headers(client: socket.socket, over: threading.Event) -> None:
    client.sendall(HEAD)
    over.wait(PATIENCE)


def drip_body(client: socket.socket, over: threading.Event) -> None:
    client.sendall(HEAD)
    drip_headers(client, over)


def drip_headers(client: socket.socket, over: threading.Event) -> None:
    """Send a byte at a time, faster than the read timeout of the client."""
    for byte in HEAD * 20:
        client.sendall(bytes([byte]))
        if over.wait(0.05):
            return


def hang_up(client: socket.socket, over: threading.Event) -> None:
    """Send nothing."""


def hang_up_half_way(client: socket.socket, over: threading.Event) -> None:
    client.sendall(HEAD + b'{"choices": [')


def talk_nonsense(client: socket.socket, over: threading.Event) -> None:
    client.sendall(b"220 mail.example ESMTP\r\n")


class RawServer:
    """Reads one request, runs the given answer, and counts requests and broken connections."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.over = threading.Event()
        self.requests = 0
        self.broken_connections = 0
        self.threads: list[threading.Thread] = []

    def serve(self, answer: Answer) -> None:
        self.threads.append(threading.Thread(target=self._accept, args=[answer]))
        self.threads[0].start()

    def _accept(self, answer: Answer) -> None:
        with contextlib.suppress(OSError):  # closed at the end of the test
            client, _ = self.socket.accept()
            with client:
                received = b""
                while b"hello" not in received:
                    received += client.recv(65536)
                self.requests += 1
                try:
                    answer(client, self.over)
                except OSError:  # broken pipe
                    self.broken_connections += 1

    def summariser(self, timeout: float) -> ModelSummariser:
        url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        return ModelSummariser(api_key="sk-test", base_url=url, model="tiny", timeout=timeout)


@pytest.fixture
def server() -> Iterator[RawServer]:
    raw = RawServer()
    yield raw
    raw.over.set()
    raw.socket.shutdown(socket.SHUT_RDWR)
    raw.socket.close()
    for thread in raw.threads:
        thread.join(PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (hang, "timeout"),
        (hang_after_headers, "timeout"),
        (drip_headers, "timeout"),
        (drip_body, "timeout"),
        (hang_up, "connection"),
        (hang_up_half_way, "connection"),
        (talk_nonsense, "connection"),
    ],
)
def test_a_call_ends_at_its_deadline(server: RawServer, answer: Answer, code: str) -> None:
    server.serve(answer)
    summariser = server.summariser(timeout=1.0)
    summariser._client()  # its import takes as long as the deadline
    started = time.monotonic()
    with pytest.raises(SummariserError) as raised:
        summarise(HELLO, summariser)
    # The endpoint hangs for PATIENCE. The rest above the timeout is for a busy machine.
    assert time.monotonic() - started < PATIENCE / 2
    assert raised.value.code == code
    assert raised.value.may_be_charged  # the request was sent
    assert server.requests == 1


@pytest.mark.slow
@pytest.mark.parametrize("answer", [drip_headers, drip_body])
def test_the_deadline_ends_the_connection_and_the_thread(server: RawServer, answer: Answer) -> None:
    server.serve(answer)
    with pytest.raises(SummariserError):
        summarise(HELLO, server.summariser(timeout=1.0))
    wait_until(lambda: server.broken_connections == 1, "the endpoint notices")
    alive = threading.enumerate
    wait_until(lambda: not any(t.name == "model-call" for t in alive()), "its thread ends")


@pytest.mark.slow
def test_a_call_without_a_connection_is_not_charged() -> None:
    """The listen queue is full, so the kernel does not answer."""
    with socket.socket() as full, contextlib.ExitStack() as others:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            waiting = others.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        summariser = ModelSummariser(api_key="", base_url=url, model="tiny", timeout=0.3)
        with pytest.raises(SummariserError) as raised:
            summarise(HELLO, summariser)
    assert (raised.value.code, raised.value.may_be_charged) == ("timeout", False)


@pytest.mark.slow
def test_a_connection_that_opens_after_the_deadline_is_shut_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server with a single thread would wait for its request."""
    connect, given_up = socket.create_connection, threading.Event()
    opened = []

    def connect_slowly(*args: Any, **options: Any) -> socket.socket:
        given_up.wait(PATIENCE)
        opened.append(connect(*args, **options))
        return opened[0]  # which the list keeps alive, so that only the client can close it

    monkeypatch.setattr(socket, "create_connection", connect_slowly)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        summariser = ModelSummariser(api_key="", base_url=url, model="tiny", timeout=0.3)
        with pytest.raises(SummariserError) as raised:
            summarise(HELLO, summariser)
        given_up.set()
        listening.settimeout(PATIENCE)
        client, _ = listening.accept()
        with client:
            client.settimeout(PATIENCE)
            assert client.recv(1) == b""
    assert (raised.value.code, raised.value.may_be_charged) == ("timeout", False)
