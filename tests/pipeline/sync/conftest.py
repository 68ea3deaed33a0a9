"""Fixtures: a workspace and a fake Slack, read over HTTP with the real client."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from memories.models import Reader, Workspace
from memories.pipeline.sync.sync import sync_workspace
from memories.pipeline.sync.sync_report import SyncReport
from memories.slack.web import SlackClient
from tests.factories import PersonFactory, UserFactory, WorkspaceFactory
from tests.pipeline.sync.team import (
    CLOSED,
    ELSEWHERE,
    GENERAL,
    NOW,
    ROOT,
    Sync,
    client_of,
    follow,
    ts,
)
from tests.slack.fake_slack import FakeSlack


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    """Three people, a public channel with a thread, a private one, and one without the bot."""
    with FakeSlack() as fake:
        for slack_id, name in (("U1", "ann"), ("U2", "ben"), ("U3", "cho")):
            fake.add_user(slack_id, name)
        fake.add_channel(GENERAL, "general", members=["U1", "U2", "U3"])
        fake.add_channel(CLOSED, "closed", is_private=True, members=["U1", "U2"])
        fake.add_channel(ELSEWHERE, "elsewhere", bot_is_in=False, members=["U3"])
        fake.say(GENERAL, "U1", "an old line", ts(60))
        fake.say(GENERAL, "U1", "shall we ship?", ROOT)
        fake.say(GENERAL, "U2", "yes", ts(1.9), thread=ROOT)
        fake.say(GENERAL, "U3", "on Friday", ts(1.8), thread=ROOT)
        fake.say(GENERAL, "U3", "a new line", ts(1))
        fake.say(CLOSED, "U2", "between us", ts(3))
        yield fake


@pytest.fixture
def workspace() -> Workspace:
    """All three channels are followed."""
    return follow(WorkspaceFactory())


@pytest.fixture
def sync(slack: FakeSlack, workspace: Workspace) -> Sync:
    """Return a function that runs one sync with a client of its own."""

    def run(now: datetime = NOW, client: SlackClient | None = None, **given: Any) -> SyncReport:
        slack.clear_calls()
        return sync_workspace(workspace, client or client_of(slack), now, **given)

    return run


@pytest.fixture
def ann(workspace: Workspace) -> Reader:
    """A user linked to a member of the private channel."""
    user = UserFactory()
    PersonFactory(workspace=workspace, slack_id="U1", name="ann", user=user)
    return Reader.of(user, now=NOW)
