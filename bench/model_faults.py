"""Measure the extra calls if a tenth of the calls fails and a hundredth hangs.

    python -m bench.model_faults FOLDER

yardstick.py describes FOLDER. Hourly passes remember the slice, without faults and with five seeds of
faults. The command prints a JSON line. It exits with 1 if a message is missing in the long-term memories,
or if the mean of the seeds exceeds 1.2 times the calls without faults.
"""

import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.yardstick import control, import_slice, report, yardstick

SEEDS = 5
RATES = {"rate_429": 0.02, "rate_500": 0.02, "rate_cut": 0.02, "rate_trunc": 0.02}
RATES |= {"rate_empty": 0.02, "rate_hang": 0.01, "retry_after": 0.1}
TIMEOUT = 2  # seconds
MAX_CALL_RATIO = 1.2  # to the calls without faults


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    os.environ |= {"MEMORYHUB_LLM_TIMEOUT": str(TIMEOUT), "MEMORYHUB_BACK_OFF": "0.1"}
    with tempfile.TemporaryDirectory() as scratch, yardstick(folder, Path(scratch)) as url:
        work = Path(scratch)
        clean = run_passes(work, url, "clean")
        runs = []
        for seed in range(SEEDS):
            control(url, "__config", {**RATES, "seed": seed})
            runs.append(run_passes(work, url, f"seed-{seed}"))
    calls = sum(run["calls"] for run in runs) / SEEDS
    missing = sum(run["missing"] for run in [clean, *runs])
    row = report(
        "a tenth of the calls fails, a hundredth hangs",
        passed=missing == 0 and calls <= MAX_CALL_RATIO * clean["calls"],
        calls=calls,
        calls_without_faults=clean["calls"],
        ratio=round(calls / clean["calls"], 3),
        missing=missing,
        faults=[run["faults"] for run in runs],
        seconds=[run["seconds"] for run in [clean, *runs]],
    )
    return 0 if row["pass"] else 1


def run_passes(work: Path, url: str, slug: str) -> dict[str, Any]:
    from common import load
    from replay import ticks

    from memories.models import MemoryVersion, Message
    from memories.pipeline.generate.passes import run_pass

    workspace = import_slice(work, slug, "all")
    control(url, "__reset")
    began = time.monotonic()
    for moment in ticks(load(work / "slice"), 3600):
        while run_pass(workspace, datetime.fromtimestamp(moment, UTC)).left:
            pass  # failed jobs are due again after a moment
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
