"""`manage.py memory`: the cases of S4's test design, and more."""

import json
import os
from functools import partial
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from memories.models import Note, Workspace
from memories.rules.notes import notes_file
from tests.factories import (
    ChannelFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def memory(run):
    return partial(run, "memory")


@pytest.fixture
def as_json(memory):
    return lambda *arguments: json.loads(memory(*arguments, "--format", "json"))


@pytest.fixture
def context(run):
    return partial(run, "context")


class TestAddSearchDelete:
    """The cases of S4's test design."""

    def test_add(self, memory, folder):
        """Memoryを追加"""
        memory("add", "Always use try-catch", "-t", "pattern", "--tags", "error-handling")
        memory("export")
        content = (folder / ".agent" / "memories.md").read_text()
        assert "Always use try-catch" in content
        assert "pattern, error-handling" in content

    def test_search(self, memory, as_json):
        """Memoryを検索"""
        memory("add", "Always use try-catch", "--tags", "pattern")
        memory("add", "Use PostgreSQL", "--tags", "database")
        results = as_json("search", "try-catch")
        assert [note["content"] for note in results] == ["Always use try-catch"]

    def test_delete(self, memory, as_json):
        """Memoryを削除"""
        memory("add", "Memory 1")
        memory("add", "Memory 2")
        first, second = as_json("list")
        memory("delete", str(first["id"]))
        assert as_json("list") == [second]
        assert as_json("search", "Memory 1") == []
        [deleted_note] = Note.objects.in_trash()
        assert deleted_note.pk == first["id"]
        with pytest.raises(CommandError):
            memory("delete", str(first["id"]))

    def test_inject_auto(self, memory, context):
        """inject: auto でプロンプトに注入"""
        memory("add", "Always use try-catch", "--tags", "pattern")
        injection = context()
        assert "# Memories" in injection
        assert "Always use try-catch" in injection
        assert injection.endswith("\n---\n")

    def test_inject_manual(self, memory, context):
        """inject: manual でプロンプトに注入しない"""
        memory("add", "Always use try-catch", "--tags", "pattern")
        Workspace.objects.get().change_settings({"notes_inject": "manual"})
        assert context().strip() == ""
        assert "Always use try-catch" in context("--notes")


def test_a_note_as_json(as_json):
    channel = ChannelFactory(slack_id="C1", name="general")
    channel.workspace.change_settings({"time_zone": "Asia/Tokyo"})
    given = as_json(
        "add", "x" * 51, "--type", "solution", "--tags", "a, b", "--channel", "#general"
    )
    note = Note.objects.get()
    assert given == {
        "id": note.pk,
        "title": "x" * 50 + "...",
        "type": "solution",
        "tags": ["solution", "a", "b"],
        "date": str(note.date),
        "content": "x" * 51,
        "channel": "C1",
        "is_pinned": False,
        "in_context": True,
        "review_on": None,
    }
    assert as_json("list") == [given]
    assert note.channel == channel


def test_a_note_of_an_own_type_is_shown_and_edited(memory, as_json):
    WorkspaceFactory().change_settings({"note_types": "runbook"})
    added = as_json("add", "Restart it.\x1b", "-t", "runbook", "--tags", "a")
    pk = str(added["id"])
    assert added["type"] == "runbook" and as_json("show", pk) == added
    assert "\x1b" not in memory("show", pk)
    edited = as_json("edit", pk, "Restart it twice.")
    assert edited == added | {"title": "Restart it twice.", "content": "Restart it twice."}
    assert memory("edit", pk, "Restart it twice.") == f"Note {pk} has this text already.\n"
    assert memory("edit", pk, "Wait.", "--tags", "b") == f"Note {pk} is at version 3.\n"
    shown = as_json("show", pk)
    assert (shown["content"], shown["tags"]) == ("Wait.", ["b"])


@pytest.mark.parametrize(
    ("query", "results"),
    [("TRY", True), ("handling", True), ("ERROR-", True), ("nothing", False)],
)
def test_search_in_content_and_tags(memory, as_json, query, results):
    memory("add", "Always use try-catch", "--tags", "error-handling")
    assert bool(as_json("search", query)) is results


def test_an_empty_list(memory, as_json):
    assert memory("list") == memory("search", "nothing") == "There are no such notes.\n"
    assert as_json("list") == []


def test_wide_letters_keep_the_columns_aligned(memory):
    memory("add", "記憶は残る", "--tags", "記憶")
    memory("add", "plain\x1b[31m words", "--tags", "a")
    head, first, second = memory("list").splitlines()
    assert head.split() == ["id", "date", "type", "tags", "channel", "title"]
    assert first.endswith("記憶は残る")
    assert "\x1b" not in second
    # The first row's tag takes as many cells as the heading "tags".
    assert first.index("記憶は") == second.index("plain") - 2 == head.index("title") - 2


def test_an_unknown_id_fails(memory):
    memory("add", "kept")
    with pytest.raises(CommandError, match="There is no note 12345") as error:
        memory("delete", "12345")
    assert error.value.returncode == 1
    assert Note.objects.count() == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", " "),
        ("add", "x", "--channel", "nowhere"),
        ("add", "x", "--type", "idea"),
        ("add", "x", "--as", "nobody"),
        ("add", "x", "--workspace", "nowhere"),
        ("delete", "one"),
        ("import", "missing.md"),
        ("link", "missing"),
    ],
    ids=" ".join,
)
def test_wrong_arguments_are_refused(memory, arguments):
    WorkspaceFactory()
    with pytest.raises(CommandError):
        memory(*arguments)
    assert Note.objects.count() == 0


class TestDisabled:
    @pytest.fixture(autouse=True)
    def disabled(self, folder):
        workspace = WorkspaceFactory()
        self.note = NoteFactory(workspace=workspace, content="kept")
        call_command("memory", "export", "notes.md")
        self.exported = (folder / "notes.md").read_text()
        workspace.change_settings({"notes_enabled": False})

    @pytest.mark.parametrize("arguments", [("list",), ("search", "kept")])
    def test_lists_are_empty(self, memory, as_json, arguments):
        assert memory(*arguments) == "Notes are switched off in this workspace.\n"
        assert as_json(*arguments) == []

    @pytest.mark.parametrize(
        "action",
        [
            *("add", "show", "edit", "delete", "delete unknown"),
            *("export", "import", "sync", "promote"),
        ],
    )
    def test_actions_except_list_print_a_warning(self, folder, capsys, action):
        arguments = {
            "add": ("add", "new"),
            "show": ("show", str(self.note.pk)),
            "edit": ("edit", str(self.note.pk), "new"),
            "delete": ("delete", str(self.note.pk)),
            "delete unknown": ("delete", "12345"),
            "export": ("export", "notes.md"),
            "import": ("import", "notes.md"),
            "sync": ("sync", "notes.md"),
            "promote": ("promote",),
        }[action]
        call_command("memory", "add", "staged", "--staged")
        staged = (folder / ".agent" / "staged.md").read_text()
        capsys.readouterr()
        call_command("memory", *arguments, "--format", "json")
        output = capsys.readouterr()
        assert "switched off" in output.err
        assert output.out == "null\n"
        assert [note.content for note in Note.objects.all()] == ["kept"]
        assert (folder / "notes.md").read_text() == self.exported
        assert (folder / ".agent" / "staged.md").read_text() == staged


class TestAudience:
    def test_only_members_see_private_notes(self, memory, as_json):
        insider, member = UserFactory(username="in"), UserFactory(username="out")
        workspace = WorkspaceFactory()
        person = PersonFactory(workspace=workspace, user=insider)
        PersonFactory(workspace=workspace, user=member)
        ChannelFactory(workspace=workspace, name="secret", kind="private", members=[person])
        memory("add", "private words", "--channel", "secret", "--as", "in")
        note = Note.objects.get()
        assert note.author == insider
        assert [n["id"] for n in as_json("list", "--as", "in")] == [note.pk]
        for reader in ((), ("--as", "out")):
            assert as_json("list", *reader) == as_json("search", "private", *reader) == []
            with pytest.raises(CommandError, match="There is no note"):
                memory("delete", str(note.pk), *reader)
            with pytest.raises(CommandError, match="There is no channel 'secret'"):
                memory("add", "x", "--channel", "secret", *reader)
        assert Note.objects.count() == 1

    def test_a_stranger_cannot_write(self, memory, folder):
        UserFactory(username="stranger")
        WorkspaceFactory()
        (folder / "notes.md").write_text("# Memories\n\n## a\n- Content: a\n")
        for arguments in (("add", "x"), ("import", "notes.md")):
            with pytest.raises(CommandError, match="may not read"):
                memory(*arguments, "--as", "stranger")
        assert Note.objects.count() == 0

    def test_a_note_of_another_workspace_is_unknown(self, memory):
        foreign, ours = NoteFactory(), WorkspaceFactory()
        with pytest.raises(CommandError, match="There is no note"):
            memory("delete", str(foreign.pk), "--workspace", ours.slug)


class TestFiles:
    def test_export_and_import(self, memory, as_json, folder):
        memory("add", "one\ntwo", "--tags", "a")
        report = as_json("export", "sub/notes.md")
        size = (folder / "sub" / "notes.md").stat().st_size
        assert report == {"file": "sub/notes.md", "notes": 1, "bytes": size}
        before = list(Note.objects.values_list())
        assert as_json("import", "sub/notes.md") == {
            "added": 0,
            "updated": 0,
            "unchanged": 1,
            "duplicate": 0,
            "kept": 0,
            "deleted": 0,
            "conflict": 0,
            "conflicts": [],
        }
        assert list(Note.objects.values_list()) == before

    def test_a_conflict_fails_after_all_other_notes_are_imported(self, memory, folder):
        WorkspaceFactory()
        (folder / "notes.md").write_text(
            "## a\n- Channel: C9\n- Content: a\n\n## b\n- Content: b\n"
        )
        with pytest.raises(CommandError, match="line 1: no such channel: C9"):
            memory("import", "notes.md")
        assert [note.content for note in Note.objects.all()] == ["b"]

    def test_sync_carries_the_changes_of_both_sides(self, memory, as_json, folder, capsys):
        kept = as_json("add", "kept")["id"]
        deleted = as_json("add", "deleted")["id"]
        assert memory("sync", "notes.md") == "notes.md: nothing changed.\n"
        file = folder / "notes.md"
        file.write_text(file.read_text().replace("Content: kept", "Content: changed"))
        memory("delete", str(deleted))
        with file.open("a") as text:
            text.write("\n## new\n- Content: new\n")
        reply = as_json("sync", "notes.md")
        assert (reply["added"], reply["updated"], reply["conflicts"]) == (1, 1, [])
        assert {note["content"] for note in as_json("list")} == {"changed", "new"}
        assert "deleted" not in file.read_text()
        # Both sides change a note: the text of the file becomes a note of its own.
        memory("edit", str(kept), "of the hub")
        file.write_text(file.read_text().replace("Content: changed", "Content: of the file"))
        call_command("memory", "sync", "notes.md")
        assert f"note {kept} was changed in the file" in capsys.readouterr().err
        contents = {note["content"] for note in as_json("list")}
        assert contents == {"new", "of the hub", "of the file"}
        file.write_text("# Memories\n")
        assert memory("sync", "notes.md") == "notes.md: 3 deleted.\n"
        assert as_json("list") == []

    @pytest.mark.parametrize("channel", ["C1", "launch", "#Launch"])
    def test_staged_notes_wait_for_their_promotion(self, memory, as_json, folder, channel):
        workspace = WorkspaceFactory()
        staged = folder / ".agent" / "staged.md"
        words = ("add", "On a branch.\nSecond line.", "-t", "pattern", "--tags", "a", "--staged")
        with pytest.raises(CommandError):
            memory("promote")
        assert as_json(*words) == {"file": ".agent/staged.md"}
        ChannelFactory(workspace=workspace, slack_id="C1", name="launch")
        another = ("add", "Another.", "--staged", "--channel", channel)
        assert memory(*another) == "Staged in .agent/staged.md.\n"
        assert as_json("list") == []
        assert memory("promote") == ".agent/staged.md: 2 added.\n"
        notes = {note["content"]: note["tags"] for note in as_json("list")}
        assert notes == {"On a branch.\nSecond line.": ["pattern", "a"], "Another.": []}
        assert Note.objects.get(content="Another.").channel.slack_id == "C1"
        assert staged.read_text() == ""
        assert memory("promote") == ".agent/staged.md: no notes.\n"

    def test_a_conflict_keeps_the_staged_notes(self, memory, folder):
        WorkspaceFactory()
        memory("add", "kept", "--staged")
        staged = folder / ".agent" / "staged.md"
        staged.write_text(before := staged.read_text() + "## a\n- Channel: C9\n- Content: a\n")
        with pytest.raises(CommandError, match="no such channel: C9"):
            memory("promote")
        assert staged.read_text() == before

    def test_a_link_leads_to_the_default_file(self, memory, folder):
        memory("add", "one")
        memory("export")
        (folder / "tree").mkdir()
        assert "made" in memory("link", "tree")
        assert "already" in memory("link", "tree")
        link = folder / "tree" / ".agent" / "memories.md"
        assert os.readlink(link) == "../../.agent/memories.md"
        assert "one" in link.read_text()

    def test_a_conflicting_link_fails(self, memory, folder):
        WorkspaceFactory()
        (folder / "tree" / ".agent").mkdir(parents=True)
        (folder / "tree" / ".agent" / "memories.md").write_text("mine")
        with pytest.raises(CommandError, match="Nothing was overwritten") as error:
            memory("link", "tree")
        assert error.value.returncode == 1

    @pytest.mark.slow
    def test_a_large_file_prints_a_warning(self, folder, capsys, monkeypatch):
        NoteFactory(content="x" * notes_file.LARGE)
        for action in ("export", "import"):
            call_command("memory", action, "notes.md")
            assert "more than 10" in capsys.readouterr().err


class TestFlags:
    """Pins, contexts and days of review, which have no versions."""

    DEFAULTS = {"is_pinned": False, "in_context": True, "review_on": None}
    OPTIONS = ("--pinned", "--not-in-context", "--review-on", "2027-01-05")
    FLAGS = {"is_pinned": True, "in_context": False, "review_on": "2027-01-05"}

    def test_a_note_is_added_with_flags(self, as_json, context):
        plain = as_json("add", "Ship behind a flag")
        added = as_json("add", "Deploys run at noon", *self.OPTIONS)
        assert plain | self.DEFAULTS == plain
        assert added | self.FLAGS == added
        assert as_json("list") == [plain, added]
        assert as_json("show", str(added["id"])) == added
        text = context()
        assert "Ship behind a flag" in text and "Deploys run at noon" not in text

    def test_flags_change_without_a_version(self, memory, as_json):
        pk = str(as_json("add", "Deploys run at noon", "--tags", "ops")["id"])
        edited = as_json("edit", pk, *self.OPTIONS)
        assert edited | self.FLAGS == edited
        assert (edited["content"], edited["tags"]) == ("Deploys run at noon", ["ops"])
        assert as_json("edit", pk, "Deploys run at one") | self.FLAGS == as_json("show", pk)
        reset = as_json("edit", pk, "--not-pinned", "--in-context", "--review-on", "")
        assert reset | self.DEFAULTS == reset == as_json("show", pk)
        assert "is changed" in memory("edit", pk, "--pinned")
        assert Note.objects.get().number == 2  # of the text alone

    def test_an_edit_changes_the_type(self, as_json):
        pk = str(as_json("add", "Retry twice", "-t", "pattern", "--tags", "ops")["id"])
        edited = as_json("edit", pk, "--type", "solution")
        assert (edited["type"], edited["tags"]) == ("solution", ["solution", "ops"])
        assert as_json("edit", pk, "Retry thrice")["tags"] == ["solution", "ops"]
        with pytest.raises(CommandError, match="The type must be one of"):
            as_json("edit", pk, "--type", "rumour")

    @pytest.mark.parametrize(
        "words, reason",
        [
            (("edit", "{}"), "nothing is changed"),
            (("edit", "{}", "--review-on", "tomorrow"), "--review-on: Invalid isoformat"),
            (("add", "x", "--review-on", "2027-02-30"), "--review-on: day"),
            (("add", "x", "--staged", "--pinned"), "A staged note has no pin"),
        ],
    )
    def test_a_refused_command_changes_nothing(self, memory, folder, words, reason):
        note = NoteFactory()
        before = list(Note.objects.values_list())
        with pytest.raises(CommandError, match=reason):
            memory(*(word.format(note.pk) for word in words))
        assert list(Note.objects.values_list()) == before
        assert not (folder / ".agent").exists()
