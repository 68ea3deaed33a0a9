"""Segments and sources are the same, however often passes run (rule 1)."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from tests.pipeline.replay import replay

ROOT = Path(__file__).resolve().parents[3]
BEGIN = 1_767_600_000  # 2026-01-05
WORDS = (
    "we ship the blue door on friday after mika signs the long plan for the quiet garden".split()
)


def write_export(folder: Path, days: int, channels: int) -> None:
    """Write channels with bursts of messages and threads."""
    rng = random.Random(7)
    folder.mkdir()
    rooms = [{"id": f"C00{n}", "name": f"room{n}", "created": BEGIN} for n in range(channels)]
    (folder / "channels.json").write_text(json.dumps(rooms))
    (folder / "users.json").write_text(json.dumps([{"id": "U1", "name": "mika"}]))
    for room in rooms:
        at, messages = BEGIN + rng.randrange(3600), []
        while at < BEGIN + days * 86_400:
            for _ in range(rng.choice([1, 3, 20, 70])):
                at += rng.randrange(1, 300)
                text = " ".join(rng.sample(WORDS, 8))
                message = {"type": "message", "user": "U1", "ts": f"{at}.000100", "text": text}
                if messages and rng.random() < 0.3:
                    root = rng.choice(messages[-5:])
                    message["thread_ts"] = root.setdefault("thread_ts", root["ts"])
                messages.append(message)
            at += rng.choice([600, 7100, 7300, 30_000])
        (folder / room["name"]).mkdir()
        (folder / room["name"] / "2026-01-05.json").write_text(json.dumps(messages))


def check(once: list[Any], others: Iterable[list[Any]], at_least: int) -> None:
    assert len(once) > at_least
    assert {segment[5] for segment in once} == {"full", "idle"}
    assert all(segment[8] for segment in once)
    assert all(segments == once for segments in others)


@pytest.mark.slow
@pytest.mark.django_db
def test_segments_of_a_day_do_not_depend_on_the_schedule(tmp_path: Path) -> None:
    write_export(tmp_path / "export", days=1, channels=1)
    summaries = []
    for seconds in (14_400, 0):
        with transaction.atomic():
            summaries.append(replay(str(tmp_path / "export"), seconds))
            transaction.set_rollback(True)
    some, once = summaries
    check(once, [some], at_least=2)


@pytest.mark.slow
@pytest.mark.nightly("over 500 passes")
@pytest.mark.timeout(600)
def test_segments_do_not_depend_on_the_schedule(
    migrated_urls: Iterator[str], tmp_path: Path
) -> None:
    write_export(tmp_path / "export", days=3, channels=3)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI", "MEMORYHUB"))}
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.replay", str(tmp_path / "export"), str(seconds)],
            cwd=ROOT,
            env=environment
            | {
                "DATABASE_URL": next(migrated_urls),
                "MEMORYHUB_VAR": str(tmp_path / f"var{seconds}"),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for seconds in (600, 3600, 0)
    ]
    *others, once = (json.loads(run.communicate()[0]) for run in runs)
    check(once, others, at_least=18)
