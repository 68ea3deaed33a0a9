"""What a tenth of failing calls and a hundredth of hanging ones cost, beside calls that never fail.

    python -m bench.model_faults FOLDER

FOLDER as for model_cost. The slice is lived through by hourly passes, without faults and with five
seeds of them; afterwards every message must be in a long-term memory. Prints one JSON line and exits
with 1 when a message is missing or the mean of the seeds takes more than 1.2 times the calls.
"""

import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.yardstick import control, imported_slice, report, yardstick

SEEDS = 5
RATES = {"rate_429": 0.02, "rate_500": 0.02, "rate_cut": 0.02, "rate_trunc": 0.02}
RATES |= {"rate_empty": 0.02, "rate_hang": 0.01, "retry_after": 0.1}
TIMEOUT = 2  # seconds
MOST_CALLS = 1.2  # times those without faults


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    os.environ |= {"MEMORYHUB_LLM_TIMEOUT": str(TIMEOUT), "MEMORYHUB_BACK_OFF": "0.1"}
    with tempfile.TemporaryDirectory() as scratch, yardstick(folder, Path(scratch)) as url:
        work = Path(scratch)
        clean = lived_through(work, url, "clean")
        runs = []
        for seed in range(SEEDS):
            control(url, "__config", {**RATES, "seed": seed})
            runs.append(lived_through(work, url, f"seed-{seed}"))
    calls = sum(run["calls"] for run in runs) / SEEDS
    missing = sum(run["missing"] for run in [clean, *runs])
    row = report(
        "a tenth of the calls fails, a hundredth hangs",
        passed=missing == 0 and calls <= MOST_CALLS * clean["calls"],
        calls=calls,
        calls_without_faults=clean["calls"],
        ratio=round(calls / clean["calls"], 3),
        missing=missing,
        faults=[run["faults"] for run in runs],
        seconds=[run["seconds"] for run in [clean, *runs]],
    )
    return 0 if row["pass"] else 1


def lived_through(work: Path, url: str, slug: str) -> dict[str, Any]:
    from common import load
    from replay import ticks

    from memories.models import MemoryVersion, Message
    from memories.pipeline.generate.passes import run_pass

    workspace = imported_slice(work, slug, "all")
    control(url, "__reset")
    began = time.monotonic()
    for moment in ticks(load(work / "slice"), 3600):
        while run_pass(workspace, datetime.fromtimestamp(moment, UTC)).left:
            pass  # what failed is due again after a moment
    stats = control(url, "__stats")
    messages = Message.objects.filter(channel__workspace=workspace).rememberable()
    read = MemoryVersion.objects.filter(merged=True, segment__isnull=False).values("segment")
    return {
        "calls": stats["by_path"]["chat/completions"]["calls"],
        "faults": stats["faults"],
        "missing": messages.exclude(segment__in=read).count(),
        "seconds": round(time.monotonic() - began, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
