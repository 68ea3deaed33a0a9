"""The load of bench/day.py: a day's messages as signed events of Slack, and a person who reads pages."""

import itertools
import math
import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from operator import attrgetter

from bench.pages import Client
from bench.talk import MessageGenerator
from tests.slack.fake_events import Delivery, send_event
from tests.slack.fake_workspace import FakeWorkspace

A_DAY = 20  # messages of a channel (docs/scale.md)
OFFICE = (9, 8)  # the hour at which the office hours begin, and their number
AT_NIGHT = 0.1  # of the conversations begin at any hour, the others in office hours
LENGTHS = (1, 7)  # messages of a conversation
IN_THREADS = 0.5  # of the conversations
PAUSE = 3 / 60  # hours between two messages of a conversation, on average
SENDERS = 16


@dataclass(frozen=True)
class Post:
    """A message. ``seconds`` are those from the begin of the simulation."""

    seconds: float
    channel: str
    user: str
    text: str
    conversation: int
    is_reply: bool


def write_day(
    channels: Sequence[str], people: Sequence[str], seconds: float, chance: random.Random
) -> list[Post]:
    """Return the messages of a day that takes so many seconds, in their order."""
    talk = MessageGenerator(chance)
    numbers = itertools.count()
    posts = []
    for channel in channels:
        missing = A_DAY
        while missing:
            length = min(missing, chance.randint(*LENGTHS))
            missing -= length
            number, hour, is_thread = next(numbers), _hour(chance), chance.random() < IN_THREADS
            for place in range(length):
                at = min(hour, 24.0) / 24 * seconds
                is_reply = is_thread and place > 0
                user = chance.choice(people)
                posts.append(Post(at, channel, user, talk.message(), number, is_reply))
                hour += chance.expovariate(1 / PAUSE)
    return sorted(posts, key=attrgetter("seconds"))


def _hour(chance: random.Random) -> float:
    """Return when a conversation begins. The office hours have the frequencies of a half sine."""
    if chance.random() < AT_NIGHT:
        return chance.uniform(0, 24)
    begin, hours = OFFICE
    return begin + hours * math.acos(1 - 2 * chance.random()) / math.pi


@dataclass
class Traffic:
    """Sends each post at its time as Slack does: signed, and up to four times until it is accepted."""

    slack: FakeWorkspace
    posts: Sequence[Post]
    url: str
    stop: threading.Event
    deliveries: list[Future[Delivery]] = field(default_factory=list)
    latest: float = 0.0  # seconds by which a post was begun too late

    def run(self) -> None:
        roots: dict[int, str] = {}
        began = time.monotonic()
        with ThreadPoolExecutor(SENDERS) as pool:
            for post in self.posts:
                if self.stop.wait(max(0.0, began + post.seconds - time.monotonic())):
                    return
                ts = self.slack.now_ts()
                thread = roots.setdefault(post.conversation, ts) if post.is_reply else ""
                roots.setdefault(post.conversation, ts)
                self.slack.say(post.channel, post.user, post.text, ts, thread=thread)
                due = began + post.seconds
                for body in self.slack.take_events():
                    self.deliveries.append(pool.submit(self._send, body, due))

    def _send(self, body: object, due: float) -> Delivery:
        self.latest = max(self.latest, time.monotonic() - due)
        return send_event(self.url, body)

    @property
    def accepted(self) -> int:
        return sum(future.done() and future.result().is_accepted for future in self.deliveries)


class PageReader:
    """Requests the pages in turns, once a second. ``pages``: the paths of each page, and its headers."""

    def __init__(
        self,
        port: int,
        pages: Mapping[str, tuple[Sequence[str], dict[str, str]]],
        stop: threading.Event,
    ) -> None:
        self.stop = stop
        self.paths = {name: itertools.cycle(paths) for name, (paths, _) in pages.items()}
        self.clients = {name: Client(port, headers, "") for name, (_, headers) in pages.items()}
        self.milliseconds: dict[str, list[float]] = {name: [] for name in pages}
        self.errors: list[str] = []

    @property
    def all_ms(self) -> list[float]:
        return [ms for row in self.milliseconds.values() for ms in row]

    def warm_up(self) -> None:
        """Request each page some times, until both web processes have imported what it needs."""
        for name in [*self.paths] * 4:
            self._request(name)

    def run(self) -> None:
        for name in itertools.cycle(self.paths):
            began = time.perf_counter()
            try:
                self._request(name)
            except (OSError, HTTPException, RuntimeError) as error:
                self.errors.append(f"{name}: {error}")
                self.clients[name].connection.close()
            else:
                self.milliseconds[name].append(1000 * (time.perf_counter() - began))
            if self.stop.wait(max(0.0, began + 1 - time.perf_counter())):
                return

    def _request(self, name: str) -> None:
        client = self.clients[name]
        client.path = next(self.paths[name])
        client.request()
