"""Hard test 7: a tenth of the calls fails and a hundredth hangs, and every message is remembered all the
same for little more. How far the quote of a backfill is away is told here, and judged beside the
yardstick (bench/backfill_cost.py).

Against the fake model of this folder; and, where BENCH names a yardstick folder (bench/yardstick.py
says what is in it), with its server, its slice and its replay: `make hard BENCH=FOLDER BAR=7`.
"""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from memories.models import Backfill, Job, MemoryVersion, Message, Workspace
from memories.pipeline.costs.estimate import estimate_backfill
from memories.pipeline.generate.backfill import run_backfill
from memories.pipeline.generate.passes import run_pass
from memories.rules.ingest.timestamps import to_micros
from tests.hard import oracle, world
from tests.hard.model_client import ROOT, FakeModel, fake_model
from tests.processes import clean_environment

NAME = "7 yardstick"
SMALL_DATABASES = ()
# Long enough for a busy machine, for calls are counted; what hangs costs so much each time.
ENVIRONMENT = {"MEMORYHUB_LLM_TIMEOUT": "5", "MEMORYHUB_LEASE": "10"}

KINDS = ("rate_limited", "server_error", "drop", "length", "empty")
FAULTS = {**dict.fromkeys(KINDS, 0.02), "hang": 0.01}
MAX_CALLS = 1.2  # times those of a run without faults
# Of a few dozen calls chance may spoil twice as many, so there the faults that there were are what
# is held against: each is asked once more, and the workspace's memory once more for who came late.
A_FAULT = 2  # calls
BENCHES = ("model_faults", "backfill_cost")


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    # Few segments each: a text of many lines the fake model writes shorter, for a person to see.
    channels, segments, seeds = (40, 3, 5) if full else (6, 3, 1)
    with fake_model(work, latency=(0.0, 0.02), retry_after=0.1) as model:
        settings.OPENAI_BASE_URL, settings.MEMORYHUB_MODEL = model.url, "fake"
        made = world.World()
        clean = lived_through(made, model, "clean", channels, segments)
        runs = []
        for number in range(seeds):
            model.configure(faults=FAULTS, seed=seed + number)
            runs.append(lived_through(made, model, f"seed{number}", channels, segments))
        model.configure(faults={})
        quoted, cost = backfilled(made, model, channels, segments)
        wrong = oracle.verdict(made.words, model.rows())
    calls = sum(run["calls"] for run in runs) / seeds
    faults = sum(run["faults"] for run in runs) / seeds
    most = MAX_CALLS * clean["calls"] if full else clean["calls"] + A_FAULT * faults
    missing = sum(run["missing"] for run in [clean, *runs])
    # On a database of its own, so once is enough.
    measured = beside_the_yardstick() if database_url.startswith("sqlite") else []
    return {
        "n": made.total,
        "calls": calls,
        "faults": faults,
        "calls_without_faults": clean["calls"],
        "ratio": round(calls / clean["calls"], 3),
        "missing": missing,
        "quoted_tokens": quoted,
        "tokens": cost,
        "quote_away": round(quoted / cost - 1, 3),
        "yardstick": measured or "not measured: BENCH=FOLDER, on SQLite",
        **wrong,
        "pass": missing == 0
        and calls <= most
        and all(row["pass"] for row in measured)
        and oracle.is_clean(wrong),
    }


def lived_through(
    made: world.World, model: FakeModel, slug: str, channels: int, segments: int
) -> dict[str, int]:
    """One more segment in each channel between two passes, as talk goes on."""
    places = made.add_workspace(slug, channels=channels)
    workspace, before = places[0].workspace, len(model.rows())
    for _ in range(segments):
        for channel in places:
            made.feed(channel)
        while run_pass(workspace, timezone.now()).left:
            pass  # what failed is due again after a moment
    rows = model.rows()[before:]
    faults = sum(row.fault != "" for row in rows)
    return {"calls": len(rows), "faults": faults, "missing": missing_of(workspace)}


def missing_of(workspace: Workspace) -> int:
    """Messages that no long-term memory has read."""
    read = MemoryVersion.objects.filter(merged=True, segment__isnull=False).values("segment")
    messages = Message.objects.filter(channel__workspace=workspace).rememberable()
    return messages.exclude(segment__in=read).count()


def backfilled(
    made: world.World, model: FakeModel, channels: int, segments: int
) -> tuple[int, int]:
    """The middle of the quoted tokens, and those that it then took."""
    places = made.add_workspace("before", channels=channels)
    now = timezone.now()
    for channel in places:
        made.feed(channel, segments)
        channel.start_us = channel.segments_from_us = to_micros(now + timedelta(hours=1))
        channel.save()
    workspace = places[0].workspace
    quote = estimate_backfill(workspace, places, 0, now).as_json()
    before = len(model.rows())
    backfill = Backfill.objects.start(
        workspace, places, since_us=0, until_us=to_micros(now), quote=quote, by=None
    )
    why = run_backfill(backfill, lambda: None)
    assert not why, why
    assert not Job.objects.of_workspace(workspace).unfinished().exists()
    rows = model.rows()[before:]
    cost = sum(row.prompt_tokens + row.completion_tokens for row in rows)
    return round(quote["total"]["tokens"]["middle"]), cost


def beside_the_yardstick() -> list[dict[str, Any]]:
    folder = os.environ.get("BENCH", "")
    if not folder:
        return []
    results = []
    plain = clean_environment()
    for name in BENCHES:
        command = [sys.executable, "-m", f"bench.{name}", folder]
        done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True)
        lines = done.stdout.strip().splitlines()
        row: dict[str, Any] = json.loads(lines[-1]) if lines else {"bench": name}
        results.append({"pass": False, **row})
    return results
