"""`manage.py serve` with its real children: web processes and a qcluster."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from django.core.management import CommandError, call_command

from memories.management.commands.serve import listen
from tests.databases import manage
from tests.processes import (
    PATIENCE,
    alive_in_sessions,
    descendants,
    free_port,
    is_live,
    sessions_of,
    wait_until,
)

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]

METRICS_KEY = "key-of-prometheus"
ROOT = Path(__file__).resolve().parent.parent.parent


class Served:
    """A running `serve` with its web processes and its qcluster."""

    def __init__(self, environment: dict[str, str], port: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        self.sessions: set[int] = set()
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "serve"],
                cwd=log.parent,  # outside of the checkout
                env=environment | {"PORT": str(port)},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_until_it_runs(self) -> None:
        wait_until(self.is_up, f"an answer at {self.url}; see {self.log}")
        wait_until(lambda: len(self.cluster()) >= 6, "a whole qcluster")
        self.sessions = sessions_of(descendants(self.process.pid))
        assert len(self.sessions) == 4  # two of web, worker, watcher

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return is_live(self.url)

    def cluster(self) -> list[psutil.Process]:
        """Return the parent, sentinel, pusher, monitor and workers, oldest first."""
        members = []
        for process in descendants(self.process.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "qcluster" in " ".join(process.cmdline()):
                    members.append(process)
        return sorted(members, key=lambda process: process.create_time())


@pytest.fixture
def served(
    process_environment: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    # One folder for all tests, to collect static files once.
    process_environment["MEMORYHUB_VAR"] = str(tmp_path_factory.getbasetemp() / "var")
    process_environment["MEMORYHUB_METRICS_KEY"] = METRICS_KEY
    running = Served(process_environment, free_port(), tmp_path / "log")
    try:
        running.wait_until_it_runs()
        yield running
    finally:
        running.process.kill()
        running.process.wait()
        wait_until(lambda: not alive_in_sessions(running.sessions), "nothing left")


@pytest.mark.nightly("the demo is served and stopped; test_worker.py replaces a cluster")
def test_a_hub_runs_until_a_signal_stops_it(served: Served) -> None:
    check_metrics(served)
    old = served.cluster()[0].pid
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: not alive_in_sessions({old}), "its five orphans gone")
    wait_until(lambda: len(served.cluster()) >= 6, "a new qcluster")
    assert served.is_up()
    served.sessions |= sessions_of(descendants(served.process.pid))
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=PATIENCE) == 0, served.log.read_text()
    wait_until(lambda: not alive_in_sessions(served.sessions), "nothing left")


def check_metrics(served: Served) -> None:
    """Each web process responds with the metrics of both."""

    def read(path: str) -> str:
        headers = {"Authorization": f"Bearer {METRICS_KEY}"}
        request = urllib.request.Request(served.url + path, headers=headers)
        with urllib.request.urlopen(request) as response:
            return str(response.read().decode())

    for _ in range(20):
        read("/help/")
    pages = 'memoryhub_http_request_duration_seconds_count{kind="page",status="2xx"}'
    for _ in range(10):
        assert f"{pages} 20.0\n" in read("/metrics")


@pytest.mark.nightly("tests/test_supervise.py kills a supervisor, test_worker.py one of a cluster")
def test_a_killed_serve_leaves_no_process(served: Served) -> None:
    served.process.kill()
    served.process.wait()
    wait_until(lambda: not alive_in_sessions(served.sessions), "nothing left")


@pytest.mark.slow
def test_a_used_port_is_refused_before_the_start(database_url: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = manage(database_url, tmp_path, "serve", PORT=str(port))
    assert done.returncode == 1
    assert f"Port {port} is taken" in done.stderr
    assert f"PORT={port + 1}" in done.stderr
    assert not done.stdout


def test_a_port_is_tried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(CommandError, match=f"Port {port} is taken.*PORT={port + 1}"):
            call_command("serve", "--try-port", f"--port={port}")


@pytest.mark.parametrize("port", ["99999", "-1", "http", "65536"])
def test_a_wrong_port_is_refused(port: str) -> None:
    with pytest.raises(CommandError, match="not a port: a number from 0 to 65535"):
        call_command("serve", "--try-port", f"--port={port}")


def test_a_wrong_port_of_the_environment_is_refused() -> None:
    with pytest.raises(CommandError, match="not a port: a number from 0 to 65535"):
        listen("127.0.0.1", 99_999)


@pytest.mark.slow
def test_an_empty_database_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/empty.sqlite3"
    done = manage(url, tmp_path, "serve", "--port", str(free_port()))
    assert done.returncode == 1
    assert "manage.py migrate" in done.stderr
