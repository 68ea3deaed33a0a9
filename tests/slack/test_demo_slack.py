"""`make demo-slack`: memories from a fake Slack, new messages, and the end by a signal."""

import contextlib
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.make_demo import new_browser, sign_in
from tests.processes import (
    alive_in_sessions,
    clean_environment,
    descendants,
    free_port,
    sessions_of,
    wait_until,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT = 300  # seconds after which it stops by itself
PATIENCE = 240.0
FIRST_MEMORY = 120.0  # seconds from the first new message to a memory of it
TALK = re.compile(r"^#\S+ [a-z]+: ([A-Za-z ,.]{25,60})", re.M)


class Demo:
    def __init__(self, var: Path, log: Path) -> None:
        port = free_port()
        self.database = var / "memoryhub.sqlite3"
        self.url = f"http://127.0.0.1:{port}/w/kazoe/"
        self.log = log
        self.began = time.time()
        options = ("--port", str(port), "--limit", str(LIMIT), "--days", "0")
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.slack.demo_slack", "--var", str(var), *options],
                cwd=ROOT,
                env=clean_environment("PYTEST_"),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.browser = new_browser()

    def read_log(self) -> str:
        return self.log.read_text()

    def answers(self) -> bool:
        assert self.process.poll() is None, self.read_log()
        with contextlib.suppress(OSError):
            return bool(self.page(self.url))
        return False

    def page(self, url: str) -> str:
        with self.browser.open(url, timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def count_versions(self) -> int:
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as rows:
            [count] = rows.execute("SELECT count(*) FROM memories_memoryversion").fetchone()
            return int(count)

    def newest_memory(self) -> float:
        """Return the time of the newest message that a memory covers, in seconds."""
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as rows:
            newest = "SELECT coalesce(max(until_us), 0) FROM memories_memoryversion"
            [until_us] = rows.execute(newest).fetchone()
            return float(until_us) / 1_000_000

    def newest_messages(self) -> str:
        """Return the message pages of all channels on the workspace's page."""
        paths = set(re.findall(r'href="(/w/kazoe/c/[^/"]+/)', self.page(self.url)))
        address = urllib.parse.urlsplit(self.url)
        pages = [f"{address.scheme}://{address.netloc}{path}messages/" for path in sorted(paths)]
        return "\n".join(self.page(page) for page in pages)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    running = Demo(tmp_path / "demo", tmp_path / "log")
    sessions: set[int] = set()
    try:
        yield running
    finally:
        sessions = sessions_of(descendants(running.process.pid))
        running.process.kill()
        running.process.wait()
        wait_until(lambda: not alive_in_sessions(sessions), "nothing left")


@pytest.mark.nightly("a second demo")
def test_the_demo_remembers_messages_and_stops_at_a_signal(demo: Demo) -> None:
    """The first memory of new messages takes less than two minutes."""
    wait_until(demo.answers, f"an answer; see {demo.log}", PATIENCE)
    sign_in(demo.browser, demo.url)
    assert demo.count_versions() > 0 and "Kazoe 3" in demo.page(demo.url)
    # New messages arrive as events.
    before = demo.newest_memory()
    wait_until(lambda: TALK.search(demo.read_log()), f"talk; see {demo.log}", PATIENCE)
    assert before < demo.began, "no memory covers a new message yet"
    wait_until(lambda: demo.newest_memory() > demo.began, f"a memory; see {demo.log}", FIRST_MEMORY)
    posted = TALK.findall(demo.read_log())
    wait_until(
        lambda: any(line in demo.newest_messages() for line in posted),
        f"one of {posted}; see {demo.log}",
        PATIENCE,
    )
    sessions = sessions_of(descendants(demo.process.pid))
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(timeout=PATIENCE) == 0, demo.read_log()
    wait_until(lambda: not alive_in_sessions(sessions), "nothing left")
    assert "Traceback" not in demo.read_log()


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    command = [sys.executable, "-m", "tests.slack.demo_slack", "--var", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert "holds something else" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]
