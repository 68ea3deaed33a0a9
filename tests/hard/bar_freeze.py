"""Hard test 2: two clusters alive at once, and a worker frozen past its lease that comes back.

Whoever is frozen stands still until others have finished everything, its own job included.
Then all texts are noted, it goes on, and once it is idle again they must read the same.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from memories.models import MemoryVersion
from tests.hard import oracle, world
from tests.hard.model_client import FakeModel, fake_model
from tests.hard.trees import Trees, kill, trees
from tests.processes import wait_until

NAME = "2 freeze"
SMALL_DATABASES = ("postgresql",)
LEASE = 1.0
ENVIRONMENT = {"MEMORYHUB_LEASE": "1", "MEMORYHUB_LLM_TIMEOUT": "0.9"}

# In the commit it holds the rows (on SQLite the database): nobody can overtake it there, so it is
# only frozen for longer than its lease. (There it can hold up others for so long that they lose their own
# leases: then more answers are refused than workers were frozen in a call.)
POINTS = ("in_call", "in_call", "in_call", "reply_saved", "before_claim", "in_commit")
PATIENCE = 240.0

Text = tuple[int, int, str]


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    plan = sorted(set(POINTS))  # a small run: each point once
    if full:
        times = 40 if database_url.startswith("sqlite") else 200
        plan = [POINTS[number % len(POINTS)] for number in range(times)]
    times = len(plan)
    chance = random.Random(seed)
    chance.shuffle(plan)
    with fake_model(work, seed=seed, latency=(0.01, 0.05)) as model:
        made = world.World()
        for number in range(2):
            made.add_workspace(f"w{number}", channels=5)
        orders = work / "orders"
        variables = world.environment(model, orders, MEMORYHUB_LLM_CONCURRENCY="1")
        with trees(work, variables) as running:
            running.start("worker")
            running.start("worker")
            wait_until(lambda: len(workers(running)) >= 4, "two clusters", PATIENCE)
            resumed: Counter[str] = Counter()
            stale = killed = 0
            for number, point in enumerate(plan):
                channels = [made.channels[number % 5], made.channels[5 + number % 5]]
                came_back, changed = freeze(point, number, channels, made, running, orders)
                resumed[point] += came_back
                killed += not came_back
                stale += changed
            world.offer(made.channels)
            wait_until(world.is_at_rest, "everything at rest", PATIENCE)
            left = running.stop()
        wrong = oracle.verdict(made.words, model.rows())
        rejected = answers_refused(model)
        return {
            "n": times,
            "resumed": dict(resumed),
            "killed_while_frozen": killed,
            "stale_writes": stale,
            "answers_refused": rejected,
            "left_alive": left,
            **wrong,
            "pass": not stale
            and not left
            and oracle.is_clean(wrong)
            and resumed.total() == times
            and rejected >= resumed["in_call"],
        }


def workers(running: Trees) -> list[int]:
    return [process.pid for process in running.processes() if process.role == "worker"]


def freeze(
    point: str,
    number: int,
    channels: list[Any],
    made: world.World,
    running: Trees,
    orders: Path,
) -> tuple[bool, int]:
    """Stop a worker at this point and continue it after its lease.

    Return whether it continued, and how many texts it changed then.
    """
    world.order(orders, point, f".{number}", "stop")
    for channel in channels:
        made.feed(channel, 2)
    world.offer(channels)

    def stopped_orders() -> list[Path]:
        return list(orders.glob(f"{point}.{number}.*.taken"))

    wait_until(with_offers(stopped_orders, channels), f"somebody at {point}", PATIENCE)
    pid = int(stopped_orders()[0].suffixes[-2].removeprefix("."))
    stood_still = time.monotonic()
    if point != "in_commit":
        wait_until(with_offers(world.is_at_rest, channels), "the others to do its work", PATIENCE)
    wait_until(lambda: time.monotonic() - stood_still > 1.5 * LEASE, "its lease to end", PATIENCE)
    before = texts()
    if not kill(pid, signal.SIGCONT):
        return False, 0
    came_back = wait_until_idle(pid)
    after = texts()
    if point == "in_commit":  # its own text is new; none that was there is another
        changed = sum(after.get(pk) != text for pk, text in before.items())
    else:
        changed = len(set(before.items()) ^ set(after.items()))
    wait_until(with_offers(world.is_at_rest, channels), "everything at rest", PATIENCE)
    return came_back, changed


def with_offers(holds: Callable[[], object], channels: list[Any]) -> Callable[[], object]:
    """The condition, and a pass offered each second that it does not hold."""
    offered = time.monotonic()

    def is_met() -> object:
        nonlocal offered
        if (result := holds()) or time.monotonic() - offered < 1:
            return result
        offered = time.monotonic()
        world.offer(channels)
        return False

    return is_met


def wait_until_idle(pid: int) -> bool:
    """Wait until the worker has finished its work; return False if it ended."""

    def is_idle() -> bool:
        try:
            return " ".join(psutil.Process(pid).cmdline()).rstrip().endswith("idle")
        except psutil.Error:
            return True

    wait_until(is_idle, "what was frozen to be idle", PATIENCE)
    return psutil.pid_exists(pid)


def texts() -> dict[int, Text]:
    """Return the text of every version by its primary key."""
    rows = MemoryVersion.objects.values_list("pk", "number", "revision", "content")
    return {pk: (number, revision, content) for pk, number, revision, content in rows}


def answers_refused(model: FakeModel) -> int:
    """Good answers to what was asked, and answered, before or after: one of them made the text."""
    answers = Counter(
        (row.words, row.existing, row.messages)
        for row in model.rows()
        if row.answered_at and not row.fault
    )
    return sum(count - 1 for count in answers.values())
