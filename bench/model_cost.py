"""What a pass costs in calls, prompt tokens and seconds, beside the floor of the yardstick folder.

    python bench/model_cost.py FOLDER

FOLDER holds `fake_openai.py`, `replay.py` and `common.py` (an OpenAI-compatible server on loopback
and a replay that reads each message once), with `../data/irc-export.zip` beside it. Prints one JSON
line a measurement and exits with 1 when one misses its bar.
"""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

CHANNELS = ("rust", "stripe", "mediawiki", "ubuntu-2007")
PER_CHANNEL = 250
MOST_TOKENS = 1.35  # times the floor's prompt tokens
MOST_SECONDS = 4.0  # of latency in the way, for a chain of three calls of one second


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    sys.path[:0] = [str(folder), str(Path(__file__).resolve().parent.parent)]
    with tempfile.TemporaryDirectory() as scratch, fake_model(folder) as url:
        work = Path(scratch)
        configure(work, url)
        export = work / "irc"
        with zipfile.ZipFile(folder.parent / "data" / "irc-export.zip") as archive:
            archive.extractall(export)
        cut_slice(export, work / "slice")
        results = [tokens_beside_floor(work, url, folder, interval) for interval in (3600, 600)]
        results.append(ten_channels(url))
    return 0 if all(result["pass"] for result in results) else 1


@contextlib.contextmanager
def fake_model(folder: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-B", str(folder / "fake_openai.py"), "--port", str(port)]
    server = subprocess.Popen(
        [*command, "--latency", "0", "--items", "10"], stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def configure(work: Path, url: str) -> None:
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "memoryhub.settings",
        "MEMORYHUB_VAR": str(work),
        "DATABASE_URL": f"sqlite:///{work}/bench.sqlite3",
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": f"{url}/v1",
        "MEMORYHUB_MODEL": "fake",
        "MEMORYHUB_LOG_LEVEL": "ERROR",
    }
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def cut_slice(export: Path, to: Path) -> None:
    """The standard slice as an export of its own: the first messages of four channels."""
    from common import load

    kept = {
        name: {row["id"] for row in rows}
        for name, rows in load(export, CHANNELS, PER_CHANNEL).items()
    }
    to.mkdir()
    channels = json.loads((export / "channels.json").read_text())
    (to / "channels.json").write_text(json.dumps([c for c in channels if c["name"] in kept]))
    (to / "users.json").write_text((export / "users.json").read_text())
    for name, ids in kept.items():
        (to / name).mkdir()
        for day in sorted((export / name).glob("*.json")):
            rows = [m for m in json.loads(day.read_text()) if m["ts"] in ids]
            if rows:
                (to / name / day.name).write_text(json.dumps(rows))


def tokens_beside_floor(work: Path, url: str, folder: Path, interval: int) -> dict[str, Any]:
    from common import load
    from django.core.management import call_command
    from replay import ticks

    from memories.models import Generation, Message, Workspace
    from memories.pipeline.passes import run_pass

    floor = json.loads(
        subprocess.run(
            [sys.executable, "-B", str(folder / "replay.py"), "floor", str(work / "slice")]
            + ["--split", "--interval", str(interval), "--url", url],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    workspace = Workspace.objects.create(slug=f"every-{interval}", name="irc")
    workspace.change_settings({"thread_memories": False})
    call_command(
        "import_slack",
        str(work / "slice"),
        workspace=workspace.slug,
        backfill="all",
        stdout=io.StringIO(),
        stderr=io.StringIO(),
    )
    control(url, "__reset")
    began = time.monotonic()
    for moment in ticks(load(work / "slice"), interval):
        run_pass(workspace, datetime.fromtimestamp(moment, UTC))
    seconds = time.monotonic() - began
    stats = control(url, "__stats")["by_path"]["chat/completions"]
    done = Generation.objects.of_workspace(workspace).filter(state="done")
    segments = done.filter(segment__isnull=False)
    read = sum(segments.values_list("segment__message_count", flat=True))
    messages = Message.objects.filter(channel__workspace=workspace).rememberable()
    ratio = stats["prompt_tokens"] / floor["prompt_tokens"]
    return report(
        f"tokens, a pass every {interval} s",
        passed=ratio <= MOST_TOKENS
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
        passed=slow - fast <= MOST_SECONDS,
        latency_adds_s=round(slow - fast, 2),
        seconds_at_0=round(fast, 2),
        seconds_at_1=round(slow, 2),
    )


def one_pass(url: str, latency: float) -> float:
    from memories.models import Channel, Message, Workspace
    from memories.pipeline.passes import run_pass
    from memories.rules.slacktime import to_micros, ts_from_micros

    now = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
    workspace = Workspace.objects.create(slug=f"ten-{latency:.0f}", name="ten")
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


def control(url: str, what: str, body: dict[str, Any] | None = None) -> Any:
    data = None if what == "__stats" else json.dumps(body or {}).encode()
    request = urllib.request.Request(f"{url}/{what}", data=data)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def report(name: str, *, passed: bool, **figures: Any) -> dict[str, Any]:
    row = {"bench": name, "pass": passed, **figures}
    print(json.dumps(row), flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
