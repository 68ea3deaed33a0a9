"""Times of a memory in three time zones, on pages and in contexts."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.urls import reverse

from memories.models import Line, Memory, MemoryVersion, NewVersion
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Line as LineValue
from memories.rules.memory.lines import Origin
from tests.factories import MessageFactory
from tests.views.conftest import Cast

pytestmark = pytest.mark.django_db

LATE = datetime(2026, 1, 5, 23, 30, tzinfo=UTC)
ZONES = [
    ("UTC", "2026-01-05", "23:30", "5 Jan"),
    ("Asia/Tokyo", "2026-01-06", "08:30", "6 Jan"),
    ("America/New_York", "2026-01-05", "18:30", "5 Jan"),
]


@pytest.fixture
def version(cast: Cast) -> MemoryVersion:
    output = MessageFactory(channel=cast.public, author=cast.author, at=LATE, text="we ship 3.0")
    MessageFactory(channel=cast.public, author=cast.author, at=LATE + timedelta(days=1), text="ok")
    memory = Memory.objects.of_channel(cast.public, MemoryType.LONG_TERM)
    draft = NewVersion(
        lines=[
            LineValue("- mika: we ship 3.0", Origin.MODEL, sources=(output.pk,), kind="decision"),
            LineValue("- mika: 2.9 was released", Origin.MODEL, sources=(output.pk,), kind="event"),
        ],
        origin=Origin.MODEL,
        until_us=to_micros(LATE),
    )
    return memory.add_version(draft, expected_head=memory.head)


@pytest.mark.slow
@pytest.mark.parametrize(("zone", "day", "time", "shown"), ZONES)
def test_times_are_in_the_zone(
    cast: Cast,
    version: MemoryVersion,
    capsys: pytest.CaptureFixture[str],
    zone: str,
    day: str,
    time: str,
    shown: str,
) -> None:
    workspace, channel = cast.workspace, cast.public
    workspace.change_settings({"time_zone": zone})
    capsys.readouterr()
    command = [
        "context",
        "--workspace",
        workspace.slug,
        "--as",
        "editor",
        "--channel",
        channel.slack_id,
    ]
    call_command(*command)
    text = capsys.readouterr().out
    call_command(*command, "--format", "json")
    as_json = capsys.readouterr().out
    client = cast.clients["editor"]
    preview = client.get(
        reverse("context-index", args=[workspace.slug]), {"channel": channel.slack_id}
    ).content.decode()
    for row in (text, as_json, preview):
        heading, line = f"## #{channel.name}, {day}", "- mika: we ship 3.0"
        assert f"Times are in {zone}." in row
        memory = row[row.index(heading) :]
        assert memory.index("### Now") < memory.index(line) < memory.index("### History")
    page = client.get(reverse("versions-detail", args=[version.pk])).content.decode()
    assert f'datetime="{day}T{time}' in page and f">{shown}</time>" in page
    assert page.index(">Decided<") < page.index("we ship 3.0") < page.index(">History<")


def test_no_stored_text_contains_a_time(version: MemoryVersion) -> None:
    assert version.content == "- mika: we ship 3.0\n- mika: 2.9 was released"
    assert set(version.lines.values_list("at_us", flat=True)) == {to_micros(LATE)}


def test_an_edit_keeps_the_time_of_unchanged_lines(cast: Cast, version: MemoryVersion) -> None:
    text = f"{version.content}\n- and 3.1 comes next"
    edited = version.memory.revise(text, by=None, based_on=version.number)
    times = dict(edited.lines.values_list("text", "at_us"))
    assert times.pop("- and 3.1 comes next") > to_micros(LATE)
    assert set(times.values()) == {to_micros(LATE)}
    assert Line.objects.filter(version=edited, kind="decision").exists()
