"""The wheel: its contents, and a hub that runs from it in an empty folder without the checkout."""

import os
import re
import signal
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.commands.test_serve import free_port
from tests.demo.make_demo import answers, new_browser, sign_in
from tests.processes import (
    PATIENCE,
    alive_in_sessions,
    clean_environment,
    descendants,
    sessions_of,
    wait_until,
)
from tests.test_conventions import tracked_files

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

pytestmark = pytest.mark.sqlite("an installed hub begins on SQLite")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command `memoryhub` of the unpacked wheel, with the dependencies of the checkout."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    start = (
        f"import sys; sys.path[0] = {str(folder)!r}; from memoryhub.__main__ import main; main()"
    )
    return [sys.executable, "-c", start]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command `memoryhub` of a new virtual environment with the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--only-binary", ":all:", str(wheel)]
    subprocess.run(pip, check=True, env=clean_environment("PYTHON"))
    return [str(folder / "bin" / "memoryhub")]


def environment(home: Path, **variables: str) -> dict[str, str]:
    inherited = clean_environment("PYTEST_", "XDG_", "DJANGO_", "PYTHON")
    return inherited | {"HOME": str(home)} | variables


@pytest.mark.slow
def test_it_contains_exactly_the_files_of_the_program(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if "dist-info" not in name}
    files = {str(path.relative_to(ROOT)) for path in tracked_files()}
    program = {name for name in files if re.match(r"(memories|memoryhub|templates)/", name)}
    assert names == {
        name.replace("templates/", "memoryhub/templates/", 1)
        if name.startswith("templates/")
        else name
        for name in program
        if not name.endswith(".po")
    }


def test_its_metadata_are_those_of_the_project(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    assert set(map(Requirement, metadata.get_all("Requires-Dist", []))) >= set(
        map(Requirement, PROJECT["dependencies"])
    )
    assert metadata["Requires-Python"].replace(" ", "") in (
        PROJECT["requires-python"],
        ",".join(reversed(PROJECT["requires-python"].split(","))),
    )


CONNECT = "from django.db import connection; connection.ensure_connection()"
SHOW_HELP = """
from django.test import Client
from memoryhub.static import collect_static_when_changed
collect_static_when_changed()
print(Client(SERVER_NAME="localhost").get("/help/", headers={"Accept-Language": "ja"}).text)
"""


@pytest.mark.nightly("starts five processes of the wheel")
def test_it_keeps_its_data_in_the_home_folder(unpacked: list[str], tmp_path: Path) -> None:
    """The current folder may be that of another project, with an `.env` of its own."""
    home, current = tmp_path / "home", tmp_path / "current"
    current.mkdir()
    (current / ".env").write_text("DATABASE_URL=mysql://another/project")

    def run(*words: str, **variables: str) -> str:
        done = subprocess.run(
            [*unpacked, *words],
            cwd=current,
            env=environment(home, **variables),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("--version").startswith("memoryhub ")
    data = home / ".local" / "share" / "memoryhub"
    run("shell", "--no-imports", "-c", CONNECT)
    assert {path.name for path in data.iterdir()} >= {"memoryhub.sqlite3", "secret_key", "keys"}
    (data / ".env").write_text("MEMORYHUB_VAR=elsewhere\nPORT=8123")
    run("check", XDG_DATA_HOME=str(tmp_path / "none"))
    assert (tmp_path / "none" / "memoryhub" / "secret_key").exists()
    page = run("shell", "--no-imports", "-c", SHOW_HELP)
    assert (data / "elsewhere" / "secret_key").exists()
    assert re.search(r'href="/static/memories/\w+\.[0-9a-f]{12}\.css"', page) and "ヘルプ" in page
    assert {path.name for path in current.iterdir()} == {".env"}


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.nightly("makes the demo; the test above renders a page of the wheel")
@pytest.mark.parametrize("command", ["unpacked", "installed"])
def test_one_command_runs_the_demo(
    command: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = environment(tmp_path / "home", PORT=str(port))
    log, empty = tmp_path / "log", tmp_path / "empty"
    empty.mkdir()
    with log.open("w") as output:
        process = subprocess.Popen(
            [*request.getfixturevalue(command), "demo"],
            cwd=empty,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(lambda: answers(process, url, log), f"an answer; see {log}", 400)
        check_over_http(url)
        sessions = sessions_of(descendants(process.pid))
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 0
        wait_until(lambda: not alive_in_sessions(sessions), "nothing left")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert "Sign in as demo, password demo" in log.read_text()
    assert list(empty.iterdir()) == []


def check_over_http(url: str) -> None:
    """Read a page of each kind: sign-in, Catch up, context, a static file, Japanese."""
    browser = new_browser()
    catch_up = sign_in(browser, url)
    assert 'href="/w/demo/' in catch_up

    def read(path: str) -> str:
        with browser.open(url + path, timeout=PATIENCE) as response:
            return str(response.read().decode())

    assert "#launch" in read("/w/demo/")
    assert "text" in read("/w/demo/context/")
    [style, *_] = re.findall(r'href="(/static/memories/\w+\.[0-9a-f]{12}\.css)"', catch_up)
    with browser.open(url + style, timeout=PATIENCE) as response:
        assert "immutable" in response.headers["Cache-Control"]
    japanese = urllib.request.Request(f"{url}/login/", headers={"Accept-Language": "ja"})
    with new_browser().open(japanese, timeout=PATIENCE) as response:
        assert "サインイン" in response.read().decode()
