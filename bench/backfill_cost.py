"""Compare a backfill with the yardstick's time, and its estimate with its cost.

    python -m bench.backfill_cost FOLDER

FOLDER is that of model_cost. The server responds after 0.2 s, with eight parallel calls. The start of the
process and the import of the client do not count. The best of three rounds counts. The command prints a
JSON line. It exits with 1 if the time is more than 1.5 times that of the yardstick, or if the tokens differ
by more than 15 % from the middle of the estimate.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.yardstick import control, import_slice, report, run_replay, yardstick

ROUNDS = 3
LATENCY = 0.2  # seconds
MAX_TIME_RATIO = 1.5  # to the yardstick
MAX_TOKEN_ERROR = 0.15


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch, yardstick(folder, Path(scratch)) as url:
        work = Path(scratch)
        control(url, "__config", {"latency": LATENCY})
        warm_up()
        floors, rounds = [], []
        for number in range(ROUNDS):
            floors.append(run_replay(folder, work, url, "backfill"))
            rounds.append(run_backfill(work, url, f"round-{number}"))
    floor = min(row["wall_s"] for row in floors)
    seconds = min(row["seconds"] for row in rounds)
    first = rounds[0]  # without earlier calls, so the estimate is the hardest
    errors = [row["quoted"] / row["tokens"] - 1 for row in rounds]
    row = report(
        "backfill of the slice",
        passed=seconds <= MAX_TIME_RATIO * floor
        and all(abs(error) <= MAX_TOKEN_ERROR for error in errors),
        seconds=[row["seconds"] for row in rounds],
        yardstick_seconds=[row["wall_s"] for row in floors],
        ratio=round(seconds / floor, 2),
        calls=first["calls"],
        yardstick_calls=floors[0]["llm_calls"],
        tokens=[row["tokens"] for row in rounds],
        quoted=[row["quoted"] for row in rounds],
        estimate_away=[round(error, 3) for error in errors],
        estimate_seconds=[row["estimate_seconds"] for row in rounds],
    )
    return 0 if row["pass"] else 1


def warm_up() -> None:
    """Import the client, which takes half a second."""
    import openai  # noqa: F401


def run_backfill(work: Path, url: str, slug: str) -> dict[str, Any]:
    from django.utils import timezone

    from memories.models import Backfill
    from memories.pipeline.costs.estimate import estimate_backfill
    from memories.pipeline.generate.backfill import run_backfill
    from memories.rules.ingest.timestamps import to_micros

    workspace = import_slice(work, slug, "none")
    channels = list(workspace.channels.all())
    control(url, "__reset")
    began = time.monotonic()
    now = timezone.now()
    estimate = estimate_backfill(workspace, channels, 0, now).as_json()
    quoted_at = time.monotonic()
    backfill = Backfill.objects.start(
        workspace, channels, since_us=0, until_us=to_micros(now), estimate=estimate, by=None
    )
    assert run_backfill(backfill, lambda: None) == ""
    seconds = time.monotonic() - quoted_at
    stats = control(url, "__stats")["by_path"]["chat/completions"]
    assert backfill.state == Backfill.State.DONE, backfill.state
    return {
        "seconds": round(seconds, 2),
        "estimate_seconds": round(quoted_at - began, 2),
        "calls": stats["calls"],
        "tokens": stats["prompt_tokens"] + stats["completion_tokens"],
        "quoted": estimate["total"]["tokens"]["middle"],
    }


if __name__ == "__main__":
    sys.exit(main())
