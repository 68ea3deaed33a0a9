"""Odd exports through the command: what is stored, what is shown of it, and what the report says.

The numbers are those of `tests.hard.mutated_exports.ROWS`, where the oddities meet each other by
chance. tests/slack holds what the reader refuses or leaves out, whatever is imported.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from memories.models import Channel, Message, Person, Reader
from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.invisible import mark_invisible
from tests.factories import UserFactory
from tests.imports import Import, readable
from tests.slackexports import START, channel, export_files, person, said, ts, write_folder

pytestmark = pytest.mark.django_db
DAY = "general/2023-11-14"


@pytest.fixture
def imported(tmp_path: Path) -> Iterator[Import]:
    with time_machine.travel(datetime.fromtimestamp(START, UTC) + timedelta(days=10), tick=False):
        yield Import(tmp_path)


def values(*fields: str) -> list[Any]:
    """These fields of each stored message, in order of time."""
    rows = Message.objects.in_order().select_related("author")
    return [tuple(getattr(row, field) for field in fields) for row in rows]


def changed(text: str, at: int) -> dict[str, Any]:
    inner = said(1, text, edited={"user": "U1", "ts": ts(at)})
    return {"type": "message", "subtype": "message_changed", "ts": ts(at), "message": inner}


def nested(depth: int) -> dict[str, Any]:
    """A message of so many lists and objects in one another."""
    blocks: Any = "x"
    for _ in range(depth - 1):
        blocks = [blocks]
    return said(depth, "deep", blocks=blocks)


BOT = {"subtype": "bot_message"}
TOMBSTONE = said(1, "was deleted", "USLACKBOT", subtype="tombstone", hidden=True, thread_ts=ts(1))
BROADCAST = said(5, "to all", subtype="thread_broadcast", thread_ts=ts(1), root={"bot_id": "B1"})
NOTICES = (
    *("channel_join", "channel_leave", "channel_archive", "channel_topic", "channel_purpose"),
    *("channel_name", "pinned_item", "bot_add", "group_join", "group_archive", "reminder_add"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("messages", "outcomes", "fields", "stored"),
    [
        pytest.param(
            [None, "text", 5, [], {}, said(1, "x")],
            {"stored": 1, "quarantined: not an object": 4, "quarantined: no ts": 1},
            ["text"],
            [("x",)],
            id="02 no object",
        ),
        pytest.param(
            [{"type": "message"}, *(said(1, "x", ts=odd) for odd in (None, "soon", 5, 5.5))],
            {
                "quarantined: no ts": 2,
                "quarantined: ts is not a number": 1,
                "quarantined: ts is not text": 2,
            },
            [],
            [],
            id="03 no ts",
        ),
        pytest.param(
            [said(0, "x", ts=f"1700000000.{tail}") for tail in ("123000", "123001", "100000")],
            {"stored": 3},
            ["ts"],
            [("1700000000.100000",), ("1700000000.123000",), ("1700000000.123001",)],
            id="04 ts is a key",
        ),
        pytest.param(
            [
                said(1, "new", edited={"user": "U1", "ts": ts(50)}),
                said(2, "same", blocks=[{"type": "rich_text", "block_id": "one"}]),
                said(1, "old"),
                said(2, "same", blocks=[{"type": "rich_text", "block_id": "other"}]),
            ],
            {"stored": 2, "duplicate": 2},
            ["text"],
            [("new",), ("same",)],
            id="06 twice",
        ),
        pytest.param(
            [said(5, "reply", thread_ts=ts(1)), said(1, "root", thread_ts=ts(1), reply_count=1)],
            {"stored": 2},
            ["text", "thread_ts", "state"],
            [("root", ts(1), "live"), ("reply", ts(1), "live")],
            id="07 a reply before its root",
        ),
        pytest.param(
            [said(5, "reply", thread_ts=ts(1))],
            {"stored": 1},
            ["text", "ts", "thread_ts", "state"],
            [("", ts(1), ts(1), "missing"), ("reply", ts(5), ts(1), "live")],
            id="08 a reply without its root",
        ),
        pytest.param(
            [TOMBSTONE, said(5, "reply", thread_ts=ts(1))],
            {"stored": 2},
            ["text", "author_name", "state"],
            [("", "", "deleted"), ("reply", "Ann", "live")],
            id="09 a deleted root",
        ),
        pytest.param(
            [said(1, "x", thread_ts=ts(1), reply_count=1, latest_reply="0000000000.000000")],
            {"stored": 1},
            ["is_root", "reply_count", "latest_reply"],
            [(True, 0, "")],
            id="10 no live replies",
        ),
        pytest.param(
            [said(1, "root", user=None, bot_id="B1", thread_ts=ts(1)), BROADCAST, BROADCAST],
            {"stored": 2, "duplicate": 1},
            ["broadcast", "is_reply"],
            [(False, False), (True, True)],
            id="11 a reply also sent to the channel",
        ),
        pytest.param(
            [
                said(1, "x", "U1", bot_id="B1", **BOT),
                said(2, "x", None, bot_id="B2", username="deploy", **BOT),
                said(3, "x", None, username="b\x00t", **BOT),
                said(4, "x", None, **BOT),
                said(5, "x", None),
                {"type": "message", "ts": ts(6), "text": "x"},
                said(7, "x", "U00"),
                said(8, "waves", "U2", subtype="me_message"),
                said(9, "", None, subtype="file_comment", comment={"user": "U1", "comment": "x"}),
                said(10, "", "USLACKBOT", subtype="huddle_thread", room={"created_by": "U2"}),
                said(11, "x", "U7"),
                said(12, "x", "W8", user_team="T9", user_profile={"display_name": "Wim"}),
            ],
            {"stored": 11, "skipped: placeholder author U00": 1},
            ["author_name", "username", "is_notice"],
            [
                ("Ann", "", False),
                ("deploy", "deploy", False),
                ("b\ufffdt", "b\ufffdt", False),
                ("unknown bot", "unknown bot", False),
                ("", "", False),
                ("", "", False),
                ("Bob", "", False),
                ("Ann", "", False),
                ("Bob", "", False),
                ("U7", "", False),
                ("Wim", "", False),
            ],
            id="12 13 14 18 authors",
        ),
        pytest.param(
            [
                said(1, "first"),
                said(2, "gone"),
                changed("third", 30),
                changed("second", 20),
                {"type": "message", "subtype": "message_deleted", "ts": ts(8), "deleted_ts": ts(2)},
            ],
            {"stored": 2, "updated": 2, "duplicate": 1},
            ["text", "state"],
            [("third", "live"), ("", "deleted")],
            id="17 changes and deletions",
        ),
        pytest.param(
            [
                *(said(1, "x" * 40_000), said(2, "y" * 1_100_000), said(3, "z" * 900_000)),
                *(nested(depth) for depth in (90, 110, 900)),
            ],
            {"stored": 3, "quarantined: too large": 3},
            ["text"],
            [("x" * 40_000,), ("z" * 900_000,), ("deep",)],
            id="29 the largest and the too large",
        ),
        pytest.param(
            [
                *(said(0, "x", ts=ts) for ts in ("0000000001.000000", "99999999999.000000")),
                said(30 * 86_400, "in three weeks"),
                said(1, "fine", edited={"user": "U1", "ts": "99999999999.000000"}),
            ],
            {"stored": 1, "quarantined: ts out of range": 3},
            ["text", "edited_ts"],
            [("fine", "")],
            id="39 times that cannot be",
        ),
    ],
)
def test_messages(
    messages: list[Any],
    outcomes: dict[str, int],
    fields: list[str],
    stored: list[Any],
    imported: Import,
) -> None:
    folder = imported.folder / "export"  # a zip of such messages packs too well, and is refused
    imported.path(write_folder(folder, export_files({DAY: messages})))
    assert (imported.outcomes(), values(*fields)) == (outcomes, stored)


WALES = "🏴" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbwls") + "\U000e007f"
SHOWN: list[tuple[dict[str, Any], str]] = [
    ({"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "<@U1>"}}]}, "@Ann"),
    ({"attachments": [{"fallback": "a fallback", "ts": 1700000000}]}, "a fallback"),
    ({"text": None, "attachments": [{"text": "a", "ts": "1.5", "fields": None}]}, "a"),
    ({"blocks": None, "attachments": None, "files": None, "reactions": None}, ""),
    ({"blocks": [{"type": "of_next_year", "fallback": "f"}]}, "[unsupported: of_next_year] f"),
    ({"files": [{"title": "a file"}, None, {}]}, "[file: a file]\n[file: unnamed]"),
    ({"text": "see", "files": [{"mode": "tombstone"}]}, "see\n[file: unnamed (deleted)]"),
    ({"text": "<@U1> <@U2|bob> <@W9> <@W9|wim> <@here>"}, "@Ann @Bob @W9 @wim <@here>"),
    (
        {"text": "<#C1> <#C1|> <#C1|old> <#G1|secret> <#C9|gone>"},
        "#general #general #general #private #private",
    ),
    (
        {"text": "<!here> <!channel|@channel> <!subteam^S1|@team> <!date^1^{date}|Monday>"},
        "@here @channel @team Monday",
    ),
    (
        {"text": "<https://a.example|a> <mailto:b@c.example> <javascript:x|y> <data:x|z>"},
        "a (https://a.example) b@c.example y z",
    ),
    ({"text": "&lt;@U1&gt; &amp;lt; a &amp; b"}, "<@U1> &lt; a & b"),
    ({"text": "<@" * 20_000}, "<@" * 20_000),
    (
        {
            "text": "👩‍👩‍👧 🇯🇵 שלום 日本語 :clap::skin-tone-2: :our-own:",
            "reactions": [{"name": "clap::skin-tone-2", "users": ["U1"], "count": 1}],
        },
        "👩‍👩‍👧 🇯🇵 שלום 日本語 👏🏻 :our-own:",
    ),
    (
        {"text": f"a\u202eb\u2066c\U000e0041d\x00e\ud800 👩‍👧 {WALES}"},
        f"a⟦U+202E⟧b⟦U+2066⟧c⟦U+E0041⟧d\ufffde\ufffd 👩‍👧 {WALES}",
    ),
]


def test_what_is_shown(imported: Import) -> None:
    """Rows 19 to 28, 30 and 31. ``raw`` keeps each message as it came, and ``text`` its markup."""
    messages = [said(n, "") | message for n, (message, _) in enumerate(SHOWN)]
    files = export_files({DAY: messages}, groups=[channel("G1", "secret")])
    imported.path(write_folder(imported.folder / "export", files))
    assert [json.loads(raw) for (raw,) in values("raw")] == messages
    markup = {make_storable(raw["text"]) for raw in messages if raw["text"] and "files" not in raw}
    assert markup <= {text for (text,) in values("text")}
    assert [mark_invisible(text) for text in readable()] == [shown for _, shown in SHOWN]


CUT = json.dumps([said(1, "whole"), said(2, "cut")])[:-9]
AFTER = {"general/2023-11-16": [said(90_000, "after")]}
FILES = export_files({DAY: [said(1, "x")]})


@pytest.mark.parametrize(
    ("files", "outcomes", "broken", "skipped"),
    [
        pytest.param(
            export_files({DAY: CUT} | AFTER),
            {"stored": 2},
            {f"{DAY}.json": "cut off"},
            {},
            id="01 broken json",
        ),
        pytest.param(
            export_files({DAY: "{}", "general/2023-11-15": "null"} | AFTER),
            {"stored": 1},
            {f"{DAY}.json": "not a list", "general/2023-11-15.json": "not a list"},
            {},
            id="02 not a list",
        ),
        pytest.param(
            FILES | {"users.json": b"{"},
            {"stored": 1},
            {"users.json": "not a list"},
            {},
            id="02 people that are not a list",
        ),
        pytest.param(
            FILES | {"general/2023-11-15\x01.json": b"[]", "inner.zip": b""},
            {"stored": 1},
            {"general/2023-11-15\\u0001.json": "a name that is no text"},
            {"skipped: an archive inside": 1},
            id="32 34 odd files",
        ),
        pytest.param(
            {f"My export/{name}": content for name, content in FILES.items()}
            | dict.fromkeys(("__MACOSX/._x", "My export/.DS_Store", "My export/FC:1/c.json"), b"")
            | {"My export/canvases.json": b"[]"},
            {"stored": 1},
            {},
            {"skipped: left by the system": 2, "skipped: canvas": 1, "skipped: no messages": 1},
            id="35 zipped again",
        ),
        pytest.param(
            export_files({DAY: CUT, "who-knows/2023-11-14": [said(1, "canary")] * 2}),
            {"stored": 1, "quarantined: of a channel in no list": 2},
            {f"{DAY}.json": "cut off"},
            {},
            id="36 unlisted",
        ),
    ],
)
def test_files(
    files: dict[str, bytes],
    outcomes: dict[str, int],
    broken: dict[str, str],
    skipped: dict[str, int],
    imported: Import,
) -> None:
    imported.files(files)
    assert (imported.outcomes(), imported.broken) == (outcomes, broken)
    reasons = [f"quarantined: {reason}" for reason in broken.values()]
    assert imported.outcomes("files") == skipped | Counter(reasons)
    assert (imported.report["partial"], imported.status) == ((True, 2) if broken else (False, 0))


def test_people_and_channels(imported: Import) -> None:
    """Rows 02 and 15: what is no object, and one person with two ids."""
    profile = {"display_name": "Ann", "email": "ann@example.com"}
    imported(
        said(1, "x", "W1"),
        people=[None, {}, *(person(slack_id, profile=profile) for slack_id in ("U1", "W1"))],
        channels=[3, channel("C1", "general", members=["U1", "W1", "U1"])],
    )
    assert imported.outcomes("people") == {
        "stored": 2,
        "quarantined: no id": 1,
        "quarantined: not an object": 1,
    }
    assert imported.outcomes("channels") == {"stored": 1, "quarantined: not an object": 1}
    assert Person.objects.filter(email="ann@example.com").count() == 2
    assert sorted(Channel.objects.get().people.names()) == ["U1", "W1"]


def test_notices_and_a_rename(imported: Import) -> None:
    """Row 16."""
    notices = [said(n, "<@U1> did", subtype=subtype) for n, subtype in enumerate(NOTICES)]
    imported(*notices, said(60, "hello"))
    assert imported.outcomes() == {"stored": 1, "stored: notice": len(NOTICES)}
    assert [message.text for message in Message.objects.rememberable()] == ["hello"]
    imported.days({"all/2023-11-14": notices[:1]}, channels=[channel("C1", "all")])
    assert (imported.outcomes(), Channel.objects.get().name) == ({"duplicate": 1}, "all")


def test_channels_are_known_by_id(imported: Import) -> None:
    """Rows 05 and 38: one is renamed, and another takes its name and holds the same ts."""
    imported(said(1, "first"), channels=[channel("C1", "general", creator=None)])
    imported.days(
        {"all/2023-11-15": [said(2, "second")], "general/2023-11-15": [said(2, "other")]},
        channels=[channel("C1", "all", creator=None), channel("C2", "general")],
    )
    assert list(Message.objects.in_order().values_list("channel__slack_id", "text")) == [
        ("C1", "first"),
        ("C1", "second"),
        ("C2", "other"),
    ]


def test_direct_messages(imported: Import) -> None:
    """Rows 36 and 37: stored on request alone, and only where an export lists their members."""
    days = {
        "D0123456789/2023-11-14": [said(1, "between two")],
        "mpdm-a--b--c-1/2023-11-14": [said(2, "among three")],
    }
    lists = {
        "people": [person("U1", "Ann"), person("U2", "Bob"), person("U3", "Cem")],
        "dms": [{"id": "D0123456789", "members": ["U2", "U1"]}],
        "mpims": [channel("G0123456789", "mpdm-a--b--c-1", members=["U1", "U2", "U3"])],
    }
    for listed in ({}, lists):
        imported.days(days, **listed)
        assert (imported.status, imported.outcomes()) == (0, {"skipped: direct messages": 2})
    assert imported.outcomes("channels") == {"duplicate": 1, "skipped: direct messages": 2}
    assert not Channel.objects.exclude(slack_id="C1").exists()
    imported.arguments = ["--direct-messages"]
    imported.days(days)
    assert imported.outcomes() == {"quarantined: of a channel in no list": 2}
    assert imported.report["unlisted_folders"] == [
        {"folder": folder.split("/")[0], "objects": 1} for folder in days
    ]
    imported.days(days, **lists)
    assert imported.outcomes() == {"stored": 2}
    direct = Channel.objects.exclude(kind="public").order_by("slack_id")
    assert list(direct.values_list("slack_id", "kind", "name")) == [
        ("D0123456789", "im", "Ann, Bob"),
        ("G0123456789", "mpim", "mpdm-a--b--c-1"),
    ]
    assert not Channel.objects.feeding_workspace_memory().exclude(kind="public").exists()
    visible = {}
    for slack_id in ("U1", "U3"):
        user = UserFactory()
        Person.objects.filter(slack_id=slack_id).update(user=user, linked_by="slack")
        messages = Message.objects.visible_to(Reader.of(user)).in_order()
        visible[slack_id] = [message.text for message in messages]
    assert visible == {"U1": ["between two", "among three"], "U3": ["among three"]}
    imported.arguments = []
    imported.days(days, **lists)
    assert imported.outcomes() == {"skipped: direct messages": 2}


def test_what_was_cut_off_comes_with_the_whole_file(imported: Import) -> None:
    """Row 41."""
    days = {DAY: [said(n, f"{n}") for n in range(3)]} | AFTER
    folder = write_folder(imported.folder / "export", export_files(days))
    file = folder / f"{DAY}.json"
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    imported.path(folder)
    assert (imported.status, imported.outcomes()) == (2, {"stored": 2})
    file.write_bytes(whole)
    imported.path(folder)
    assert (imported.status, imported.outcomes()) == (0, {"stored": 2, "duplicate": 2})
