import contextlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.db import connection

from memories.models import Workspace
from memories.pipeline.locks import Busy, lock_preparation, lock_workspace
from tests.processes import wait_until

pytestmark = pytest.mark.postgres("advisory locks")

HOLDER = """
import os, sys, time
import django
django.setup()
from memories.models import Workspace
from memories.pipeline.locks import lock_preparation, lock_workspace
pk = int(sys.argv[1])
with lock_workspace(Workspace(pk=pk)) if pk else lock_preparation(print):
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def locked_elsewhere(
    workspace: Workspace | None, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Lock the workspace, or without one the preparation, in another process."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(workspace.pk if workspace else 0)],
        env=environment | {"DJANGO_SETTINGS_MODULE": "memoryhub.settings"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def same_var(settings: object, process_environment: dict[str, str]) -> dict[str, str]:
    settings.MEMORYHUB_VAR = process_environment["MEMORYHUB_VAR"]  # type: ignore[attr-defined]
    return process_environment


@pytest.mark.slow
@pytest.mark.cluster
def test_a_lock_excludes_other_processes_and_ends_with_its_own(same_var: dict[str, str]) -> None:
    locked = Workspace.objects.create(slug="one", name="one")
    free = Workspace.objects.create(slug="other", name="other")
    with locked_elsewhere(locked, same_var) as process:
        assert is_busy(locked)
        assert not is_busy(free)
        process.kill()
        process.wait()
        # A database server notices with a delay that its client has ended.
        wait_until(lambda: not is_busy(locked), "the lock of a process that was killed")


def is_busy(workspace: Workspace) -> bool:
    with contextlib.suppress(Busy), lock_workspace(workspace):
        return False
    return True


@pytest.mark.django_db
def test_an_error_releases_the_lock() -> None:
    workspace = Workspace.objects.create(slug="one", name="one")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), lock_workspace(workspace):
            raise ZeroDivisionError


@pytest.mark.postgres("SQLite has one lock for all", only=True)
@pytest.mark.django_db
def test_postgresql_ends_idle_transactions() -> None:
    """A frozen worker may have the lock of the endpoint's row, which each call needs."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() != ("0",)


@pytest.mark.cluster
def test_a_second_preparation_waits_for_the_first(same_var: dict[str, str]) -> None:
    reasons: list[str] = []
    with locked_elsewhere(None, same_var) as process:

        def end_the_holder(reason: str) -> None:
            reasons.append(reason)
            process.kill()

        with lock_preparation(end_the_holder):
            assert len(reasons) == 1 and "Waiting" in reasons[0]
        with lock_preparation(reasons.append):
            assert len(reasons) == 1
