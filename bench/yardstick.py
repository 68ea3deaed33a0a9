"""The yardstick folder as the measurements use it: its fake model server, its export, its slice.

The folder holds `fake_openai.py` (an OpenAI-compatible server on loopback), `replay.py` and
`common.py` (a replay that reads each message once), with `../data/irc-export.zip` beside it.
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
    """The address of its server; Django is set up on a database in ``work``, the slice lies there."""
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


def imported_slice(work: Path, slug: str, backfill: str) -> Any:
    """A workspace with the slice in it, remembered as far back as ``backfill`` says."""
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


def replayed(folder: Path, work: Path, url: str, *arguments: str) -> dict[str, Any]:
    """What the yardstick's own replay of the slice says."""
    command = [sys.executable, "-B", str(folder / "replay.py"), arguments[0], str(work / "slice")]
    command += ["--url", url, *arguments[1:]]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def control(url: str, what: str, body: dict[str, Any] | None = None) -> Any:
    data = None if what == "__stats" else json.dumps(body or {}).encode()
    request = urllib.request.Request(f"{url}/{what}", data=data)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def report(name: str, *, passed: bool, **figures: Any) -> dict[str, Any]:
    row = {"bench": name, "pass": passed, **figures}
    print(json.dumps(row), flush=True)
    return row
