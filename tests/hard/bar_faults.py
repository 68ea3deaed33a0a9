"""Hard test 4: every fault a model can have, at random and from 16 workers at once, under budgets.

No bad text is saved, no head is lost, the ledger never shows more than the budget, and after the fifth
failure in a row no call begins.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.utils import timezone

from memories.models import Budget, Channel, Endpoint, Job, Message
from memories.pipeline.memory import proposals
from memories.rules.generate.circuit_breaker import MAX_FAILURES
from tests.hard import oracle, world
from tests.hard.fake_model import FAULTS
from tests.hard.model_client import FakeModel, RecordedCall, fake_model
from tests.hard.trees import trees

NAME = "4 faults"
SMALL_DATABASES = ()
IS_TIMED = True
# Sixteen workers begin slowly on two cores, and their calls are as slow as those cores, so that all
# of them are under way together.
ENVIRONMENT = {
    "MEMORYHUB_HEARTBEAT": "15",
    "MEMORYHUB_LLM_TIMEOUT": "2",
    "MEMORYHUB_LEASE": "6",
}
LATENCY = {True: (0.3, 0.9), False: (0.02, 0.1)}  # seconds

WORKERS = {True: 16, False: 4}
SHARE = {True: 0.01, False: 0.02}  # of all calls, for each kind
STEPS = 4  # in which the budget is raised
HARMLESS = ("", "malformed_refs")  # these texts are good, whatever their references say
PATIENCE = 180.0  # seconds in which something must move
SLOW_BACK_OFF = 12.0  # seconds: the breaker's pause, long enough to be seen
ON_THE_WAY = 1.0  # seconds that a call which had begun may take to the server


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    calls, workers = 10_000 if full else 60, WORKERS[full]
    if full and database_url.startswith("sqlite"):
        calls = 2_000
    with fake_model(work, seed=seed, latency=LATENCY[full], retry_after=0.05) as model:
        made = world.World()
        spaces = workers
        channels = [
            channel
            for number in range(spaces)
            for channel in made.add_workspace(f"w{number}", channels=4 if full else 1)
        ]
        random.Random(seed).shuffle(channels)
        model.configure(faults=dict.fromkeys(FAULTS, SHARE[full]))
        with trees(work, environment(work, model, workers)) as running:
            running.start("worker")
            over_budget = spend_in_steps(made, model, channels, calls)
            model.configure(faults={})
            for channel in channels:  # what a rejected text would have taken in goes into the next
                made.feed(channel)
            operate(channels, lambda: world.is_at_rest(channels), "everything to come to rest")
            left = running.stop()
        rows, together = model.rows(), model.stats()["most_in_flight"]
        wrong = verdict(made, rows)
        kinds = {row.fault for row in rows} - {""}
        faults = sum(row.fault != "" for row in rows)
        reckless = breaker(work, model, made, channels, workers)
        return {
            "n": len(rows),
            "faults": faults,
            "kinds": len(kinds),
            "budgets": over_budget,
            "overshot": max(used - budget for budget, used, _ in over_budget),
            "most_in_flight": together,
            "breaker": reckless,
            "left_alive": left,
            **wrong,
            "pass": oracle.is_clean(wrong)
            and not left
            and all(used <= budget for budget, used, _ in over_budget)
            and any(refused for _, _, refused in over_budget)
            and len(rows) >= calls
            and (not full or (together >= workers - 2 and reckless["late"] == 0))
            and len(kinds) >= (14 if full else 4)
            and reckless["answered_before"] >= MAX_FAILURES
            and reckless["calls"] <= MAX_FAILURES + workers - 1,
        }


def environment(work: Path, model: FakeModel, workers: int, **variables: str) -> dict[str, str]:
    own = {"MEMORYHUB_LLM_CONCURRENCY": "1", "MEMORYHUB_WORKERS": str(workers)}
    return world.environment(model, work / "orders", **own, **variables)


def spend_in_steps(
    made: world.World, model: FakeModel, channels: Sequence[Channel], calls: int
) -> list[tuple[int, int, int]]:
    """Work for at least so many calls, under a budget that is raised whenever it stops everything;
    (budget, used, refused) at each stop, used as the ledger has it."""
    segments = math.ceil(calls / 2 / len(channels)) + 1
    for channel in channels:
        made.feed(channel, segments)
    stops: list[tuple[int, int, int]] = []
    step = calls // 2 * 300 // (STEPS + 1)
    for number in range(1, STEPS + 1):
        budget = number * step
        Budget.objects.change(None, "month", by=None, tokens=budget)
        world.offer(channels)
        operate(
            channels, lambda: is_held(model), f"the budget of {budget} to hold, or all to be done"
        )
        refused = Job.objects.unfinished().over_budget().count()
        stops.append((budget, spent(model), refused))
    Budget.objects.change(None, "month", by=None, tokens=None)
    world.offer(channels)
    operate(channels, lambda: world.is_at_rest(channels), "everything to come to rest")
    while len(model.rows()) < calls:  # the slower the machine, the more one merge takes in
        for channel in channels:
            made.feed(channel, 2)
        world.offer(channels)
        operate(channels, lambda: world.is_at_rest(channels), "the rest to come to rest")
    return stops


def spent(model: FakeModel) -> int:
    stats = model.stats()
    return int(stats["prompt_tokens"]) + int(stats["completion_tokens"])


def is_held(model: FakeModel) -> bool:
    """Nobody asks, and whoever would is refused by the budget; or nothing is left."""
    if model.stats()["in_flight"] or Job.objects.filter(state="claimed").exists():
        return False
    if Message.objects.filter(segment=None).exists():
        return False
    unfinished = Job.objects.unfinished()
    claimable = Job.objects.claimable(timezone.now())
    return not claimable.exists() and (
        unfinished.over_budget().exists() or not unfinished.filter(state="waiting").exists()
    )


def operate(channels: Sequence[Channel], holds: Callable[[], bool], what: str) -> None:
    """What an operator does meanwhile: says go on after a wrong key, retries dead letters, rejects
    texts that would lose most of what was known."""
    deadline = time.monotonic() + PATIENCE
    looked = 0.0
    left = None
    while not holds():
        for endpoint in Endpoint.objects.filter(needs_person=True):
            endpoint.resume(None)
        if time.monotonic() - looked > 1:
            looked = time.monotonic()
            world.retry_the_dead()
            for proposal in Job.objects.proposed().with_memory():
                proposals.reject(proposal, by=None)
            world.offer(channels)
        if (now_left := Job.objects.unfinished().count()) != left:
            left, deadline = now_left, time.monotonic() + PATIENCE
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE:.0f} s in vain: {what}")
        time.sleep(0.2)  # each look is half a dozen statements, of processor time that others need


def verdict(made: world.World, ledger: Sequence[RecordedCall]) -> dict[str, Any]:
    """The oracle's, with faults that leave a text good taken for none."""
    calls = [row if row.fault not in HARMLESS else replace(row, fault="") for row in ledger]
    return oracle.verdict(made.words, calls)


def breaker(
    work: Path, model: FakeModel, made: world.World, channels: Sequence[Channel], workers: int
) -> dict[str, Any]:
    """From now on everything fails: the calls that reach the server, and those that begin after
    the fifth failure was answered."""
    Endpoint.objects.update(failures=0, open_until=None, times_opened=0)
    slow = environment(work, model, workers, MEMORYHUB_BACK_OFF=str(SLOW_BACK_OFF))
    with trees(work, slow) as running:
        running.start("worker")
        # Each new process loads the client with its first call, which takes long side by side.
        for channel in channels:
            made.feed(channel)
        operate(channels, lambda: world.is_at_rest(channels), "the new processes to have called")
        model.configure(faults={"server_error": 1.0})
        before = len(model.rows())
        for channel in channels:
            made.feed(channel, 2)
        world.offer(channels)
        opened = wait_for_the_breaker()
        rows = model.rows()[before:]
        running.stop()
    answered = sum(row.answered_at is not None and row.answered_at <= opened for row in rows)
    late = sum(row.at > opened + ON_THE_WAY for row in rows)
    return {"calls": len(rows), "answered_before": answered, "late": late}


def wait_for_the_breaker() -> float:
    """Until it is open, and for two thirds of its pause; when that was seen."""
    deadline = time.monotonic() + PATIENCE
    while not Endpoint.objects.filter(failures__gte=MAX_FAILURES).exists():
        if time.monotonic() > deadline:
            raise AssertionError("the breaker never opened")
        time.sleep(0.02)
    opened = time.time()  # as the ledger tells time
    time.sleep(SLOW_BACK_OFF * 2 / 3)
    return opened
