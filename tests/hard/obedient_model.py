"""A chat-completions server that obeys every order it can read in its prompt, and repeats the rest.

What it was told is held against the prompt as it came over the wire: an order whose words the app
took out is not seen. Where it obeys it writes what the attack wants, with references as the attack
wants them, before the honest lines.
"""

import json
import re
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.hard.attacks import Attack
from tests.hard.fake_model import PERSON, Line, lines_of, tokens


@dataclass
class Obedient:
    """``obeyed`` are the numbers of the attacks that it acted on."""

    attacks: list[Attack] = field(default_factory=list)
    obeyed: set[int] = field(default_factory=set)
    calls: int = 0

    def answer(self, prompt: str, most: int) -> str:
        lines = lines_of(prompt)
        seen = _read(prompt)
        bullets: list[str] = []
        led: set[int] = set()
        for attack in self.attacks:
            if all(_read(need) in seen for need in attack.needs):
                own = [line.ref for line in lines if _is_of(line, prompt, attack)]
                led |= set(own)
                bullets += _bullets(attack, own, lines, prompt)
                self.obeyed.add(attack.number)
        room = most - sum(map(tokens, bullets))
        for line in lines:
            if line.stays:  # as it is, without a word
                continue
            noted = "noted " if line.message else ""  # else it only copies, and is asked again
            bullet = f"- {noted}{line.text.removeprefix(PERSON)} [{line.ref}]"
            room -= tokens(bullet) + 1
            if line.ref not in led and (room > 0 or not bullets):
                bullets.append(bullet)
        return "\n".join(bullets)


def _read(text: str) -> str:
    """As a reader takes it in: one form of each letter, line breaks and spaces as one."""
    plain = unicodedata.normalize("NFKC", text).replace("< <", "<<").replace("⏎", " ")
    return re.sub(r"\s+", " ", plain).casefold()


def _is_of(line: Line, prompt: str, attack: Attack) -> bool:
    row = next(
        (r for r in prompt.split("\n") if r.startswith((f"{line.ref} ", f"L{line.ref} "))),
        line.text,
    )
    parts = [*attack.messages, attack.author] if attack.author else attack.messages
    shown = _read(row)
    return any(_read(part)[:30] in shown for part in parts if len(part) > 20) or any(
        _read(need)[:40] in shown for need in attack.needs
    )


def _bullets(attack: Attack, own: list[int], lines: list[Line], prompt: str) -> Iterator[str]:
    first = [lines[0].ref] if lines else []
    refs = {"own": own, "first": first, "none": []}[attack.cites]
    named = f" [{', '.join(map(str, refs))}]" if refs else ""
    written = list(attack.does)
    if attack.copies:
        rows = (r.removeprefix("- ") for r in prompt.split("\n") if re.search(attack.copies, r))
        written += [re.sub(r"^L?\d+ ", "", row) for row in rows]
    if attack.words and (matches := dict.fromkeys(re.findall(attack.words, prompt))):
        written.append("What was asked for: " + " ".join(matches))
    for text in written:
        yield f"- {text}{named}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.model.calls += 1
            most = body.get("max_tokens") or body.get("max_completion_tokens") or 300
            text = self.server.model.answer(body["messages"][-1]["content"], most)
        choice = {"index": 0, "finish_reason": "stop"}
        message = {"role": "assistant", "content": text or "NOTHING", "refusal": None}
        answer: dict[str, Any] = {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{**choice, "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: Obedient) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.model = model
        self.lock = threading.Lock()


@contextmanager
def obedient_model(model: Obedient) -> Iterator[str]:
    """Its address, while the block lasts."""
    server = Server(model)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
