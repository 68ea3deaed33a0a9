"""A backfill of the slice from an empty database: its time beside the yardstick's, its quote beside
what it then cost.

    python -m bench.backfill_cost FOLDER

FOLDER as for model_cost; the server answers after 0.2 s, eight calls go side by side. Starting the
process and loading the client are not counted, on either side. Best of three rounds each. Prints one
JSON line and exits with 1 when it takes more than 1.5 times as long, or the middle of the quoted
tokens is more than 15 % away.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.yardstick import control, imported_slice, replayed, report, yardstick

ROUNDS = 3
LATENCY = 0.2  # seconds
MOST_SECONDS = 1.5  # times the yardstick's
MOST_AWAY = 0.15  # of the tokens


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch, yardstick(folder, Path(scratch)) as url:
        work = Path(scratch)
        control(url, "__config", {"latency": LATENCY})
        warm_up()
        floors, rounds = [], []
        for number in range(ROUNDS):
            floors.append(replayed(folder, work, url, "backfill"))
            rounds.append(remembered(work, url, f"round-{number}"))
    floor = min(one["wall_s"] for one in floors)
    seconds = min(one["seconds"] for one in rounds)
    first = rounds[0]  # nothing is measured yet: the hardest quote
    away = [one["quoted"] / one["tokens"] - 1 for one in rounds]
    row = report(
        "backfill of the slice",
        passed=seconds <= MOST_SECONDS * floor and all(abs(a) <= MOST_AWAY for a in away),
        seconds=[one["seconds"] for one in rounds],
        yardstick_seconds=[one["wall_s"] for one in floors],
        ratio=round(seconds / floor, 2),
        calls=first["calls"],
        yardstick_calls=floors[0]["llm_calls"],
        tokens=[one["tokens"] for one in rounds],
        quoted=[one["quoted"] for one in rounds],
        quote_away=[round(a, 3) for a in away],
        quote_seconds=[one["quote_seconds"] for one in rounds],
    )
    return 0 if row["pass"] else 1


def warm_up() -> None:
    """Load the client: half a second that belongs to the start of a process."""
    import openai  # noqa: F401  # loading it is the point


def remembered(work: Path, url: str, slug: str) -> dict[str, Any]:
    from django.utils import timezone

    from memories.models import Backfill
    from memories.pipeline.costs.estimate import estimate_backfill
    from memories.pipeline.generate.backfill import carry_out
    from memories.rules.ingest.timestamps import to_micros

    workspace = imported_slice(work, slug, "none")
    channels = list(workspace.channels.all())
    control(url, "__reset")
    began = time.monotonic()
    now = timezone.now()
    quote = estimate_backfill(workspace, channels, 0, now).as_json()
    quoted_at = time.monotonic()
    backfill = Backfill.objects.start(
        workspace, channels, since_us=0, until_us=to_micros(now), quote=quote, by=None
    )
    assert carry_out(backfill, lambda: None) == ""
    seconds = time.monotonic() - quoted_at
    stats = control(url, "__stats")["by_path"]["chat/completions"]
    assert backfill.state == Backfill.State.DONE, backfill.state
    return {
        "seconds": round(seconds, 2),
        "quote_seconds": round(quoted_at - began, 2),
        "calls": stats["calls"],
        "tokens": stats["prompt_tokens"] + stats["completion_tokens"],
        "quoted": quote["total"]["tokens"]["middle"],
    }


if __name__ == "__main__":
    sys.exit(main())
