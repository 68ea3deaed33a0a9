"""Two worktrees, a laptop and the hub change notes at the same time, round after round.

Each round somebody changes a file or the hub, and up to four syncs run side by side with one more
change of the hub. Worktrees sync with memoryhub-agent or with `manage.py memory sync`, the laptop with
memoryhub-agent alone. A third worktree has a link to the file of the first one, so some syncs of a
file wait for each other. A third of the syncs is killed. Each text is unique. Oracle: the own record of
what was written, and of what was replaced or deleted on purpose.
"""

import json
import os
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memories import agent
from memories.api import serialize
from memories.models import ApiKey, Member, Note, User, Workspace
from memories.rules.notes import notes_file
from tests.hard.model_client import ROOT
from tests.hard.web import served

NAME = "19 notes"
SMALL_DATABASES = ()
ROUNDS = {True: 1000, False: 30}
SIDES = ("worktree", "other-worktree", "laptop")
SLUG, NAME_OF_USER = "team", "aya"
PER_MINUTE = 10**6  # requests of the key


@dataclass
class Hub:
    """The notes in the hub, by its API, and what was written there."""

    url: str
    token: str
    written: set[str] = field(default_factory=set)
    replaced: set[str] = field(default_factory=set)

    def send(self, method: str, path: str, body: Any = None, etag: str = "") -> int:
        """Return the status of a request."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if etag:
            headers["If-Match"] = etag
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}", data, headers=headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code

    def add(self, text: str) -> None:
        _expect(self.send("POST", "notes", {"content": text}), 201)
        self.written.add(text)

    def change(self, note: Note, text: str) -> bool:
        """Return False if a sync has changed or deleted the note."""
        etag = serialize.note_etag(note)
        status = self.send("PATCH", f"notes/{note.pk}", {"content": text}, etag)
        if status in (404, 412):
            return False
        _expect(status, 200)
        self.written.add(text)
        self.replaced.add(note.content)
        return True

    def delete(self, note: Note) -> None:
        status = self.send("DELETE", f"notes/{note.pk}", etag=serialize.note_etag(note))
        if status not in (404, 412):
            _expect(status, 204)
            self.replaced.add(note.content)


class Side:
    """A folder with a notes file."""

    def __init__(self, folder: Path, hub: Hub, program: Path) -> None:
        folder.mkdir()
        self.folder, self.path = folder, folder / agent.DEFAULT_FILE
        self.path.parent.mkdir()
        self.hub, self.program = hub, program
        self.is_worktree = "worktree" in folder.name

    def link(self, folder: Path) -> "Side":
        """Return a worktree with a link to the file of this one."""
        folder.mkdir()
        linked = copy(self)
        linked.path = folder / agent.DEFAULT_FILE
        command = [sys.executable, "-I", str(self.program), "link", str(folder)]
        own = {"MEMORYHUB_URL": self.hub.url, "MEMORYHUB_KEY": self.hub.token}
        subprocess.run(command, cwd=self.folder, env=os.environ | own, check=True)
        return linked

    def entries(self) -> list[notes_file.Entry]:
        entries = notes_file.read(agent.read_text(self.path) or "# Memories\n")
        return [entry for entry in entries if entry.id is not None]

    def add(self, text: str) -> None:
        before = agent.read_text(self.path) or "# Memories\n\n"
        agent.replace(self.path.resolve(), f"{before}## {text}\n- Tags: \n- Content: {text}\n\n")
        self.hub.written.add(text)

    def change(self, entry: notes_file.Entry, text: str) -> None:
        before = agent.read_text(self.path)
        after = before.replace(f"- Content: {entry.content}\n", f"- Content: {text}\n")
        agent.replace(self.path.resolve(), after)
        self.hub.written.add(text)
        self.hub.replaced.add(entry.content)

    def delete(self, entry: notes_file.Entry) -> None:
        parts = agent.read_text(self.path).split("## ")
        kept = [part for part in parts if f"- Id: {entry.id}\n" not in part]
        agent.replace(self.path.resolve(), "## ".join(kept))
        self.hub.replaced.add(entry.content)

    def sync(self, *, by_command: bool) -> "subprocess.Popen[str]":
        if by_command and self.is_worktree:
            command = [sys.executable, "manage.py", "memory", "sync", str(self.path)]
            command += ["--workspace", SLUG, "--as", NAME_OF_USER]
        else:
            command = [sys.executable, "-I", str(self.program), "sync", str(self.path)]
        own = {"MEMORYHUB_URL": self.hub.url, "MEMORYHUB_KEY": self.hub.token}
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    chance = random.Random(seed)
    team = Workspace.objects.create(slug=SLUG, name=SLUG)
    user = User.objects.create(username=NAME_OF_USER)
    Member.objects.create(workspace=team, user=user, role="admin")
    _key, token = ApiKey.objects.issue(
        team, name="notes", by=user, user=user, scopes=["notes"], requests_per_minute=PER_MINUTE
    )
    with served(work) as url:
        hub = Hub(url, token)
        program = work / "memoryhub-agent"
        program.write_text(Path(agent.__file__).read_text())
        sides = [Side(work / name, hub, program) for name in SIDES]
        sides.append(sides[0].link(work / "linked-worktree"))
        conflicts: set[str] = set()
        killed, errors = 0, []
        for number in range(ROUNDS[full]):
            words = _words(number)
            _change(chance, chance.choice(sides), hub, words, conflicts)
            syncs = [
                side.sync(by_command=chance.random() < 0.1)
                for side in chance.choices(sides, k=chance.randint(0, 4))
            ]
            _change_hub(chance, hub, words)
            for process in syncs:
                if chance.random() < 1 / 3:
                    time.sleep(chance.random() * 0.3)
                    process.kill()
            for process in syncs:
                output = process.communicate(timeout=120)[0]
                killed += process.returncode < 0
                if process.returncode > 0:
                    errors.append(f"round {number}: {output.strip()[-200:]}")
        for side in sides * 3:
            output = side.sync(by_command=False).communicate(timeout=120)[0]
            if not output.startswith("In sync: "):
                errors.append(output[-200:])
        return _judge(ROUNDS[full], hub, sides, conflicts, killed, errors)


def _words(number: int) -> Iterator[str]:
    return (f"wording {number}-{part}" for part in range(9))


def _change(
    chance: random.Random, side: Side, hub: Hub, words: Iterator[str], conflicts: set[str]
) -> None:
    """Change a file. In one of three changes of a note, the hub changes the note as well."""
    action = chance.choice(("add", "add", "change", "change", "change", "delete"))
    entries = side.entries()
    if action == "add" or not entries:
        side.add(next(words))
        return
    entry = chance.choice(entries)
    if action == "delete":
        side.delete(entry)
        return
    text = next(words)
    note = Note.objects.live().filter(pk=entry.id).first()
    if note is not None and chance.random() < 1 / 3 and hub.change(note, next(words)):
        conflicts.add(text)
    side.change(entry, text)


def _change_hub(chance: random.Random, hub: Hub, words: Iterator[str]) -> None:
    notes = list(Note.objects.live().order_by("pk"))
    action = chance.choice(("add", "add", "change", "delete", "nothing"))
    if action == "add":
        hub.add(next(words))
    elif action == "change" and notes:
        hub.change(chance.choice(notes), next(words))
    elif action == "delete" and notes:
        hub.delete(chance.choice(notes))


def _judge(
    rounds: int, hub: Hub, sides: list[Side], conflicts: set[str], killed: int, errors: list[str]
) -> dict[str, Any]:
    texts = [agent.read_text(side.path) for side in sides]
    entries = notes_file.read(texts[0])
    final = [entry.content for entry in entries]
    lost = hub.written - hub.replaced - set(final)
    doubled = {text for text in final if final.count(text) > 1}
    differing = set(final) ^ set(Note.objects.live().values_list("content", flat=True))
    tagged = {entry.content for entry in entries if "conflict" in entry.tags}
    hidden = conflicts - hub.replaced - tagged
    passed = not (lost or doubled or differing or hidden or errors)
    passed = passed and len(set(texts)) == 1 and sides[-1].path.is_symlink()
    passed = passed and len(conflicts) > rounds // 20
    return {
        "pass": bool(passed and killed > rounds // 20),
        "n": rounds,
        "texts": len(hub.written),
        "notes": len(final),
        "killed": killed,
        "conflicts": len(conflicts),
        "lost": len(lost),
        "doubled": len(doubled),
        "in_one_place_only": len(differing),
        "files_differ": len(set(texts)) > 1,
        "conflicts_without_a_tag": len(hidden),
        "examples": sorted(lost | doubled | differing | hidden)[:5],
        "errors": errors[:3],
    }


def _expect(status: int, expected: int) -> None:
    if status != expected:
        raise RuntimeError(f"The hub answered {status}, not {expected}.")
