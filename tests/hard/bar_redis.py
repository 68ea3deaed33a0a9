"""Hard test 9: with Redis as the broker, hard test 3 passes as with the database, and a cluster that
hangs is started anew within two heartbeats. Hard test 18 is hard test 1 with Redis."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from django.core.management import call_command

from memories.models import Heartbeat
from tests.hard import world
from tests.hard.frame import run_apart
from tests.hard.model_client import fake_model
from tests.hard.trees import Trees, kill, trees
from tests.processes import wait_until

NAME = "9 redis"
SMALL_DATABASES = ()
IS_TIMED = True

WORKERS = 2  # as the frame has it
HEARTBEAT = 2.0  # seconds
BUSY = 1.0  # seconds that a busy machine may take to do what was decided
PATIENCE = 120.0
MAX_STRIKES = 20


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    """A small run leaves out the poison, which does not depend on the broker."""
    if shutil.which("redis-server") is None:
        return {"n": 0, "not_run": "no redis-server in PATH"}
    with redis(work) as url:
        broker = {"MEMORYHUB_BROKER": url}
        poison: dict[str, Any] = {"n": 0, "pass": True}
        if full:
            poison = run_with(broker, "bar_poison", database_url, work, full=full, seed=seed)
            call_command("flush", interactive=False, verbosity=0)
        hangs = {
            how: hang(work, how, variables) for how, variables in (("frozen", {}), ("deaf", broker))
        }
    return {
        "n": poison.get("n", 0),
        "poison": poison,
        "hangs": hangs,
        "pass": poison["pass"]
        and all(
            not hung["left_alive"] and (not full or hung["in_time"]) for hung in hangs.values()
        ),
    }


def run_with(
    broker: Mapping[str, str], stem: str, database_url: str, work: Path, *, full: bool, seed: int
) -> dict[str, Any]:
    """Another hard test with this broker, in a process of its own."""
    place = work / stem
    place.mkdir()
    return run_apart(
        stem, database_url, place, full=full, seed=seed, environment=dict(broker), var_of=work
    )


@contextlib.contextmanager
def redis(work: Path) -> Iterator[str]:
    """A server on loopback that keeps nothing."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (work / "redis.log").open("wb") as log:
        process = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
            + ["--appendonly", "no", "--dir", os.fspath(work)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        wait_until(answers, "the Redis server", PATIENCE)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def hang(work: Path, how: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """Make a cluster live without working, and see how soon it is replaced and works again.

    ``frozen``: all its processes stand still. ``deaf``: its idle workers are killed, and one of them
    takes the lock of the queue along: those who follow wait for ever.
    """
    place = work / how
    place.mkdir()
    with fake_model(place) as model:
        own = {**variables, "MEMORYHUB_HEARTBEAT": str(HEARTBEAT)}
        environment = world.environment(model, place / "orders", **own)
        with trees(place, environment) as running:
            root = running.start("worker")
            first_signs = last_sign()
            wait_until(lambda: last_sign() != first_signs, "a sign of life", PATIENCE)
            [main] = pids(running, "main")

            def is_replaced(main: int = main) -> bool:
                return bool(set(pids(running, "main")) - {main})

            # A cluster whose workers die in the middle of a task recovers by itself: only where
            # one of them held the queue's lock it hangs. So until it does.
            for _ in range(MAX_STRIKES):
                strike(running, root, how)
                began, signs = time.monotonic(), last_sign()
                wait_until(
                    lambda signs=signs: is_replaced() or last_sign() != signs,
                    "a new cluster, or a sign of the old one",
                    PATIENCE,
                )
                if is_replaced():
                    break
            wait_until(is_replaced, "a new cluster", PATIENCE)
            back = time.monotonic() - began
            signs = last_sign()
            wait_until(lambda: last_sign() != signs, "a new sign of life", PATIENCE)
            works = time.monotonic() - began
            left = running.stop()
    return {
        "started_again_after": round(back, 2),
        "works_again_after": round(works, 2),
        "heartbeat": HEARTBEAT,
        "in_time": back <= 2 * HEARTBEAT + BUSY and works <= 3 * HEARTBEAT + BUSY,
        "left_alive": left,
    }


def strike(running: Trees, root: int, how: str) -> None:
    """Stop all of the cluster where it stands, or kill its workers while they wait for a task: one
    of them holds the lock then."""
    if how == "frozen":
        for process in running.processes():
            if process.pid != root and process.role != "watcher":
                kill(process.pid, signal.SIGSTOP)
    else:
        waiting: list[int] = []
        with contextlib.suppress(AssertionError):  # then whoever there is
            wait_until(lambda: waiting.extend(idle(running)) or waiting, "idle workers", HEARTBEAT)
        for pid in waiting or pids(running, "worker"):
            kill(pid)


def idle(running: Trees) -> list[int]:
    """All of its workers, as soon as each of them waits for a task; before that none."""
    workers = pids(running, "worker")
    with contextlib.suppress(psutil.Error):
        titles = [" ".join(psutil.Process(pid).cmdline()) for pid in workers]
        if len(workers) == WORKERS and all(title.rstrip().endswith(" idle") for title in titles):
            return workers
    return []


def pids(running: Trees, role: str) -> list[int]:
    return [process.pid for process in running.processes() if process.role == role]


def last_sign() -> Any:
    return Heartbeat.objects.last_beat()
