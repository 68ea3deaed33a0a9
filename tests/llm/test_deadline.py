"""Endpoints that hang, drip and hang up: the call ends in time, and says what it may have cost."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from memories.llm import ModelSummariser, summarise
from memories.rules.generate.summariser import SummariserError
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
    """A byte at a time, each well within the time that the client waits for one."""
    for byte in HEAD * 20:
        client.sendall(bytes([byte]))
        if over.wait(0.05):
            return


def hang_up(client: socket.socket, over: threading.Event) -> None:
    """Without a word."""


def hang_up_half_way(client: socket.socket, over: threading.Event) -> None:
    client.sendall(HEAD + b'{"choices": [')


def talk_nonsense(client: socket.socket, over: threading.Event) -> None:
    client.sendall(b"220 mail.example ESMTP\r\n")


class RawServer:
    """Reads the question, answers as told, and keeps when the client went away."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.over = threading.Event()
        self.questions = 0
        self.gone = 0
        self.threads: list[threading.Thread] = []

    def serve(self, answer: Answer) -> None:
        self.threads.append(threading.Thread(target=self._accept, args=[answer]))
        self.threads[0].start()

    def _accept(self, answer: Answer) -> None:
        with contextlib.suppress(OSError):  # closed at the end of the test
            client, _ = self.socket.accept()
            with client:
                seen = b""
                while b"hello" not in seen:
                    seen += client.recv(65536)
                self.questions += 1
                try:
                    answer(client, self.over)
                except OSError:  # broken pipe
                    self.gone += 1

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
def test_it_ends_in_time(server: RawServer, answer: Answer, code: str) -> None:
    server.serve(answer)
    summariser = server.summariser(timeout=1.0)
    summariser._client()  # its import takes as long as the call may
    began = time.monotonic()
    with pytest.raises(SummariserError) as raised:
        summarise(HELLO, summariser)
    # The endpoint answers for PATIENCE at least; what is above the timeout is for a busy machine.
    assert time.monotonic() - began < PATIENCE / 2
    assert raised.value.code == code
    assert raised.value.unknown  # the question went out, so it may be charged
    assert server.questions == 1


@pytest.mark.slow
@pytest.mark.parametrize("answer", [drip_headers, drip_body])
def test_nothing_is_left_waiting(server: RawServer, answer: Answer) -> None:
    """The connection is cut, so the thread that waited for it ends and the endpoint may stop."""
    server.serve(answer)
    with pytest.raises(SummariserError):
        summarise(HELLO, server.summariser(timeout=1.0))
    wait_until(lambda: server.gone == 1, "the endpoint notices")
    alive = threading.enumerate
    wait_until(lambda: not any(t.name == "model-call" for t in alive()), "its thread ends")


@pytest.mark.slow
def test_a_connection_that_is_not_made_costs_nothing() -> None:
    """Its queue is full: the kernel does not even answer."""
    with socket.socket() as full, contextlib.ExitStack() as others:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        summariser = ModelSummariser(api_key="", base_url=url, model="tiny", timeout=0.3)
        with pytest.raises(SummariserError) as raised:
            summarise(HELLO, summariser)
    assert (raised.value.code, raised.value.unknown) == ("timeout", False)
