"""Several first starts at once on a new database."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.databases import ROOT, environment, fresh_database, manage

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.nightly("tests/pipeline/test_locks.py holds the lock; these migrate twice"),
]

SHOW_STATE = """
from memories.models import Workspace
from memoryhub.health import unapplied_migrations
print(unapplied_migrations(), *Workspace.objects.values_list("slug", flat=True))
"""


@pytest.mark.parametrize(
    ("command", "state"),
    [
        (["migrate"], "0\n"),
        (["demo", "--no-serve"], "0 demo\n"),
    ],
)
def test_a_second_start_waits_for_the_first(command: list[str], state: str, tmp_path: Path) -> None:
    with fresh_database(os.environ.get("DATABASE_URL", "")) as url, ExitStack() as stack:
        starts = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "manage.py", *command],
                    cwd=ROOT,
                    env=environment(url, tmp_path / "var"),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(2)
        ]
        errors = [start.communicate()[1] for start in starts]
        assert [start.returncode for start in starts] == [0, 0], errors
        assert "Waiting until it has finished" in "".join(errors)
        shown = manage(url, tmp_path / "var", "shell", "--no-imports", "-c", SHOW_STATE)
        assert shown.stdout == state, shown.stderr
