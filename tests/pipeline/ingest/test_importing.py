import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memories.models import Channel, Message, Person, Workspace
from memories.pipeline.ingest.importing import ImportReport, WrongTeam, import_export
from memories.pipeline.ingest.roster import set_members
from memories.pipeline.redaction import forget
from memories.rules.ingest.outcomes import ObjectType, Result
from memories.slack.export import Export
from tests.slackexports import START, channel, export_files, person, slack_message, ts, write_zip

pytestmark = pytest.mark.django_db
NOW = datetime.fromtimestamp(START, UTC) + timedelta(days=10)
DAY = "general/2023-11-14"


@pytest.fixture
def workspace() -> Workspace:
    return Workspace.objects.create(slug="team", name="team")


@pytest.fixture
def run_import(tmp_path: Path, workspace: Workspace) -> Any:
    def run_import(days: dict[str, Any], *, direct: bool = False, **lists: Any) -> ImportReport:
        path = write_zip(tmp_path / "export.zip", export_files(days, **lists))
        with Export(path) as export:
            report = import_export(workspace, export, NOW, direct_messages=direct)
        assert report.tally.is_complete
        return report

    return run_import


def outcomes(report: ImportReport, objects: str = "messages") -> dict[str, int]:
    """Count by outcome, such as ``{"stored": 1, "quarantined: no ts": 2}``."""
    return {
        f"{outcome.result}: {outcome.reason}" if outcome.reason else str(outcome.result): count
        for object_type, outcome, count in report.tally.sorted_outcomes()
        if object_type == objects
    }


def test_each_object_has_an_outcome(run_import: Any) -> None:
    """Rows 02, 03, 13, 15, 16 and 36 of `tests.hard.mutated_exports`."""
    profile = {"display_name": "Ann", "email": "ann@example.com"}
    notices = [
        slack_message(n, "<@U1> did", subtype=subtype)
        for n, subtype in enumerate(("channel_join", "channel_topic", "group_archive", "bot_add"))
    ]
    odd = [None, "text", 5, [], {}, slack_message(1, "x", "U00"), slack_message(1, "x", ts="soon")]
    report = run_import(
        {DAY: [*odd, *notices, slack_message(60, "hello")], "who-knows/2023-11-14": [1, 2]},
        people=[None, {}, *(person(slack_id, profile=profile) for slack_id in ("U1", "W1"))],
        channels=[3, channel("C1", "general", members=["U1", "W1", "U1"])],
    )
    assert outcomes(report) == {
        "stored": 1,
        "stored: notice": 4,
        "skipped: placeholder author U00": 1,
        "quarantined: no ts": 1,
        "quarantined: not an object": 4,
        "quarantined: of a channel in no list": 2,
        "quarantined: ts is not a number": 1,
    }
    assert outcomes(report, "people") == {
        "stored": 2,
        "quarantined: no id": 1,
        "quarantined: not an object": 1,
    }
    assert outcomes(report, "channels") == {"stored": 1, "quarantined: not an object": 1}
    assert report.unlisted == [("who-knows", 2)]
    assert [message.text for message in Message.objects.rememberable()] == ["hello"]
    assert Person.objects.filter(email="ann@example.com").count() == 2
    assert sorted(Channel.objects.get().people.names()) == ["U1", "W1"]


def test_a_channel_is_identified_by_its_id(run_import: Any) -> None:
    """Rows 05 and 38: a channel is renamed, and another one takes its name and has the same ts."""
    run_import({DAY: [slack_message(1, "first")]})
    run_import(
        {
            "all/2023-11-15": [slack_message(2, "second")],
            "general/2023-11-15": [slack_message(2, "third")],
        },
        channels=[channel("C1", "all", creator=None), channel("C2", "general")],
    )
    assert list(Message.objects.in_order().values_list("channel__slack_id", "text")) == [
        ("C1", "first"),
        ("C1", "second"),
        ("C2", "third"),
    ]


@pytest.mark.parametrize(
    "thread",
    [
        pytest.param({}, id="a message"),
        pytest.param({"thread_ts": ts(1)}, id="a root of which a reply has made a placeholder"),
    ],
)
def test_an_older_export_of_a_private_channel_is_for_its_members(
    run_import: Any, thread: dict[str, str]
) -> None:
    """A later export has it as a public channel."""
    run_import({"general/2023-11-16": [slack_message(200_000, "to all", **thread)]})
    run_import({DAY: [slack_message(1, "canary")]}, channels=[], groups=[channel("C1", "general")])
    assert Channel.objects.get().is_public
    messages = Message.objects.in_order().values_list("text", "was_private")
    assert list(messages) == [("canary", True), ("to all", False)]


def test_an_older_export_does_not_make_a_private_channel_public(run_import: Any) -> None:
    run_import({"general/2023-11-16": []}, channels=[], groups=[channel("C1", "general")])
    run_import({DAY: [slack_message(1, "canary")]})
    assert Channel.objects.get().kind == "private"


def test_a_group_message_that_was_listed_as_public_becomes_private(run_import: Any) -> None:
    run_import({DAY: [slack_message(1, "a")]})
    lists = {"channels": [], "mpims": [channel("C1", "general", is_mpim=True)]}
    run_import({"general/2023-11-15": [slack_message(90_000, "canary")]}, direct=True, **lists)
    assert Channel.objects.get().kind == "mpim"
    assert not Channel.objects.public().exists()


def test_names_of_direct_messages_follow_their_people(run_import: Any) -> None:
    dms = [{"id": "D0123456789", "members": ["U1", "U2"]}, {"id": "D0123456780"}]
    run_import({}, direct=True, dms=dms)
    report = run_import(
        {}, direct=True, dms=dms, people=[person("U1", "Anna"), person("U2", "Bob")]
    )
    assert report.tally.count(ObjectType.CHANNEL, Result.UPDATED) == 1
    names = Channel.objects.filter(kind="im").order_by("slack_id").values_list("name", flat=True)
    assert list(names) == ["D0123456780", "Anna, Bob"]


def test_team_ids_that_no_database_can_store_are_ignored(
    run_import: Any, workspace: Workspace
) -> None:
    odd = [person(f"U{n}", team_id=team) for n, team in enumerate(("\x00", "\ud800", "T" * 99, []))]
    run_import({DAY: [slack_message(1, "a")]}, people=[*odd, *odd, person("U9", team_id="T1")])
    workspace.refresh_from_db()
    assert workspace.team_id == "T1"
    with pytest.raises(WrongTeam):
        run_import({}, people=[person("U9", team_id="T2")])


def test_numbers_that_json_does_not_have_are_stored(run_import: Any) -> None:
    numbers = ("1e999", "-1e999", "NaN", "9" * 4000)
    day = json.dumps(
        [slack_message(n, "a", reply_count=f"#{n}", odd=f"#{n}") for n in range(len(numbers))]
    )
    for n, number in enumerate(numbers):
        day = day.replace(f'"#{n}"', number)
    run_import({DAY: day}, people=[person("U1", updated=10**15)])
    rows = Message.objects.in_order().values_list("reply_count", "raw")
    assert [(count, json.loads(raw)["ts"]) for count, raw in rows] == [(0, ts(n)) for n in range(4)]


@pytest.mark.parametrize(
    ("day", "members"),
    [("2023-11-14", ["U2"]), ("2023-11-16", ["U1", "U2"])],
    ids=["of the day somebody left", "of a later day"],
)
def test_an_export_does_not_add_people_who_may_have_left(
    run_import: Any, workspace: Workspace, day: str, members: list[str]
) -> None:
    """The hour of an export within its newest day is unknown."""
    secret = workspace.channels.create(slack_id="C1", name="secret", kind="private")
    left_at = datetime.fromisoformat("2023-11-14T12:00:00+00:00")
    set_members(secret, ["U2"], left_at)
    groups = [channel("C1", "secret", members=["U1", "U2"])]
    run_import({f"secret/{day}": [slack_message(1, "hello")]}, channels=[], groups=groups)
    assert sorted(secret.people.values_list("slack_id", flat=True)) == members


@pytest.mark.parametrize("forgotten", ["message", "person", "channel"])
def test_an_export_restores_no_redacted_words_of_a_topic(
    run_import: Any, workspace: Workspace, forgotten: str
) -> None:
    """Neither the same export nor a later one does."""
    statement = "we agreed that the blue lanterns of harbour street will be moved on friday"
    texts = {"topic": {"value": statement}, "purpose": {"value": "ask Quillon Vane"}}
    lists = {
        "people": [person("U1", "Quillon Vane"), person("U2", "Bob")],
        "channels": [channel("C1", "general", **texts)],
    }
    run_import({DAY: [slack_message(1, statement)]}, **lists)
    row = Channel.objects.get()
    assert (row.topic, row.purpose) == (statement, "ask Quillon Vane")
    match forgotten:
        case "message":
            forget.forget_message(row, ts(1), by=None)
            kept = ("[…]", "ask Quillon Vane")
        case "person":
            forget.forget_person(workspace.people.get(slack_id="U1"), NOW, by=None)
            kept = ("[…]", "ask […]")
        case _:
            forget.forget_channel(row, NOW, by=None)
            kept = ("", "")
    for day in (DAY, "general/2023-11-16"):
        run_import({day: [slack_message(1, statement)]}, **lists)
        row.refresh_from_db()
        assert (row.topic, row.purpose) == kept
