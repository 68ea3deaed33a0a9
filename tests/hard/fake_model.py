"""A chat-completions server whose ledger is the oracle: `python -m tests.hard.fake_model LEDGER`.

It knows nothing of the app but the shape of its prompts. Each request is a row in the ledger (JSON,
one a line) before it is answered, and one more once the answer is out. Messages of the harness hold
words like ``uq000123x``; an answer repeats those of the lines it stands for, so that each can be found
in the versions. The first line of an answer carries its mark, ``an000007x``: which call made a text.
"""

import hashlib
import json
import math
import random
import re
import select
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

WORD = re.compile(r"uq\d{6}x")
MARK = re.compile(r"\ban\d{6}x ?")
BAD_REF = " [ref: 99999, x]"  # stays in the text, for it may be words of somebody
_BEGIN = re.compile(r"<<(messages|existing memory|added|reference)\b.*>>\Z")
_KEY = re.compile(r"^<<end (\w+)>>$", re.MULTILINE)
# Lines that operations may name begin with an L; the simple form of the prompt has no numbers.
_REF = re.compile(r"(?:(L?)(\d+) )?(.*)\Z")
_PREFIX = re.compile(r"(?:↳\w+ )?\[\d{4}-\d\d-\d\d \d\d:\d\d\] .*?: ")
_DAY = re.compile(r"(✎ )?\[\d{4}-\d\d-\d\d\] ")
_WIDE = re.compile("[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef]")
PERSON = "✎ "
LONG = 12  # lines from which neighbours share a bullet
A_FEW = 3  # lines
MANY = 8  # lines of a memory: to lose most of them is a fault
MAX_REPEATED_LENGTH = 400  # characters of a text that is repeated as it is
TOGETHER = 5  # lines in one bullet: as many as it may cite

# What can go wrong, in the words of the configuration: status and error code, or a spoilt answer.
REFUSALS: dict[str, tuple[int, str, str | None]] = {
    "rate_limited": (429, "rate_limit_exceeded", "1"),  # with Retry-After
    "rate_limited_plain": (429, "rate_limit_exceeded", None),
    "out_of_credit": (429, "insufficient_quota", None),
    "unauthorised": (401, "invalid_api_key", None),
    "forbidden": (403, "permission_denied", None),
    "server_error": (500, "server_error", None),
    "overloaded": (529, "overloaded_error", None),
    "context_too_long": (400, "context_length_exceeded", None),
}
SPOILT = (
    "empty", "length", "content_filter", "refusal", "unknown_finish", "malformed_refs",
    "wrong_language", "echo", "too_long", "shrink",
)  # fmt: skip
LINE = ("drop", "hang")  # the connection breaks; no answer until the client gives up
FAULTS = (*REFUSALS, *SPOILT, *LINE)
FREE = {*REFUSALS, "drop"}  # a call that ended so was never an answer that is paid


def tokens(text: str) -> int:
    """A quarter of a token for each character, a whole one for a wide one."""
    wide = len(_WIDE.findall(text))
    return wide + math.ceil((len(text) - wide) / 4)


@dataclass
class Line:
    ref: int
    text: str  # without day, time and name
    existing: bool = False
    message: bool = False
    stays: bool = False  # the answer says what changes in it, and not what it says


def lines_of(prompt: str) -> list[Line]:
    """What a prompt asks to be summarised; references are background and left out."""
    lines: list[Line] = []
    block = ""
    for row in prompt.split("\n"):
        if row.startswith("<<end "):
            block = ""
        elif not block and (begin := _BEGIN.match(row)):
            block = begin[1]
        elif block and block != "reference" and (numbered := _REF.match(row)):
            letter, number, text = numbered.groups()
            is_message = block == "messages"
            text = _PREFIX.sub("", text, count=1) if is_message else _DAY.sub(r"\1", text, count=1)
            ref = int(number or len(lines) + 1)
            is_old, is_said = block == "existing memory", block == "messages"
            stays = is_old and letter == "L"
            lines.append(Line(ref, text, existing=is_old, message=is_said, stays=stays))
    return lines


def hash_prompt(prompt: str) -> str:
    """The same for each call about the same: the random key of the blocks is left out."""
    for key in set(_KEY.findall(prompt)):
        prompt = prompt.replace(key, "")
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]


def good_answer(lines: list[Line], mark: str, most: int) -> str:
    """A bullet for each line (for several neighbours, when there are many) with all its words, as
    many as the limit allows; lines of people come back word for word. Where operations are asked
    for, each is an addition."""
    sign = "+" if any(line.stays for line in lines) else "-"
    lines = [line for line in lines if not line.stays]
    groups: list[list[Line]] = []
    for line in lines:
        full = not groups or len(groups[-1]) >= TOGETHER or len(lines) <= LONG
        if (
            full
            or _size([*groups[-1], line]) > MAX_REPEATED_LENGTH
            or line.text.startswith(PERSON)
            or groups[-1][0].text.startswith(PERSON)
        ):
            groups.append([line])
        else:
            groups[-1].append(line)
    bullets: list[str] = []
    room = most - 8
    chance = random.Random(mark)
    for group in groups:
        by_person = group[0].text.startswith(PERSON)
        text = group[0].text.removeprefix(PERSON) if by_person else _text_of(group, chance)
        if group[0].message:
            text = f"noted {text}"  # what only copies messages is asked for again
        if not by_person and mark:
            text, mark = f"{mark} {text}", ""
        bullet = f"{sign} {text} [{', '.join(str(line.ref) for line in group)}]"
        room -= tokens(bullet) + 1
        if room < 0 and bullets:
            break
        bullets.append(bullet)
    return "\n".join(bullets)


def _size(group: list[Line]) -> int:
    return sum(len(line.text) for line in group)


def _text_of(group: list[Line], chance: random.Random) -> str:
    """A short text as it is; of a long one, and of several, the words alone, in an order of this
    answer's own: the same long run in two memories would be taken for a leak."""
    text = " ".join(MARK.sub("", line.text.replace(BAD_REF, "")) for line in group)
    if len(group) == 1 and len(text) <= MAX_REPEATED_LENGTH:
        return text
    words = list(dict.fromkeys(WORD.findall(text)))
    chance.shuffle(words)
    return " ".join(words) or text[:MAX_REPEATED_LENGTH]


@dataclass
class State:
    """All that may be configured, and the counts; one lock for everything."""

    ledger: Path
    seed: int = 0
    latency: tuple[float, float] = (0.0, 0.0)  # seconds, from and to
    faults: dict[str, float] = field(default_factory=dict)  # kind → share of the calls
    script: list[str] = field(default_factory=list)  # kinds of the next calls; "ok" is none
    words: dict[str, str] = field(default_factory=dict)  # a word in the prompt → kind, each time
    retry_after: float = 1.0
    token_ratio: float = 1.0  # what we count, in units of `tokens`
    lock: threading.Lock = field(default_factory=threading.Lock)
    n: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    callers: set[int] = field(default_factory=set)  # their ports, while they wait
    most_in_flight: int = 0
    by_fault: dict[str, int] = field(default_factory=dict)
    answered: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def in_flight(self) -> int:
        return len(self.callers)

    SETTABLE = ("seed", "latency", "faults", "script", "words", "retry_after", "token_ratio")

    def write(self, **row: Any) -> None:
        with self.ledger.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def configure(self, given: dict[str, Any]) -> None:
        unknown = given.keys() - set(self.SETTABLE)
        kinds = {*given.get("faults", {}), *given.get("words", {}).values()}
        unknown |= (kinds | set(given.get("script", []))) - {*FAULTS, "ok"}
        if unknown:
            raise ValueError(f"unknown: {sorted(unknown)}")
        for key, value in given.items():
            setattr(self, key, value)

    def reset(self) -> None:
        """Counts from nothing and an empty ledger; what was configured stays."""
        self.ledger.write_text("")
        self.n = self.answered = 0
        self.most_in_flight = len(self.callers)
        self.prompt_tokens = self.completion_tokens = 0
        self.by_fault, self.seen = {}, {}

    def stats(self) -> dict[str, Any]:
        names = ("n", "in_flight", "most_in_flight", "answered", "prompt_tokens")
        counts: dict[str, Any] = {name: getattr(self, name) for name in names}
        counts["callers"] = sorted(self.callers)
        return {**counts, "completion_tokens": self.completion_tokens, "faults": self.by_fault}

    def fault_for(self, prompt_hash: str, words: set[str]) -> str:
        """Decided by the seed, the prompt and how often it was seen: not by who came first."""
        time_seen = self.seen[prompt_hash] = self.seen.get(prompt_hash, 0) + 1
        for word, kind in self.words.items():
            if word in words:
                return kind
        if self.script:
            kind = self.script.pop(0)
            return "" if kind == "ok" else kind
        draw = random.Random(f"{self.seed}:{prompt_hash}:{time_seen}").random()
        for kind, share in self.faults.items():
            if (draw := draw - share) < 0:
                return kind
        return ""


def spoil(kind: str, good: str, system: str, lines: list[Line], most: int) -> tuple[str, str]:
    """The text and the finish reason of an answer with this fault."""
    if kind == "empty":
        return " \n", "stop"
    if kind == "length":
        return good[: len(good) // 2], "length"
    if kind == "content_filter":
        return good[:10], "content_filter"
    if kind == "refusal":
        return "I'm sorry, but I can't help with that.", "stop"
    if kind == "unknown_finish":
        return good, "model_went_home"
    if kind == "malformed_refs":
        return re.sub(r" \[[\d, ]+\]", BAD_REF, good), "stop"
    if kind == "wrong_language":
        sentence = "- 予定どおり進んでいます。金曜日に決定したことについて、チームの全員が同意しました。 [1]"
        return "\n".join([sentence, sentence.replace("金曜日", "月曜日")]), "stop"
    if kind == "echo":
        return system, "stop"
    if kind == "too_long":
        return "\n".join(f"- and so it went on and on, part {i} [1]" for i in range(most)), "stop"
    if kind == "shrink":
        removed = [f"- L{line.ref} [{lines[-1].ref}]" for line in lines if line.stays]
        return "\n".join(removed[1:]) or "- ok [1]", "stop"
    return good, "stop"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "Server"

    def do_GET(self) -> None:
        with self.server.state.lock:
            self.reply(200, self.server.state.stats())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        state = self.server.state
        if self.path.startswith("/__"):
            with state.lock:
                try:
                    state.configure(body) if self.path == "/__config" else state.reset()
                except ValueError as error:
                    self.reply(400, {"error": str(error)})
                    return
            self.reply(200, {})
            return
        self.complete(body)

    def complete(self, body: dict[str, Any]) -> None:
        state = self.server.state
        system, prompt = body["messages"][0]["content"], body["messages"][-1]["content"]
        most = body.get("max_tokens") or body.get("max_completion_tokens") or 300
        lines = lines_of(prompt)
        words = [word for line in lines for word in WORD.findall(line.text)]
        prompt_hash = hash_prompt(prompt)
        with state.lock:
            state.n += 1
            n = state.n
            state.callers.add(self.client_address[1])
            state.most_in_flight = max(state.most_in_flight, state.in_flight)
            fault = state.fault_for(prompt_hash, set(words))
            if fault == "shrink" and sum(line.existing for line in lines) < MANY:
                fault = ""  # there is nothing yet that could shrink
            if fault == "wrong_language" and len(lines) < A_FEW:
                fault = ""  # so little is in no language that could be told
            state.by_fault[fault or "ok"] = state.by_fault.get(fault or "ok", 0) + 1
            good = good_answer(lines, f"an{n:06d}x", most)
            text, finish = spoil(fault, good, system, lines, most)
            used_in = math.ceil((tokens(system) + tokens(prompt)) * state.token_ratio)
            # Never more than it was allowed, as an endpoint counts: its tokens are not ours.
            used_out = min(math.ceil(tokens(text) * state.token_ratio), most)
            paid = fault not in FREE
            state.write(
                n=n,
                at=time.time(),
                prompt_hash=prompt_hash,
                words=words,
                existing=sum(line.existing for line in lines),
                messages="<<messages" in prompt,
                fault=fault,
                prompt_tokens=used_in if paid else 0,
                completion_tokens=used_out if paid else 0,
            )
            if paid:
                state.prompt_tokens += used_in
                state.completion_tokens += used_out
        try:
            time.sleep(random.uniform(*state.latency))
            sent_at = time.time()  # the caller may know of it before this thread goes on
            self.send(fault, text, finish, body.get("model", ""), used_in, used_out)
        except OSError:
            return  # the client went away
        finally:
            with state.lock:
                state.callers.discard(self.client_address[1])
        with state.lock:
            state.answered += 1
            state.write(n=n, answered=True, at=sent_at)

    def send(self, fault: str, text: str, finish: str, model: str, *used: int) -> None:
        if fault == "drop":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError
        if fault == "hang":
            self.close_connection = True
            select.select([self.connection], [], [], 600)  # until the client has gone
            raise ConnectionAbortedError
        if fault in REFUSALS:
            status, code, wait = REFUSALS[fault]
            headers = {"retry-after": str(self.server.state.retry_after)} if wait else {}
            self.reply(status, {"error": {"message": "no", "code": code, "type": code}}, **headers)
            return
        usage = {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": sum(used)}
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        body = {"id": "c", "object": "chat.completion", "created": 1, "model": model}
        self.reply(200, {**body, "choices": [choice], "usage": usage})

    def reply(self, status: int, body: dict[str, Any], **headers: str) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Silence: the ledger says it all."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, state: State) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.state = state

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no news here."""


def serve(ledger: Path, output: BinaryIO) -> None:
    server = Server(State(ledger))
    output.write(f"{server.server_address[1]}\n".encode())
    output.flush()
    server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.stdout.buffer)
