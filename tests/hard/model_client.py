"""The fake model server as the hard tests use it: started, configured, and its ledger read."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class RecordedCall:
    """One row of the ledger: a request that reached the server, and its outcome."""

    n: int
    at: float
    prompt_hash: str
    words: tuple[str, ...]  # of the messages to summarise, without references
    existing: int  # lines of a memory that is carried on
    messages: bool  # of a conversation, else a merge
    fault: str  # "" for a good answer
    prompt_tokens: int  # as in the answer's usage; 0 where nothing is paid
    completion_tokens: int
    answered_at: float | None = None  # None: the client did not wait for the answer


@dataclass(frozen=True)
class FakeModel:
    port: int
    ledger: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def configure(self, **given: Any) -> None:
        """seed, latency=(from, to), faults={kind: share}, script=[kind, …], words={word: kind},
        retry_after, token_ratio."""
        self._ask("/__config", given)

    def reset(self) -> None:
        self._ask("/__reset", {})

    def stats(self) -> dict[str, Any]:
        return self._ask("/__stats")

    def rows(self) -> list[RecordedCall]:
        calls: dict[int, dict[str, Any]] = {}
        for line in self.ledger.read_text().splitlines():
            row = json.loads(line)
            if row.pop("answered", False):
                calls[row["n"]]["answered_at"] = row["at"]
            else:
                calls[row["n"]] = row | {"words": tuple(row["words"])}
        return [RecordedCall(**row) for row in calls.values()]

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        with urllib.request.urlopen(request, timeout=30) as answer:
            result: dict[str, Any] = json.load(answer)
        return result


@contextmanager
def fake_model(work: Path, **config: Any) -> Iterator[FakeModel]:
    """Start a server in a process of its own, and stop it afterwards. Its ledger stays."""
    ledger = work / "ledger.jsonl"
    ledger.touch()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hard.fake_model", os.fspath(ledger)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        model = FakeModel(int(process.stdout.readline()), ledger)
        model.configure(**config)
        yield model
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
