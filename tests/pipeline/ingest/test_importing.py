import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memories.models import Channel, Message, Workspace
from memories.pipeline.ingest.importing import ImportReport, WrongTeam, import_export
from memories.pipeline.ingest.roster import set_members
from memories.pipeline.redaction import forget
from memories.rules.ingest.outcomes import ObjectType, Result
from memories.slack.export import Export
from tests.hostilezips import packed
from tests.slackexports import START, channel, export_files, person, said, ts

pytestmark = pytest.mark.django_db
NOW = datetime.fromtimestamp(START, UTC) + timedelta(days=10)
DAY = "general/2023-11-14"


@pytest.fixture
def workspace() -> Workspace:
    return Workspace.objects.create(slug="team", name="team")


@pytest.fixture
def read(tmp_path: Path, workspace: Workspace) -> Any:
    def read(days: dict[str, Any], *, direct: bool = False, **lists: Any) -> ImportReport:
        path = tmp_path / "export.zip"
        path.write_bytes(packed(export_files(days, **lists)))
        with Export(path) as export:
            report = import_export(workspace, export, NOW, direct_messages=direct)
        assert report.tally.is_complete
        return report

    return read


def test_an_older_export_of_what_was_private_stays_with_its_members(read: Any) -> None:
    """The channel is public by now, as a later export told; its past is its members'."""
    read({"general/2023-11-16": [said(200_000, "to all")]})
    read({DAY: [said(1, "canary")]}, channels=[], groups=[channel("C1", "general")])
    assert Channel.objects.get().is_public
    told = Message.objects.in_order().values_list("text", "was_private")
    assert list(told) == [("canary", True), ("to all", False)]


def test_a_root_that_only_an_export_of_what_was_private_holds(read: Any) -> None:
    """Its place in the thread was there before: told by a reply."""
    read({"general/2023-11-16": [said(200_000, "to all", thread_ts=ts(1))]})
    read({DAY: [said(1, "canary")]}, channels=[], groups=[channel("C1", "general")])
    told = Message.objects.in_order().values_list("text", "was_private")
    assert list(told) == [("canary", True), ("to all", False)]


def test_what_is_private_stays_so_whatever_an_older_export_says(read: Any) -> None:
    read({"general/2023-11-16": []}, channels=[], groups=[channel("C1", "general")])
    read({DAY: [said(1, "canary")]})
    assert Channel.objects.get().kind == "private"


def test_a_public_channel_that_turns_out_to_be_a_group_message(read: Any) -> None:
    read({DAY: [said(1, "a")]})
    lists = {"channels": [], "mpims": [channel("C1", "general", is_mpim=True)]}
    read({"general/2023-11-15": [said(90_000, "canary")]}, direct=True, **lists)
    assert Channel.objects.get().kind == "mpim"
    assert not Channel.objects.public().exists()


def test_names_of_direct_messages_follow_their_people(read: Any) -> None:
    dms = [{"id": "D0123456789", "members": ["U1", "U2"]}, {"id": "D0123456780"}]
    read({}, direct=True, dms=dms)
    report = read({}, direct=True, dms=dms, people=[person("U1", "Anna"), person("U2", "Bob")])
    assert report.tally.count(ObjectType.CHANNEL, Result.UPDATED) == 1
    names = Channel.objects.filter(kind="im").order_by("slack_id").values_list("name", flat=True)
    assert list(names) == ["D0123456780", "Anna, Bob"]


def test_teams_that_no_database_could_hold(read: Any, workspace: Workspace) -> None:
    odd = [person(f"U{n}", team_id=team) for n, team in enumerate(("\x00", "\ud800", "T" * 99, []))]
    read({DAY: [said(1, "a")]}, people=[*odd, *odd, person("U9", team_id="T1")])
    workspace.refresh_from_db()
    assert workspace.team_id == "T1"
    with pytest.raises(WrongTeam):
        read({}, people=[person("U9", team_id="T2")])


def test_numbers_that_are_none_in_json(read: Any) -> None:
    numbers = ("1e999", "-1e999", "NaN", "9" * 4000)
    day = json.dumps([said(n, "a", reply_count=f"#{n}", odd=f"#{n}") for n in range(len(numbers))])
    for n, number in enumerate(numbers):
        day = day.replace(f'"#{n}"', number)
    read({DAY: day}, people=[person("U1", updated=10**15)])
    rows = Message.objects.in_order().values_list("reply_count", "raw")
    assert [(count, json.loads(raw)["ts"]) for count, raw in rows] == [(0, ts(n)) for n in range(4)]


@pytest.mark.parametrize(
    ("day", "members"),
    [("2023-11-14", ["U2"]), ("2023-11-16", ["U1", "U2"])],
    ids=["of the day somebody left", "of a later day"],
)
def test_an_export_brings_nobody_back_who_may_have_left_since(
    read: Any, workspace: Workspace, day: str, members: list[str]
) -> None:
    """Nobody knows at what hour of its newest day it was made."""
    secret = workspace.channels.create(slack_id="C1", name="secret", kind="private")
    left_at = datetime.fromisoformat("2023-11-14T12:00:00+00:00")
    set_members(secret, ["U2"], left_at)
    groups = [channel("C1", "secret", members=["U1", "U2"])]
    read({f"secret/{day}": [said(1, "hello")]}, channels=[], groups=groups)
    assert sorted(secret.people.values_list("slack_id", flat=True)) == members


@pytest.mark.parametrize("gone", ["message", "person", "channel"])
def test_an_export_brings_back_no_words_of_a_topic(
    read: Any, workspace: Workspace, gone: str
) -> None:
    """Neither does the one that is read again nor a later one, which may tell them still."""
    said_so = "we agreed that the blue lanterns of harbour street will be moved on friday"
    told = {"topic": {"value": said_so}, "purpose": {"value": "ask Quillon Vane"}}
    lists = {
        "people": [person("U1", "Quillon Vane"), person("U2", "Bob")],
        "channels": [channel("C1", "general", **told)],
    }
    read({DAY: [said(1, said_so)]}, **lists)
    row = Channel.objects.get()
    assert (row.topic, row.purpose) == (said_so, "ask Quillon Vane")
    match gone:
        case "message":
            forget.message(row, ts(1), by=None)
            left = ("[…]", "ask Quillon Vane")
        case "person":
            forget.person(workspace.people.get(slack_id="U1"), NOW, by=None)
            left = ("[…]", "ask […]")
        case _:
            forget.channel(row, NOW, by=None)
            left = ("", "")
    for day in (DAY, "general/2023-11-16"):
        read({day: [said(1, said_so)]}, **lists)
        row.refresh_from_db()
        assert (row.topic, row.purpose) == left
