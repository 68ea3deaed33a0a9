"""Compare the time of each page with a bare Django page of 50 rows on the same server.

    python -m bench.pages [--rounds 7] [--requests 20] [--messages 20000] [--peer FOLDER]

The web process has a SQLite database with the demo and the rows of pages_rows.py. The bare page
(pages_urls.py) has the same middleware and sign-in. One signed-in client requests both pages in turns, over
one connection. The median of the rounds counts. The command prints a table and a JSON line. A page may take
twice as long as the bare page, a part 1.5 times, and the comparison of distant versions 5 times. A context
that is unchanged by its ETag may take twice as long as a bare view with the same API key.

With --peer, the lists are compared with the list of a kept Django project, too (peer.py). A row of ours may
take as long as one of its rows.
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
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BARE = "/bare/"
CONTEXT, UNCHANGED = "/api/v1/context", "unchanged context"
PAGE, PART, FAR = 2.0, 1.5, 5.0  # times the bare page's time, at most
LISTS = ("messages", "versions")  # of 50 rows
ROW = b'data-steps="jk"'  # in each row of a list


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=20, help="of each page, each round")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--peer", type=Path, metavar="FOLDER", help="with linkding 1.42")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryhub-bench-") as folder:
        pages, cookie, token = prepare(Path(folder), options.messages)
        with run_server() as port:
            bare = page_client(port, cookie, BARE)
            pairs = {name: (page_client(port, cookie, *page), bare) for name, page in pages.items()}
            pairs[UNCHANGED] = unchanged(port, token)
            rows = {}
            for name, (client, bare) in pairs.items():
                rows[name] = row = compare(client, bare, options.rounds, options.requests)
                is_part = "HX-Request" in client.headers
                row["at_most"] = PART if is_part else FAR if name.startswith("compare") else PAGE
                row["holds"] = row["times"] <= row["at_most"]
                show(name, row)
            if options.peer:
                lists = {name: x for name, (x, _) in pairs.items() if name.split()[0] in LISTS}
                rows |= beside_peer(options, lists)
    holds = all(row["holds"] for row in rows.values())
    print(json.dumps({"bench": "pages", "pages": rows, "holds": holds}))
    return 0 if holds else 1


def prepare(folder: Path, messages: int) -> tuple[dict[str, tuple[str, bool]], str, str]:
    """Create the database. Return the URLs of pages, if a part is requested, a session cookie and the
    token of an API key."""
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
    return make(messages)


@contextmanager
def run_server() -> Iterator[int]:
    """Start the web processes of `serve`, and yield their port."""
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
    """A client that repeats a request, and reconnects if the server closed the connection.

    It keeps the newest ETag, if it began with one.
    """

    def __init__(self, port: int, headers: dict[str, str], path: str, status: int = 200) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self.path, self.headers, self.status = path, headers, status
        self.bytes = self.rows = 0

    def request(self) -> HTTPResponse:
        self.connection.request("GET", self.path, headers=self.headers)
        response = self.connection.getresponse()
        body = response.read()
        self.bytes, self.rows = len(body), body.count(ROW)
        if response.status != self.status:
            raise RuntimeError(f"{self.path} answers {response.status}")
        if "If-None-Match" in self.headers:
            self.headers["If-None-Match"] = response.headers["ETag"]
        return response

    def seconds(self, requests: int) -> float:
        self.connection.close()
        self.request()
        began = time.perf_counter()
        for _ in range(requests):
            self.request()
        return (time.perf_counter() - began) / requests


def page_client(port: int, cookie: str, path: str, is_part: bool = False) -> Client:  # noqa: FBT001, FBT002
    headers = {"Cookie": cookie} | ({"HX-Request": "true"} if is_part else {})
    return Client(port, headers, path)


def unchanged(port: int, token: str) -> tuple[Client, Client]:
    """Return a client that has the context of the workspace, and one of the bare view of its key."""
    headers = {"Authorization": f"Bearer {token}"}
    etag = Client(port, headers, CONTEXT).request().headers["ETag"]
    return Client(port, headers | {"If-None-Match": etag}, CONTEXT, 304), Client(
        port, headers, f"{BARE}api/"
    )


def compare(client: Client, bare: Client, rounds: int, requests: int) -> dict[str, Any]:
    for warm_up in (client, bare):
        warm_up.seconds(4)  # both web processes import what it needs
    page_seconds, bare_seconds = [], []
    for _ in range(rounds):
        bare_seconds.append(bare.seconds(requests))
        page_seconds.append(client.seconds(requests))
    times = statistics.median(
        page / empty for page, empty in zip(page_seconds, bare_seconds, strict=True)
    )
    return {
        "ms": round(1000 * statistics.median(page_seconds), 2),
        "bare_ms": round(1000 * statistics.median(bare_seconds), 2),
        "times": round(times, 2),
        "requests": round(1 / times, 2),
        "bytes": client.bytes,
    }


def beside_peer(options: argparse.Namespace, lists: dict[str, Client]) -> dict[str, Any]:
    """Compare the time of a row of our lists with that of a row of the peer's list."""
    from bench.peer import PATH, ROWS, serve_linkding

    rows = {}
    with serve_linkding(options.peer) as (port, cookie):
        peer = Client(port, {"Cookie": cookie}, PATH)
        for name, client in lists.items():
            row = compare(client, peer, options.rounds, options.requests)
            of_row = round(row["times"] * ROWS / client.rows, 2)
            row |= {"rows": client.rows, "of_row": of_row, "holds": of_row <= 1}
            rows[f"row: {name}"] = row
            print(
                f"{name:28}{row['ms']:8.2f} ms for {client.rows} rows beside {row['bare_ms']:.2f}"
                f" for {ROWS}: a row takes {of_row:.2f} times as long{'' if of_row <= 1 else ' *'}",
                flush=True,
            )
    return rows


def show(name: str, row: dict[str, Any]) -> None:
    print(
        f"{name:28}{row['ms']:8.2f} ms beside {row['bare_ms']:.2f}: {row['times']:.2f} times"
        f" (at most {row['at_most']:g}), {row['requests']:.2f} of its requests/s"
        f"{'' if row['holds'] else ' *'}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
