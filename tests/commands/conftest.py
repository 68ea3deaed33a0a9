from collections.abc import Callable

import pytest
from django.core.management import call_command

from memories.models import Channel, Workspace
from tests.factories import ChannelFactory, WorkspaceFactory

Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command, and return its stdout."""

    def run(*words: object) -> str:
        capsys.readouterr()
        call_command(*map(str, words))
        return capsys.readouterr().out

    return run


@pytest.fixture
def workspace() -> Workspace:
    return WorkspaceFactory(slug="team")


@pytest.fixture
def channel(workspace: Workspace) -> Channel:
    return ChannelFactory(workspace=workspace, slack_id="C1", name="general")
