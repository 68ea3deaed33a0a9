"""The processes of bench/day.py: their environment, their address, and their memory."""

import contextlib
import os
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import psutil
from django.db import connection

from tests.databases import beside_it
from tests.hard.model_client import FakeModel
from tests.hard.trees import Trees, trees
from tests.processes import clean_environment, wait_until
from tests.slack.fake_events import SIGNING_SECRET

STOP_SECONDS = 30.0  # then processes that have not stopped are killed


@contextlib.contextmanager
def serving(folder: Path, model: FakeModel, workers: int) -> Iterator[tuple[Trees, int]]:
    """Run `serve`, whose worker is the first one, and the other workers. Yield them and the port."""
    environment = clean_environment() | {
        "DATABASE_URL": beside_it(os.environ["DATABASE_URL"], connection.settings_dict["NAME"]),
        "MEMORYHUB_VAR": str(folder),
        "MEMORYHUB_LOG_LEVEL": "WARNING",
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_KEY": "none",
        "MEMORYHUB_MODEL": "fake",
        "SLACK_BOT_TOKEN": "",
        "SLACK_SIGNING_SECRET": SIGNING_SECRET,
    }
    try:
        with trees(folder, environment) as served:
            for kind in ("serve", *["worker"] * (workers - 1)):
                served.start(kind)
            log = served.work / "0001-serve.log"
            wait_until(lambda: _is_ready(_port(log)), f"web and a worker, see {log}")
            yield served, _port(log)
            served.stop(patience=STOP_SECONDS)
    finally:
        with (
            connection.cursor() as cursor
        ):  # of killed processes, or the database cannot be dropped
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )


def _port(log: Path) -> int:
    """Return the port that `serve` has printed, 0 before."""
    match = re.search(r"listening on \S+:(\d+)\)", log.read_text(errors="replace"))
    return int(match[1]) if match else 0


def _is_ready(port: int) -> bool:
    with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10):
        return True
    return False


@dataclass
class ProcessMemory:
    """MiB of each process by its tree, kind and place, with the share of the day that was over.

    A process that replaces another takes its place.
    """

    pids: dict[str, list[int]] = field(default_factory=dict)
    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def sample(self, served: Trees, share: float) -> None:
        roles = {process.pid: process.role for process in served.processes()}
        for number, (kind, root) in enumerate(served.roots, 1):
            sizes: dict[str, dict[int, float]] = {}
            with contextlib.suppress(psutil.NoSuchProcess):
                tree = psutil.Process(root.pid)
                for process in (tree, *tree.children(recursive=True)):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        if (role := roles.get(process.pid)) is None:
                            continue  # it has just started
                        name = f"{kind} {number}: {role}"
                        mib = process.memory_info().rss / 2**20
                        sizes.setdefault(name, {})[process.pid] = mib
            for name, by_pid in sizes.items():
                for place, pid in enumerate(self._places(name, list(by_pid)), 1):
                    if pid in by_pid:
                        self.samples.setdefault(f"{name} {place}", []).append((share, by_pid[pid]))

    def _places(self, name: str, living: Sequence[int]) -> list[int]:
        places = self.pids.setdefault(name, [])
        new = [pid for pid in living if pid not in places]
        for place, pid in enumerate(places):
            if new and pid not in living:
                places[place] = new.pop(0)
        places += new
        return places

    def growing(self, ratio: float) -> list[str]:
        """Return processes whose last quarter exceeds ``ratio`` times the second one.

        The second quarter is that of the largest process of the same kind, because the first pass of a
        worker's process may come late.
        """
        quarters = self.quarters()
        before: dict[str, float] = {}
        for name, (_, second, _, _) in quarters.items():
            kind = name.rpartition(" ")[0].partition(": ")[2]
            before[kind] = max(before.get(kind, 0.0), second)
        return [
            name
            for name, (_, _, _, last) in quarters.items()
            if 0 < ratio * before[name.rpartition(" ")[0].partition(": ")[2]] < last
        ]

    def quarters(self) -> dict[str, list[float]]:
        """Return the mean of each quarter of the day by process, 0 where it did not run."""
        table = {}
        for name, row in self.samples.items():
            parts = [[mib for at, mib in row if int(4 * at) == quarter] for quarter in range(4)]
            table[name] = [round(statistics.mean(part or [0.0]), 1) for part in parts]
        return table
