"""Hard test 3: poison among good jobs: these do not wait for it, and it ends as a dead letter.

At full size the same amount of good work is done twice by the same trees, first alone, then with
poison among it, and the seconds are compared. A small run does the second part alone. A poisonous segment stands in a channel of its own, for in one channel a later text waits for an
earlier one by rule. Half of the poison kills its worker at each claim, half is never answered well.
"""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from memories.models import Channel, Job
from memories.pipeline.generate.plan import plan_channel
from tests.hard import oracle, world
from tests.hard.bar_freeze import with_offers, workers
from tests.hard.model_client import FakeModel, fake_model
from tests.hard.trees import Trees, trees
from tests.processes import wait_until

NAME = "3 poison"
SMALL_DATABASES = ()
IS_TIMED = True

CLAIMS = 5
MAX_RATIO = 1.5  # times the seconds without poison
PATIENCE = 600.0


@dataclass(frozen=True)
class Round:
    seconds: float  # until the good ones were at rest
    good: Sequence[Channel]
    killers: Sequence[int]  # jobs
    failures: Sequence[int]


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    good, poison = (1000, 20) if full else (10, 2)
    if full and database_url.startswith("sqlite"):
        good, poison = 200, 4
    chance = random.Random(seed)
    with fake_model(work, seed=seed, latency=(0.1, 0.3)) as model:
        made = world.World()
        orders = work / "orders"
        variables = world.environment(model, orders, MEMORYHUB_LLM_CONCURRENCY="2")
        with trees(work, variables) as running:
            clusters = 2 if full else 1
            for _ in range(clusters):
                running.start("worker")
            wait_until(lambda: len(workers(running)) >= 2 * clusters, "all workers", PATIENCE)
            stage = Stage(made, model, running, orders, chance)
            clean = None
            if full:
                stage.play("warm", 20, 0)  # the first pass of each worker loads what it needs
                clean = stage.play("clean", good, 0)
            mixed = stage.play("mixed", good, poison)
            wait_until(with_offers(world.is_at_rest, made.channels), "the end", PATIENCE)
            left = running.stop()
        result = figures(made, model, mixed)
        in_time = True
        if clean:
            result |= {
                "clean_seconds": round(clean.seconds, 2),
                "ratio": round(mixed.seconds / clean.seconds, 2),
            }
            in_time = result["ratio"] <= MAX_RATIO
        return result | {"pass": result["pass"] and in_time and not left, "left_alive": left}


@dataclass
class Stage:
    made: world.World
    model: FakeModel
    running: Trees
    orders: Path
    chance: random.Random

    def play(self, slug: str, good: int, poison: int) -> Round:
        """So many good segments, five in a channel, and so much poison among them."""
        spaces = max(2, good // 100)
        channels = [
            channel
            for number in range(spaces)
            for channel in self.made.add_workspace(
                f"{slug}{number}", channels=good // 5 // spaces + poison // spaces
            )
        ]
        self.chance.shuffle(channels)
        healthy, failing = channels[poison:], channels[:poison]
        order = list(channels)
        self.chance.shuffle(order)
        with transaction.atomic():  # the orders are given before anybody sees the work
            words = {c.pk: self.made.feed(c, 1 if c in failing else 5) for c in order}
            for channel in order:
                plan_channel(channel.pk, timezone.now())
            rows = [Job.objects.get(memory__channel=channel).pk for channel in failing]
            killers, failures = rows[: poison // 2], rows[poison // 2 :]
            for pk in killers:
                world.order(self.orders, "in_call", f"@{pk}")
            bad = [words[channel.pk][0] for channel in failing[poison // 2 :]]
            self.model.configure(words=dict.fromkeys(bad, "empty"))
        for channel in failing:
            del self.made.words[channel.pk]
        began = time.monotonic()
        world.offer(channels)
        wait_until(
            with_offers(lambda: world.is_at_rest(healthy), channels), "the good ones", PATIENCE
        )
        return Round(time.monotonic() - began, healthy, killers, failures)


def figures(made: world.World, model: FakeModel, mixed: Round) -> dict[str, Any]:
    poison = Job.objects.filter(pk__in=[*mixed.killers, *mixed.failures])
    claims = [job.model_calls.count() for job in poison]
    dead = poison.filter(state=Job.State.DEAD).exclude(fault="").exclude(fault_text="")
    all_dead = Job.objects.filter(state=Job.State.DEAD)
    good_dead = all_dead.exclude(pk__in=poison.values("pk")).count()
    wrong = oracle.verdict(made.words, model.rows())
    return {
        "n": len(mixed.good) * 5,
        "poison": len(claims),
        "mixed_seconds": round(mixed.seconds, 2),
        "claims": sorted(claims),
        "dead": dead.count(),
        "reasons": dict(Counter(dead.values_list("fault", flat=True))),
        "good_dead": good_dead,
        **wrong,
        "pass": claims == [CLAIMS] * len(claims)
        and dead.count() == len(claims) > 0
        and not good_dead
        and oracle.is_clean(wrong),
    }
