"""Mutated exports, one after the other: none may crash the importer, hang it, swell it, make it
write a file or lose count.

Processes of their own import them, so that memory can be told and a hang ended. What an export
holds is counted by `export_oracle`, not by the project.
"""

import collections
import contextlib
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tests.hard.export_oracle import count_folder, count_zip
from tests.hard.model_client import ROOT
from tests.hard.mutated_exports import ROWS, ZIPS, Mutated, mutated

NAME = "10 exports"
SMALL_DATABASES = ()

EXPORTS = {True: 10_000, False: 150}  # full, small; a fifth of the full number on SQLite
CHILDREN = 2
MAX_SECONDS = 10.0  # seconds of work for one export, however many others work beside it
PATIENCE = 60.0  # and by the clock: for a child that waits, or does not hear its alarm
LARGEST = 512  # MiB of a child
MAX_FAULTS = 50  # then it is clear enough
ADDRESSES = 4 << 30  # bytes that a child may ask for
IMPORTS_OF_A_WORKSPACE = 20
TEAM = "T1"


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    n = EXPORTS[full]
    if full and not database_url.startswith("postgres"):
        n //= 5
    first = seed * 1_000_000
    began = time.monotonic()
    faults: list[dict[str, Any]] = []
    outcomes: collections.Counter[str] = collections.Counter()
    sums = collections.Counter[str]()
    not_met = {*ROWS, *ZIPS, "folder"}
    peak = longest = 0.0
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(_child(work / f"child-{number}")) for number in range(CHILDREN)
        ]
        for answer in _answers(children, list(range(first, first + n))):
            outcomes[answer["end"]] += 1
            not_met.difference_update(answer.get("names", ()))
            peak = max(peak, answer.get("mib", 0.0))
            longest = max(longest, answer.get("seconds", 0.0))
            sums.update(answer.get("counts", {}))
            if answer.get("fault"):
                faults.append(answer)
            if sum(not fault["end"] for fault in faults) > MAX_FAULTS:
                break
    with (work / "faults.jsonl").open("w") as file:
        file.writelines(json.dumps(fault) + "\n" for fault in faults)
    seconds = time.monotonic() - began
    kinds = collections.Counter(fault["fault"] for fault in faults)
    return {
        "n": n,
        "imported": outcomes["imported"],
        "refused": outcomes["refused"],
        "objects": sums["seen"],
        "crashed": kinds["crash"],
        "hung": kinds["hang"],
        "wrote": kinds["wrote"],
        "miscounted": kinds["sum"],
        "misjudged": kinds["refusal"],
        "peak_mib": round(peak),
        "longest_seconds": round(longest, 2),
        "per_second": round(n / seconds, 1),
        "seeds": [fault["seed"] for fault in faults[:20]],
        "not_met": sorted(not_met),
        "pass": not faults
        and outcomes.total() == n
        and outcomes["imported"] > n / 2
        and not not_met
        and 0 < peak < LARGEST,
    }


def _command(work: Path) -> list[str]:
    return [sys.executable, "-m", "tests.hard.bar_exports", os.fspath(work)]


class _Child:
    def __init__(self, work: Path) -> None:
        self.work = work
        self.process: subprocess.Popen[str] | None = None
        self.seed: int | None = None
        self.asked_at = 0.0

    def ask(self, seed: int) -> None:
        if self.process is None or self.process.poll() is not None:
            shutil.rmtree(self.work, ignore_errors=True)
            self.work.mkdir(parents=True)
            self.process = subprocess.Popen(
                _command(self.work),
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        assert self.process.stdin is not None
        self.seed, self.asked_at = seed, time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it died just now, as its answer will say
            self.process.stdin.write(f"{seed}\n")
            self.process.stdin.flush()

    @property
    def out(self) -> IO[str]:
        assert self.process is not None and self.process.stdout is not None
        return self.process.stdout

    def answer(self, *, has_spoken: bool) -> dict[str, Any] | None:
        """What it says of its export; None while it is still at work."""
        assert self.process is not None
        if has_spoken:
            if line := self.out.readline():
                reply: dict[str, Any] = json.loads(line)
                return reply
            why = f"exit status {self.process.wait()}"
            return {"seed": self.seed, "end": "", "fault": "crash", "why": why}
        if time.monotonic() - self.asked_at > PATIENCE:
            self.end()
            return {"seed": self.seed, "end": "", "fault": "hang", "why": "killed"}
        return None

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def _child(work: Path) -> Iterator[_Child]:
    child = _Child(work)
    try:
        yield child
    finally:
        child.end()


def _answers(children: list[_Child], seeds: list[int]) -> Iterator[dict[str, Any]]:
    waiting = iter(seeds)
    busy = []
    for child in children:
        if (seed := next(waiting, None)) is not None:
            child.ask(seed)
            busy.append(child)
    while busy:
        spoken, _, _ = select.select([child.out for child in busy], [], [], 0.1)
        for child in list(busy):
            if (answer := child.answer(has_spoken=child.out in spoken)) is None:
                continue
            yield answer
            if (seed := next(waiting, None)) is None:
                busy.remove(child)
            else:
                child.ask(seed)


# -- a child: `python -m tests.hard.bar_exports WORK`, a seed a line in, a line of JSON out


class _Hang(BaseException):
    """The alarm; no ``except Exception`` may swallow it."""


def _ring(number: int, frame: object) -> None:
    raise _Hang


class _Watch:
    """What this process opens for writing, makes, moves or calls while an import is at work.

    Python's own audit of the interpreter; a database writes outside of it.
    """

    _MAKES = ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir")
    _MAKES += ("os.truncate", "os.chmod", "os.chown", "shutil.rmtree", "subprocess.Popen")
    _CALLS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname")

    def __init__(self, allowed: Path) -> None:
        self._allowed = os.fspath(allowed)
        self._at_work = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        self.seen, self._at_work = [], True
        try:
            yield
        finally:
            self._at_work = False

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._at_work:
            return
        if event == "open":
            path, _, flags = arguments
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not self._may(path):
                self.seen.append(f"open {path}")
        elif event in self._CALLS or (event in self._MAKES and not self._may(arguments[0])):
            self.seen.append(f"{event} {arguments[:1]}")

    def _may(self, path: object) -> bool:
        return isinstance(path, str) and path.startswith(self._allowed)


class _Importer:
    def __init__(self, work: Path) -> None:
        from django.conf import settings

        self.inbox, self.outside = work / "a" / "b" / "inbox", work / "a" / "b" / "cwd"
        self.top = work
        for folder in (self.inbox, self.outside):
            folder.mkdir(parents=True)
        os.chdir(self.outside)
        os.environ["TMPDIR"] = os.fspath(self.outside)
        # The lock that keeps two imports apart is a file, and the database's may be.
        self.watch = _Watch(Path(settings.MEMORYHUB_VAR) / "locks")
        self._name = f"exports-{os.getpid()}"
        self._number = 0

    def workspace(self) -> Any:
        from memories.models import Workspace

        slug = f"{self._name}-{self._number // IMPORTS_OF_A_WORKSPACE}"
        self._number += 1
        return Workspace.objects.get_or_create(slug=slug, defaults={"name": slug, "team_id": TEAM})[
            0
        ]

    def take(self, seed: int) -> dict[str, Any]:
        export = mutated(seed)
        answer: dict[str, Any] = {"seed": seed, "names": export.names, "end": ""}
        path = self.inbox / ("export" if export.folder is not None else "export.zip")
        export.write(path)
        workspace = self.workspace()
        before = self._listing()
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
        try:
            with self.watch.at_work():
                answer |= self._import(path, workspace, direct=bool(seed % 3 == 0))
        except _Hang:
            answer |= {"fault": "hang", "why": _where()}
        except Exception:
            answer |= {"fault": "crash", "why": _where()}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        answer["seconds"] = time.process_time() - began
        answer["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if self.watch.seen or self._listing() != before:
            answer |= {"fault": "wrote", "why": str(self.watch.seen)}
        if "fault" not in answer:
            answer |= judge(export, path, answer)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return answer

    def _listing(self) -> list[tuple[str, list[str]]]:
        return [(folder, sorted(names)) for folder, _, names in os.walk(self.top)]

    def _import(self, path: Path, workspace: Any, *, direct: bool) -> dict[str, Any]:
        from django.utils import timezone

        from memories.pipeline.ingest.importing import WrongTeam, import_export
        from memories.rules.ingest.outcomes import ObjectType
        from memories.slack.export import Export, NotAnExport

        try:
            with Export(path) as export:
                report = import_export(
                    workspace, export, timezone.now(), direct_messages=direct
                )  # fmt: skip
        except (NotAnExport, WrongTeam) as refusal:
            return {"end": "refused", "why": f"{type(refusal).__name__}: {refusal}"}
        json.dumps(report.as_json()).encode()
        self._read_again(workspace)
        tally = report.tally
        counts = {thing.value: tally.seen[thing] for thing in ObjectType}
        return {
            "end": "imported",
            "counts": {**counts, "seen": sum(counts.values())},
            "complete": tally.is_complete,
        }

    def _read_again(self, workspace: Any) -> None:
        """What was stored can be shown and given to a model."""
        from memories.models import Channel, Message, Person
        from memories.models.ingest.names import Names
        from memories.rules.ingest.invisible import mark_invisible, strip_invisible
        from memories.rules.ingest.markup import parse, render_plain
        from memories.views.ingest.messages import files_of

        names = Names(
            Person.objects.filter(workspace=workspace).names(),
            Channel.objects.filter(workspace=workspace).names(),
        )
        newest = Message.objects.filter(channel__workspace=workspace).order_by("-pk")[:30]
        for message in newest:
            strip_invisible(render_plain(message.text, names)).encode()
            for token in parse(message.text, names):
                mark_invisible(token.text).encode()
            files_of(message.raw)


def judge(export: Mutated, path: Path, answer: dict[str, Any]) -> dict[str, Any]:
    """The fault of this answer, if any: the oracle counts the same export."""
    refused = answer["end"] == "refused"
    if export.must == "refuse":
        return {} if refused else {"fault": "refusal", "why": "it was read"}
    if refused and export.must == "either":
        return {}
    is_folder = export.folder is not None
    count = count_folder(path) if is_folder else count_zip(path.read_bytes())
    if refused:
        other_team = bool(count.teams) and TEAM not in count.teams
        may = not count.is_export or count.teams_of_organisation > 1 or other_team
        return {} if may else {"fault": "refusal", "why": answer["why"]}
    expected = {name: getattr(count, name) for name in ("people", "channels", "messages")}
    counts = {name: answer["counts"][name] for name in expected}
    if not answer["complete"] or (export.exact and counts != expected):
        return {"fault": "sum", "why": f"reported {counts}, counted {expected}"}
    return {}


def _where() -> str:
    return traceback.format_exc()[-3000:]


def child(work: Path) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    sys.dont_write_bytecode = True  # what the interpreter writes is not the importer's
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    signal.signal(signal.SIGPROF, _ring)
    import django

    django.setup()
    from django.db import connection

    # What survives a power cut is another hard test's matter, and would take most of the time.
    with connection.cursor() as cursor:
        on_sqlite = connection.vendor == "sqlite"
        cursor.execute("PRAGMA synchronous=OFF" if on_sqlite else "SET synchronous_commit=off")
    importer = _Importer(work.resolve())
    for line in sys.stdin:
        sys.stdout.write(json.dumps(importer.take(int(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) == 2 and "/" in sys.argv[1]:
        child(Path(sys.argv[1]))
    else:
        from tests.hard.__main__ import main

        sys.argv[1:] = ["bar_exports"]
        sys.exit(main())
