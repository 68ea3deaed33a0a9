"""One test per kind of odd input: what each must become, through the command.

The numbers are those of the table of odd inputs in docs; every import here also proves that the
outcomes sum to the objects that the export holds.
"""

import json
import random
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from memories.models import Channel, Message, Person
from memories.rules.invisible import clean, marked
from tests.imports import Import, readable
from tests.slackexports import (
    START,
    channel,
    export_files,
    person,
    said,
    ts,
    write_folder,
    write_zip,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def imported(tmp_path: Path) -> Any:
    with time_machine.travel(datetime.fromtimestamp(START, UTC) + timedelta(days=10), tick=False):
        yield Import(tmp_path)


def test_row_01_a_day_file_with_broken_json(imported: Import) -> None:
    imported.days(
        {
            "general/2023-11-13": [said(-90_000, "before")],
            "general/2023-11-14": json.dumps([said(0, "kept"), said(1, "lost")])[:-20],
            "general/2023-11-15": [said(90_000, "after")],
        }
    )
    assert imported.status == 2
    assert imported.report["partial"] is True
    assert imported.report["quarantined_files"] == [
        {"file": "general/2023-11-14.json", "reason": "cut off"}
    ]
    assert readable() == ["before", "kept", "after"]


@pytest.mark.parametrize(
    ("content", "ended", "file"),
    [
        ("{}", {}, "not a list"),
        ('"text"', {}, "not a list"),
        ("null", {}, "not a list"),
        ('[null, "text", 5, [], {}]', {"quarantined": 5}, None),
    ],
)
def test_row_02_not_a_list_or_not_an_object(
    content: str, ended: dict[str, int], file: str | None, imported: Import
) -> None:
    imported.days({"general/2023-11-14": content, "general/2023-11-15": [said(1, "fine")]})
    assert imported.status == 2
    assert imported.ended == {"stored": 1} | ended
    assert [one["reason"] for one in imported.report["quarantined_files"]] == (
        [file] if file else []
    )


def test_row_02_odd_lists_of_people_and_channels(imported: Import) -> None:
    imported(
        said(1, "x"), people=[None, person("U1", "Ann"), {}], channels=[3, channel("C1", "general")]
    )
    assert (
        imported.report["people"]["quarantined"],
        imported.report["channels"]["quarantined"],
    ) == (2, 1)
    assert imported.ended == {"stored": 1}
    imported(said(1, "x"), people="{")
    assert [one["file"] for one in imported.report["quarantined_files"]] == ["users.json"]
    assert imported.ended == {"duplicate": 1}


def test_row_03_a_ts_that_is_none(imported: Import) -> None:
    no_ts = said(1, "x")
    del no_ts["ts"]
    imported(
        no_ts, said(1, "x", ts=None), said(1, "x", ts="soon"), said(1, "x", ts=5), said(2, "y")
    )
    assert imported.ended == {"stored": 1, "quarantined": 4}
    assert imported.reasons == {
        "quarantined: no ts": 2,
        "quarantined: ts is not a number": 1,
        "quarantined: ts is not text": 1,
    }


def test_row_04_ts_is_a_key_and_keeps_its_zeros(imported: Import) -> None:
    imported(*(said(0, "x", ts=f"1700000000.{tail}") for tail in ("123000", "123001", "100000")))
    assert list(Message.objects.in_order().values_list("ts", flat=True)) == [
        "1700000000.100000",
        "1700000000.123000",
        "1700000000.123001",
    ]


def test_row_05_one_ts_in_two_channels(imported: Import) -> None:
    raw = said(5, "x", client_msg_id="same", thread_ts=ts(1))
    imported.days(
        {"a/2023-11-14": [said(1, "root a"), raw], "b/2023-11-14": [raw]},
        channels=[channel("C1", "a"), channel("C2", "b")],
    )
    assert imported.ended == {"stored": 3}
    states = Message.objects.filter(ts=ts(1)).order_by("channel__slack_id")
    assert list(states.values_list("channel__slack_id", "state")) == [
        ("C1", "live"),
        ("C2", "missing"),
    ]


def test_row_06_one_message_in_two_files(imported: Import) -> None:
    new = said(1, "new", edited={"user": "U1", "ts": ts(50)})
    same = said(2, "same", blocks=[{"type": "rich_text", "block_id": "other"}])
    imported.days(
        {
            "general/2023-11-14": [
                new,
                said(2, "same", blocks=[{"type": "rich_text", "block_id": "one"}]),
            ],
            "general/2023-11-15": [said(1, "old"), same],
        }
    )
    assert imported.ended == {"stored": 2, "duplicate": 2}
    assert readable() == ["new", "same"]


def test_row_07_a_reply_before_its_root(imported: Import) -> None:
    imported.days(
        {
            "general/2023-11-13": [said(5, "reply", thread_ts=ts(1))],
            "general/2023-11-14": [said(1, "root", thread_ts=ts(1), reply_count=1)],
        }
    )
    assert imported.ended == {"stored": 2}
    assert [(one.text, one.thread_ts, one.state) for one in Message.objects.in_order()] == [
        ("root", ts(1), "live"),
        ("reply", ts(1), "live"),
    ]


def test_row_08_a_reply_without_its_root(imported: Import) -> None:
    imported(said(5, "reply", thread_ts=ts(1)))
    assert imported.ended == {"stored": 1}
    root, reply = Message.objects.in_order()
    assert (root.state, root.ts, reply.thread_ts) == ("missing", ts(1), root.ts)


def test_row_09_a_deleted_root_with_living_replies(imported: Import) -> None:
    tombstone = said(
        1,
        "This message was deleted.",
        "USLACKBOT",
        subtype="tombstone",
        hidden=True,
        thread_ts=ts(1),
    )
    imported(tombstone, said(5, "reply", thread_ts=ts(1)))
    root, reply = Message.objects.in_order()
    assert (root.state, root.text, root.author) == ("deleted", "", None)
    assert (reply.state, reply.text) == ("live", "reply")


def test_row_10_a_thread_with_no_live_replies(imported: Import) -> None:
    imported(said(1, "root", thread_ts=ts(1), reply_count=1, latest_reply="0000000000.000000"))
    message = Message.objects.get()
    assert (message.is_root, message.reply_count, message.latest_reply) == (True, 0, "")


def test_row_11_a_reply_also_sent_to_the_channel(imported: Import) -> None:
    root = said(1, "root", thread_ts=ts(1), user=None, bot_id="B1")
    both = said(5, "to all", subtype="thread_broadcast", thread_ts=ts(1), root={"bot_id": "B1"})
    imported.days({"general/2023-11-14": [root, both], "general/2023-11-15": [both]})
    assert imported.ended == {"stored": 2, "duplicate": 1}
    message = Message.objects.get(ts=ts(5))
    assert (message.broadcast, message.is_reply) == (True, True)


def test_row_12_the_author_of_a_bots_message(imported: Import) -> None:
    imported(
        said(1, "x", "U1", subtype="bot_message", bot_id="B1"),
        said(2, "x", None, subtype="bot_message", bot_id="B2", username="deploy"),
        said(3, "x", None, subtype="bot_message", username="hook"),
        said(4, "x", None, subtype="bot_message"),
    )
    assert imported.ended == {"stored": 4}
    assert [
        (one.author.name if one.author else "", one.username) for one in Message.objects.in_order()
    ] == [("Ann", ""), ("deploy", "deploy"), ("", "hook"), ("", "unknown bot")]


def test_row_13_no_user_and_u00(imported: Import) -> None:
    nobody = said(2, "b")
    del nobody["user"]
    imported(said(1, "a", None), nobody, said(3, "c", "U00"))
    assert imported.ended == {"stored": 2, "skipped": 1}
    assert imported.reasons == {"skipped: placeholder author U00": 1}
    assert not Message.objects.filter(author__isnull=False).exists()


def test_row_14_authors_in_no_list_of_people(imported: Import) -> None:
    imported(
        said(1, "a", "USLACKBOT"),
        said(2, "b", "U7"),
        said(3, "c", "W8", user_team="T9", user_profile={"display_name": "Wim", "team": "T9"}),
    )
    people = Person.objects.filter(is_placeholder=True).order_by("slack_id")
    assert [(one.slack_id, one.name, one.is_external) for one in people] == [
        ("U7", "U7", False),
        ("USLACKBOT", "Slackbot", False),
        ("W8", "Wim", True),
    ]
    imported(people=[person("U1", "Ann"), person("U7", "Gus")])
    assert Person.objects.get(slack_id="U7").name == "Gus"
    assert not Person.objects.get(slack_id="U7").is_placeholder


def test_row_15_one_person_with_two_ids(imported: Import) -> None:
    same = {"profile": {"display_name": "Ann", "email": "ann@example.com"}}
    imported(
        said(1, "a", "U1"),
        said(2, "b", "W1"),
        people=[person("U1", **same), person("W1", team_id="T2", **same)],
        channels=[channel("C1", "general", members=["U1", "W1", "U1"])],
    )
    assert Person.objects.filter(email="ann@example.com").count() == 2
    assert Channel.objects.get().memberships.count() == 2


def test_row_16_notices_and_a_rename(imported: Import) -> None:
    subtypes = (
        *("channel_join", "channel_leave", "channel_archive", "channel_topic", "channel_purpose"),
        *("pinned_item", "bot_add", "group_join", "group_archive", "reminder_add"),
    )
    notices = [said(n, "<@U1> did", subtype=subtype) for n, subtype in enumerate(subtypes)]
    rename = said(50, "renamed", subtype="channel_name", old_name="general", name="all")
    imported(*notices, rename, said(60, "hello"))
    assert imported.ended == {"stored": 12}
    assert imported.reasons == {"stored: notice": 11}
    assert [one.text for one in Message.objects.rememberable()] == ["hello"]
    imported.days({"all/2023-11-14": [rename]}, channels=[channel("C1", "all")])
    assert Channel.objects.get().name == "all"
    assert imported.ended == {"duplicate": 1}


def test_row_17_changes_and_deletions_by_their_inner_ts(imported: Import) -> None:
    def changed(text: str, at: int) -> dict[str, Any]:
        inner = said(1, text, edited={"user": "U1", "ts": ts(at)})
        return {"type": "message", "subtype": "message_changed", "ts": ts(at), "message": inner}

    deletion = {"type": "message", "subtype": "message_deleted", "ts": ts(80), "deleted_ts": ts(2)}
    imported(
        said(1, "first"), said(2, "gone"), changed("third", 30), changed("second", 20), deletion
    )
    assert imported.ended == {"stored": 2, "updated": 2, "duplicate": 1}
    assert [(one.text, one.state) for one in Message.objects.in_order()] == [
        ("third", "live"),
        ("", "deleted"),
    ]


def test_row_18_authors_in_unusual_places(imported: Import) -> None:
    imported(
        said(1, "waves", "U2", subtype="me_message"),
        said(2, "", None, subtype="file_comment", comment={"user": "U1", "comment": "nice"}),
        said(3, "", "USLACKBOT", subtype="huddle_thread", room={"created_by": "U2"}),
    )
    assert [
        (one.author and one.author.name, one.is_notice) for one in Message.objects.in_order()
    ] == [
        ("Bob", False),
        ("Ann", False),
        ("Bob", False),
    ]
    assert readable()[1] == "nice"


def test_row_19_content_that_is_not_in_text(imported: Import) -> None:
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "in a block"}}]
    imported(
        said(1, "", blocks=blocks),
        said(2, "", attachments=[{"fallback": "in a fallback", "ts": 1700000000}]),
        said(
            3, "", attachments=[{"text": "in an attachment", "ts": "1700000000.5", "fields": None}]
        ),
        said(4, "", files=[{"title": "in a file"}]),
        said(5, "", blocks=None, attachments=None, files=None, reactions=None),
    )
    assert imported.ended == {"stored": 5}
    assert readable() == [
        "in a block",
        "in a fallback",
        "in an attachment",
        "[file: in a file]",
        "",
    ]


def test_row_20_unknown_blocks(imported: Import) -> None:
    kinds = ("call", "table", "condition", "of_next_year")
    imported(
        *(said(n, "", blocks=[{"type": kind, "fallback": "f"}]) for n, kind in enumerate(kinds))
    )
    assert readable() == [f"[unsupported: {kind}] f" for kind in kinds]


def test_row_21_files_that_are_gone(imported: Import) -> None:
    imported(
        said(1, "see", files=[{"id": "F1", "mode": "tombstone"}]),
        said(2, "", files=[{"id": "F1", "name": "a", "mode": "hidden_by_limit"}]),
        said(3, "", files=[{"id": "F1", "name": "b", "file_access": "access_denied"}]),
        said(4, "", files=[{"id": "F1", "name": "c", "file_access": "file_not_found"}, None]),
        said(5, "", files=[{"id": "F1", "name": "d"}]),
    )
    assert readable() == [
        "see\n[file: unnamed (deleted)]",
        "[file: a (hidden by the plan's limit)]",
        "[file: b (no access)]",
        "[file: c (not found)]",
        "[file: d]",
    ]


def test_row_22_files_elsewhere_are_never_fetched(imported: Import, httpserver: Any) -> None:
    address = httpserver.url_for("/file.pdf")
    external = {"name": "x.pdf", "mode": "external", "url_private": address, "is_external": True}
    imported(said(1, "", files=[external]))
    assert readable() == ["[file: x.pdf (kept elsewhere)]"]
    assert httpserver.log == []


def test_row_23_mentions_of_people(imported: Import) -> None:
    imported(said(1, "<@U1> <@U2|bob> <@W9> <@W9|wim> <!here>"))
    assert readable() == ["@Ann @Bob @W9 @wim @here"]


def test_row_24_mentions_of_channels(imported: Import) -> None:
    imported(
        said(1, "<#C1> <#C1|> <#C1|old-name> <#G1|secret> <#C9|gone>"),
        groups=[channel("G1", "secret")],
    )
    assert readable() == ["#general #general #general #private #private"]


def test_row_25_special_mentions(imported: Import) -> None:
    imported(said(1, "<!here> <!channel|@channel> <!subteam^S1|@team> <!date^1^{date}|Monday>"))
    assert readable() == ["@here @channel @team Monday"]


def test_row_26_links(imported: Import) -> None:
    imported(said(1, "<https://a.example|label> <mailto:a@b.example|a@b.example> <javascript:x|y>"))
    assert readable() == ["label (https://a.example) a@b.example y"]


def test_row_27_markup_first_unescape_last_and_once(imported: Import) -> None:
    imported(said(1, "&lt;@U1&gt; &amp;lt; a &amp; b"))
    assert readable() == ["<@U1> &lt; a & b"]


@pytest.mark.timeout(120)
def test_row_28_thousands_of_unclosed_marks(imported: Import) -> None:
    imported(said(1, "<@" * 20_000))
    assert imported.ended == {"stored": 1}
    assert readable() == ["<@" * 20_000]


def test_row_29_the_largest_and_the_too_large(imported: Import) -> None:
    words = random.Random(1).randbytes(5_000_000).hex()  # what packs too well is refused
    imported(
        said(1, "x" * 40_000),
        said(2, "", attachments=[{"text": words}]),
        said(3, "z" * 900_000),
        said(4, "after"),
    )
    assert imported.ended == {"stored": 3, "quarantined": 1}
    assert imported.reasons == {"quarantined: too large": 1}
    assert [len(text) for text in readable()] == [40_000, 900_000, 5]


def test_row_30_every_script_and_emoji(imported: Import) -> None:
    text = "👩‍👩‍👧 🇯🇵 שלום 日本語 :clap::skin-tone-2: :our-own:"
    reactions = [
        {"name": "clap::skin-tone-2", "users": ["U1"], "count": 1},
        {"name": "clap", "users": ["U1", "U2"], "count": 2},
    ]
    imported(said(1, text, reactions=reactions))
    message = Message.objects.get()
    assert message.text == text
    assert json.loads(message.raw)["reactions"] == reactions
    assert readable() == ["👩‍👩‍👧 🇯🇵 שלום 日本語 👏🏻 :our-own:"]


def test_row_31_invisible_characters(imported: Import) -> None:
    raw = said(1, "a\u202eb\U000e0041c\x00d\ud800e 👩‍👧")
    imported(raw, said(2, "x", None, subtype="bot_message", username="b\x00t"))
    message = Message.objects.get(ts=ts(1))
    assert json.loads(message.raw) == raw
    assert clean(readable()[0]) == "abc\ufffdd\ufffde 👩‍👧"
    assert marked(readable()[0]) == "a⟦U+202E⟧b⟦U+E0041⟧c\ufffdd\ufffde 👩‍👧"
    assert Message.objects.get(ts=ts(2)).username == "b\ufffdt"


def test_row_32_names_of_files(imported: Import, tmp_path: Path) -> None:
    class OldZipInfo(zipfile.ZipInfo):
        def _encodeFilenameFlags(self) -> tuple[bytes, int]:
            return self.filename.encode(), 0

    files = export_files({}, channels=[channel("C1", "開発"), channel("C2", "ガイド")])
    path = write_zip(tmp_path / "old.zip", files)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(OldZipInfo("開発/2023-11-14.json"), json.dumps([said(1, "a")]))
        archive.writestr("ガイド/2023-11-14.json", json.dumps([said(2, "b")]))
        archive.writestr(OldZipInfo("開発/2023-11-15\x01.json"), "[]")
    imported.path(path)
    assert imported.ended == {"stored": 2}
    assert imported.status == 2
    assert imported.report["quarantined_files"] == [
        {"file": "開発/2023-11-15\\u0001.json", "reason": "a name that is no text"}
    ]


def test_row_35_zipped_again_on_a_mac(imported: Import) -> None:
    files = {
        f"My export/{name}": content
        for name, content in export_files({"general/2023-11-14": [said(1, "x")]}).items()
    }
    junk = {
        "__MACOSX/My export/._users.json": b"\0",
        "My export/.DS_Store": b"\0",
        "My export/canvases.json": b"[]",
        "My export/FC:F1:Plan/canvas.json": b"{}",
    }
    imported.files(files | junk)
    assert (imported.status, imported.ended) == (0, {"stored": 1})
    assert imported.report["files"]["reasons"] == {
        "skipped: left by the system": 2,
        "skipped: canvas": 1,
        "skipped: no messages": 1,
    }


def test_row_36_folders_of_unknown_type_are_private(imported: Import) -> None:
    imported.days(
        {
            "general/2023-11-14": [said(1, "public")],
            "who-knows/2023-11-14": [said(2, "canary"), said(3, "canary")],
            "D0123456789/2023-11-14": [said(4, "canary")],
            "mpdm-a--b-1/2023-11-14": [said(5, "canary")],
        }
    )
    assert imported.ended == {"stored": 1, "skipped": 2, "quarantined": 2}
    assert imported.reasons == {
        "skipped: direct messages": 2,
        "quarantined: of a channel in no list": 2,
    }
    assert imported.report["unlisted_folders"] == [{"folder": "who-knows", "objects": 2}]
    assert imported.status == 2
    assert not Message.objects.filter(text="canary").exists()


def test_row_37_direct_messages_are_counted_and_skipped(imported: Import) -> None:
    imported.days(
        {
            "D0123456789/2023-11-14": [said(1, "canary")],
            "mpdm-a--b-1/2023-11-14": [said(2, "canary")],
        },
        dms=[{"id": "D0123456789", "members": ["U1", "U2"]}],
        mpims=[channel("G0123456789", "mpdm-a--b-1")],
    )
    assert (imported.status, imported.ended) == (0, {"skipped": 2})
    assert imported.report["channels"]["skipped"] == 2
    assert not Channel.objects.exclude(slack_id="C1").exists()


def test_row_38_channels_by_id(imported: Import) -> None:
    imported(said(1, "first"), channels=[channel("C1", "general", creator=None)])
    # Renamed, and the name used again by another channel.
    imported.days(
        {"all/2023-11-15": [said(2, "second")], "general/2023-11-15": [said(3, "other")]},
        channels=[channel("C1", "all", creator=None), channel("C2", "general")],
    )
    rows = Message.objects.in_order().values_list("channel__slack_id", "channel__name", "text")
    assert list(rows) == [
        ("C1", "all", "first"),
        ("C1", "all", "second"),
        ("C2", "general", "other"),
    ]
    imported.days({"absent/2023-11-15": [said(4, "left out")]}, channels=[])
    assert imported.ended == {"quarantined": 1}


def test_row_39_times_that_cannot_be(imported: Import) -> None:
    imported(
        said(0, "x", ts="0000000001.000000"),
        said(0, "x", ts="99999999999.000000"),
        said(30 * 86_400, "in three weeks"),
        said(1, "fine", edited={"user": "U1", "ts": "99999999999.000000"}),
        channels=[channel("C1", "general", created=1)],
    )
    assert imported.ended == {"stored": 1, "quarantined": 3}
    assert imported.reasons == {"quarantined: ts out of range": 3}
    assert Message.objects.get().edited_ts == ""


def test_row_41_run_again(imported: Import, tmp_path: Path) -> None:
    days = {
        f"general/2023-11-{day}": [said(day * 86_400 - 14 * 86_400 + n, f"{n}") for n in range(5)]
        for day in (14, 15)
    }
    folder = write_folder(tmp_path / "folder", export_files(days))
    later = folder / "general" / "2023-11-15.json"
    whole = later.read_bytes()
    later.write_bytes(whole[:100])
    imported.path(folder)
    assert (imported.status, imported.ended) == (2, {"stored": 6})
    later.write_bytes(whole)
    imported.path(folder)
    assert (imported.status, imported.ended) == (0, {"stored": 4, "duplicate": 6})
