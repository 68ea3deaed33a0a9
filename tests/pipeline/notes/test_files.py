"""Notes and their files: nothing is ever lost on the way (S4)."""

import os
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from django.db import connection

from memories.agent import DEFAULT_FILE
from memories.models import Channel, Note, NotesDisabled, Reader, Workspace
from memories.pipeline.notes.files import (
    NotesFileError,
    export_notes,
    import_notes,
    link_worktree,
)
from memories.rules.notes.fields import InvalidNote
from tests.factories import (
    ChannelFactory,
    MessageFactory,
    NoteFactory,
    UserFactory,
    WorkspaceFactory,
)

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 1, 4, 20, tzinfo=UTC)
PUBLIC = Reader.public()
HOSTILE = [
    "two\nlines",
    "## x\n- Tags: a\n- Id: 1\n---",
    "a\r\nb\rc\r\n",
    "  spaces before, breaks behind\n\n\n",
    "separators\u2028between\u2029lines\x85and\x0bmore",
    "---",
    "\n\nfirst lines blank",
    "\tＵｎｉｃｏｄｅ 記憶 👩‍💻",
]


@pytest.fixture
def workspace() -> Workspace:
    return WorkspaceFactory(settings={"time_zone": "Asia/Tokyo"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memories.md"


def write(workspace: Workspace, content: str, **given) -> Note:
    return Note.objects.write(workspace, content, now=NOW, **given)


def load(workspace: Workspace, file: Path) -> dict[str, int]:
    """The outcomes that an import met with, those that occurred."""
    done = import_notes(workspace, PUBLIC, file, author=None, now=NOW)
    return {str(outcome): count for outcome, count in done.outcomes.items()}


def rows() -> list[tuple]:
    return list(Note.objects.order_by("pk").values_list())


class TestWrite:
    def test_title_tags_and_date_come_from_the_content(self, workspace):
        note = write(workspace, "x" * 51 + "\nmore", kind="pattern", tags=["a", "b, a"])
        assert note.title == "x" * 50 + "..."
        assert (note.kind, note.tags) == ("pattern", ["pattern", "a", "b"])
        assert note.date == date(2026, 1, 5)
        assert note.content == "x" * 51 + "\nmore"

    def test_a_note_that_is_too_long_is_refused(self, workspace):
        with pytest.raises(InvalidNote, match="at most 20,000 characters; this one has 20,001"):
            write(workspace, "x" * 20_001)
        note = write(workspace, "x" * 20_000)
        with pytest.raises(InvalidNote):
            note.rewrite("y" * 20_001, by=None, based_on=1, revision=note.revision)

    def test_a_blank_note_is_refused(self, workspace):
        with pytest.raises(InvalidNote):
            write(workspace, " \n")
        assert rows() == []

    def test_a_title_follows_the_text_unless_it_was_given(self, workspace):
        own, given = write(workspace, "old"), write(workspace, "old", title="Ours")
        for note in (own, given):
            note.rewrite("new", title=note.title)
        assert [note.title for note in Note.objects.all()] == ["new", "Ours"]

    def test_ids_are_never_used_again(self, workspace):
        first = write(workspace, "one")
        number = first.pk
        first.remove()
        assert write(workspace, "two").pk > number

    def test_switched_off_nothing_changes(self, workspace):
        note = write(workspace, "kept")
        workspace.change_settings({"notes_enabled": False})
        note = Note.objects.get(pk=note.pk)
        before = rows()
        for change in (lambda: note.rewrite("x"), note.remove, lambda: write(workspace, "x")):
            with pytest.raises(NotesDisabled):
                change()
        assert rows() == before
        assert not Note.objects.in_use(workspace).exists()

    @pytest.mark.parametrize("query", ["ÄNDERUNG", "große", "DATENBANK", "é"])
    def test_search_is_the_same_on_every_database(self, workspace, query):
        NoteFactory(workspace=workspace, content="Große Änderung: É", tags=["Datenbank"])
        NoteFactory(workspace=workspace, content="something else")
        matches = Note.objects.in_use(workspace).search(query)
        assert [note.content for note in matches] == ["Große Änderung: É"]


class TestRoundTrip:
    def test_importing_an_export_changes_nothing(self, workspace, file):
        channel = ChannelFactory(workspace=workspace)
        for content in HOSTILE:
            write(workspace, content, tags=["a", "b c"], kind="solution", title="one\ntitle")
            write(workspace, content, channel=channel)
        before = rows()
        assert export_notes(workspace, PUBLIC, file)[0] == len(before)
        assert load(workspace, file) == {"unchanged": len(before)}
        assert rows() == before

    def test_an_empty_workspace_reads_all_of_it_word_for_word(self, workspace, file):
        for content in HOSTILE:
            write(workspace, content, tags=["a"])
        export_notes(workspace, PUBLIC, file)
        target = WorkspaceFactory()
        assert load(target, file) == {"added": len(HOSTILE)}
        assert [note.content for note in target.notes.all()] == HOSTILE
        assert load(target, file) == {"duplicate": len(HOSTILE)}

    def test_a_note_keeps_its_message_if_the_reader_may_read_it(self, workspace, file):
        channel = ChannelFactory(workspace=workspace, slack_id="C1")
        message = MessageFactory(channel=channel)
        write(workspace, "kept", channel=channel, source=message)
        export_notes(workspace, PUBLIC, file)
        assert f"- Source: {message.ts}\n" in file.read_text()
        Note.objects.all().delete()
        load(workspace, file)
        assert Note.objects.get().source == message
        Note.objects.all().delete()
        channel.messages.update(was_private=True)
        load(workspace, file)
        assert Note.objects.get().source is None

    def test_a_note_changed_in_the_file_is_changed_here_once(self, workspace, file):
        note = write(workspace, "before")
        export_notes(workspace, PUBLIC, file)
        file.write_text(file.read_text().replace("Content: before", "Content: after"))
        assert load(workspace, file) == {"updated": 1}
        assert load(workspace, file) == {"unchanged": 1}
        note.refresh_from_db()
        assert note.content == "after"

    def test_an_old_export_reverts_no_change(self, workspace, file):
        note = write(workspace, "before")
        export_notes(workspace, PUBLIC, file)
        note.rewrite("corrected by a person")
        before = rows()
        assert load(workspace, file) == {"kept": 1}
        assert rows() == before

    def test_changed_on_both_sides_is_a_conflict_and_keeps_both(self, workspace, file):
        note = write(workspace, "before")
        export_notes(workspace, PUBLIC, file)
        note.rewrite("corrected by a person")
        file.write_text(file.read_text().replace("Content: before", "Content: by an agent"))
        done = import_notes(workspace, PUBLIC, file, author=None, now=NOW)
        assert (done.outcomes["conflict"], len(done.conflicts)) == (1, 1)
        assert Note.objects.get().content == "corrected by a person"
        with pytest.raises(NotesFileError, match="Import it first"):
            export_notes(workspace, PUBLIC, file)
        assert "by an agent" in file.read_text()

    @pytest.mark.parametrize("purged", [False, True], ids=["in the trash", "purged"])
    def test_a_deleted_note_does_not_come_back(self, workspace, file, purged):
        note = write(workspace, "deleted")
        export_notes(workspace, PUBLIC, file)
        note.remove()
        if purged:
            note.purge(by=None)
        assert load(workspace, file) == {"deleted": 1}
        assert not Note.objects.live().exists()
        file.write_text(file.read_text().replace("Content: deleted", "Content: by an agent"))
        assert load(workspace, file) == {"conflict": 1}
        assert load(WorkspaceFactory(), file) == {"added": 1}

    def test_ids_of_another_installation_mean_nothing(self, workspace, file):
        note = write(workspace, "theirs")
        export_notes(workspace, PUBLIC, file)
        Note.objects.all().delete()
        NoteFactory(pk=note.pk, workspace=workspace, content="ours")
        if connection.vendor == "postgresql":  # the row above did not take its id from the sequence
            with connection.cursor() as cursor:
                cursor.execute("SELECT setval('memories_note_id_seq', %s)", [note.pk])
        assert load(workspace, file) == {"added": 1}
        assert [note.content for note in Note.objects.all()] == ["ours", "theirs"]


FOREIGN = """# Memories

## Always use try-catch
- Tags: pattern, error-handling
- Date: 2026-01-26
- Content: Always use try-catch
## Use PostgreSQL
- Tags: database
- Date: yesterday
- Content: Use PostgreSQL
"""


class TestImport:
    def test_another_programs_file_twice(self, workspace, file):
        file.write_text(FOREIGN)
        user = UserFactory()
        import_notes(workspace, PUBLIC, file, author=user, now=NOW)
        assert load(workspace, file) == {"duplicate": 2}
        first, second = Note.objects.all()
        assert (first.kind, first.tags) == ("pattern", ["pattern", "error-handling"])
        assert (first.date, second.date) == (date(2026, 1, 26), date(2026, 1, 5))
        assert first.author == user

    def test_a_channels_notes_need_their_channel(self, workspace, file):
        channel = ChannelFactory(workspace=workspace, slack_id="C1", kind="private")
        file.write_text("## a\n- Channel: C1\n- Content: x\n## b\n- Content: y\n")
        done = import_notes(workspace, PUBLIC, file, author=None, now=NOW)
        assert done.conflicts == ["line 1: no such channel: C1"]
        assert Note.objects.get().content == "y"
        Channel.objects.filter(pk=channel.pk).update(kind="public")
        assert load(workspace, file) == {"added": 1, "duplicate": 1}
        assert Note.objects.get(content="x").channel == channel

    def test_a_note_that_is_too_long_is_reported(self, workspace, file):
        file.write_text(f"## a\n- Content: {'x' * 20_001}\n## b\n- Content: y\n")
        done = import_notes(workspace, PUBLIC, file, author=None, now=NOW)
        assert done.conflicts == [
            "line 1: a note is at most 20,000 characters; this one has 20,001"
        ]
        assert Note.objects.get().content == "y"

    @pytest.mark.parametrize(
        "data", [b"\xff\xfe\x00", b"words without a form", None], ids=["bytes", "text", "missing"]
    )
    def test_a_file_that_cannot_be_read_wipes_nothing(self, workspace, file, data):
        write(workspace, "kept")
        before = rows()
        if data is not None:
            file.write_bytes(data)
        with pytest.raises(NotesFileError):
            load(workspace, file)
        assert rows() == before

    def test_an_empty_file_wipes_nothing(self, workspace, file):
        write(workspace, "kept")
        file.touch()
        assert load(workspace, file) == {}
        assert Note.objects.count() == 1


class TestExport:
    def test_an_export_contains_only_visible_notes(self, workspace, file):
        secret = ChannelFactory(workspace=workspace, kind="private")
        write(workspace, "private words", channel=secret)
        write(WorkspaceFactory(), "elsewhere")
        write(workspace, "for all")
        assert export_notes(workspace, PUBLIC, file)[0] == 1
        assert "for all" in file.read_text()
        assert "private" not in file.read_text()

    @pytest.mark.parametrize(
        "data",
        [b"\xff\xfe\x00", b"# Read me\n\nsomething else", b"# Memories\n\n## mine\n- Content: x\n"],
        ids=["unreadable", "another text", "notes not imported"],
    )
    def test_an_unreadable_file_is_not_overwritten(self, workspace, file, data):
        write(workspace, "one")
        file.write_bytes(data)
        with pytest.raises(NotesFileError):
            export_notes(workspace, PUBLIC, file)
        assert file.read_bytes() == data

    def test_a_folder_and_an_unreachable_place_are_errors(self, workspace, tmp_path):
        (tmp_path / "file").touch()
        for target in (tmp_path, tmp_path / "file" / "memories.md"):
            with pytest.raises(NotesFileError):
                export_notes(workspace, PUBLIC, target)

    def test_switched_off_the_file_stays(self, workspace, file):
        write(workspace, "one")
        export_notes(workspace, PUBLIC, file)
        before = file.read_bytes()
        workspace.change_settings({"notes_enabled": False})
        for act in (lambda: export_notes(workspace, PUBLIC, file), lambda: load(workspace, file)):
            with pytest.raises(NotesDisabled):
                act()
        assert file.read_bytes() == before

    def test_the_file_is_replaced_atomically_and_keeps_its_mode(self, workspace, file):
        export_notes(workspace, PUBLIC, file)
        assert file.stat().st_mode & 0o777 == 0o644
        file.chmod(0o600)
        with file.open() as reader:  # reads the old file to its end, whatever happens meanwhile
            write(workspace, "one")
            export_notes(workspace, PUBLIC, file)
            assert reader.read() == "# Memories\n"
        assert "one" in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
        assert os.listdir(file.parent) == [file.name]


class TestLink:
    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        (tmp_path / "main").mkdir()
        (tmp_path / "trees" / "feature").mkdir(parents=True)
        return tmp_path / "main"

    @pytest.fixture
    def worktree(self, checkout: Path) -> Path:
        return checkout.parent / "trees" / "feature"

    def test_a_relative_link_to_the_exported_file(self, workspace, checkout, worktree):
        write(workspace, "one")
        assert link_worktree(workspace, PUBLIC, checkout, worktree) is True
        link = worktree / DEFAULT_FILE
        assert os.readlink(link) == "../../../main/.agent/memories.md"
        assert "one" in link.read_text()
        assert link_worktree(workspace, PUBLIC, checkout, worktree) is False

    def test_an_existing_file_is_linked_unchanged(self, workspace, checkout, worktree):
        target = checkout / DEFAULT_FILE
        target.parent.mkdir()
        target.write_text("# Memories\n\n## mine\n")
        link_worktree(workspace, PUBLIC, checkout, worktree)
        assert target.read_text() == (worktree / DEFAULT_FILE).read_text()
        assert target.read_text() == "# Memories\n\n## mine\n"

    def test_an_export_through_the_link_writes_the_target(self, workspace, checkout, worktree):
        link_worktree(workspace, PUBLIC, checkout, worktree)
        write(workspace, "one")
        export_notes(workspace, PUBLIC, worktree / DEFAULT_FILE)
        assert (worktree / DEFAULT_FILE).is_symlink()
        assert "one" in (checkout / DEFAULT_FILE).read_text()

    def test_a_link_through_a_linked_folder_still_meets_its_target(
        self, workspace, checkout, worktree
    ):
        elsewhere = worktree.parent.parent / "a" / "b" / "agent"
        elsewhere.mkdir(parents=True)
        (worktree / ".agent").symlink_to(elsewhere)
        link_worktree(workspace, PUBLIC, checkout, worktree)
        assert (worktree / DEFAULT_FILE).read_text() == "# Memories\n"
        assert not os.readlink(elsewhere / "memories.md").startswith("/")

    @pytest.mark.parametrize("kind", ["file", "link", "broken link"])
    def test_a_conflict_overwrites_nothing(self, workspace, checkout, worktree, kind):
        link = worktree / DEFAULT_FILE
        link.parent.mkdir()
        existing = worktree / "other.md"
        if kind == "file":
            link.write_text("mine")
        else:
            link.symlink_to(existing)
        if kind == "link":
            existing.write_text("mine")
        with pytest.raises(NotesFileError, match="Nothing was overwritten"):
            link_worktree(workspace, PUBLIC, checkout, worktree)
        if kind == "file":
            assert link.read_text() == "mine"
        else:
            assert os.readlink(link) == str(existing)
        assert existing.exists() is (kind == "link")
        assert not (checkout / DEFAULT_FILE).exists()

    def test_no_folder_and_the_checkout_itself(self, workspace, checkout, worktree):
        with pytest.raises(NotesFileError):
            link_worktree(workspace, PUBLIC, checkout, worktree / "missing")
        export_notes(workspace, PUBLIC, checkout / DEFAULT_FILE)
        with pytest.raises(NotesFileError):
            link_worktree(workspace, PUBLIC, checkout, checkout)
        assert not (checkout / DEFAULT_FILE).is_symlink()

    def test_the_file_has_no_notes_when_notes_are_disabled(self, workspace, checkout, worktree):
        write(workspace, "one")
        workspace.change_settings({"notes_enabled": False})
        link_worktree(workspace, PUBLIC, checkout, worktree)
        assert (worktree / DEFAULT_FILE).read_text() == "# Memories\n"
