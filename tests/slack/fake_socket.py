"""The server of Socket Mode: a WebSocket server on loopback that sends events to its clients.

It has the part of RFC 6455 that slack_sdk's built-in client needs. An envelope goes to one
connection. Without an acknowledgement it goes to the next one that opens, as in Slack's retries.
"""

import base64
import hashlib
import itertools
import json
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Any

from tests.processes import PATIENCE
from tests.slack.fake_slack import FakeSlack

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
INTERACTIONS = ("message_action", "block_actions")
_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA


@dataclass
class Envelope:
    """A payload with its state of delivery. ``sends``: the number of attempts. ``answer``: what the
    acknowledgement holds, {} without an answer."""

    envelope_id: str
    payload: dict[str, Any]
    kind: str = "events_api"
    sends: int = 0
    answer: dict[str, Any] = field(default_factory=dict)
    acknowledged: threading.Event = field(default_factory=threading.Event)

    def as_json(self) -> str:
        return json.dumps(
            {
                "envelope_id": self.envelope_id,
                "type": self.kind,
                "payload": self.payload,
                "accepts_response_payload": self.kind != "events_api",
                "retry_attempt": self.sends - 1,
                "retry_reason": "timeout" if self.sends > 1 else "",
            }
        )


def kind_of(body: dict[str, Any]) -> str:
    """Return the type of the envelope in which Slack sends this payload."""
    if "command" in body:
        return "slash_commands"
    return "interactive" if body.get("type") in INTERACTIONS else "events_api"


class FakeSocket:
    """Use as a context manager; apps.connections.open of the `FakeSlack` returns its address."""

    def __init__(self, slack: FakeSlack) -> None:
        self.slack = slack
        self.connections: list[_Connection] = []
        self.opened = 0  # number of connections so far
        self.refused = 0  # number of invalid handshakes
        self.envelopes: dict[str, Envelope] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._closing = False
        host, port = self._listener.getsockname()
        self._address = f"ws://{host}:{port}/link/"

    def __enter__(self) -> "FakeSocket":
        self.slack.socket_url = f"{self._address}?ticket=1"
        self._run(self._accept)
        return self

    def __exit__(self, *error: object) -> None:
        self._closing = True
        self.slack.socket_url = ""
        with self._lock:
            for connection in list(self.connections):
                connection.hang_up()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=PATIENCE)

    def deliver(self, body: dict[str, Any]) -> Envelope:
        """Send an event or a request to one connection, or keep it for the next one."""
        with self._lock:
            envelope = Envelope(f"envelope-{next(self._numbers)}", body, kind_of(body))
            self.envelopes[envelope.envelope_id] = envelope
            if self.connections:
                self.connections[0].send_envelope(envelope)
            return envelope

    def resend(self) -> None:
        """Send all events without an acknowledgement again, on the newest connection."""
        with self._lock:
            for envelope in self.waiting():
                if self.connections:
                    self.connections[-1].send_envelope(envelope)

    def waiting(self) -> list[Envelope]:
        return [
            envelope for envelope in self.envelopes.values() if not envelope.acknowledged.is_set()
        ]

    def refresh(self, reason: str = "refresh_requested") -> None:
        """Ask the clients to open a new connection, as Slack does now and then."""
        with self._lock:
            for connection in self.connections:
                connection.send_json({"type": "disconnect", "reason": reason, "debug_info": {}})

    def drop(self) -> None:
        """Drop every connection."""
        with self._lock:
            for connection in list(self.connections):
                connection.hang_up()

    # Connections

    def _run(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                wire, _ = self._listener.accept()
            except OSError:
                return
            self._run(self._serve, wire)

    def _serve(self, wire: socket.socket) -> None:
        connection = _Connection(self, wire)
        with wire:
            if not connection.shake_hands():
                self.refused += 1
                return
            with self._lock:
                self.opened += 1
                self.connections.append(connection)
                connection.send_json(
                    {
                        "type": "hello",
                        "num_connections": len(self.connections),
                        "debug_info": {"host": "fake", "approximate_connection_time": 18060},
                        "connection_info": {"app_id": self.slack.app_id},
                    }
                )
                self.resend()
            try:
                connection.read()
            finally:
                with self._lock:
                    self.connections.remove(connection)


class _Connection:
    def __init__(self, owner: FakeSocket, wire: socket.socket) -> None:
        self._owner = owner
        self._wire = wire
        self._file = wire.makefile("rb")
        self._lock = threading.Lock()

    def shake_hands(self) -> bool:
        request = self._file.readline().decode()
        headers: dict[str, str] = {}
        while line := self._file.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if "ticket=" not in request or "sec-websocket-key" not in headers:
            self._wire.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            return False
        key = hashlib.sha1((headers["sec-websocket-key"] + _MAGIC).encode()).digest()
        answer = (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {base64.b64encode(key).decode()}\r\n\r\n"
        )
        self._wire.sendall(answer.encode())
        return True

    def send_json(self, value: dict[str, Any]) -> None:
        self._send(_TEXT, json.dumps(value).encode())

    def send_envelope(self, envelope: Envelope) -> None:
        envelope.sends += 1
        self._send(_TEXT, envelope.as_json().encode())

    def hang_up(self) -> None:
        try:
            self._wire.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # closed already

    def read(self) -> None:
        """Read until the client closes the connection or is lost."""
        try:
            while (frame := self._frame()) is not None:
                kind, payload = frame
                if kind == _PING:
                    self._send(_PONG, payload)
                elif kind == _CLOSE:
                    self._send(_CLOSE, payload)
                    return
                elif kind == _TEXT:
                    acknowledgement = json.loads(payload)
                    envelope = self._owner.envelopes.get(acknowledgement.get("envelope_id"))
                    if envelope is not None:
                        envelope.answer = acknowledgement.get("payload") or {}
                        envelope.acknowledged.set()
        except OSError:
            return

    def _frame(self) -> tuple[int, bytes] | None:
        """The next frame's opcode and unmasked payload; None at the end."""
        head = self._file.read(2)
        if len(head) < 2:
            return None
        length = head[1] & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", self._file.read(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self._file.read(8))
        mask = self._file.read(4) if head[1] & 0x80 else bytes(4)
        payload = self._file.read(length)
        return head[0] & 0x0F, bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))

    def _send(self, kind: int, payload: bytes) -> None:
        length = len(payload)
        if length < 126:
            head = struct.pack("!BB", 0x80 | kind, length)
        elif length < 65_536:
            head = struct.pack("!BBH", 0x80 | kind, 126, length)
        else:
            head = struct.pack("!BBQ", 0x80 | kind, 127, length)
        with self._lock:
            try:
                self._wire.sendall(head + payload)
            except OSError:
                pass  # the reader finds out
