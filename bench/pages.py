"""Requests a second of the pages, beside a bare Django page of 50 rows on the same server.

    python -m bench.pages [--rounds 7] [--requests 20]

The server runs as `serve` runs it, with a database of its own (SQLite): the demo, and beside it what
pages_rows.py adds. The bare page (pages_urls.py) stands behind the same middleware and login. One
signed-in client asks over one connection that is kept open, the page and the bare one in turns; a
page's figure is the middle one of its rounds. Prints a table and a line of JSON. To hold: a page takes
at most 3 times as long as the bare one, a part of it 1.5 times, the comparison of far versions 5 times.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BARE = "/bare/"
PAGE, PART, FAR = 3.0, 1.5, 5.0  # times the bare page's time, at most
WANTED = 0.5  # of the bare page's requests a second


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=20, help="of each page, each round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryhub-bench-") as folder:
        pages, cookie = made(Path(folder))
        with served() as port:
            asks = {name: Client(port, cookie, *page) for name, page in pages.items()}
            bare = Client(port, cookie, BARE)
            rows = {
                name: beside(client, bare, options.rounds, options.requests)
                | {"at_most": PART if client.is_part else FAR if "compare" in name else PAGE}
                for name, client in asks.items()
            }
    for row in rows.values():
        row["holds"] = row["times"] <= row["at_most"]
    show(rows)
    holds = all(row["holds"] for row in rows.values())
    print(json.dumps({"bench": "pages", "pages": rows, "holds": holds}))
    return 0 if holds else 1


def made(folder: Path) -> tuple[dict[str, tuple[str, bool]], str]:
    """Addresses of the pages, and whether a part of one is asked for; and the cookie of who may."""
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "bench.pages_settings",
        "MEMORYHUB_VAR": str(folder),
        "DATABASE_URL": f"sqlite:///{folder}/bench.sqlite3",
        "MEMORYHUB_LOG_LEVEL": "ERROR",
    }
    import django

    django.setup()
    from bench.pages_rows import make
    from memoryhub.static import collect_static_when_changed

    collect_static_when_changed()
    return make()


@contextmanager
def served() -> Iterator[int]:
    """gunicorn as `serve` starts it; its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port = listener.getsockname()[1]
        from memories.management.commands.serve import children

        web = children(listener)[0]
        server = subprocess.Popen(web.command, cwd=ROOT, pass_fds=web.pass_fds)
        try:
            yield port
        finally:
            server.terminate()
            server.wait()


class Client:
    """Asks for one page again and again. The connection is made anew where the server ended it."""

    def __init__(self, port: int, cookie: str, path: str, is_part: bool = False) -> None:  # noqa: FBT001, FBT002
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self.path, self.is_part = path, is_part
        self.headers = {"Cookie": cookie} | ({"HX-Request": "true"} if is_part else {})
        self.bytes = 0

    def ask(self) -> None:
        self.connection.request("GET", self.path, headers=self.headers)
        response = self.connection.getresponse()
        self.bytes = len(response.read())
        if response.status != 200:
            raise RuntimeError(f"{self.path} answers {response.status}")

    def seconds(self, requests: int) -> float:
        self.connection.close()
        self.ask()
        began = time.perf_counter()
        for _ in range(requests):
            self.ask()
        return (time.perf_counter() - began) / requests


def beside(client: Client, bare: Client, rounds: int, requests: int) -> dict[str, Any]:
    client.seconds(4), bare.seconds(4)  # both web processes have everything loaded
    mine, others = [], []
    for _ in range(rounds):
        others.append(bare.seconds(requests))
        mine.append(client.seconds(requests))
    times = statistics.median(one / other for one, other in zip(mine, others, strict=True))
    return {
        "ms": round(1000 * statistics.median(mine), 2),
        "bare_ms": round(1000 * statistics.median(others), 2),
        "times": round(times, 2),
        "requests": round(1 / times, 2),
        "bytes": client.bytes,
    }


def show(rows: dict[str, Any]) -> None:
    print(f"{'':36}{'ms':>9}{'bare ms':>9}{'times':>8}{'most':>6}{'requests/s of the bare':>24}")
    for name, row in rows.items():
        mark = "" if row["holds"] else " *"
        print(
            f"{name:36}{row['ms']:9.2f}{row['bare_ms']:9.2f}{row['times']:8.2f}{row['at_most']:6.1f}"
            f"{row['requests']:24.2f}{mark}"
        )


if __name__ == "__main__":
    sys.exit(main())
