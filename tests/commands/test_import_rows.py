"""The table of odd inputs in exports, row by row: what each must become, through the command.

Each case puts a known number of messages in, and as many outcomes must come out. What more there
is to say of a row is in the tests beside this one.
"""

import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from memories.models import Channel, Message, Person, Reader
from memories.rules.invisible import clean, marked
from tests.commands.test_import_slack import storing_elsewhere
from tests.factories import UserFactory
from tests.hostilezips import claiming, encrypted, laid_over, packed, streamed, with_link
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

ROWS: dict[str, Callable[["Rows"], None]] = {}
DAY = "general/2023-11-14"


class Rows(Import):
    """Imports, and holds what was put in against what came out."""

    def days(self, days: dict[str, Any], *, whole: int = 0, **lists: Any) -> "Rows":
        """``whole``: how many messages stand whole in the days that are no lists."""
        super().days(days, **lists)
        put_in = whole + sum(len(day) for day in days.values() if isinstance(day, list))
        assert self.report["messages"]["seen"] == put_in
        return self

    def bytes(self, data: bytes) -> "Rows":
        path = self.folder / "given.zip"
        path.write_bytes(data)
        self.path(path)
        return self

    def refuses(self, data: bytes, why: str) -> None:
        self.bytes(data)
        assert (self.status, Message.objects.count()) == (1, 0)
        assert why in self.refused


def row(name: str) -> Callable[[Callable[[Rows], None]], Callable[[Rows], None]]:
    def note(check: Callable[[Rows], None]) -> Callable[[Rows], None]:
        ROWS[name] = check
        return check

    return note


@pytest.fixture
def rows(tmp_path: Path) -> Any:
    with time_machine.travel(datetime.fromtimestamp(START, UTC) + timedelta(days=10), tick=False):
        yield Rows(tmp_path)


def texts() -> list[str]:
    return [message.text for message in Message.objects.in_order()]


@row("01 broken json")
def _(rows: Rows) -> None:
    cut = json.dumps([said(1, "whole"), said(2, "cut")])[:-9]
    rows.days({DAY: cut, "general/2023-11-15": [said(90_000, "after")]}, whole=1)
    assert (rows.status, rows.ended, texts()) == (2, {"stored": 2}, ["whole", "after"])
    assert rows.report["quarantined_files"] == [{"file": f"{DAY}.json", "reason": "cut off"}]


@row("02 not a list, not an object")
def _(rows: Rows) -> None:
    days = {f"general/2023-11-1{n}": text for n, text in enumerate(("{}", '"x"', "null"))}
    rows.days(days | {DAY: [None, "text", 5, [], said(1, "x")]})
    assert rows.ended == {"stored": 1, "quarantined": 4}
    assert [one["reason"] for one in rows.report["quarantined_files"]] == ["not a list"] * 3


@row("03 no ts, or no number")
def _(rows: Rows) -> None:
    rows({"type": "message", "text": "x"}, *(said(1, "x", ts=odd) for odd in (None, "soon", 5.5)))
    assert rows.ended == {"quarantined": 4}


@row("04 ts is a key")
def _(rows: Rows) -> None:
    keys = ["1700000000.100000", "1700000000.123000", "1700000000.123001"]
    rows(*(said(0, "x", ts=key) for key in keys))
    assert list(Message.objects.in_order().values_list("ts", flat=True)) == keys


@row("05 one ts in two channels")
def _(rows: Rows) -> None:
    reply = said(5, "x", client_msg_id="same", thread_ts=ts(1))
    rows.days(
        {"a/2023-11-14": [said(1, "root"), reply], "b/2023-11-14": [reply]},
        channels=[channel("C1", "a"), channel("C2", "b")],
    )
    assert rows.ended == {"stored": 3}
    roots = Message.objects.filter(ts=ts(1)).order_by("channel__slack_id")
    assert [one.state for one in roots] == ["live", "missing"]


@row("06 one message in two files")
def _(rows: Rows) -> None:
    edited = said(1, "new", edited={"user": "U1", "ts": ts(50)}, blocks=[{"block_id": "b"}])
    rows.days({DAY: [edited], "general/2023-11-15": [said(1, "old", blocks=[{"block_id": "a"}])]})
    assert (rows.ended, texts()) == ({"stored": 1, "duplicate": 1}, ["new"])


@row("07 a reply before its root")
def _(rows: Rows) -> None:
    rows.days(
        {
            "general/2023-11-13": [said(5, "reply", thread_ts=ts(1))],
            DAY: [said(1, "root", thread_ts=ts(1), reply_count=1)],
        }
    )
    assert [(one.text, one.thread_ts) for one in Message.objects.in_order()] == [
        ("root", ts(1)),
        ("reply", ts(1)),
    ]


@row("08 a reply without its root")
def _(rows: Rows) -> None:
    rows(said(5, "reply", thread_ts=ts(1)))
    assert rows.ended == {"stored": 1}
    assert [(one.state, one.text) for one in Message.objects.in_order()] == [
        ("missing", ""),
        ("live", "reply"),
    ]


@row("09 a deleted root")
def _(rows: Rows) -> None:
    gone = said(1, "was deleted", "USLACKBOT", subtype="tombstone", hidden=True, thread_ts=ts(1))
    rows(gone, said(5, "reply", thread_ts=ts(1)))
    assert [(one.state, one.text) for one in Message.objects.in_order()] == [
        ("deleted", ""),
        ("live", "reply"),
    ]


@row("10 a thread with no live replies")
def _(rows: Rows) -> None:
    rows(said(1, "root", thread_ts=ts(1), reply_count=1, latest_reply="0000000000.000000"))
    root = Message.objects.get()
    assert (root.is_root, root.reply_count, root.latest_reply) == (True, 0, "")


@row("11 a reply also sent to the channel")
def _(rows: Rows) -> None:
    both = said(5, "to all", subtype="thread_broadcast", thread_ts=ts(1), root={"bot_id": "B1"})
    rows.days({DAY: [said(1, "root", thread_ts=ts(1)), both], "general/2023-11-15": [both]})
    assert rows.ended == {"stored": 2, "duplicate": 1}
    reply = Message.objects.get(ts=ts(5))
    assert (reply.broadcast, reply.is_reply) == (True, True)


@row("12 who a bot is")
def _(rows: Rows) -> None:
    bot = {"subtype": "bot_message"}
    rows(
        said(1, "x", "U1", bot_id="B1", **bot),
        said(2, "x", None, bot_id="B2", username="deploy", **bot),
        said(3, "x", None, username="hook", **bot),
        said(4, "x", None, **bot),
    )
    assert rows.ended == {"stored": 4}
    names = [one.author_name for one in Message.objects.in_order().select_related("author")]
    assert names == ["Ann", "deploy", "hook", "unknown bot"]


@row("13 no user, and U00")
def _(rows: Rows) -> None:
    rows(said(1, "a", None), {"type": "message", "ts": ts(2), "text": "b"}, said(3, "c", "U00"))
    assert rows.ended == {"stored": 2, "skipped": 1}
    assert rows.reasons == {"skipped: placeholder author U00": 1}
    assert [one.author_name for one in Message.objects.in_order()] == ["", ""]


@row("14 authors in no list")
def _(rows: Rows) -> None:
    rows(said(1, "a", "USLACKBOT"), said(2, "b", "U7"), said(3, "c", "W8", user_team="T9"))
    held = Person.objects.filter(is_placeholder=True).order_by("slack_id")
    assert [(one.slack_id, one.is_external) for one in held] == [
        ("U7", False),
        ("USLACKBOT", False),
        ("W8", True),
    ]


@row("15 one person, two ids")
def _(rows: Rows) -> None:
    same = {"profile": {"display_name": "Ann", "email": "ann@example.com"}}
    rows(
        said(1, "a", "U1"),
        said(2, "b", "W1"),
        people=[person("U1", **same), person("W1", team_id="T2", **same)],
        channels=[channel("C1", "general", members=["U1", "W1", "U1", "W1"])],
    )
    assert Person.objects.filter(email="ann@example.com").count() == 2
    assert Channel.objects.get().memberships.count() == 2


@row("16 notices and a rename")
def _(rows: Rows) -> None:
    kinds = (
        *("channel_join", "channel_leave", "channel_archive", "channel_topic", "channel_purpose"),
        *("channel_name", "pinned_item", "bot_add", "group_join", "group_leave", "reminder_add"),
    )
    rows(*(said(n, "<@U1> did", subtype=kind) for n, kind in enumerate(kinds)), said(60, "hello"))
    assert rows.reasons == {"stored: notice": len(kinds)}
    assert [one.text for one in Message.objects.rememberable()] == ["hello"]
    rows.days({}, channels=[channel("C1", "all")])
    assert Channel.objects.get().name == "all"


@row("17 changes and deletions")
def _(rows: Rows) -> None:
    def changed(text: str, at: int) -> dict[str, Any]:
        inner = said(1, text, edited={"user": "U1", "ts": ts(at)})
        return {"type": "message", "subtype": "message_changed", "ts": ts(at), "message": inner}

    deleted = {"type": "message", "subtype": "message_deleted", "ts": ts(80), "deleted_ts": ts(2)}
    rows(said(1, "1st"), said(2, "gone"), changed("3rd", 30), changed("2nd", 20), deleted)
    assert rows.ended == {"stored": 2, "updated": 2, "duplicate": 1}
    assert [(one.text, one.state) for one in Message.objects.in_order()] == [
        ("3rd", "live"),
        ("", "deleted"),
    ]


@row("18 authors in other places")
def _(rows: Rows) -> None:
    rows(
        said(1, "waves", "U2", subtype="me_message"),
        said(2, "", None, subtype="file_comment", comment={"user": "U1", "comment": "nice"}),
        said(3, "", "USLACKBOT", subtype="huddle_thread", room={"created_by": "U2"}),
    )
    names = [one.author_name for one in Message.objects.in_order().select_related("author")]
    assert (rows.ended, names) == ({"stored": 3}, ["Bob", "Ann", "Bob"])


@row("19 words in other places")
def _(rows: Rows) -> None:
    block = {"type": "section", "text": {"type": "mrkdwn", "text": "a block"}}
    rows(
        said(1, "", blocks=[block]),
        said(2, "", attachments=[{"fallback": "a fallback", "ts": 1700000000}]),
        said(3, None, attachments=[{"text": "an attachment", "ts": "1.5", "fields": None}]),
        said(4, "", blocks=None, attachments=None, files=[{"title": "a file"}], reactions=None),
    )
    assert readable() == ["a block", "a fallback", "an attachment", "[file: a file]"]


@row("20 unknown blocks")
def _(rows: Rows) -> None:
    kinds = ("call", "table", "condition", "of_next_year")
    rows(*(said(n, "", blocks=[{"type": kind, "fallback": "f"}]) for n, kind in enumerate(kinds)))
    assert readable() == [f"[unsupported: {kind}] f" for kind in kinds]


@row("21 files that are gone")
def _(rows: Rows) -> None:
    odd = [{"mode": "tombstone"}, {"mode": "hidden_by_limit"}, {"file_access": "access_denied"}]
    odd += [{"file_access": "file_not_found"}, {"mode": "external"}, {}]
    rows(*(said(n, "see", files=[file, None]) for n, file in enumerate(odd)))
    reasons = ("deleted", "hidden by the plan's limit", "no access", "not found", "kept elsewhere")
    assert readable() == [
        *(f"see\n[file: unnamed ({reason})]" for reason in reasons),
        "see\n[file: unnamed]",
    ]


@row("22 files elsewhere")
def _(rows: Rows) -> None:
    from pytest_httpserver import HTTPServer

    with HTTPServer() as server:
        addresses = {key: server.url_for("/x") for key in ("url_private", "url_private_download")}
        rows(said(1, "", files=[{"name": "x.pdf", "is_external": True, **addresses}]))
        assert server.log == []
    assert readable() == ["[file: x.pdf (kept elsewhere)]"]


@row("23 mentions of people")
def _(rows: Rows) -> None:
    rows(said(1, "<@U1> <@U2|bob> <@W9> <@W9|wim> <@here>"))
    assert readable() == ["@Ann @Bob @W9 @wim <@here>"]


@row("24 mentions of channels")
def _(rows: Rows) -> None:
    rows(said(1, "<#C1> <#C1|> <#C1|old> <#G1|secret>"), groups=[channel("G1", "secret")])
    assert readable() == ["#general #general #general #private"]


@row("25 special mentions")
def _(rows: Rows) -> None:
    rows(said(1, "<!here> <!channel|@channel> <!subteam^S1|@team> <!date^1^{date}|Monday>"))
    assert readable() == ["@here @channel @team Monday"]


@row("26 links")
def _(rows: Rows) -> None:
    rows(said(1, "<https://a.example|a> <mailto:b@c.example> <javascript:x|y> <data:x|z>"))
    assert readable() == ["a (https://a.example) b@c.example y z"]


@row("27 escapes")
def _(rows: Rows) -> None:
    rows(said(1, "&lt;@U1&gt; &amp;lt; a &amp; b"))
    assert readable() == ["<@U1> &lt; a & b"]


@row("28 thousands of unclosed marks")
def _(rows: Rows) -> None:
    marks = ("<@", "<!date^", "`", "*a ", "_~*", ":a", "```", "&amp", "<http://a|")
    rows(*(said(n, mark * 20_000) for n, mark in enumerate(marks)))
    assert rows.ended == {"stored": len(marks)}
    assert len(readable()) == len(marks)


@row("29 the largest and the too large")
def _(rows: Rows) -> None:
    days = {DAY: [said(1, "x" * 40_000), said(2, "y" * 1_100_000), said(3, "z" * 900_000)]}
    rows.path(write_folder(rows.folder / "export", export_files(days)))
    assert rows.ended == {"stored": 2, "quarantined": 1}
    assert rows.reasons == {"quarantined: too large": 1}
    assert [len(text) for text in readable()] == [40_000, 900_000]


@row("30 every script and emoji")
def _(rows: Rows) -> None:
    text = "👩‍👩‍👧 🇯🇵 שלום 日本語 :clap::skin-tone-2: :our-own:"
    reactions = [{"name": "clap::skin-tone-2", "users": ["U1"], "count": 1}]
    rows(said(1, text, reactions=reactions))
    message = Message.objects.get()
    assert (message.text, json.loads(message.raw)["reactions"]) == (text, reactions)
    assert readable() == ["👩‍👩‍👧 🇯🇵 שלום 日本語 👏🏻 :our-own:"]


@row("31 invisible characters")
def _(rows: Rows) -> None:
    wales = "🏴" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbwls") + "\U000e007f"
    raw = said(1, f"a\u202eb\u2066c\U000e0041d\x00e\ud800 👩‍👧 {wales}")
    rows(raw)
    assert json.loads(Message.objects.get().raw) == raw
    (words,) = readable()
    assert clean(words) == f"abcd\ufffde\ufffd 👩‍👧 {wales}"
    assert marked(words) == f"a⟦U+202E⟧b⟦U+2066⟧c⟦U+E0041⟧d\ufffde\ufffd 👩‍👧 {wales}"


@row("32 names of files")
def _(rows: Rows) -> None:
    files = export_files({"開発/2023-11-14": [said(1, "a")]}, channels=[channel("C1", "開発")])
    data = packed(files | {"開発/2023-11-15\x01.json": b"[]"})
    # Without the flag that says so the names are in UTF-8 all the same.
    rows.bytes(claiming(data, "開発/2023-11-14.json", flags=0))
    assert (rows.status, rows.ended) == (2, {"stored": 1})
    assert [one["reason"] for one in rows.report["quarantined_files"]] == ["a name that is no text"]


@row("33 names that lead out, links, names twice")
def _(rows: Rows) -> None:
    files = export_files({DAY: [said(1, "x")]})
    outside = "names a place outside"
    for name in ("../x.json", "general/../../x", "/etc/x", "a\\x.json", "C:/x", "c:x", "a/.."):
        rows.refuses(packed(files | {name: b"[]"}), outside)
    rows.refuses(with_link(files, "general/2023-11-15.json", "/etc/passwd"), "a link or a device")
    twice = [*files.items(), (f"{DAY}.json", b"[]")]
    rows.refuses(packed(twice), "two files of one name")


@row("34 bombs, lies, passwords")
def _(rows: Rows) -> None:
    files = export_files({DAY: [said(1, "x")]})
    day = f"{DAY}.json"
    data = packed(files)
    bomb = packed(files | {"general/2023-11-15.json": b"[" + b" " * 20_000_000 + b"]"})
    rows.refuses(bomb, "unpacks to far more")
    rows.refuses(claiming(data, day, size=0xFFFFFF00), "unpacks to far more")
    rows.refuses(laid_over(data, day, "users.json"), "over each other")
    rows.refuses(encrypted(data), "password")
    rows.refuses(packed({"export.zip": data}), "another zip file")
    for odd, reason in (
        (claiming(data, day, size=10), "damaged"),
        (encrypted(data, day), "encrypted"),
        (claiming(data, day, method=zipfile.ZIP_LZMA), "compressed in an unknown way"),
        (claiming(data, day, crc=1), "damaged"),
    ):
        rows.bytes(odd)
        assert (rows.status, rows.ended) == (2, {})
        assert rows.report["quarantined_files"] == [{"file": day, "reason": reason}]
    rows.bytes(packed(files | {"inner.zip": data}))
    assert (rows.ended, rows.report["files"]["reasons"]) == (
        {"stored": 1},
        {"skipped: an archive inside": 1},
    )
    rows.bytes(streamed(files))
    assert rows.ended == {"duplicate": 1}


@row("35 zipped again, with junk")
def _(rows: Rows) -> None:
    files = export_files({DAY: [said(1, "x")]})
    wrapped = {f"My export/{name}": content for name, content in files.items()}
    junk = ("__MACOSX/._x", "My export/.DS_Store", "My export/FC:F1:Plan/canvas.json")
    rows.files(wrapped | dict.fromkeys(junk, b"\0"))
    assert (rows.status, rows.ended) == (0, {"stored": 1})
    assert rows.report["files"]["reasons"] == {
        "skipped: left by the system": 2,
        "skipped: canvas": 1,
    }


@row("36 folders of unknown type")
def _(rows: Rows) -> None:
    secret = {
        f"{folder}/2023-11-14": [said(1, "canary")]
        for folder in ("who-knows", "D0123456789", "mpdm-a--b-1")
    }
    rows.days({DAY: [said(1, "public")]} | secret)
    assert rows.ended == {"stored": 1, "skipped": 2, "quarantined": 1}
    assert rows.report["unlisted_folders"] == [{"folder": "who-knows", "objects": 1}]
    assert texts() == ["public"]
    rows.arguments = ["--direct-messages"]  # who is in them is not known, so nobody could read them
    rows.days(secret)
    assert (rows.ended, texts()) == ({"quarantined": 3}, ["public"])


@row("37 direct and group messages")
def _(rows: Rows) -> None:
    days = {
        "D0123456789/2023-11-14": [said(1, "between two")],
        "mpdm-ann--bob--cem-1/2023-11-14": [said(2, "among three")],
    }
    lists = {
        "people": [person("U1", "Ann"), person("U2", "Bob"), person("U3", "Cem")],
        "dms": [{"id": "D0123456789", "members": ["U2", "U1"]}],
        "mpims": [channel("G0123456789", "mpdm-ann--bob--cem-1", members=["U1", "U2", "U3"])],
    }
    rows.days(days, **lists)
    assert (rows.status, rows.ended) == (0, {"skipped": 2})
    assert rows.report["channels"]["skipped"] == 2
    assert texts() == []
    rows.arguments = ["--direct-messages"]
    rows.days(days, **lists)
    assert rows.ended == {"stored": 2}
    direct = Channel.objects.exclude(kind="public").order_by("slack_id")
    assert [(one.slack_id, one.kind, one.name) for one in direct] == [
        ("D0123456789", "im", "Ann, Bob"),
        ("G0123456789", "mpim", "mpdm-ann--bob--cem-1"),
    ]
    assert not Channel.objects.flowing().exclude(kind="public").exists()
    seen = {}
    for slack_id in ("U1", "U3"):
        user = UserFactory()
        Person.objects.filter(slack_id=slack_id).update(user=user)
        visible = Message.objects.visible_to(Reader.of(user)).in_order()
        seen[slack_id] = [message.text for message in visible]
    assert seen == {"U1": ["between two", "among three"], "U3": ["among three"]}
    rows.arguments = []
    rows.days(days, **lists)
    assert rows.ended == {"skipped": 2}


@row("38 renamed, reused, unlisted")
def _(rows: Rows) -> None:
    rows(said(1, "first"), channels=[channel("C1", "general", creator=None)])
    rows.days(
        {"all/2023-11-15": [said(2, "second")], "general/2023-11-15": [said(3, "other")]},
        channels=[channel("C1", "all", creator=None), channel("C2", "general")],
    )
    held = Message.objects.in_order().values_list("channel__slack_id", "text")
    assert list(held) == [("C1", "first"), ("C1", "second"), ("C2", "other")]
    rows.days({"absent/2023-11-15": [said(4, "left out")]})
    assert rows.ended == {"quarantined": 1}


@row("39 times that cannot be")
def _(rows: Rows) -> None:
    rows.days(
        {
            DAY: [
                said(0, "x", ts="0000000001.000000"),
                said(0, "x", ts="99999999999.000000"),
                said(1, "fine", edited={"user": "U1", "ts": "99999999999.000000"}),
            ],
            "general/0001-01-01": [],
        },
        channels=[channel("C1", "general", created=1)],
    )
    assert rows.ended == {"stored": 1, "quarantined": 2}
    assert rows.reasons == {"quarantined: ts out of range": 2}
    assert Message.objects.get().edited_ts == ""


@row("40 an organisation's export")
def _(rows: Rows) -> None:
    team = export_files({DAY: [said(1, "x")]})
    people = {"org_users.json": team.pop("users.json")}
    of = {f"teams/{name}/{file}": data for name in ("a", "b") for file, data in team.items()}
    rows.refuses(packed(people | of), "2 teams of an organisation")
    only = {file: data for file, data in of.items() if file.startswith("teams/a/")}
    rows.bytes(packed(people | only))
    assert (rows.status, rows.ended) == (0, {"stored": 1})
    assert rows.report["people"]["stored"] == 2
    rows.bytes(packed(people | team))
    assert (rows.ended, rows.report["people"]["duplicate"]) == ({"duplicate": 1}, 2)


@row("41 stopped and doubled")
def _(rows: Rows) -> None:
    days = {f"general/2023-11-{n}": [said(n * 86_400 - 1_200_000, f"{n}")] for n in (14, 15)}
    folder = write_folder(rows.folder / "folder", export_files(days))
    later = folder / "general" / "2023-11-15.json"
    whole = later.read_bytes()
    later.write_bytes(whole[:30])
    rows.path(folder)
    assert (rows.status, rows.ended) == (2, {"stored": 1})
    with storing_elsewhere(Channel.objects.get().workspace):
        rows.path(folder)
    assert "Another import or sync" in rows.refused
    later.write_bytes(whole)
    rows.path(folder)
    assert (rows.status, rows.ended) == (0, {"stored": 1, "duplicate": 1})
    rows.path(write_zip(rows.folder / "again.zip", export_files(days)))
    assert (rows.ended, texts()) == ({"duplicate": 2}, ["14", "15"])


def test_every_row_is_here() -> None:
    assert [int(name[:2]) for name in ROWS] == list(range(1, 42))


@pytest.mark.parametrize("name", list(ROWS))
def test_row(name: str, rows: Rows) -> None:
    ROWS[name](rows)
