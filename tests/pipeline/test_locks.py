import contextlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.db import connection

from memories.models import Workspace
from memories.pipeline.locks import Busy, preparing, storing
from tests.processes import wait_until

pytestmark = pytest.mark.postgres("advisory locks")

HOLDER = """
import os, sys, time
import django
django.setup()
from memories.models import Workspace
from memories.pipeline.locks import preparing, storing
pk = int(sys.argv[1])
with storing(Workspace(pk=pk)) if pk else preparing(print):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def held_elsewhere(
    workspace: Workspace | None, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Another process holds the workspace's lock, or that of who prepares the database."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(workspace.pk if workspace else 0)],
        env=environment | {"DJANGO_SETTINGS_MODULE": "memoryhub.settings"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
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
def test_one_at_a_time_and_never_stuck(same_var: dict[str, str]) -> None:
    one = Workspace.objects.create(slug="one", name="one")
    other = Workspace.objects.create(slug="other", name="other")
    with held_elsewhere(one, same_var) as process:
        assert is_busy(one)
        assert not is_busy(other)
        process.kill()
        process.wait()
        # A database server learns a moment later that its client is gone.
        wait_until(lambda: not is_busy(one), "the lock of a process that was killed")


def is_busy(workspace: Workspace) -> bool:
    with contextlib.suppress(Busy), storing(workspace):
        return False
    return True


@pytest.mark.django_db
def test_it_is_given_back_when_the_work_fails() -> None:
    workspace = Workspace.objects.create(slug="one", name="one")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), storing(workspace):
            raise ZeroDivisionError


@pytest.mark.postgres("SQLite has one lock for all", only=True)
@pytest.mark.django_db
def test_a_worker_frozen_in_a_transaction_does_not_keep_its_locks_for_ever() -> None:
    """It may hold the endpoint's row, which each call of each worker takes first."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() != ("0",)


@pytest.mark.cluster
def test_one_prepares_at_a_time_and_another_waits(same_var: dict[str, str]) -> None:
    reasons: list[str] = []
    with held_elsewhere(None, same_var) as process:

        def end_the_holder(reason: str) -> None:
            reasons.append(reason)
            process.kill()

        with preparing(end_the_holder):
            assert len(reasons) == 1 and "Waiting" in reasons[0]
        with preparing(reasons.append):
            assert len(reasons) == 1, "nobody holds it now"
