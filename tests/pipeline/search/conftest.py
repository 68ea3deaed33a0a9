import pytest

from memories.models import Workspace
from tests.factories import WorkspaceFactory


@pytest.fixture
def workspace() -> Workspace:
    return WorkspaceFactory(slug="team")
