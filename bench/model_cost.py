"""Compare the calls, prompt tokens and seconds of passes with the yardstick's minimum.

    python -m bench.model_cost FOLDER

yardstick.py describes FOLDER. The command prints a JSON line for each measurement, and exits with 1 if one
exceeds its limit.
"""

import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.yardstick import control, import_slice, report, run_replay, yardstick

MAX_TOKEN_RATIO = 1.5  # to the minimum of prompt tokens
MAX_SECONDS = 4.0  # for a chain of three calls of one second


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch, yardstick(folder, Path(scratch)) as url:
        work = Path(scratch)
        results = [tokens_beside_floor(work, url, folder, interval) for interval in (3600, 600)]
        results.append(ten_channels(url))
    return 0 if all(result["pass"] for result in results) else 1


def tokens_beside_floor(work: Path, url: str, folder: Path, interval: int) -> dict[str, Any]:
    from common import load
    from replay import ticks

    from memories.models import Job, Message
    from memories.pipeline.generate.passes import run_pass

    floor = run_replay(folder, work, url, "floor", "--split", "--interval", str(interval))
    workspace = import_slice(work, f"every-{interval}", "all")
    control(url, "__reset")
    began = time.monotonic()
    for moment in ticks(load(work / "slice"), interval):
        run_pass(workspace, datetime.fromtimestamp(moment, UTC))
    seconds = time.monotonic() - began
    stats = control(url, "__stats")["by_path"]["chat/completions"]
    done = Job.objects.of_workspace(workspace).filter(state="done")
    segments = done.filter(segment__isnull=False)
    read = sum(segments.values_list("segment__message_count", flat=True))
    messages = Message.objects.filter(channel__workspace=workspace).rememberable()
    ratio = stats["prompt_tokens"] / floor["prompt_tokens"]
    return report(
        f"tokens, a pass every {interval} s",
        passed=ratio <= MAX_TOKEN_RATIO
        and read == messages.count()
        and not messages.filter(segment=None).exists(),
        ratio=round(ratio, 3),
        prompt_tokens=stats["prompt_tokens"],
        floor_prompt_tokens=floor["prompt_tokens"],
        calls=stats["calls"],
        floor_calls=floor["llm_calls"],
        messages=messages.count(),
        reads_by_closed_segments=read,
        provisional=done.filter(provisional=True).count(),
        seconds=round(seconds, 1),
    )


def ten_channels(url: str) -> dict[str, Any]:
    """Ten due channels at concurrency 10: what a second of latency adds to the whole pass."""
    from django.conf import settings

    settings.MEMORYHUB_LLM_CONCURRENCY = 10
    fast = one_pass(url, 0.0)
    slow = one_pass(url, 1.0)
    control(url, "__config", {"latency": 0.0})
    return report(
        "ten due channels side by side",
        passed=slow - fast <= MAX_SECONDS,
        latency_adds_s=round(slow - fast, 2),
        seconds_at_0=round(fast, 2),
        seconds_at_1=round(slow, 2),
    )


def one_pass(url: str, latency: float) -> float:
    from memories.models import Channel, Message, Workspace
    from memories.pipeline.generate.passes import run_pass
    from memories.rules.ingest.timestamps import to_micros, ts_from_micros

    now = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
    workspace = Workspace.objects.create(slug=f"ten-{latency:.0f}", name="ten")
    workspace.change_settings({"workspace_short_term": False}, by=None)
    for number in range(10):
        channel = Channel.objects.create(
            workspace=workspace, slack_id=f"C{number}", name=f"c{number}", kind="public"
        )
        first = to_micros(now) - 5 * 3600 * 1_000_000
        Message.objects.bulk_create(
            Message(
                channel=channel,
                ts=ts_from_micros(first + i * 60_000_000),
                micros=first + i * 60_000_000,
                text=f"message {i} of channel {number} says something of its own",
            )
            for i in range(30)
        )
    control(url, "__config", {"latency": latency})
    began = time.monotonic()
    made = run_pass(workspace, now)
    seconds = time.monotonic() - began
    assert made.made.total() == 21, made
    return seconds


if __name__ == "__main__":
    sys.exit(main())
