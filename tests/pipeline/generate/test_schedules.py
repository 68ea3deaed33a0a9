"""Segments and sources are the same, however often passes run (rule 1)."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BEGIN = 1_767_600_000  # 2026-01-05
WORDS = (
    "we ship the blue door on friday after mika signs the long plan for the quiet garden".split()
)


def write_export(folder: Path, days: int) -> None:
    """Write three channels with bursts of messages and threads."""
    rng = random.Random(7)
    folder.mkdir()
    channels = [{"id": f"C00{n}", "name": f"room{n}", "created": BEGIN} for n in range(3)]
    (folder / "channels.json").write_text(json.dumps(channels))
    (folder / "users.json").write_text(json.dumps([{"id": "U1", "name": "mika"}]))
    for channel in channels:
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
        (folder / channel["name"]).mkdir()
        (folder / channel["name"] / "2026-01-05.json").write_text(json.dumps(messages))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("days", "intervals"),
    [
        (1, (14_400, 0)),
        pytest.param(3, (600, 3600, 0), marks=pytest.mark.nightly("over 500 passes")),
    ],
)
def test_segments_do_not_depend_on_the_schedule(
    days: int, intervals: tuple[int, ...], migrated_urls: Iterator[str], tmp_path: Path
) -> None:
    write_export(tmp_path / "export", days)
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
        for seconds in intervals
    ]
    *others, once = (json.loads(run.communicate()[0]) for run in runs)
    assert len(once) > 6 * days
    assert {segment[5] for segment in once} == {"full", "idle"}
    assert all(segment[8] for segment in once)
    assert all(segments == once for segments in others)
