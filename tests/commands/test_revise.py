"""`manage.py revise`: a memory corrected over the text one saw, and nothing lost when it moved."""

import json

import pytest
from django.core.management import CommandError, call_command

from memories.models import AuditEvent, NewVersion
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Line, Origin
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    make_channel_memory,
    make_thread_memory,
    make_workspace_memory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def memory(channel):
    return make_channel_memory(channel=channel, texts=["- old", "- one\n- two"])


@pytest.fixture
def run(capsys):
    """``(status, stdout, stderr)`` of a run about #general."""

    def run(*arguments, channel=("--channel", "general")):
        capsys.readouterr()
        status = 0
        try:
            call_command("revise", *channel, *arguments)
        except CommandError as error:
            status = error.returncode
            report = str(error)
        shown = capsys.readouterr()
        return status, shown.out, shown.err + (report if status else "")

    return run


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "general.md"
    path.write_text("- one\n- mine\n")
    return str(path)


def current(memory):
    memory.refresh_from_db()
    return memory.current.number, memory.current.content


class TestShow:
    def test_it_prints_the_text_to_start_from_and_its_number(self, memory, run):
        status, out, err = run("--show")
        assert (status, out) == (0, "- one\n- two\n")
        assert "--based-on 2" in err

    def test_a_rewritten_version_needs_its_revision_number(self, memory, run, file):
        again = [Line("- made again", Origin.MODEL)]
        until = memory.current.until_us
        memory.current.rewrite(NewVersion(lines=again, origin=Origin.MODEL, until_us=until))
        assert "--based-on 2.1" in run("--show")[2]
        assert run("--based-on", "2", file)[0] == 1
        assert current(memory) == (2, "- made again")
        assert run("--based-on", "2.1", file)[0] == 0

    @pytest.mark.parametrize("kind", ["workspace", "short_term", "thread"])
    def test_every_kind_of_memory(self, memory, workspace, run, kind):
        general = memory.channel
        ts = MessageFactory(channel=general).ts
        make_workspace_memory(workspace=workspace, texts=["- workspace"])
        make_channel_memory(
            channel=general, memory_type=MemoryType.SHORT_TERM, texts=["- short_term"]
        )
        make_thread_memory(channel=general, thread_ts=ts, texts=["- thread"])
        arguments = {
            "workspace": [],
            "short_term": ["--channel", "C1", "--type", "short_term"],
            "thread": ["--channel", "#general", "--thread", ts],
        }[kind]
        assert run(*arguments, "--show", channel=())[:2] == (0, f"- {kind}\n")


class TestEdit:
    def test_a_file_becomes_the_next_version(self, memory, run, file):
        assert run("--based-on", "2", file)[:2] == (0, "Saved as version 3.\n")
        assert current(memory) == (3, "- one\n- mine")
        assert (memory.current.origin, memory.current.author) == (Origin.PERSON, None)
        event = AuditEvent.objects.get(action="memory_edit")
        assert (event.actor, event.subject) == ("", f"memory {memory.pk}")
        assert event.details == {"version": 3, "based_on": 2}

    def test_stdin_too(self, memory, run, monkeypatch):
        monkeypatch.setattr("sys.stdin.read", lambda: "- from a pipe\n", raising=False)
        assert run("--based-on", "2")[0] == 0
        assert current(memory) == (3, "- from a pipe")

    def test_a_stale_base_saves_nothing_and_loses_nothing(self, memory, run, file, monkeypatch):
        memory.revise("- theirs", by=None, based_on=2)
        status, out, err = run("--based-on", "2", file)
        assert (status, out) == (1, "")
        assert "you had version 2, and the current one is 3" in err
        assert file in err and "--based-on 3" in err
        monkeypatch.setattr("sys.stdin.read", lambda: "- from a pipe\n", raising=False)
        status, out, err = run("--based-on", "2", "-")
        assert (status, out) == (1, "- from a pipe\n")
        assert "on stdout" in err
        assert current(memory) == (3, "- theirs")

    def test_both_texts_as_json(self, memory, run, file):
        memory.revise("- theirs", by=None, based_on=2)
        status, out, _err = run("--based-on", "2", file, "--json")
        report = json.loads(out)
        assert (status, report["done"], report["version"]) == (1, "stale", "3")
        assert (report["text"], report["yours"]) == ("- theirs", "- one\n- mine\n")

    def test_the_same_text_is_no_version(self, memory, run, file):
        run("--based-on", "2", file)
        assert "There is no difference from version 3" in run("--based-on", "3", file)[1]
        assert current(memory)[0] == 3

    @pytest.mark.parametrize("arguments", [[], ["--based-on", "2", "nowhere.md"]])
    def test_a_base_and_a_text_are_needed(self, memory, run, arguments):
        assert run(*arguments)[0] == 1
        assert current(memory)[0] == 2

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["--thread", "5.000001", "--show"], "--thread needs --channel"),
            (["--channel", "C1", "--type", "short_term", "--show"], "There is no such memory yet"),
            (["--channel", "C1", "--based-on", "two", "-"], "'two' is no version: 3, or 3.1"),
        ],
    )
    def test_what_names_no_version_is_refused(self, memory, run, arguments, reason):
        status, out, err = run(*arguments, channel=())
        assert (status, out) == (1, "") and reason in err

    def test_a_memory_as_json(self, memory, run):
        status, out, _err = run("--show", "--json")
        report = json.loads(out)
        assert (status, report["done"], report["version"]) == (0, "shown", "2")

    def test_no_text_is_refused(self, memory, run, tmp_path):
        (tmp_path / "empty").write_text("- \n")
        assert run("--based-on", "2", str(tmp_path / "empty"))[0] == 1
        assert current(memory)[0] == 2


class TestWho:
    @pytest.mark.parametrize(("role", "status"), [("editor", 0), ("member", 1), ("guest", 1)])
    def test_only_editors_change_it(self, memory, workspace, run, file, role, status):
        user = UserFactory(username="mika")
        MemberFactory(workspace=workspace, user=user, role=role)
        assert run("--based-on", "2", "--as", "mika", file)[0] == status
        memory.refresh_from_db()
        assert memory.current.author == (None if status else user)
        assert [event.actor for event in AuditEvent.objects.filter(action="memory_edit")] == (
            [] if status else ["mika"]
        )

    def test_a_private_memory_is_unknown_to_other_readers(self, memory, workspace, run, file):
        person = PersonFactory(workspace=workspace, user=UserFactory(username="insider"))
        MemberFactory(workspace=workspace, user=person.user, role="editor")
        secret = ChannelFactory(
            workspace=workspace, slack_id="C9", name="secret", kind="private", members=[person]
        )
        hidden = make_channel_memory(channel=secret, texts=["- hidden"])
        of_secret = ("--channel", "secret")
        status, out, err = run("--show", channel=of_secret)
        assert (status, out) == (1, "")
        assert "hidden" not in err
        assert run("--based-on", "1", file, channel=of_secret)[0] == 1
        assert run("--based-on", "1", "--as", "insider", file, channel=of_secret)[0] == 0
        assert current(hidden)[0] == 2


class TestRestoreAndPin:
    def test_an_old_version_is_restored_as_a_new_version(self, memory, run):
        assert run("--based-on", "2", "--restore", "1")[0] == 0
        assert current(memory) == (3, "- old")
        assert run("--based-on", "2", "--restore", "2")[0] == 1
        assert run("--based-on", "3", "--restore", "7")[0] == 1
        assert current(memory) == (3, "- old")

    def test_a_line_is_pinned_and_unpinned(self, memory, run):
        assert run("--based-on", "2", "--pin", "2")[:2] == (0, "Line 2 is pinned.\n")
        pinned = json.loads(run("--show", "--json")[1])["lines"]
        assert [line["pinned"] for line in pinned] == [False, True]
        assert "already" in run("--based-on", "2", "--pin", "2")[1]
        assert run("--based-on", "2", "--unpin", "2")[0] == 0
        assert not memory.current.lines.filter(pinned=True).exists()
        assert current(memory)[0] == 2

    @pytest.mark.parametrize("line", ["0", "3"])
    def test_an_unknown_line_is_refused(self, memory, run, line):
        assert run("--based-on", "2", "--pin", line)[0] == 1

    def test_not_over_a_stale_base(self, memory, run):
        memory.revise("- theirs", by=None, based_on=2)
        assert run("--based-on", "2", "--pin", "1")[0] == 1
        memory.refresh_from_db()
        assert not memory.current.lines.filter(pinned=True).exists()
