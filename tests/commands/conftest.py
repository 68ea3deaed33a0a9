from collections.abc import Callable

import pytest
from django.core.management import call_command

Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command, and return its stdout."""

    def run(*words: object) -> str:
        capsys.readouterr()
        call_command(*map(str, words))
        return capsys.readouterr().out

    return run
