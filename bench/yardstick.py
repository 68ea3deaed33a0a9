"""The yardstick folder: its fake model server, its export and its replay.

The folder contains `fake_openai.py` (an OpenAI-compatible server on loopback), `replay.py` and `common.py`
(a replay that reads each message once). `../data/irc-export.zip` is beside it.
"""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHANNELS = ("rust", "stripe", "mediawiki", "ubuntu-2007")
PER_CHANNEL = 250


@contextlib.contextmanager
def yardstick(folder: Path, work: Path) -> Iterator[str]:
    """Yield the URL of its server. Set up Django on a database in ``work``, with the slice beside it."""
    sys.path[:0] = [str(folder), str(Path(__file__).resolve().parent.parent)]
    with fake_model(folder) as url:
        configure(work, url)
        export = work / "irc"
        with zipfile.ZipFile(folder.parent / "data" / "irc-export.zip") as archive:
            archive.extractall(export)
        cut_slice(export, work / "slice")
        yield url


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
    """Write the slice, the first messages of four channels, as an export."""
    from common import load

    slice_ids = {
        name: {row["id"] for row in rows}
        for name, rows in load(export, CHANNELS, PER_CHANNEL).items()
    }
    to.mkdir()
    channels = json.loads((export / "channels.json").read_text())
    (to / "channels.json").write_text(json.dumps([c for c in channels if c["name"] in slice_ids]))
    (to / "users.json").write_text((export / "users.json").read_text())
    for name, ids in slice_ids.items():
        (to / name).mkdir()
        for day in sorted((export / name).glob("*.json")):
            rows = [m for m in json.loads(day.read_text()) if m["ts"] in ids]
            if rows:
                (to / name / day.name).write_text(json.dumps(rows))


def import_slice(work: Path, slug: str, backfill: str) -> Any:
    """Import the slice into a new workspace, with this backfill."""
    from django.core.management import call_command

    from memories.models import Workspace

    workspace = Workspace.objects.create(slug=slug, name="irc")
    workspace.change_settings({"thread_memories": False, "workspace_short_term": False}, by=None)
    call_command(
        "import_slack",
        str(work / "slice"),
        f"--workspace={slug}",
        f"--backfill={backfill}",
        stdout=io.StringIO(),
        stderr=io.StringIO(),
    )
    return workspace


def run_replay(folder: Path, work: Path, url: str, *arguments: str) -> dict[str, Any]:
    """Run the yardstick's own replay of the slice, and return its result."""
    command = [sys.executable, "-B", str(folder / "replay.py"), arguments[0], str(work / "slice")]
    command += ["--url", url, *arguments[1:]]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def control(url: str, action: str, body: dict[str, Any] | None = None) -> Any:
    data = None if action == "__stats" else json.dumps(body or {}).encode()
    request = urllib.request.Request(f"{url}/{action}", data=data)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read())


def report(name: str, *, passed: bool, **figures: Any) -> dict[str, Any]:
    row = {"bench": name, "pass": passed, **figures}
    print(json.dumps(row), flush=True)
    return row
