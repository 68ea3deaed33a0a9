"""For any input nothing raises, and each object has one outcome."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memories.models import Message, Workspace
from memories.pipeline.ingest.roster import store_channels, store_people
from memories.pipeline.ingest.store import store_messages
from memories.rules.ingest.outcomes import ObjectType, Result
from tests.slackexports import START, ts

pytestmark = pytest.mark.postgres("upserts")

NOW = datetime.fromtimestamp(START, UTC) + timedelta(days=10)

ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.sampled_from(["U1", "B1", "<@U1>", "\ud800", "a\x00b", "0000000000.000000", ts(3)]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "elements", "ts", "user", "name", "value", "title", "fields", "id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
SUBTYPES = st.sampled_from(
    ["bot_message", "channel_join", "message_changed", "message_deleted", "tombstone"]
    + ["thread_broadcast", "file_comment", "huddle_thread", "new"]
)
MESSAGES = st.fixed_dictionaries(
    {"ts": st.integers(0, 5).map(ts) | ODD},
    optional={
        "type": st.just("message") | ODD,
        "subtype": SUBTYPES | ODD,
        "thread_ts": st.integers(0, 5).map(ts) | ODD,
        "deleted_ts": st.integers(0, 5).map(ts) | ODD,
        "edited": st.fixed_dictionaries({"ts": st.integers(0, 9).map(ts)}) | ODD,
        **dict.fromkeys(
            ["user", "bot_id", "username", "text", "blocks", "attachments", "files", "comment"], ODD
        ),
        **dict.fromkeys(
            ["room", "user_profile", "reply_count", "latest_reply", "message", "previous_message"],
            ODD,
        ),
    },
)
DESCRIBED = st.fixed_dictionaries(
    {"id": st.sampled_from(["C1", "C2", "U1"]) | ODD},
    optional=dict.fromkeys(
        ["name", "profile", "members", "topic", "purpose", "is_private", "updated", "team_id"], ODD
    ),
)
ON_ONE_DATABASE = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.nightly("quicker tests run the same lines")
@pytest.mark.django_db
@ON_ONE_DATABASE
@given(st.lists(MESSAGES | ODD, max_size=8))
def test_messages(raws: list[Any]) -> None:
    workspace, _ = Workspace.objects.get_or_create(slug="w", name="w", team_id="T1")
    channel, _ = workspace.channels.get_or_create(slack_id="C1", name="general")
    before = channel.messages.exclude(state=Message.State.MISSING).count()
    tally = store_messages(channel, raws, NOW)
    assert tally.is_complete
    assert tally.count(ObjectType.MESSAGE) == len(raws)
    after = channel.messages.exclude(state=Message.State.MISSING).count()
    assert after - before == tally.count(result=Result.STORED)
    repeated = store_messages(channel, raws, NOW)
    assert repeated.is_complete
    assert repeated.count(result=Result.STORED) == 0


@pytest.mark.nightly("quicker tests run the same lines")
@pytest.mark.django_db
@ON_ONE_DATABASE
@given(st.lists(DESCRIBED | ODD, max_size=6))
def test_people_and_channels(raws: list[Any]) -> None:
    workspace, _ = Workspace.objects.get_or_create(slug="w", name="w", team_id="T1")
    for tally in (
        store_people(workspace, raws),
        store_channels(workspace, [(raw, "public") for raw in raws], known_at=NOW),
    ):
        assert tally.is_complete
        assert tally.count() == len(raws)
