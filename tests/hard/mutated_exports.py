"""Exports as no workspace makes them: each seed gives one, always the same.

A small sound export takes in some rows of the table of odd inputs; then values are dropped,
doubled, retyped and nested, bytes are changed, and the zip around it all is made hostile.
"""

import copy
import io
import json
import os
import random
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests import hostilezips
from tests.slackexports import channel, person, slack_message, ts

Files = dict[str, bytes]
SMALL = 60_000  # bytes: what a reader takes in one piece, so that a damaged file is lost whole
# What docs/commands.md says is refused: more than so many bytes, and so many for each packed one.
MAX_FILE_BYTES, MAX_RATIO = 1 << 20, 200


@dataclass
class Draft:
    """An export before it is written: JSON values by file name, and files that are none."""

    values: dict[str, Any]
    files: Files = field(default_factory=dict)
    folder_only: dict[str, str] = field(default_factory=dict)  # name → link, pipe, folder

    def day(self, chance: random.Random) -> list[Any]:
        days = [value for name, value in self.values.items() if "/" in name]
        rows: list[Any] = chance.choice(days)
        return rows


@dataclass
class Mutated:
    """``must``: refuse, read, or either. ``names``: what was done to it."""

    names: list[str]
    must: str
    zip: bytes = b""
    folder: Files | None = None
    folder_only: dict[str, str] = field(default_factory=dict)
    exact: bool = True  # what a damaged zip gives before it breaks is not for others to say

    def write(self, path: Path) -> None:
        if self.folder is None:
            path.write_bytes(self.zip)
            return
        path.mkdir()
        for name, content in self.folder.items():
            file = path / name
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            except OSError:  # a name that this disk cannot hold, or that is a folder's
                continue
        for name, kind in self.folder_only.items():
            odd = path / name
            odd.parent.mkdir(parents=True, exist_ok=True)
            if kind == "pipe":
                os.mkfifo(odd)
            else:
                odd.symlink_to(kind)


def mutated(seed: int) -> Mutated:
    """An export with one to four oddities. 200 seeds in a row hold each row and each kind of zip."""
    chance = random.Random(seed)
    draft = _sound(chance)
    rows, kinds = list(ROWS), list(ZIPS)
    names = list(
        dict.fromkeys([rows[seed % len(rows)], *chance.sample(rows, chance.randint(0, 3))])
    )
    for name in names:
        ROWS[name](draft, chance)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        names.append(_change_structure(draft, chance))
    files = {name: _encoded(value, chance) for name, value in draft.values.items()} | draft.files
    for _ in range(chance.choice((0, 0, 1, 2))):
        names.append(_change_bytes(files, chance))
    turn, place = divmod(seed, 5)
    kind = kinds[(2 * turn + place) % len(kinds)] if place < 2 else "plain"
    if place > 1 and (draft.folder_only or chance.random() < 0.2):
        return Mutated([*names, "folder"], "read", folder=files, folder_only=draft.folder_only)
    must, data = ZIPS[kind](files, chance)
    if must == "read" and _holds(data) > MAX_FILE_BYTES + MAX_RATIO * len(data):
        must = "refuse"
    exact = must != "either" or max(map(len, files.values()), default=0) < SMALL
    return Mutated([*names, kind], must, zip=data, exact=exact)


def _holds(data: bytes) -> int:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return sum(info.file_size for info in archive.infolist())


def _sound(chance: random.Random) -> Draft:
    people = [person(f"U{n}", f"Person {n}", updated=1_600_000_000 + n) for n in range(1, 5)]
    ids = [row["id"] for row in people]
    kinds = {
        "channels": [channel("C1", "general", members=ids), channel("C2", "開発", members=ids)],
        "groups": [channel("G1", "secret", members=ids[:2])],
        "mpims": [channel("G2", "mpdm-a--b--c-1", members=ids[:3], is_mpim=True)],
        "dms": [{"id": "D0123456789", "created": 1_600_000_000, "members": ids[:2]}],
    }
    for name in list(kinds):
        if name != "channels" and chance.random() < 0.4:
            del kinds[name]
    values: dict[str, Any] = {"users.json": people}
    values |= {f"{name}.json": rows for name, rows in kinds.items()}
    number = chance.randrange(1000)
    for rows in kinds.values():
        for row in rows:
            for day in range(chance.randint(1, 2)):
                talk = []
                for _ in range(chance.randint(1, 5)):
                    number += 1
                    talk.append(
                        slack_message(number, f"word {number} <@U1> &amp; :tada:", f"U{number % 4}")
                    )
                name = row.get("name", row["id"])
                values[f"{name}/2023-11-{14 + day}.json"] = talk
    return Draft(values)


# -- the rows


def _says(*messages: dict[str, Any]) -> Callable[[Draft, random.Random], None]:
    """A row that is a few messages more in one day."""

    def add(draft: Draft, chance: random.Random) -> None:
        day = draft.day(chance)
        for message in copy.deepcopy(messages):
            if isinstance(message, dict) and chance.random() < 0.3:
                message["ts"] = ts(chance.randrange(2000), chance.randrange(3))
            day.insert(chance.randint(0, len(day)), message)

    return add


def _of(subtype: str, **more: Any) -> dict[str, Any]:
    return slack_message(7, "x", subtype=subtype) | more


def _file(name: str, content: bytes) -> Callable[[Draft, random.Random], None]:
    return lambda draft, _: draft.files.update({name: content})


def _broken(draft: Draft, chance: random.Random) -> None:
    text = json.dumps([slack_message(n, "whole") for n in range(5)])
    draft.files["general/2023-11-20.json"] = text[: chance.randrange(len(text))].encode()


def _no_list(draft: Draft, chance: random.Random) -> None:
    text = chance.choice(("{}", '"x"', "null", "", " ", "[]", '[null, "x", 5, [], {}]', "[1,", "]"))
    name = chance.choice(("general/2023-11-21.json", *draft.values))
    draft.values.pop(name, None)
    draft.files[name] = text.encode()


def _doubled(draft: Draft, chance: random.Random) -> None:
    names = [name for name in draft.values if "/" in name]
    again = copy.deepcopy(draft.values[chance.choice(names)])
    for row in again:
        if isinstance(row, dict) and chance.random() < 0.5:
            row |= {"text": "edited", "edited": {"user": "U1", "ts": ts(chance.randrange(900))}}
    draft.values[f"{chance.choice(names).split('/')[0]}/2023-11-2{chance.randrange(9)}.json"] = (
        again
    )


def _wrapped(draft: Draft, chance: random.Random) -> None:
    wrapper = chance.choice(("My export", "a/b", "日本", "teams"))
    draft.values = {f"{wrapper}/{name}": value for name, value in draft.values.items()}
    draft.files = {f"{wrapper}/{name}": value for name, value in draft.files.items()}
    draft.files |= {
        "__MACOSX/._x.json": b"\0",
        f"{wrapper}/.DS_Store": b"",
        "canvases/x.json": b"[",
    }


def _of_organisation(draft: Draft, chance: random.Random) -> None:
    for name in [name for name in draft.values if name.endswith("users.json")]:
        draft.values[name.replace("users.json", "org_users.json")] = draft.values.pop(name)
    if chance.random() < 0.5:
        draft.values = {
            name if name.endswith("users.json") else f"teams/one/{name}": value
            for name, value in draft.values.items()
        }


def _unlisted(draft: Draft, chance: random.Random) -> None:
    name = chance.choice(("who-knows", "D9876543210", "mpdm-x--y-1", "canvases", "teams"))
    draft.values[f"{name}/2023-11-14.json"] = [
        slack_message(1, "canary"),
        slack_message(2, "canary"),
    ]


def _renamed(draft: Draft, chance: random.Random) -> None:
    for name, value in draft.values.items():
        if name.endswith("channels.json") and isinstance(value, list) and value:
            row = chance.choice(value)
            if isinstance(row, dict):
                row |= {"name": chance.choice(("general", "other", "", None)), "creator": None}


def _times(draft: Draft, chance: random.Random) -> None:
    odd = ("0000000001.000000", "99999999999.000000", "1.5", "1700000000", "999999999999.999999")
    day = draft.day(chance)
    day += [slack_message(0, "x", ts=time) for time in odd]
    draft.values[chance.choice(("general/0001-01-01.json", "general/9999-12-31.json"))] = []


def _in_folder(kind: str) -> Callable[[Draft, random.Random], None]:
    return lambda draft, _: draft.folder_only.update({"general/2023-12-01.json": kind})


_MARKS = ("<@", "<!date^", "`", "*a ", "_~*", ":a", "```", "&amp", "<http://a|", "&gt;")
_BLOCK = {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": []}]}
_HIDDEN = "a\u202eb\u2066c\U000e0041d\x00e\ud800 👩‍👧 \udfff"
ROWS: dict[str, Callable[[Draft, random.Random], None]] = {
    "01 broken json": _broken,
    "02 no list": _no_list,
    "03 ts": _says(
        {"type": "message"}, slack_message(1, "x", ts=None), slack_message(1, "x", ts=5)
    ),
    "04 keys": _says(
        slack_message(0, "x", ts="1700000000.100000"), slack_message(0, "y", ts="1700000000.1")
    ),
    "05 one ts twice": _says(slack_message(5, "x", thread_ts=ts(1)), slack_message(1, "y")),
    "06 two files": _doubled,
    "07 reply first": _says(
        slack_message(9, "reply", thread_ts=ts(3)), slack_message(3, "root", thread_ts=ts(3))
    ),
    "08 no root": _says(slack_message(9, "reply", thread_ts=ts(4))),
    "09 gone root": _says(_of("tombstone", hidden=True, thread_ts=ts(7)), slack_message(9, "r")),
    "10 no replies": _says(slack_message(7, "x", reply_count=1, latest_reply="0000000000.000000")),
    "11 broadcast": _says(_of("thread_broadcast", thread_ts=ts(1), root={"bot_id": "B1"})),
    "12 bots": _says(_of("bot_message", user=None), _of("bot_message", bot_id="B1", username="b")),
    "13 nobody": _says(
        slack_message(1, "x", None), slack_message(2, "x", "U00"), {"ts": ts(5), "text": "x"}
    ),
    "14 unlisted": _says(
        slack_message(1, "x", "USLACKBOT"), slack_message(2, "x", "W8", user_team="T9")
    ),
    "15 two ids": _says(
        slack_message(1, "x", "W1", user_profile={"display_name": "Ann", "team": "T2"})
    ),
    "16 notices": _says(_of("channel_join"), _of("channel_name", name="all"), _of("pinned_item")),
    "17 changes": _says(
        _of("message_changed", message=slack_message(1, "new", edited={"ts": ts(80)})),
        _of("message_deleted", deleted_ts=ts(2), previous_message=slack_message(2, "old")),
        _of("message_changed", message=_of("message_changed")),
        _of("message_replied"),
    ),
    "18 authors": _says(_of("file_comment", comment={"user": "U1"}), _of("huddle_thread", room={})),
    "19 words": _says(
        slack_message(1, "", attachments=[{"fallback": "f", "ts": 1}], blocks=[_BLOCK])
    ),
    "20 blocks": _says(
        slack_message(1, "", blocks=[{"type": "of_next_year"}, {"type": None}, None, 5])
    ),
    "21 files": _says(
        slack_message(1, "", files=[{"mode": "tombstone"}, None, {"title": 5}], file={})
    ),
    "22 elsewhere": _says(
        slack_message(1, "", files=[{"url_private": "http://127.0.0.1:9/x", "name": "x"}])
    ),
    "23 people": _says(slack_message(1, "<@U1> <@U2|bob> <@W9> <@here> <@> <@|>")),
    "24 channels": _says(slack_message(1, "<#C1> <#C1|> <#C1|old> <#G1|secret> <#>")),
    "25 special": _says(
        slack_message(1, "<!here> <!subteam^S1|@t> <!date^1^{date}|Monday> <!> <!^>")
    ),
    "26 links": _says(slack_message(1, "<https://a|b> <mailto:> <javascript:x|y> <data:x>")),
    "27 escapes": _says(slack_message(1, "&lt;@U1&gt; &amp;amp;lt; & &lt")),
    "28 marks": lambda draft, chance: _says(slack_message(1, chance.choice(_MARKS) * 8_000))(
        draft, chance
    ),
    "29 large": lambda draft, chance: _says(
        slack_message(1, "x" * chance.choice((40_000, 999_000, 1_100_000)))
    )(draft, chance),
    "30 scripts": _says(
        slack_message(1, "👩‍👩‍👧 🇯🇵 שלום :clap::skin-tone-9:", reactions=[{"name": 5}])
    ),
    "31 invisible": _says(slack_message(1, _HIDDEN, _HIDDEN, username=_HIDDEN, team=_HIDDEN)),
    "32 names": lambda draft, _: draft.files.update(
        {"general/2023-11-15\x01.json": b"[]", "general/2023-11-16\u202e\x9b.json": b"[{}]"}
    ),
    "33 pipe": _in_folder("pipe"),
    "33 link": _in_folder("/etc/hostname"),
    "34 inner": _file("inner.zip", hostilezips.make_zip({"users.json": b"[]"})),
    "34 no end": _file("general/2023-12-02.json", b"[" + b"1," * 12_000),
    "34 empties": _file("general/2023-12-03.json", b"[" + b"{}," * 9_000 + b"{}]"),
    "35 wrapped": _wrapped,
    "36 unlisted": _unlisted,
    "37 direct": _file(
        "D0123456789/2023-11-30.json", json.dumps([slack_message(1, "dm")]).encode()
    ),
    "38 renamed": _renamed,
    "39 times": _times,
    "40 organisation": _of_organisation,
    "41 again": lambda draft, chance: (_doubled(draft, chance), _doubled(draft, chance))[0],
}


# -- the structure


def _change_structure(draft: Draft, chance: random.Random) -> str:
    """Something happens to one value anywhere in one file."""
    name = chance.choice(list(draft.values))
    holder, key = draft.values, name
    for _ in range(chance.randint(0, 6)):
        inner = holder[key]
        if isinstance(inner, dict) and inner:
            holder, key = inner, chance.choice(list(inner))
        elif isinstance(inner, list) and inner:
            holder, key = inner, chance.randrange(len(inner))
        else:
            break
    if holder is draft.values and chance.random() < 0.8:
        return "nothing"
    how = chance.choice(("drop", "double", "retype", "retype", "nest", "rename", "swap", "grow"))
    value = holder[key]
    if how == "drop":
        del holder[key]
        if not draft.values:
            draft.values = {name: []}
    elif how == "double" and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(value))
    elif how == "nest":
        holder[key] = _nested(value, chance.choice((1, 3, 30, 150, 600, 1500)), chance)
    elif how == "rename" and isinstance(holder, dict) and holder is not draft.values:
        holder[chance.choice(_KEYS)] = holder.pop(key)
    elif how == "swap":
        second = draft.day(chance)
        if isinstance(second, list) and second and second is not value:
            holder[key] = copy.deepcopy(chance.choice(second))
    elif how == "grow" and isinstance(value, list) and len(value) < 50:
        holder[key] = value * chance.randint(2, 20)
    else:
        holder[key] = chance.choice(_ODD)
    return how


_KEYS = ("ts", "user", "text", "id", "name", "members", "type", "subtype", "thread_ts", "blocks")
_KEYS += ("files", "edited", "profile", "team_id", "is_private", "is_mpim", "reply_count", "\x00")


class Raw:
    """JSON that is written as it stands."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __deepcopy__(self, _: object) -> "Raw":
        return self


_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, 10**300, 1.5, -0.0, 1e308),
    *("", " ", "\x00", "\ud800", "\udc00x", "U1", "C1", "\u202e", "<@U1>", "x" * 300, "\n" * 50),
    *("1700000000.000100", "9" * 400, "٣.٣", "1e9", "../../x", "T2", "channel_join", "tombstone"),
    *([], {}, [None], {"": None}, [[]], {"ts": {}}, [{"id": []}], ["U1", None, 5, "U1"]),
    *(Raw("1e999"), Raw("-1e999"), Raw("NaN"), Raw("9" * 5000), Raw("-" + "9" * 4301)),
    *(Raw('"\\ud83d"'), Raw('{"a": 1, "a": 2}'), Raw("1E5"), Raw("Infinity")),
)


def _nested(value: Any, depth: int, chance: random.Random) -> Any:
    if depth > 500 or value is None:  # deeper than the writer can go
        text, depth = "1", max(depth, 2)
    else:
        for _ in range(depth):
            value = [value] if chance.random() < 0.5 else {chance.choice(_KEYS): value}
        return value
    return Raw(
        "[" * depth + text + "]" * depth
        if chance.random() < 0.5
        else '{"blocks":' * depth + text + "}" * depth
    )


def _encoded(value: Any, chance: random.Random) -> bytes:
    raws: list[Raw] = []

    def keep(item: object) -> str:
        assert isinstance(item, Raw)
        raws.append(item)
        return f"raw-{len(raws) - 1}-raw"

    try:
        text = json.dumps(
            value,
            default=keep,
            ensure_ascii=chance.random() < 0.6,
            indent=chance.choice((None, None, None, 1)),
        )
    except RecursionError:
        text = "[]"
    for number, raw in enumerate(raws):
        text = text.replace(f'"raw-{number}-raw"', raw.text)
    how = chance.random()
    if how < 0.95:
        return text.encode("utf-8", "surrogatepass")
    if how < 0.97:
        return b"\xef\xbb\xbf" + text.encode("utf-8", "surrogatepass")
    if how < 0.98:
        return text.encode("utf-16", "surrogatepass")
    return text.encode(chance.choice(("latin-1", "cp932")), "replace")


# -- the bytes


def _change_bytes(files: Files, chance: random.Random) -> str:
    name = chance.choice(list(files))
    data = bytearray(files[name])
    at = chance.randint(0, len(data))
    how = chance.choice(("flip", "flips", "cut", "insert", "remove", "repeat", "zeros", "rename"))
    if how == "flip" and data:
        data[at % len(data)] ^= 1 << chance.randrange(8)
    elif how == "flips" and data:
        for _ in range(20):
            data[chance.randrange(len(data))] = chance.randrange(256)
    elif how == "cut":
        del data[at:]
    elif how == "insert":
        odd = (b"\x00", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"]", b"}", b'"', b"\\", b"[" * 3000)
        data[at:at] = chance.choice(odd)
    elif how == "remove":
        del data[at : at + chance.randint(1, 50)]
    elif how == "repeat":
        data[at:at] = data[at : at + chance.randint(1, 500)] * chance.randint(1, 5)
    elif how == "zeros":
        data[at : at + 8] = bytes(8)
    elif how == "rename":
        del files[name]
        folder, _, last = name.rpartition("/")
        ways = (
            name.upper(),
            name + " ",
            f"{folder}/x/{last}",
            last,
            f"./{name}",
            name * 2,
            "x.json",
        )
        ways += (f"{'a/' * 300}{last}", f"{'n' * 1500}/{last}", f"{name}.gz.json", f"e\u0301{name}")
        name = chance.choice(ways).lstrip("/")
    if not name.endswith(".json.gz"):
        files[name] = bytes(data)
    return how


# -- the zip: what must come of it, and its bytes

Zip = Callable[[Files, random.Random], tuple[str, bytes]]


def _packed(must: str, change: Callable[[bytes, random.Random], bytes]) -> Zip:
    return lambda files, chance: (must, change(hostilezips.make_zip(files), chance))


def _with(name: str) -> Zip:
    return lambda files, _: ("refuse", hostilezips.make_zip(files | {name: b"[]"}))


def _filled(size: int) -> Zip:
    def fill(files: Files, chance: random.Random) -> tuple[str, bytes]:
        fillers = (b" ", b"1,", b"{},", b"[", b'{"a":', b'"x",', b"\x00", b'{"ts":"1","x":1},')
        filler = chance.choice(fillers)
        content = b"[" + filler * (size // len(filler))
        return "read", hostilezips.make_zip(files | {"general/2023-12-05.json": content})

    return fill


def _an_entry(data: bytes, chance: random.Random) -> str:
    return chance.choice(list(hostilezips.entry_offsets(data)))


def _flipped(data: bytes, begin: int, chance: random.Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(chance.choice((1, 1, 3, 30))):
        flipped[chance.randrange(begin, len(data))] = chance.randrange(256)
    return bytes(flipped)


def _lying(data: bytes, chance: random.Random) -> bytes:
    field, (_, form) = chance.choice(list(hostilezips.FIELDS.items()))
    value = chance.choice((0, 1, 7, 0x10, 0xFF, 0x7FFF, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF))
    largest = 0xFFFF if form == "<H" else 0xFFFFFFFF
    return hostilezips.with_fields(data, _an_entry(data, chance), **{field: min(value, largest)})


def _over(files: Files, chance: random.Random) -> tuple[str, bytes]:
    data = hostilezips.make_zip(files)
    names = list(hostilezips.entry_offsets(data))
    if len(names) < 2:
        return "read", data
    return "refuse", hostilezips.with_overlap(data, *chance.sample(names, 2))


def _one_locked(files: Files, chance: random.Random) -> tuple[str, bytes]:
    data = hostilezips.make_zip(files)
    must = "read" if len(hostilezips.entry_offsets(data)) > 1 else "refuse"
    return must, hostilezips.with_encryption_flag(data, _an_entry(data, chance))


@cache
def empty_files(count: int) -> bytes:
    """A directory of so many entries that all name the same place."""
    local = struct.pack("<4s5H3L2H", hostilezips.LOCAL, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0) + b"x"
    entry = struct.pack(
        "<4s6H3L5H2L", hostilezips.ENTRY, 20, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0
    )  # fmt: skip
    directory = (entry + b"x") * count
    end = struct.pack(
        "<4s4H2LH", hostilezips.END, 0, 0, 0xFFFF, 0xFFFF, len(directory), len(local), 0
    )  # fmt: skip
    return local + directory + end


def _commented(data: bytes, chance: random.Random) -> bytes:
    out = io.BytesIO(data)
    with zipfile.ZipFile(out, "a") as archive:
        archive.comment = chance.choice((b"PK\x05\x06", b"PK\x01\x02" * 9, bytes(60_000)))
    return out.getvalue()


def _compressed(*methods: int) -> Zip:
    return lambda files, chance: ("read", hostilezips.make_zip(files, chance.choice(methods)))


ZIPS: dict[str, Zip] = {
    "plain": _compressed(*[zipfile.ZIP_DEFLATED] * 4, zipfile.ZIP_STORED),
    "packed otherwise": _compressed(zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA),
    "streamed": lambda files, _: ("read", hostilezips.make_streamed_zip(files)),
    "parent": _with("../evil.json"),
    "deep parent": _with("general/../../../evil/2023-11-14.json"),
    "absolute": _with("/tmp/memoryhub-evil.json"),
    "backslash": _with("..\\evil\\2023-11-14.json"),
    "drive": _with("C:/evil/2023-11-14.json"),
    "twice": lambda files, chance: (
        "refuse",
        hostilezips.make_zip([*files.items(), chance.choice(list(files.items()))]),
    ),
    "link": lambda files, _: (
        "refuse",
        hostilezips.with_link(files, "general/2023-12-01.json", "../../../etc/passwd"),
    ),
    "cut": _packed("either", lambda data, chance: data[: chance.randrange(len(data))]),
    "flipped": _packed("either", lambda data, chance: _flipped(data, 0, chance)),
    "directory flipped": _packed(
        "either", lambda data, chance: _flipped(data, data.index(hostilezips.ENTRY), chance)
    ),
    "lying": _packed("either", _lying),
    "huge": _packed(
        "refuse",
        lambda data, chance: hostilezips.with_fields(
            data, _an_entry(data, chance), size=0xFFFFFF00
        ),
    ),
    "over": _over,
    "nested": _packed("refuse", lambda data, _: hostilezips.make_zip({"export.zip": data})),
    "bomb": _filled(10_000_000),
    "small bomb": _filled(900_000),
    "locked": _packed("refuse", lambda data, _: hostilezips.with_encryption_flag(data)),
    "one locked": _one_locked,
    "many": lambda files, _: ("refuse", empty_files(200_001)),
    "prefixed": _packed(
        "either", lambda data, chance: b"PK\x03\x04" + bytes(chance.randrange(300)) + data
    ),
    "comment": _packed("either", _commented),
}
