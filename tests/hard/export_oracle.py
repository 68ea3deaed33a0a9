"""How many objects an export holds, counted without the project's code.

Whole files in memory, one look at each: nothing here is fit for more than small exports.
"""

import io
import json
import os
import re
import unicodedata
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PEOPLE = ("users.json", "org_users.json")
CHANNELS = ("channels.json", "groups.json", "mpims.json", "dms.json")
LISTS = PEOPLE + CHANNELS
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*\.json", re.DOTALL)
MAX_ODD = 10_000  # of one file: the promise of docs/commands.md
SPACE = " \t\n\r"


@dataclass
class Count:
    people: int = 0
    channels: int = 0
    messages: int = 0
    teams: set[str] = field(default_factory=set)
    is_export: bool = False
    teams_of_organisation: int = 0


def count_zip(data: bytes) -> Count:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = []
        for info in archive.infolist():
            if not info.is_dir():
                name = info.orig_filename
                if not info.flag_bits & 0x800:
                    try:
                        name = name.encode("cp437").decode("utf-8")
                    except UnicodeError:
                        pass
                files.append((name, _content(archive, info)))
    return _count(files)


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type not in (0, 8):
        return b""
    try:
        return archive.read(info)
    except Exception:
        return b""


def count_folder(path: Path) -> Count:
    files = []
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            whole = file.is_file() and not file.is_symlink()
            content = file.read_bytes() if whole else b""
            files.append((file.relative_to(path).as_posix(), content))
    return _count(files)


def _count(files: list[tuple[str, bytes]]) -> Count:
    split = [
        (unicodedata.normalize("NFC", name).split("/"), content)
        for name, content in files
        if _is_sound(name)
    ]
    split = [(parts, content) for parts, content in split if not _is_junk(parts)]
    named = {parts[-1] for parts, _ in split}
    result = Count(is_export=any(name in LISTS or DAY.fullmatch(name) for name in named))
    for _ in range(8):
        if any(len(parts) == 1 and parts[0] in LISTS for parts, _ in split):
            break
        tops = {
            parts[0]
            for parts, _ in split
            if (len(parts) == 2 and parts[1] in LISTS)
            or (len(parts) > 2 and DAY.fullmatch(parts[-1]))
        }
        if len(tops) != 1:
            break
        split = [(parts[1:], content) for parts, content in split if parts[0] in tops]
    teams = {
        parts[1]
        for parts, _ in split
        if parts[0] == "teams"
        and (
            (len(parts) == 3 and parts[2] in LISTS) or (len(parts) == 4 and DAY.fullmatch(parts[3]))
        )
    }
    result.teams_of_organisation = len(teams)
    for parts, content in split:
        if len(teams) == 1 and parts[:2] == ["teams", *teams]:
            parts = parts[2:]
        if len(parts) == 1 and parts[0] in PEOPLE:
            people = elements(content)
            result.people += len(people)
            result.teams |= {_team(person) for person in people} - {""}
        elif len(parts) == 1 and parts[0] in CHANNELS:
            result.channels += len(elements(content))
        elif len(parts) == 2 and DAY.fullmatch(parts[1]):
            result.messages += len(elements(content))
    return result


def _is_sound(name: str) -> bool:
    odd = any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in name)
    return not odd and len(unicodedata.normalize("NFC", name)) <= 1000


def _is_junk(parts: list[str]) -> bool:
    last = parts[-1]
    return (
        "__MACOSX" in parts
        or last in (".DS_Store", "Thumbs.db", "desktop.ini")
        or last.startswith("._")
        or any(part.startswith("FC:") for part in parts[:-1])
        or ("canvases" in parts[:-1] and not DAY.fullmatch(last))
    )


def _team(person: Any) -> str:
    team = person.get("team_id") if isinstance(person, dict) else None
    return team if isinstance(team, str) and re.fullmatch("[A-Za-z0-9_-]{1,32}", team) else ""


def elements(data: bytes) -> list[Any]:
    """What a list holds up to where it breaks; what cannot be held stands in it as "?"."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = data[: error.start].decode()
    text = text.lstrip(SPACE)
    items: list[Any] = []
    if not text.startswith("["):
        return items
    at, odd = _skip(text, 1), 0
    if text[at : at + 1] == "]":
        return items
    while True:
        try:
            item, end = json.JSONDecoder().raw_decode(text, at)
        except json.JSONDecodeError:
            return items
        except (ValueError, RecursionError):
            item, end = "?", _behind(text, at)
            if end < 0:
                return items
        odd += not isinstance(item, dict) or len(item) < 2
        if odd > MAX_ODD:
            return items
        items.append(item)
        end = _skip(text, end)
        if text[end : end + 1] != ",":
            return items
        at = _skip(text, end + 1)


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in SPACE:
        at += 1
    return at


def _behind(text: str, at: int) -> int:
    """Where a value ends that is too deep, or a number too long, to be read; -1 when it does not."""
    if text[at] not in "[{":
        end = re.compile(r"[^0-9eE.+-]").search(text, at)
        return end.start() if end else -1
    depth, inside = 0, False
    while at < len(text):
        letter = text[at]
        if inside and letter == "\\":
            at += 1
        elif letter == '"':
            inside = not inside
        elif not inside and letter in "[{":
            depth += 1
        elif not inside and letter in "]}":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return -1
