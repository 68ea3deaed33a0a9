import pytest

from memories.models import Channel, Workspace
from tests.factories import WorkspaceFactory
from tests.pipeline.conversations import remembering


@pytest.fixture
def workspace() -> Workspace:
    """A workspace without memories of threads and without a short-term memory of its own."""
    return WorkspaceFactory(settings={"thread_memories": False, "workspace_short_term": False})


@pytest.fixture
def channel(workspace: Workspace) -> Channel:
    """The channel #launch, remembered from MONDAY on, without messages."""
    return remembering(workspace, name="launch")


@pytest.fixture
def private_channel(workspace: Workspace) -> Channel:
    """A private #launch: no job merges its memories into those of the workspace."""
    return remembering(workspace, name="launch", kind="private")
