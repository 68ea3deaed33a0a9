"""Run `make demo` once for all tests that read the demo."""

import contextlib
import http.cookiejar
import json
import os
import re
import signal
import subprocess
import urllib.parse
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path

from memories.demo.workspace import DEMO_PASSWORD, DEMO_USER
from tests import template
from tests.processes import (
    alive_in_sessions,
    clean_environment,
    descendants,
    free_port,
    is_live,
    sessions_of,
    wait_until,
)

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 240.0  # seconds


@dataclass(frozen=True)
class MadeDemo:
    """The output of `make demo`, and the page after the sign-in."""

    url: str
    output: str
    page: str


def made_demo(run: Path) -> MadeDemo:
    """Create the template ``demo``, or read the one of another process."""
    template.make_once(run, "demo", lambda: make(run))
    return MadeDemo(**json.loads((run / "demo.json").read_text()))


def make(run: Path) -> None:
    template.make_migrated(run)
    template.create(run, "demo", template="migrated")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    log = run / "demo.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            ["make", "demo"],
            cwd=ROOT,
            env=clean_environment("PYTEST_", "MAKE")
            | {
                "DATABASE_URL": template.database_url(template.database_name(run, "demo")),
                "MEMORYHUB_VAR": str(run / "demo-var"),
                "PORT": str(port),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(lambda: answers(process, url, log), f"an answer; see {log}", PATIENCE)
        page = sign_in(new_browser(), url)
        sessions = sessions_of(descendants(process.pid))
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C in a terminal
        process.wait(timeout=PATIENCE)
        wait_until(lambda: not alive_in_sessions(sessions), "nothing left")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    made = MadeDemo(url, log.read_text(), page)
    (run / "demo.json").write_text(json.dumps(asdict(made)))


def answers(process: "subprocess.Popen[bytes]", url: str, log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    return is_live(url)


def new_browser() -> urllib.request.OpenerDirector:
    """Return a client that stores cookies."""
    return urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    )


def sign_in(browser: urllib.request.OpenerDirector, url: str) -> str:
    """Sign in with the printed account, and return the next page."""
    with browser.open(url, timeout=60) as login:
        page, address = login.read().decode(), login.geturl()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert token is not None
    form = {"csrfmiddlewaretoken": token[1], "username": DEMO_USER, "password": DEMO_PASSWORD}
    data = urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(address, data, {"Referer": address})
    with browser.open(request, timeout=60) as answer:
        return str(answer.read().decode())
