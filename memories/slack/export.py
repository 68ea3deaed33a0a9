"""Read a Slack export as streams of raw objects: Slack's own form, or slackdump's equal one.

The top has lists of people and of channels by kind. Each channel has a folder, named after it or
its id, with a file per day. Other files are counted as junk. A folder in no list may be private, so
its objects are counted and not stored. An export of an organisation (Enterprise Grid) with one team
is read as an export of that team.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from memories.rules.ingest.slack_objects import ChannelIn, parse_channel, parse_slack_id
from memories.rules.ingest.timestamps import SLACK_BEGAN, to_micros
from memories.rules.json_values import as_text
from memories.slack.archive import Folder, Member, Zip
from memories.slack.jsonlists import Unreadable
from memories.slack.refusals import NotAnExport

__all__ = ["Export", "ExportFolder", "NotAnExport"]

PEOPLE = ("users.json", "org_users.json")
TEAMS = "teams"
# When two lists have a channel, the later and more private one counts.
CHANNEL_LISTS = {
    "channels.json": "public",
    "groups.json": "private",
    "mpims.json": "mpim",
    "dms.json": "im",
}
_LISTS = (*PEOPLE, *CHANNEL_LISTS)
_DAY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}).*\.json")
_DIRECT_FOLDER = re.compile(r"D[A-Z0-9]{7,}|mpdm-.+")
_DUMP_FILE = re.compile(r"[CDG][A-Z0-9]{7,}(-[0-9.]+)?\.json")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_MAX_NAME_LENGTH = 1000
_MAX_WRAPPERS = 8  # folders around the export that are removed
_ARCHIVE = re.compile(r".+\.(zip|7z|rar|tar|tgz|gz|bz2|xz)", re.IGNORECASE)
# In one file. A list with so many values that are no Slack objects is an attack.
_MAX_ODD = 10_000


@dataclass
class ExportFolder:
    """The day files of one conversation, the oldest first.

    ``kind`` is public, private, im or mpim. Without a list that names it, ``slack_id`` is "", and
    ``kind`` is "" or im.
    """

    name: str
    slack_id: str = ""
    kind: str = ""
    days: list[Member] = field(default_factory=list)

    @property
    def is_public(self) -> bool:
        return self.kind == "public"

    @property
    def is_direct(self) -> bool:
        return self.kind in ("im", "mpim")


class Export:
    """An open export; raises `NotAnExport` with a remedy. Close it, or use ``with``."""

    def __init__(self, path: Path) -> None:
        _refuse_other_files(path)
        self._source = Folder(path) if path.is_dir() else Zip(path)
        self.junk: Counter[str] = Counter()
        self.broken: list[tuple[str, str]] = []  # (file name, reason)
        self.broken_at: dict[str, int] = {}  # file name → line, where it is known
        self._listed: dict[str, tuple[str, set[str]]] = {}  # id → (kind, names)
        self._top: dict[str, list[Member]] = defaultdict(list)
        self._folders: dict[str, list[Member]] = defaultdict(list)
        try:
            members = self._readable(list(self._source.members()))
            _refuse_other_forms(members, path.name)
            inner = _of_the_team(_without_wrapper(members), path.name)
        except NotAnExport:
            self.close()
            raise
        if beside := len(members) - len(inner):
            self.junk["beside the export"] += beside
        self._sort(inner)

    def __enter__(self) -> "Export":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._source.close()

    @property
    def newest_day(self) -> datetime | None:
        """The start of the newest day with a file, None before 2013.

        The lists describe this time or a later one. A later guess could bring back people who left.
        """
        days = [
            match[1]
            for folder in self._folders.values()
            for day in folder
            if (match := _DAY.fullmatch(day.parts[-1]))
        ]
        for day in sorted(set(days), reverse=True):
            try:
                start = datetime.fromisoformat(day).replace(tzinfo=UTC)
            except ValueError:
                continue
            return start if to_micros(start) > SLACK_BEGAN else None
        return None

    def people(self) -> Iterator[object]:
        for name in PEOPLE:
            for member in self._top[name]:
                yield from self._objects(member)

    def channels(self) -> Iterator[tuple[object, str]]:
        """Yield listed conversations with the kind of their list: public, private, im or mpim."""
        for name, kind in CHANNEL_LISTS.items():
            for member in self._top[name]:
                for raw in self._objects(member):
                    self._add_listed(raw, kind)
                    yield raw, kind

    def folders(self) -> Iterator[ExportFolder]:
        """Yield the conversations with messages; call it after reading all `channels`.

        A folder whose name two listed channels share counts as unlisted.
        """
        by_name: dict[str, set[str]] = defaultdict(set)
        for listed_id, (_, names) in self._listed.items():
            for name in {*names, listed_id}:
                by_name[name].add(listed_id)
        for name, days in sorted(self._folders.items()):
            owners = by_name.get(name, set())
            folder = ExportFolder(name, days=sorted(days, key=lambda day: day.name))
            if len(owners) == 1:
                (folder.slack_id,) = owners
                folder.kind = self._listed[folder.slack_id][0]
            elif not owners and _DIRECT_FOLDER.fullmatch(name):
                folder.kind = "im"
            yield folder

    def messages(self, folder: ExportFolder) -> Iterator[object]:
        """Yield the folder's objects by day. A broken file yields the objects before the break."""
        for day in folder.days:
            yield from self._objects(day)

    def _objects(self, member: Member) -> Iterator[object]:
        odd = 0
        try:
            for item in member.objects():
                if not isinstance(item, dict) or len(item) < 2:
                    odd += 1
                    if odd > _MAX_ODD:
                        raise Unreadable("hardly any objects")
                yield item
        except Unreadable as error:
            self.broken.append((member.name, str(error)))
            self.broken_at[member.name] = error.line

    def _add_listed(self, raw: object, kind: str) -> None:
        """Record the names and the kind of a listed channel. The last list decides the kind."""
        if not isinstance(raw, dict) or not (listed_id := parse_slack_id(raw.get("id"))):
            return
        if isinstance(parsed := parse_channel(raw, kind, direct=True), ChannelIn):
            kind = parsed.kind
        names = {as_text(raw.get("name")), as_text(raw.get("name_normalized"))} - {""}
        _, listed_names = self._listed.get(listed_id, ("", set()))
        normalized = {unicodedata.normalize("NFC", name) for name in names}
        self._listed[listed_id] = (kind, listed_names | normalized)

    def _readable(self, members: list[Member]) -> list[Member]:
        """Leave out the files of other programs, and files with names that are no text."""
        kept = []
        for member in members:
            if reason := _junk(member):
                self.junk[reason] += 1
            elif _UNPRINTABLE.search(member.name) or len(member.name) > _MAX_NAME_LENGTH:
                name = member.name[:_MAX_NAME_LENGTH]
                shown = _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", name)
                self.broken.append((shown, "a name that is no text"))
            else:
                kept.append(member)
        return kept

    def _sort(self, members: list[Member]) -> None:
        for member in members:
            parts = member.parts
            is_day = _DAY.fullmatch(parts[-1])
            if len(parts) == 2 and is_day:
                self._folders[parts[0]].append(member)
            elif is_day:
                self.broken.append((member.name, "in no channel's folder"))
            elif member.name in _LISTS:
                self._top[member.name].append(member)
            else:
                is_archive = _ARCHIVE.fullmatch(parts[-1])
                self.junk["an archive inside" if is_archive else "no messages"] += 1


def _junk(member: Member) -> str:
    parts = member.parts
    if "__MACOSX" in parts or parts[-1] in (".DS_Store", "Thumbs.db", "desktop.ini"):
        return "left by the system"
    if parts[-1].startswith("._"):
        return "left by the system"
    if any(part.startswith("FC:") for part in parts[:-1]):
        return "canvas"
    if "canvases" in parts[:-1] and not _DAY.fullmatch(parts[-1]):  # a channel may have this name
        return "canvas"
    return ""


def _without_wrapper(members: list[Member]) -> list[Member]:
    """Remove the folders that were zipped around the export."""
    for _ in range(_MAX_WRAPPERS):
        if any(member.name in _LISTS for member in members):
            break
        wrappers = {
            member.parts[0]
            for member in members
            if (len(member.parts) == 2 and member.parts[1] in _LISTS)
            or (len(member.parts) > 2 and _DAY.fullmatch(member.parts[-1]))
        }
        if len(wrappers) != 1:
            break
        (wrapper,) = wrappers
        members = [
            Member(member.name.removeprefix(f"{wrapper}/"), member.source, member.key)
            for member in members
            if member.parts[0] == wrapper
        ]
    return members


def _of_the_team(members: list[Member], name: str) -> list[Member]:
    """Move the files of an organisation's only team to the top; refuse several teams."""
    teams = {
        parts[1]
        for parts in (member.parts for member in members)
        if parts[0] == TEAMS
        and (
            (len(parts) == 3 and parts[2] in _LISTS)
            or (len(parts) == 4 and _DAY.fullmatch(parts[3]))
        )
    }
    if len(teams) > 1:
        raise NotAnExport("several_teams", name=name, n=str(len(teams)))
    if not teams:
        return members
    prefix = f"{TEAMS}/{teams.pop()}/"
    return [
        Member(member.name.removeprefix(prefix), member.source, member.key) for member in members
    ]


def _refuse_other_files(path: Path) -> None:
    try:
        if not path.exists():
            raise NotAnExport("absent", name=str(path))
        if path.is_dir():
            return
        if not path.is_file():
            raise NotAnExport("other_file", name=str(path))
        with path.open("rb") as file:
            signature = file.read(16)
    except OSError as error:
        raise NotAnExport("unreadable", name=str(path), why=str(error.strerror)) from error
    if signature.startswith(b"SQLite format 3"):
        raise NotAnExport("slackdump", form="database", name=path.name)
    if signature.startswith(b"\x1f\x8b") and path.name.endswith(".json.gz"):
        raise NotAnExport("slackdump", form="archive", name="its folder")
    if not signature.startswith(b"PK"):
        raise NotAnExport("no_zip", name=path.name)


def _refuse_other_forms(members: list[Member], name: str) -> None:
    names = [member.parts[-1] for member in members]
    if any(name.endswith(".json.gz") for name in names):
        raise NotAnExport("slackdump", form="archive", name=name)
    if any(name in ("slackdump.sqlite", "slackdump.db") for name in names):
        raise NotAnExport("slackdump", form="database", name=name)
    has_days = any(_DAY.fullmatch(name) for name in names)
    if not has_days and any(_DUMP_FILE.fullmatch(name) for name in names):
        raise NotAnExport("slackdump", form="dump", name=name)
    has_lists = any(name in _LISTS for name in names)
    if not has_days and not has_lists and any(name.endswith(".zip") for name in names):
        raise NotAnExport("zip_inside", name=name)
    if not has_days and not has_lists:
        raise NotAnExport("nothing_inside", name=name)
