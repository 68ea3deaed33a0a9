"""Compare the time of each page with a bare Django page of 50 rows on the same server.

    python -m bench.pages [--rounds 7] [--requests 20]

The web process has a SQLite database with the demo and the rows of pages_rows.py. The bare page
(pages_urls.py) has the same middleware and sign-in. One signed-in client requests both pages in turns, over
one connection. The median of the rounds counts. The command prints a table and a JSON line. A page may take
twice as long as the bare page, a part 1.5 times, and the comparison of distant versions 5 times.
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
PAGE, PART, FAR = 2.0, 1.5, 5.0  # times the bare page's time, at most


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=20, help="of each page, each round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryhub-bench-") as folder:
        pages, cookie = made(Path(folder))
        with served() as port:
            bare = Client(port, cookie, BARE)
            rows = {}
            for name, page in pages.items():
                rows[name] = row = beside(
                    Client(port, cookie, *page), bare, options.rounds, options.requests
                )
                row["at_most"] = PART if page[1] else FAR if name.startswith("compare") else PAGE
                row["holds"] = row["times"] <= row["at_most"]
                show(name, row)
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
    """The web processes as `serve` starts them; their port."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port = listener.getsockname()[1]
        from memories.management.commands.serve import children

        *web, _worker = children(listener)
        servers = [
            subprocess.Popen(child.command, cwd=ROOT, pass_fds=child.pass_fds) for child in web
        ]
        try:
            yield port
        finally:
            for server in servers:
                server.terminate()
            for server in servers:
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
    for one in (client, bare):
        one.seconds(4)  # so that both web processes have loaded what it needs
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


def show(name: str, row: dict[str, Any]) -> None:
    print(
        f"{name:28}{row['ms']:8.2f} ms beside {row['bare_ms']:.2f}: {row['times']:.2f} times"
        f" (at most {row['at_most']:g}), {row['requests']:.2f} of its requests/s"
        f"{'' if row['holds'] else ' *'}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
