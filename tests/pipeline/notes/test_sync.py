"""A notes file and the hub are made equal, whatever ends a sync in the middle."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier

import pytest
from django.db import connection

from memories import agent
from memories.models import Channel, Note, NoteVersion, Reader, Workspace
from memories.pipeline.notes.files import ImportResult, NotesFileError, sync_text
from memories.rules.notes import notes_file
from tests.factories import ChannelFactory, ChannelMemberFactory, PersonFactory, WorkspaceFactory
from tests.processes import PATIENCE

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 1, 4, 20, tzinfo=UTC)
NOT_STORED = (
    " note %s was changed or deleted here, and the text of the file cannot be stored; remove it"
    " from the file"
)
ADDED = "# Memories\n\n## b\n- Tags: \n- Date: 2026-01-05\n- Content: b\n"


@pytest.fixture
def workspace() -> Workspace:
    return WorkspaceFactory()


def add(workspace: Workspace, content: str) -> Note:
    return Note.objects.write(workspace, content, now=NOW)


def sync(workspace: Workspace, text: str, base: str = "") -> ImportResult:
    return sync_text(workspace, Reader.public(), text, base, author=None, now=NOW)


def contents() -> list[str]:
    return list(Note.objects.live().order_by("pk").values_list("content", flat=True))


def test_a_new_file_gets_the_notes(workspace: Workspace) -> None:
    add(workspace, "a")
    assert "- Content: a" in sync(workspace, "").text


def test_both_sides_get_added_notes(workspace: Workspace) -> None:
    add(workspace, "a")
    text = sync(workspace, ADDED).text
    assert contents() == ["a", "b"]
    assert [entry.content for entry in notes_file.read(text)] == ["a", "b"]
    assert sync(workspace, text, text).text == text


def test_a_change_of_the_file_is_saved(workspace: Workspace) -> None:
    note = add(workspace, "a")
    base = sync(workspace, "").text
    done = sync(workspace, base.replace("- Content: a", "- Content: a2"), base)
    assert (contents(), done.conflicts) == (["a2"], [])
    assert list(NoteVersion.objects.filter(note=note).values_list("content", flat=True)) == ["a"]


def test_a_change_of_the_hub_reaches_the_file(workspace: Workspace) -> None:
    note = add(workspace, "a")
    base = sync(workspace, "").text
    note.rewrite("a2")
    assert "- Content: a2" in sync(workspace, base, base).text


def test_both_wordings_of_a_conflict_are_kept(workspace: Workspace) -> None:
    note = add(workspace, "a")
    base = sync(workspace, "").text
    note.rewrite("hub")
    edited = base.replace("- Content: a", "- Content: file")
    done = sync(workspace, edited, base)
    assert contents() == ["hub", "file"]
    assert Note.objects.get(content="file").tags == ["conflict"]
    assert "line 3: note" in done.conflicts[0]
    # The client was ended before it wrote the file: the same once more adds nothing.
    assert sync(workspace, edited, base).text == done.text
    assert contents() == ["hub", "file"]


@pytest.fixture
def channel(workspace: Workspace) -> Channel:
    """A public channel, with a member for `as_member`."""
    channel = ChannelFactory(workspace=workspace, slack_id="C1")
    ChannelMemberFactory(channel=channel, person=PersonFactory(workspace=workspace))
    return channel


def as_member(channel: Channel, text: str, base: str = "") -> ImportResult:
    reader = Reader.of_person(channel.memberships.get().person, NOW)
    return sync_text(channel.workspace, reader, text, base, author=None, now=NOW)


@pytest.mark.parametrize("change", [lambda note: note.rewrite("hub"), Note.remove])
def test_a_conflict_publishes_nothing_from_private_days(
    channel: Channel, change: Callable[[Note], object]
) -> None:
    note = Note.objects.write(channel.workspace, "a", channel=channel, was_private=True, now=NOW)
    base = as_member(channel, "").text
    change(note)
    done = as_member(channel, base.replace("- Content: a", "- Content: file"), base)
    assert "- Content: file" in done.text
    assert Note.objects.get(content="file").was_private
    assert sync(channel.workspace, "").text == "# Memories\n"


def purge(note: Note) -> None:
    note.remove()
    note.purge(by=None)


def redact(note: Note) -> None:
    note.redact("a […]", "a […]", [])


def redact_and_change(note: Note) -> None:
    redact(note)
    note.refresh_from_db()
    note.rewrite("hub")


@pytest.mark.parametrize("change", [purge, redact, redact_and_change])
def test_purged_and_redacted_words_do_not_come_back(
    workspace: Workspace, change: Callable[[Note], None]
) -> None:
    note = add(workspace, "a secret")
    base = sync(workspace, "").text
    change(note)
    before = contents()
    text = base.replace("- Content: a secret", "- Content: a secret, edited")
    for _ in range(2):  # the entry stays in the file as it is, also in the next sync
        done = sync(workspace, text, base)
        assert [conflict.partition(":")[2] for conflict in done.conflicts] == [NOT_STORED % note.pk]
        assert "- Content: a secret, edited" in done.text
        text = base = done.text
    assert contents() == before


@pytest.mark.parametrize("content", ["a", "edited"])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_note_that_was_moved_away_does_not_come_back(
    workspace: Workspace, content: str, is_deleted: bool
) -> None:
    note = add(workspace, "a")
    base = sync(workspace, "").text
    note.channel = ChannelFactory(workspace=workspace, kind="private")
    note.save_wording(by=None)
    if is_deleted:
        note.remove()
    text = base.replace("- Content: a", f"- Content: {content}")
    for _ in range(2):
        done = sync(workspace, text, base)
        text = base = done.text
    assert Note.objects.get() == note
    if is_deleted and content == "a":
        assert (done.text, done.conflicts) == ("# Memories\n", [])
    else:
        assert done.conflicts == [f"line 3:{NOT_STORED % note.pk}"]
        assert f"- Content: {content}" in done.text


def test_a_conflict_adds_nothing_to_the_channel_that_a_note_left(channel: Channel) -> None:
    note = Note.objects.write(channel.workspace, "a", channel=channel, now=NOW)
    base = as_member(channel, "").text
    note.channel = ChannelFactory(workspace=channel.workspace, kind="private")
    note.save_wording(by=None)
    ChannelMemberFactory(channel=note.channel, person=channel.memberships.get().person)
    done = as_member(channel, base.replace("- Content: a", "- Content: file"), base)
    assert done.conflicts == [f"line 3:{NOT_STORED % note.pk}"]
    assert [entry.content for entry in notes_file.read(done.text)] == ["a", "file"]
    assert contents() == ["a"]


def test_a_note_that_the_file_dropped_moves_to_the_trash(workspace: Workspace) -> None:
    note = add(workspace, "a")
    base = sync(workspace, "").text
    done = sync(workspace, "# Memories\n", base)
    assert (done.deleted, contents()) == (1, [])
    note.refresh_from_db()
    assert note.deleted_at == NOW


def test_a_file_that_is_missing_deletes_nothing(workspace: Workspace) -> None:
    add(workspace, "a")
    base = sync(workspace, "").text
    assert sync(workspace, "", base).text == base
    assert contents() == ["a"]


def test_a_note_that_the_hub_deleted_leaves_the_file(workspace: Workspace) -> None:
    note = add(workspace, "a")
    base = sync(workspace, "").text
    note.remove(now=NOW)
    assert sync(workspace, base, base).text == "# Memories\n"


def test_a_change_is_stronger_than_a_deletion(workspace: Workspace) -> None:
    note = add(workspace, "a")
    base = sync(workspace, "").text
    note.rewrite("a2")
    done = sync(workspace, "# Memories\n", base)
    assert "- Content: a2" in done.text
    assert "was deleted in the file and changed here" in done.conflicts[0]
    second = add(workspace, "b")
    base = sync(workspace, "").text
    second.remove(now=NOW)
    done = sync(workspace, base.replace("- Content: b", "- Content: b2"), base)
    assert contents() == ["a2", "b2"]


def test_an_entry_that_cannot_be_stored_stays_in_the_file(workspace: Workspace) -> None:
    text = "# Memories\n\n## x\n- Channel: C0SECRET\n- Tags: \n- Date: 2026-01-05\n- Content: x\n"
    done = sync(workspace, text)
    assert "- Content: x" in done.text
    assert done.conflicts == ["line 3: no such channel: C0SECRET"]
    assert contents() == []


def test_notes_of_channels_that_the_reader_may_not_read_stay_away(workspace: Workspace) -> None:
    secret = ChannelFactory(workspace=workspace, kind="private")
    Note.objects.write(workspace, "secret", channel=secret, now=NOW)
    assert sync(workspace, "").text == "# Memories\n"


def test_a_file_that_is_no_list_of_notes_changes_nothing(workspace: Workspace) -> None:
    add(workspace, "a")
    with pytest.raises(NotesFileError, match="not a list of notes"):
        sync(workspace, "Dear diary")


class Killed(Exception):
    """A client that ended in the middle of a sync."""


class Side:
    """One folder with a notes file, whose client is ended at random."""

    def __init__(self, folder: Path, workspace: Workspace, chance: random.Random) -> None:
        self.path = folder / "memories.md"
        self.workspace, self.chance = workspace, chance
        self.synced: dict[int | None, str] = {}  # the contents that the last sync wrote, by id
        self.conflicts = 0

    def entries(self) -> list[notes_file.Entry]:
        return notes_file.read(agent.read_text(self.path))

    def edit(self, change: Callable[[str], str]) -> None:
        agent.replace(self.path, change(agent.read_text(self.path) or "# Memories\n\n"))

    def find_conflicts(self, text: str) -> dict[int, str]:
        """Return the texts by line that the file changed, and the hub changed or deleted too."""
        notes = dict(Note.objects.live().values_list("pk", "content"))
        return {
            entry.line: entry.content
            for entry in notes_file.read(text)
            if entry.id is not None
            and entry.content not in (self.synced[entry.id], notes.get(entry.id))
            and self.synced[entry.id] != notes.get(entry.id)
        }

    def check_conflicts(self, expected: dict[int, str], done: ImportResult) -> None:
        """Each conflict is in the reply, and its text is in the file with the tag conflict."""
        lines = [text for text in done.conflicts if "separate note" in text]
        assert [text.partition(":")[0] for text in lines] == [f"line {line}" for line in expected]
        tagged = {e.content for e in notes_file.read(done.text) if "conflict" in e.tags}
        assert set(expected.values()) <= tagged
        self.conflicts += len(expected)

    def sync(self, monkeypatch: pytest.MonkeyPatch, *, may_end: bool) -> None:
        end_at = self.chance.choice([1, 2, 3, 99]) if may_end else 99
        steps = iter(range(1, 99))

        def step() -> None:
            if next(steps) == end_at:
                raise Killed

        def exchange(text: str, base: str) -> dict[str, object]:
            expected = self.find_conflicts(text)
            done = sync(self.workspace, text, base)
            self.check_conflicts(expected, done)
            step()  # the hub has stored the changes, and the client never learns of it
            return {"text": done.text, "conflicts": done.conflicts}

        write = agent.replace

        def replace(path: Path, text: str) -> None:
            write(path, text)
            if path == self.path:
                self.synced = {entry.id: entry.content for entry in notes_file.read(text)}
            step()

        with monkeypatch.context() as patch:
            patch.setattr(agent, "replace", replace)
            try:
                agent.sync_file(self.path, exchange)
            except Killed:
                pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "rounds",
    [
        40,
        pytest.param(
            1_000,
            marks=[pytest.mark.nightly("a thousand rounds take minutes"), pytest.mark.timeout(0)],
        ),
    ],
)
def test_nothing_is_lost_or_doubled_among_three_files_and_the_hub(
    rounds: int, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text is unique. At the end every text that was not replaced or deleted exists once.

    Each conflict is shown.
    """
    chance = random.Random(rounds)
    sides = []
    for name in ("worktree", "other-worktree", "laptop"):
        (tmp_path / name).mkdir()
        sides.append(Side(tmp_path / name, workspace, chance))
    written: set[str] = set()
    replaced: set[str] = set()
    for number in range(rounds):
        side = chance.choice(sides)
        new = f"wording {number}"
        action = chance.choice(["add", "add", "change", "delete", "hub-add", "hub-change", "sync"])
        entries = (
            [entry for entry in side.entries() if entry.id is not None]
            if side.path.exists()
            else []
        )
        notes = list(Note.objects.live().order_by("pk"))
        if action == "add":
            side.edit(lambda text, new=new: f"{text}## {new}\n- Tags: \n- Content: {new}\n\n")
        elif action == "change" and entries:
            entry = chance.choice(entries)
            old = entry.content
            replaced.add(old)
            note = next((note for note in notes if note.pk == entry.id), None)
            if note is not None and chance.random() < 0.5:  # both sides change it
                replaced.add(note.content)
                note.rewrite(f"{new} of the hub")
                written.add(note.content)
            side.edit(
                lambda text, old=old, new=new: text.replace(
                    f"- Content: {old}\n", f"- Content: {new}\n"
                )
            )
        elif action == "delete" and entries:
            entry = chance.choice(entries)
            replaced.add(entry.content)
            # As a person deletes an entry: the stamps of the other entries stay the same.
            lines = agent.read_text(side.path).split("## ")
            agent.replace(
                side.path,
                "## ".join(part for part in lines if f"- Id: {entry.id}\n" not in part),
            )
            new = ""
        elif action == "hub-add":
            add(workspace, new)
        elif action == "hub-change" and notes:
            note = chance.choice(notes)
            replaced.add(note.content)
            note.rewrite(new)
        else:
            new = ""
        if new:
            written.add(new)
        for each in chance.sample(sides, chance.randint(0, 3)):
            each.sync(monkeypatch, may_end=True)
    for _ in range(3):
        for each in sides:
            each.sync(monkeypatch, may_end=False)
    final = [entry.content for entry in sides[0].entries()]
    assert all(side.path.read_text() == sides[0].path.read_text() for side in sides)
    assert sorted(final) == sorted(contents())
    assert len(final) == len(set(final))
    assert written - replaced <= set(final)
    assert sum(side.conflicts for side in sides) >= rounds // 20


@pytest.mark.postgres("SQLite has one writer at a time")
@pytest.mark.django_db(transaction=True)
def test_the_same_new_note_of_two_simultaneous_syncs_is_stored_once() -> None:
    """A client was killed, and the next one sends the file while the hub stores the first."""
    workspace = WorkspaceFactory()
    barrier = Barrier(4)

    def send(_number: int) -> str:
        try:
            barrier.wait(timeout=PATIENCE)
            return sync(workspace, ADDED).text
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        texts = set(pool.map(send, range(4)))
    assert (contents(), len(texts)) == (["b"], 1)
