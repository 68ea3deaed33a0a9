"""A table of archives that are damaged, hostile or no exports.

The numbers are those of `tests.hard.mutated_exports.ROWS`, which combines the faults by chance.
"""

import gzip
import json
import zipfile

from memories.slack import limits
from tests.hard.mutated_exports import empty_files
from tests.hostilezips import (
    make_zip,
    with_encryption_flag,
    with_fields,
    with_garbage,
    with_link,
    with_overlap,
)
from tests.slackexports import channel, export_files, slack_message

Content = bytes | dict[str, bytes]  # a file, or the files of a folder

DAY, LATER = "general/2023-11-14.json", "general/2023-11-15.json"
DAYS = {"general/2023-11-14": [slack_message(1, "a")]}
FILES = export_files(DAYS | {"general/2023-11-15": [slack_message(2, "b")]})
ZIP = make_zip(FILES)
TEAMS = {f"teams/{team}/{name}": data for team in "ab" for name, data in FILES.items()} | {
    "org_users.json": b"[]"
}
CUT = json.dumps([slack_message(1, "a"), slack_message(2, "cut")])[:-9]
CANVASES = export_files(
    {"canvases/2023-11-14": [slack_message(1, "a")], "teams/2023-11-14": [slack_message(1, "b")]}
    | {"teams/attachments/F1-x": "{}"},
    channels=[channel("C1", "canvases"), channel("C2", "teams")],
)
WRAPPED = {f"My export/{name}": content for name, content in FILES.items()} | {
    **{"__MACOSX/._x": b"", "My export/.DS_Store": b"", "My export/FC:1/c.json": b""},
    "My export/canvases.json": b"[]",
}
DUMP = "slackdump convert -f export"

REFUSED: dict[str, tuple[Content, str, str]] = {  # name → (content, code, words)
    **{
        f"outside: {name}": (
            make_zip(FILES | {name: b"[]"}),
            "leads_out",
            "contains a path outside",
        )
        for name in ("../x.json", "general/../../x", "/etc/x", "a\\x.json", "C:/x", "c:x", "a/..")
    },
    "link": (with_link(FILES, "general/2023-11-16.json", "/etc/passwd"), "link", "or a device"),
    "name twice": (
        make_zip([*FILES.items(), (DAY, b"[]")]),
        "same_name",
        "files with the same name",
    ),
    "bomb": (make_zip(FILES | {"x.json": b" " * 4_000_000}), "unpacks_to_more", "far more"),
    "claims a bomb": (with_fields(ZIP, DAY, size=0xFFFFFF00), "unpacks_to_more", "far more"),
    "overlap": (with_overlap(ZIP, DAY, "users.json"), "overlap", "overlapping files"),
    "behind": (with_fields(ZIP, DAY, header_offset=len(ZIP)), "overlap", "overlapping files"),
    "far behind": (with_fields(ZIP, DAY, header_offset=0xFFFFFFFE), "overlap", "overlapping files"),
    "password": (with_encryption_flag(ZIP), "password", "password"),
    "zip inside": (make_zip({"export.zip": ZIP}), "zip_inside", "another zip file"),
    "many files": (empty_files(limits.MAX_FILES + 1), "many_files", "more than 200,000 files"),
    "two teams": (make_zip(TEAMS), "several_teams", "contains 2 teams of an organization"),
    "empty zip": (make_zip({}), "nothing_inside", "contains no channel lists"),
    "photos": (
        {"a/b.jpg": b"", "notes.json": b"[]"},
        "nothing_inside",
        "contains no channel lists",
    ),
    "gzip": (gzip.compress(b"{}"), "no_zip", "not a zip file or a folder"),
    "JSON": (b'{"messages": []}', "no_zip", "not a zip file or a folder"),
    "empty file": (b"", "no_zip", "not a zip file or a folder"),
    "begin of a zip": (b"PK\x03\x04 and then nothing", "damaged", "damaged, or it is not a zip"),
    "database": (b"SQLite format 3\0 and more", "slackdump", f"database.*{DUMP} .*given"),
    **{
        f"slackdump's {form}, {write.__name__}": (
            write(files),
            "slackdump",
            f"{form.split()[0]}.*{DUMP} .*given",
        )
        for write in (dict, make_zip)
        for form, files in {
            "dump": {"C0123456789.json": b'{"channel_id": "C0123456789", "messages": []}'},
            "dump of a thread": {"D0123456789-1700000000.000100.json": b"{}"},
            "database": {"slackdump.sqlite": b"SQLite format 3\0"},
            "archive": {"channels.json.gz": b"", "C0123456789.json.gz": b""},
        }.items()
    },
}
# name → (files of a zip, texts of the messages, broken files, junk)
Read = tuple[bytes | dict[str, bytes], list[str], dict[str, str], dict[str, int]]
READ: dict[str, Read] = {
    "01 cut off": (
        FILES | export_files({"general/2023-11-14": CUT}),
        ["a", "b"],
        {DAY: "cut off"},
        {},
    ),
    "02 no list": (
        FILES | {DAY: b"{}", LATER: b"null"},
        [],
        dict.fromkeys((DAY, LATER), "not a list"),
        {},
    ),
    "02 no list of people": (
        FILES | {"users.json": b"{"},
        ["a", "b"],
        {"users.json": "not a list"},
        {},
    ),
    "32 a name with a control character": (
        FILES | {"general/\x9b31m\x1b.json": b"[]"},
        ["a", "b"],
        {"general/\\u009b31m\\u001b.json": "a name that is no text"},
        {},
    ),
    "32 a long name": (
        FILES | {"a/" * 20_000 + "2023-11-14.json": b"[]"},
        ["a", "b"],
        {"a/" * 500: "a name that is no text"},
        {},
    ),
    "34 an archive inside": (FILES | {"inner.zip": b""}, ["a", "b"], {}, {"an archive inside": 1}),
    "34 empty objects": (
        FILES | {LATER: b"[" + b"{}," * 12_000 + b"{}]"},
        ["a"] + [""] * 10_000,
        {LATER: "hardly any objects"},
        {},
    ),
    "35 zipped again": (
        WRAPPED,
        ["a", "b"],
        {},
        {"left by the system": 2, "canvas": 1, "no messages": 1},
    ),
    "35 many folders around it": (
        {"a/" * 12 + name: data for name, data in FILES.items()},
        [],
        {"a/" * 4 + day: "in no channel's folder" for day in (DAY, LATER)},
        {"no messages": 2},
    ),
    "36 a folder too deep": (
        FILES | {"teams/x/2023-11-14.json": b"[]"},
        ["a", "b"],
        {"teams/x/2023-11-14.json": "in no channel's folder"},
        {},
    ),
    "channels called canvases and teams": (CANVASES, ["a", "b"], {}, {"no messages": 1}),
    "overwritten": (with_garbage(ZIP, DAY), ["b"], {DAY: "damaged"}, {}),
    "claims to be short": (with_fields(ZIP, DAY, size=10), ["b"], {DAY: "damaged"}, {}),
    "wrong checksum": (with_fields(ZIP, DAY, crc=1), ["b"], {DAY: "damaged"}, {}),
    "encrypted": (with_encryption_flag(ZIP, DAY), ["b"], {DAY: "encrypted"}, {}),
    "claims LZMA": (
        with_fields(ZIP, DAY, method=zipfile.ZIP_LZMA),
        ["b"],
        {DAY: "compressed in an unknown way"},
        {},
    ),
    **{
        f"method {method}": (
            make_zip(FILES, method),
            [],
            dict.fromkeys(FILES, "compressed in an unknown way"),
            {},
        )
        for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    },
}
