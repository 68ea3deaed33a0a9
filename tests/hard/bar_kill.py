"""Hard test 1: killed at random, and at each of the five fail points; nothing lost, nothing twice."""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from memories.models import Channel, Job, MemoryVersion, ModelCall
from memories.rules.generate.probe import LONG_PROMPT_LINES
from memoryhub.failpoints import POINTS
from tests.hard import oracle, world
from tests.hard.model_client import FakeModel, fake_model
from tests.hard.trees import Trees, kill, local_ports, trees

NAME = "1 kill"
SMALL_DATABASES = ("postgresql",)

logger = logging.getLogger(__name__)

PER_KILL = {True: 5, False: 3}  # segments, full and small: each is a job or more
LATENCY = (0.02, 0.1)  # seconds
# Calls of the one probe of the model, which the tick queues: three tasks, and the long prompts.
MAX_PROBES = 3 + len(LONG_PROMPT_LINES)
MAX_OPEN = 40  # jobs: the kills keep up with the work
RANDOM = {  # of 20
    "worker": 4,
    "caller": 4,
    "sentinel": 3,
    "main": 3,
    "web": 2,
    "supervisor": 2,
    "monitor": 1,
    "pusher": 1,
}
PATIENCE = 240.0  # seconds in which something must move
RESTART_CHECK = (
    0.5  # seconds between two looks for trees without a supervisor: it reads all of /proc
)


@dataclass
class Killer:
    """Kills as it was ordered, one after the other, while the trees do their work."""

    trees: Trees
    model: FakeModel
    orders: Path
    chance: random.Random
    killed: Counter[str] = field(default_factory=Counter)
    _restart_checked_at: float = 0.0

    def at_random(self, role: str) -> None:
        """Kill a process of this role at a random time, as soon as there is one."""
        time.sleep(self.chance.uniform(0, 0.2))  # the time is random

        def kill_process() -> bool:
            living = self.living(role)
            return bool(living) and kill(self.chance.choice(sorted(living)))

        self.wait(kill_process, f"a {role} to kill")
        self.killed[role] += 1

    def in_a_call(self, feed: Callable[[], None]) -> None:
        """Kill a process whose request has reached the model. The model answers slowly during
        this.
        """
        fed = time.monotonic()

        def kill_process() -> bool:
            nonlocal fed
            if time.monotonic() - fed > 3:
                feed()
                fed = time.monotonic()
            living = self.callers()
            return bool(living) and kill(self.chance.choice(sorted(living)))

        self.model.configure(latency=(0.6, 0.8))
        self.wait(kill_process, "a caller to kill")
        self.model.configure(latency=LATENCY)
        self.killed["caller"] += 1

    def living(self, role: str) -> list[int]:
        return [process.pid for process in self.trees.processes() if process.role == role]

    def callers(self) -> list[int]:
        """Return workers that wait for an answer of the model."""
        ports = set(self.model.stats()["callers"])
        return [pid for pid in self.living("worker") if ports & set(local_ports(pid))]

    def open_orders(self) -> int:
        return sum(1 for point in POINTS for _ in self._files(point, used=False))

    def used(self) -> Counter[str]:
        return Counter({point: len(self._files(point, used=True)) for point in POINTS})

    def _files(self, point: str, *, used: bool) -> list[Path]:
        paths = self.orders.glob(f"{point}.*")
        return [path for path in paths if (path.suffix == ".taken") is used]

    def wait(self, holds: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
        """Trees whose supervisor died are started again meanwhile."""
        deadline = time.monotonic() + patience
        while not holds():
            if time.monotonic() - self._restart_checked_at >= RESTART_CHECK:
                self.trees.restart_the_dead()
                self._restart_checked_at = time.monotonic()
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {patience:.0f} s in vain: {what}")
            time.sleep(0.1)


def plan_of(kills: int, at_points: int, chance: random.Random) -> list[str]:
    """Points and roles, in the order of chance: each role once, when there are enough kills."""
    plan = [point for point in POINTS for _ in range(at_points)]
    left = kills - len(plan)
    if left >= len(RANDOM):
        for role, share in RANDOM.items():
            plan += [role] * max(1, left * share // 20)
    plan += ["worker"] * (kills - len(plan))
    chance.shuffle(plan)
    return plan


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    kills, at_points = (1000, 20) if full else (len(POINTS) + len(RANDOM), 1)
    if database_url.startswith("sqlite"):
        kills, at_points = (200, 20) if full else (len(POINTS) + 1, 1)
    elif settings.MEMORYHUB_BROKER and not full:
        kills = len(POINTS) + 1  # the roles are killed with the other broker
    chance = random.Random(seed)
    with fake_model(work, seed=seed, latency=LATENCY) as model:
        made = world.World()
        for number in range(4 if full else 2):
            made.add_workspace(f"w{number}", channels=25 if full else 5)
        orders = work / "orders"
        variables = world.environment(model, orders, MEMORYHUB_LLM_CONCURRENCY="1")
        plan = plan_of(kills, at_points, chance)
        with trees(work, variables) as running:
            has_web = "web" in plan or full
            running.start("serve" if has_web else "worker")
            running.start("worker")
            killer = Killer(running, model, orders, chance)
            began = time.monotonic()
            retried = carry_out(plan, killer, made, PER_KILL[full])
            seconds = time.monotonic() - began
            left = running.stop()
        result = figures(made, killer, model, at_points)
        return result | {
            "pass": result["pass"] and not left,
            "retried": retried,
            "left_alive": left,
            "kill_seconds": round(seconds, 1),
        }


def carry_out(plan: list[str], killer: Killer, made: world.World, per_kill: int) -> int:
    """Feed and kill in turn, then let it come to rest; how many dead letters were retried."""
    for number, what in enumerate(plan):
        logger.warning("%s of %s: %s", number, len(plan), what)
        channel = made.channels[number % len(made.channels)]

        def feed(channel: Channel = channel) -> None:
            made.feed(channel, per_kill)
            world.offer([channel])

        feed()
        killer.wait(lambda: Job.objects.unfinished().count() < MAX_OPEN, "work to be done")
        if what in POINTS:
            killer.wait(lambda: killer.open_orders() < 2, "the orders to be carried out")
            world.order(killer.orders, what, f".{number}")
        else:
            killer.in_a_call(feed) if what == "caller" else killer.at_random(what)
    retried = 0
    offered = 0.0

    def rests() -> bool:
        """With the timetable's tick at a faster pace; and what still waits for its order is fed."""
        nonlocal retried, offered
        if time.monotonic() - offered > 3:
            offered = time.monotonic()
            if killer.open_orders() and world.is_at_rest():
                made.feed(made.channels[0], per_kill)
            retried += world.retry_the_dead()
            world.offer(made.channels)
        return not killer.open_orders() and world.is_at_rest() and not owed().exists()

    killer.wait(rests, "everything to come to rest")
    return retried


def owed() -> Any:
    """Short-term versions that no long-term memory has read."""
    return MemoryVersion.objects.filter(
        memory__scope="channel", memory__memory_type="short_term", merged=False, provisional=False
    )


def figures(made: world.World, killer: Killer, model: FakeModel, at_points: int) -> dict[str, Any]:
    ledger = model.rows()
    used = killer.used()
    wrong = oracle.verdict(made.words, ledger)
    outputs = Job.objects.count()
    kills = used.total() + killer.killed.total()
    probes = min(ModelCall.objects.filter(job=None).count(), MAX_PROBES)
    return {
        "n": outputs,
        "messages": made.total,
        "kills": kills,
        "at_points": dict(used),
        "at_random": dict(killer.killed),
        "calls": len(ledger),
        "calls_allowed": outputs + kills + probes,
        "unanswered": sum(row.answered_at is None for row in ledger),
        **wrong,
        "pass": oracle.is_clean(wrong)
        and len(ledger) <= outputs + kills + probes
        and all(used[point] >= at_points for point in POINTS),
    }
