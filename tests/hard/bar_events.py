"""Hard test 13: 10,000 events at 50 a second, each message once, and Slack is answered in time.

They come doubled, replayed, under a new id, edits before their message and deletions first, signed
and over HTTP, to what `manage.py serve` runs: web and a real qcluster that works them off. Between
them come forged and malformed posts. While the workers are busy with them, people send commands at
20 a second. Oracle: the script's own list of what was said last.
"""

import contextlib
import json
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import psutil
from django.utils import timezone

from memories.models import Channel, Message, SlackEvent, Workspace
from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from tests.hard.trees import Trees, trees
from tests.processes import wait_until
from tests.slack.fake_app import signed_form
from tests.slack.fake_events import SIGNING_SECRET, signed_event, url_verification

NAME = "13 events"
SMALL_DATABASES = ()
IS_TIMED = True
# As an installation has them: what a worker's end costs is for other hard tests.
ENVIRONMENT = {
    "MEMORYHUB_HEARTBEAT": "20",
    "MEMORYHUB_POLL": "1",
    "MEMORYHUB_LEASE": "60",
    "MEMORYHUB_BACK_OFF": "5",
}

POSTS = {True: 10_000, False: 120}
FORGED = {True: 200, False: 40}
PER_SECOND = 50
P99, MAX_SECONDS = 0.3, 3.0  # seconds; after three Slack sends it again
COMMANDS = {True: 1_200, False: 60}
COMMANDS_PER_SECOND = 20
COMMANDS_P99 = 1.0  # seconds
CHANNELS = 5
TEAM = "T0EVENTS"
OUT_OF_ORDER = 120  # posts: so far from its place one may come
WRONG = ("missing", "surplus", "differs", "bodies", "unfinished")
SETTLES = 180.0  # seconds for the work after the last post


@dataclass
class SentMessage:
    """A message of the script: its versions, of which the last counts."""

    channel: str
    ts: str
    texts: list[str]
    deleted: bool
    thread_ts: str = ""
    broadcast: bool = False


@dataclass
class Script:
    """``posts`` in the order of sending; ``sent`` is the expected content at the end."""

    chance: random.Random
    begin_us: int
    sent: list[SentMessage] = field(default_factory=list)
    posts: list[dict[str, Any]] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    _ids: int = 0

    def write(self, count: int) -> None:
        planned: list[tuple[float, dict[str, Any]]] = []
        while len(planned) < count:
            planned += self._message(len(planned))
        # Whole messages only: what is too many are copies, which may be left out.
        surplus = len(planned) - count
        copies = [at for at, (_, post) in enumerate(planned) if post["copy"]]
        for at in reversed(copies[len(copies) - surplus :] if surplus else []):
            self.kinds[planned[at][1]["copy"]] -= 1
            del planned[at]
        planned.sort(key=lambda sent: sent[0])
        self.posts = [post["body"] for _, post in planned]

    def _message(self, place: int) -> list[tuple[float, dict[str, Any]]]:
        """A message with its edits, perhaps its end, and copies of each, where they come."""
        chance, number = self.chance, len(self.sent)
        at = self.begin_us + number * 300_000
        channel = f"C0EVENTS{number % CHANNELS}"
        texts = [f"m{number} version {v}" for v in range(chance.choice((1, 1, 1, 2, 3)))]
        sent = SentMessage(channel, ts_from_micros(at), texts, deleted=chance.random() < 0.1)
        roots = [root for root in self.sent[-40:] if root.channel == channel and not root.thread_ts]
        if roots and chance.random() < 0.3:
            sent.thread_ts = chance.choice(roots).ts
            sent.broadcast = chance.random() < 0.2
        self.sent.append(sent)
        events = [self._version(sent, v, at) for v in range(len(texts))]
        if sent.deleted:
            deletion = {"subtype": "message_deleted", "deleted_ts": sent.ts, "hidden": True}
            events.append({**_event(sent, at + 9_000_000), **deletion})
        posts: list[tuple[float, dict[str, Any]]] = []
        for event in events:
            kind = str(event.get("subtype", "message"))
            body = self._envelope(event)
            posts.append(self._post(place, body, ""))
            self.kinds[kind] += 1
            if chance.random() < 0.2:  # at once, as when an answer was lost
                posts.append((posts[-1][0] + 0.5, {"body": body, "copy": "doubled"}))
                self.kinds["doubled"] += 1
            if chance.random() < 0.2:
                posts.append(self._post(place + 300, body, "replayed"))
            if chance.random() < 0.2:
                posts.append(self._post(place, self._envelope(event), "under a new id"))
        return posts

    def _post(self, place: int, body: dict[str, Any], copy: str) -> tuple[float, dict[str, Any]]:
        if copy:
            self.kinds[copy] += 1
        return place + self.chance.uniform(0, OUT_OF_ORDER), {"body": body, "copy": copy}

    def _version(self, sent: SentMessage, version: int, at: int) -> dict[str, Any]:
        message: dict[str, Any] = {"type": "message", "user": "U0SAID", "ts": sent.ts}
        message |= {"text": sent.texts[version]}
        if sent.thread_ts:
            message |= {"thread_ts": sent.thread_ts}
        if sent.broadcast:
            message |= {"subtype": "thread_broadcast"}
        if version == 0:
            return {**_event(sent, at), **message}
        when = at + version * 1_000_000
        message |= {"edited": {"user": "U0", "ts": ts_from_micros(when)}}
        return {**_event(sent, when), "subtype": "message_changed", "message": message}

    def _envelope(self, event: dict[str, Any]) -> dict[str, Any]:
        self._ids += 1
        return {
            "token": "out of use",
            "team_id": TEAM,
            "type": "event_callback",
            "event_id": f"Ev{self._ids:08d}",
            "event_time": int(float(event["event_ts"])),
            "authorizations": [{"team_id": TEAM, "user_id": "U0BOT", "is_bot": True}],
            "event": event,
        }


def _event(sent: SentMessage, at_us: int) -> dict[str, Any]:
    at = ts_from_micros(at_us)
    event = {"type": "message", "channel": sent.channel, "channel_type": "channel"}
    return {**event, "ts": at, "event_ts": at}


# -- posts that Slack never sends


def _forged(chance: random.Random) -> Iterator[tuple[bytes, dict[str, str]]]:
    """Bodies and headers without end, each of them wrong in one way."""
    forged = {"type": "message", "channel": "C0EVENTS0", "ts": "1767603600.000001"}
    forged |= {"text": "forged", "channel_type": "channel"}
    event: dict[str, Any] = {
        "type": "event_callback",
        "team_id": TEAM,
        "event_id": "EvForged",
        "event": forged,
    }
    good = json.dumps(event).encode()
    malformed: list[bytes] = [
        *(b"", b"null", b"[]", b"{", b"\xff\xfe\x00", b"\x00", b"5" * 9000, b"[" * 20_000),
        json.dumps(event).encode("utf-16"),
        json.dumps({**event, "event_id": None}).encode(),
        json.dumps({**event, "event_id": "E" * 500}).encode(),
        json.dumps({**event, "event": []}).encode(),
        json.dumps({**event, "team_id": {"a": 1}}).encode(),
        json.dumps({**event, "type": "something"}).encode(),
        b'{"type": "url_verification"}',
    ]
    while True:
        yield signed_event(good, "another secret")
        yield signed_event(good, at=time.time() - chance.randint(301, 10**6))
        yield signed_event(good, at=time.time() + chance.randint(310, 10**6))
        raw, headers = signed_event(good)
        yield raw.replace(b"forged", b"farged"), headers
        for name in ("X-Slack-Signature", "X-Slack-Request-Timestamp"):
            yield raw, {key: value for key, value in headers.items() if key != name}
            for odd in ("", "v0=", "-1", "9" * 400, "1e9", "caf\xe9", "v0=" + "\xe9" * 64):
                yield raw, {**headers, name: odd}
        yield raw, {"Content-Type": "application/x-www-form-urlencoded"}
        yield signed_event(chance.choice(malformed))
        yield signed_event(chance.choice(malformed))
        yield signed_event(chance.randbytes(chance.randint(1, 3000)))


# -- the load


@dataclass
class Answers:
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    late: float = 0.0  # how far behind its own pace the sender fell
    took: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _post(netloc: str, raw: bytes, headers: dict[str, str], path: str) -> int:
    connection = HTTPConnection(netloc, timeout=30)
    try:
        connection.request("POST", path, body=raw, headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


def _send(
    netloc: str,
    posts: list[Callable[[], tuple[bytes, dict[str, str]]]],
    per_second: float,
    path: str = "/slack/events/",
) -> Answers:
    """Each at its own moment, whether the ones before it were answered or not."""
    answers = Answers()
    began = time.monotonic()

    def send(number: int) -> None:
        due = began + number / per_second
        time.sleep(max(0.0, due - time.monotonic()))
        raw, headers = posts[number]()
        sent = time.monotonic()
        status = _post(netloc, raw, headers, path)
        with answers.lock:
            answers.late = max(answers.late, sent - due)
            answers.statuses[status] += 1
            answers.seconds.append(time.monotonic() - sent)

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(send, range(len(posts))))
    answers.took = time.monotonic() - began
    return answers


# -- the hard test


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    chance = random.Random(seed)
    now = timezone.now()
    workspace = Workspace.objects.create(
        slug="events",
        name="events",
        team_id=TEAM,
        connected_at=now,
        synced_at=now,
        settings={"slack_commands": True},
    )
    Channel.objects.bulk_create(
        Channel(
            workspace=workspace,
            slack_id=f"C0EVENTS{number}",
            name=f"events-{number}",
            kind=Channel.Kind.PUBLIC,
            is_followed=True,
        )
        for number in range(CHANNELS)
    )
    environment = {
        **os.environ,
        "SLACK_SIGNING_SECRET": SIGNING_SECRET,
        "MEMORYHUB_LOG_LEVEL": "INFO",
    }
    with trees(work, environment) as served:
        served.start("serve")
        log = work / "logs" / "0001-serve.log"
        wait_until(lambda: _netloc(log), f"a server, see {log}")
        netloc = _netloc(log)
        wait_until(lambda: _is_ready(netloc), "a worker's first beat")
        # What the machine can do just now, with nothing stored; each thread has seen one then.
        challenges = [lambda: signed_event(url_verification())] * 100
        control = _send(netloc, challenges, PER_SECOND)
        script = Script(chance, to_micros(now - timedelta(hours=8)))
        script.write(POSTS[full])
        answers = _send(netloc, _signed(script), PER_SECOND)
        commands = _send(netloc, _commands(COMMANDS[full]), COMMANDS_PER_SECOND, "/slack/commands/")
        forged = _forged(chance)
        wrong = [next(forged) for _ in range(FORGED[full])]
        refused = _send(netloc, [lambda post=post: post for post in wrong], PER_SECOND)  # type: ignore[misc]
        began = time.monotonic()
        wait_until(lambda: not SlackEvent.objects.waiting().exists(), "all worked on", SETTLES)
        settled = time.monotonic() - began
        seconds = _seconds_of_work(served)
    posts = len(script.posts)
    in_time = (
        answers.at(0.99) < P99
        and max(answers.seconds) < MAX_SECONDS
        and commands.at(0.99) <= COMMANDS_P99
    )
    figures = {
        "n": posts,
        "messages": len(script.sent),
        "posted": dict(sorted(script.kinds.items())),
        "answers": _count_statuses(answers.statuses),
        "p50_ms": round(1000 * answers.at(0.5), 1),
        "p99_ms": round(1000 * answers.at(0.99), 1),
        "longest_ms": round(1000 * max(answers.seconds), 1),
        "per_second": round(posts / answers.took, 1),
        "commands": _count_statuses(commands.statuses),
        "commands_p99_ms": round(1000 * commands.at(0.99), 1),
        "sender_late_ms": round(1000 * answers.late, 1),
        "control_p99_ms": round(1000 * control.at(0.99), 1),
        "cpu_ms_a_post": {role: round(1000 * spent / posts, 1) for role, spent in seconds.items()},
        "settled_s": round(settled, 1),
        "forged": len(wrong),
        "forged_answers": _count_statuses(refused.statuses),
        **_verdict(script.sent),
    }
    return figures | {
        "pass": figures["answers"] == {"200": posts}
        and figures["commands"] == {"200": COMMANDS[full]}
        and max(commands.seconds) < MAX_SECONDS
        and figures["forged_answers"] == {"401": len(wrong)}
        and (in_time or not full)
        and not any(figures[name] for name in WRONG)
    }


def _signed(script: Script) -> list[Callable[[], tuple[bytes, dict[str, str]]]]:
    """Signed when they are sent, as Slack does each time."""
    return [lambda body=body: signed_event(body) for body in script.posts]  # type: ignore[misc]


def _commands(count: int) -> list[Callable[[], tuple[bytes, dict[str, str]]]]:
    """Commands of many people. Their answers go nowhere: only acknowledgements are measured."""
    fields = {"command": "/memory", "team_id": TEAM, "channel_id": "C0EVENTS0", "text": "help"}
    return [
        lambda number=number: signed_form(  # type: ignore[misc]
            {**fields, "user_id": f"U{number}", "trigger_id": f"{number}.1.a"}
        )
        for number in range(count)
    ]


def _count_statuses(statuses: Counter[int]) -> dict[str, int]:
    return {str(status): n for status, n in sorted(statuses.items())}


def _seconds_of_work(served: Trees) -> dict[str, float]:
    """Seconds of a processor that web and workers have used since their start: what a slow machine
    does not change."""
    spent = dict.fromkeys(("web", "worker"), 0.0)
    for process in served.processes():
        with contextlib.suppress(psutil.Error):
            if process.role in spent:
                times = psutil.Process(process.pid).cpu_times()
                spent[process.role] += times.user + times.system
    return spent


def _verdict(messages: list[SentMessage]) -> dict[str, Any]:
    """Compare the rows with the last version of each sent message."""
    rows = {
        (slack_id, ts): (state, text, thread_ts, broadcast)
        for slack_id, ts, state, text, thread_ts, broadcast in Message.objects.values_list(
            *("channel__slack_id", "ts", "state", "text", "thread_ts", "broadcast")
        )
    }
    roots = {(sent.channel, sent.thread_ts) for sent in messages if sent.thread_ts}
    differs = []
    for sent in messages:
        thread = sent.thread_ts or (sent.ts if (sent.channel, sent.ts) in roots else "")
        expected = ("live", sent.texts[-1], thread, sent.broadcast)
        stored = rows.get((sent.channel, sent.ts))
        if sent.deleted and stored and stored[:2] == ("deleted", ""):
            continue
        if stored and stored != expected:
            differs.append({"ts": sent.ts, "wanted": expected, "found": stored})
    keys = {(sent.channel, sent.ts) for sent in messages}
    states = Counter(SlackEvent.objects.values_list("state", flat=True))
    return {
        "missing": len(keys - set(rows)),
        "surplus": Message.objects.count() - len(keys),
        "differs": len(differs),
        "examples": differs[:3],
        "bodies": SlackEvent.objects.exclude(body="").count(),
        # A deletion lets go of what still waits about the same message: that is finished too.
        "unfinished": sum(states[state] for state in SlackEvent.WITH_BODY),
        "events": dict(states),
    }


def _netloc(log: Path) -> str:
    match = re.search(r"listening on (\S+?)\)", log.read_text(errors="replace"))
    return match[1] if match else ""


def _is_ready(netloc: str) -> bool:
    connection = HTTPConnection(netloc, timeout=60)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
