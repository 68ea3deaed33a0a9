"""Hard test 18: hard test 1 with Redis: killed at random, and at each of the five fail points."""

import shutil
from pathlib import Path
from typing import Any

from tests.hard.bar_redis import redis, run_with

NAME = "18 redis_kill"
SMALL_DATABASES = ()


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    if shutil.which("redis-server") is None:
        return {"n": 0, "not_run": "no redis-server in PATH"}
    with redis(work) as url:
        broker = {"MEMORYHUB_BROKER": url}
        return run_with(broker, "bar_kill", database_url, work, full=full, seed=seed)
