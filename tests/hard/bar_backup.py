"""Hard test 8: backups taken under load, restored: all open, are sound and hold what was acknowledged.

Two writers of their own add versions, and write each one that is committed into a ledger. What a
restored database holds is read by SQL of our own, not by the app.
"""

import contextlib
import hashlib
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.databases import ROOT, connect, environment, fresh_database, manage
from tests.processes import wait_until

NAME = "8 backup"
SMALL_DATABASES = ()
FULL, SMALL = 100, 1
WRITERS = 2
CHANNELS = 6
GROWTH = 5  # versions that are acknowledged between two backups, at least
BREATH = 0.01  # seconds between two versions of a writer: load, but not all of the machine
PATIENCE = 240.0

Entry = tuple[int, int, str]  # (memory, number, sha256 of its text)

UNSOUND = {
    "heads": """SELECT count(*) FROM memories_memory m WHERE m.head <> (
        SELECT coalesce(max(v.number), 0) FROM memories_memoryversion v WHERE v.memory_id = m.id)""",
    "gaps": """SELECT count(*) FROM (SELECT memory_id FROM memories_memoryversion
        GROUP BY memory_id HAVING count(*) <> max(number) OR min(number) <> 1) g""",
    "current": """SELECT count(*) FROM memories_memory m
        LEFT JOIN memories_memoryversion v ON v.id = m.current_id AND v.memory_id = m.id
        WHERE m.head > 0 AND v.id IS NULL""",
    "versions without lines": """SELECT count(*) FROM memories_memoryversion v
        WHERE NOT EXISTS (SELECT 1 FROM memories_line l WHERE l.version_id = v.id)""",
    "lines without versions": """SELECT count(*) FROM memories_line l
        WHERE NOT EXISTS (SELECT 1 FROM memories_memoryversion v WHERE v.id = l.version_id)""",
}


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    """Back up N times under load and restore each into an empty database; the figures."""
    on_sqlite = not database_url.startswith("postgres")
    n = (FULL // 5 if on_sqlite else FULL) if full else SMALL
    faults: list[str] = []
    passed = meanwhile = checked = 0
    with tempfile.TemporaryDirectory(dir=work) as name:
        folder = Path(name)
        _make_memories()
        with _writers(database_url, folder, seed) as ledgers:
            for i in range(n):
                path = folder / f"{i}.zip"
                _wait_for(ledgers, len(_acknowledged(ledgers)) + GROWTH)
                before = _acknowledged(ledgers)
                made = manage(database_url, folder, "backup", str(path))
                meanwhile += len(_acknowledged(ledgers)) - len(before)
                wrong = (
                    [made.stderr] if made.returncode else _wrong(database_url, folder, path, before)
                )
                faults += [f"backup {i}: {each}" for each in wrong]
                passed += not wrong
                checked += len(before)
                path.unlink(missing_ok=True)
            acknowledged = len(_acknowledged(ledgers))
    return {
        "n": n,
        "passed": passed,
        "pass": passed == n and meanwhile > 0,
        "versions_acknowledged": acknowledged,
        "acknowledged_while_backing_up": meanwhile,
        "versions_looked_for": checked,
        "faults": faults[:5],
    }


def _wrong(beside: str, folder: Path, path: Path, before: set[Entry]) -> list[str]:
    """Restore into an empty database and look; what is wrong."""
    with fresh_database(beside) as url:
        done = manage(url, folder, "restore", str(path))
        if done.returncode:
            return [done.stderr]
        with _opened(url) as ask:
            problems = [
                f"{what}: {ask(sql)[0][0]}" for what, sql in UNSOUND.items() if ask(sql)[0][0]
            ]
            if url.startswith("sqlite"):
                problems += [str(row) for row in ask("PRAGMA integrity_check") if row[0] != "ok"]
                problems += [f"orphan {row}" for row in ask("PRAGMA foreign_key_check")]
            there = {
                (memory, number, _hash(text))
                for memory, number, text in ask(
                    "SELECT memory_id, number, content FROM memories_memoryversion"
                )
            }
        missing = before - there
        return [*problems, *([f"{len(missing)} acknowledged versions missing"] if missing else [])]


@contextlib.contextmanager
def _opened(url: str) -> Iterator[Any]:
    """A function that asks this database in SQL and gives its rows."""
    if url.startswith("sqlite:///"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as opened:
            yield lambda sql: opened.execute(sql).fetchall()
    else:
        with contextlib.closing(connect(url)) as opened:
            yield lambda sql: opened.execute(sql.encode()).fetchall()


@contextlib.contextmanager
def _writers(url: str, folder: Path, seed: int) -> Iterator[list[Path]]:
    """Processes that write until the end of the block; their ledgers."""
    ledgers = [folder / f"ledger-{i}" for i in range(WRITERS)]
    me = [sys.executable, "-m", "tests.hard.bar_backup"]
    given: dict[str, Any] = {"cwd": ROOT, "env": environment(url, folder)}
    writers = []
    try:
        for i, ledger in enumerate(ledgers):
            ledger.touch()
            command = [*me, str(ledger), str(seed * 100 + i)]
            writers.append(subprocess.Popen(command, stdin=subprocess.PIPE, **given))
        yield ledgers
        if dead := [writer.pid for writer in writers if writer.poll() is not None]:
            raise RuntimeError(f"writers ended by themselves: {len(dead)}")
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            if writer.stdin:
                writer.stdin.close()


def _acknowledged(ledgers: list[Path]) -> set[Entry]:
    """What the ledgers hold so far, whole lines only."""
    rows = set()
    for ledger in ledgers:
        for line in ledger.read_text().rpartition("\n")[0].splitlines():
            memory, number, text_hash = line.split()
            rows.add((int(memory), int(number), text_hash))
    return rows


def _wait_for(ledgers: list[Path], count: int) -> None:
    wait_until(lambda: len(_acknowledged(ledgers)) >= count, f"{count} versions", PATIENCE)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _make_memories() -> None:
    """What the writers add versions to."""
    from memories.models import Channel, Memory, Workspace
    from memories.rules.memory.identity import MemoryType

    workspace = Workspace.objects.create(slug="team", name="Team")
    for i in range(CHANNELS):
        channel = Channel.objects.create(workspace=workspace, slack_id=f"C{i}", name=f"c{i}")
        Memory.objects.of_channel(channel, MemoryType.LONG_TERM)


# -- a writer, in a process of its own: `python -m tests.hard.bar_backup LEDGER SEED`


def _write(ledger: Path, seed: int) -> None:
    """Jobs' and people's versions in turn, until killed; each is told after its commit."""
    from memories.models import Memory, NewVersion, StaleBase
    from memories.rules.memory.lines import Line, Origin

    chance = random.Random(seed)
    keys = list(Memory.objects.values_list("pk", flat=True))
    with ledger.open("a") as file:
        for turn in range(10**9):
            memory = Memory.objects.with_current().get(pk=chance.choice(keys))
            text = "\n".join(
                f"- {seed}.{turn}.{i} 記憶 \\ \t." for i in range(chance.randint(1, 9))
            )
            lines = [Line(line, Origin.MODEL) for line in text.splitlines()]
            try:
                if chance.random() < 0.5:
                    seen = memory.current.number if memory.current else 0
                    version = memory.revise(text, by=None, based_on=seen)
                else:
                    draft = NewVersion(lines=lines, content=text, origin=Origin.MODEL)
                    version = memory.add_version(draft, expected_head=memory.head)
            except StaleBase:
                continue
            file.write(f"{memory.pk} {version.number} {_hash(version.content)}\n")
            file.flush()
            time.sleep(BREATH)


if __name__ == "__main__":
    import django

    django.setup()
    _write(Path(sys.argv[1]), int(sys.argv[2]))
