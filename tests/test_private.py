"""Other users of the machine read nothing that the installation writes."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

from tests.processes import clean_environment

ROOT = Path(__file__).resolve().parent.parent


def modes(folder: Path) -> dict[str, int]:
    """Return the permission bits of a folder and of its content, by name."""
    paths = [folder, *folder.iterdir()]
    return {path.name: path.stat().st_mode & 0o1777 for path in paths}


def manage(command: list[str], var: Path, database: Path) -> None:
    subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=clean_environment()
        | {"MEMORYHUB_VAR": str(var), "DATABASE_URL": f"sqlite:///{database}"},
        umask=0o022,
        check=True,
        timeout=120,
    )


# Each of them opens the database and so makes its file.
MANAGE = ["manage.py", "check", "--database", "default"]
WEB = ["-c", "import memoryhub.wsgi; from django.db import connection; connection.cursor()"]
TWICE = pytest.mark.nightly("another start in a second test")


@pytest.mark.slow
@pytest.mark.parametrize("start", [MANAGE, pytest.param(WEB, marks=TWICE)], ids=["manage", "web"])
def test_new_files_are_private(start: list[str], tmp_path: Path) -> None:
    var = tmp_path / "var"
    manage(start, var, var / "db.sqlite3")
    made = modes(var)
    assert made.keys() >= {"var", "db.sqlite3", "secret_key", "keys"}
    assert not [name for name, mode in made.items() if mode & 0o077]


@pytest.mark.slow
@pytest.mark.parametrize("start", [pytest.param(MANAGE, marks=TWICE), WEB], ids=["manage", "web"])
def test_a_start_restricts_file_modes(start: list[str], tmp_path: Path) -> None:
    """The database is in another folder, and its WAL is in use."""
    var, elsewhere = tmp_path / "var", tmp_path / "elsewhere"
    before = os.umask(0o022)
    try:
        (var / "uploads").mkdir(parents=True)
        elsewhere.mkdir()
        with closing(sqlite3.connect(elsewhere / "db.sqlite3")) as opened:
            opened.execute("PRAGMA journal_mode=WAL")
            opened.execute("CREATE TABLE t (x)")
            assert modes(elsewhere)["db.sqlite3-wal"] == 0o644
            manage(start, var, elsewhere / "db.sqlite3")
            assert not [name for name, mode in modes(var).items() if mode & 0o077]
            files = modes(elsewhere)
            assert files.pop("elsewhere") == 0o755, "a folder that is not ours"
            assert set(files.values()) == {0o600} and len(files) == 3
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "warned"),
    [
        (0o700, 0o644, []),
        (0o755, 0o600, ["var"]),
        (0o750, 0o640, ["var", "secret_key"]),
        (0o1777, 0o644, ["var", "secret_key"]),
    ],
)
def test_a_check_reports_files_open_to_other_users(
    settings: Settings, tmp_path: Path, folder_mode: int, file_mode: int, warned: list[str]
) -> None:
    tmp_path.chmod(0o755)
    settings.MEMORYHUB_VAR = var = tmp_path / "var"
    var.mkdir()
    (var / "secret_key").touch()
    (var / "secret_key").chmod(file_mode)
    var.chmod(folder_mode)
    messages = [message for message in run_checks() if message.id == "memories.W003"]
    assert [Path(message.msg.rstrip(".")).name for message in messages] == warned
    assert all("chmod go= " in (message.hint or "") for message in messages)


@pytest.mark.slow
def test_a_shared_folder_stays_shared(tmp_path: Path) -> None:
    """For example /tmp, if a setting names it."""
    var = tmp_path / "var"
    var.mkdir()
    var.chmod(0o1777)
    manage(["manage.py", "check"], var, tmp_path / "db.sqlite3")
    assert modes(var) == {"var": 0o1777, "secret_key": 0o600, "keys": 0o600}
