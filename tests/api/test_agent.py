"""memoryhub-agent as people run it: one downloaded file, against a hub over HTTP."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from memories.models import ApiKey, Note
from memories.pipeline.search import indexing
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
)
from tests.processes import PATIENCE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


class Laptop:
    """An empty folder with the client, downloaded from the hub, and a key."""

    def __init__(self, folder: Path, url: str, token: str) -> None:
        self.folder = folder
        self.program = folder / "memoryhub-agent"
        with urllib.request.urlopen(f"{url}/memoryhub-agent") as response:
            self.program.write_bytes(response.read())
        self.environment = {
            "MEMORYHUB_URL": url,
            "MEMORYHUB_KEY": token,
            "PATH": os.environ["PATH"],
        }

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        # Isolated: the client may import nothing but the standard library.
        return subprocess.run(
            [sys.executable, "-I", str(self.program), *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def output(self, *arguments: str, **environment: str) -> str:
        done = self.run(*arguments, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


@pytest.fixture
def laptop(transactional_db: None, live_server: Any, settings: Any, tmp_path: Path) -> Laptop:
    settings.MEMORYHUB_URL = live_server.url
    workspace = WorkspaceFactory(slug="team")
    editor = UserFactory(username="editor")
    MemberFactory(workspace=workspace, user=editor, role="editor")
    channel = ChannelFactory(workspace=workspace, slack_id="C0PUBLIC")
    message = MessageFactory(channel=channel, text="We launch on Monday")
    make_channel_memory(channel=message.channel, texts=["- We launch on Monday"])
    indexing.index_pending()
    _, token = ApiKey.objects.issue(
        workspace, name="laptop", by=None, user=editor, scopes=[ApiKey.Scope.NOTES]
    )
    folder = tmp_path / "Zoë's laptop"  # a shell or JSON would change this name
    folder.mkdir()
    return Laptop(folder, live_server.url, token)


def test_it_reads_searches_and_writes(laptop: Laptop) -> None:
    assert "We launch on Monday" in laptop.output("context", "--query", "When do we launch?")
    assert "launch" in laptop.output("search", "launch")
    assert laptop.output("search", "nothingofthekind") == "Nothing matches.\n"
    assert laptop.output("list") == "There are no notes.\n"
    assert "added: Ship behind a flag." in laptop.output(
        "add", "Ship behind a flag.", "--tags", "a,b"
    )
    assert "Ship behind a flag." in laptop.output("list")
    assert Note.objects.get().tags == ["a", "b"]


def test_a_folder_and_the_hub_are_kept_equal(laptop: Laptop) -> None:
    laptop.output("add", "From the hub.")
    assert laptop.output("sync") == "In sync: nothing changed.\n"
    file = laptop.folder / ".agent" / "memories.md"
    file.write_text(file.read_text() + "## Mine\n- Tags: \n- Content: From the file.\n")
    assert laptop.output("sync") == "In sync: 1 added.\n"
    assert laptop.output("sync") == "In sync: nothing changed.\n"
    assert set(Note.objects.values_list("content", flat=True)) == {
        "From the hub.",
        "From the file.",
    }
    worktree = laptop.folder / "worktree"
    worktree.mkdir()
    laptop.output("link", "worktree")
    assert (worktree / ".agent" / "memories.md").read_text() == file.read_text()


def test_staged_notes_wait_for_their_promotion(laptop: Laptop) -> None:
    offline = {"MEMORYHUB_URL": "", "MEMORYHUB_KEY": ""}
    laptop.output("add", "On a branch.\nSecond line.", "--staged", **offline)
    laptop.output("add", "Another one.", "--staged", "--channel", "C0PUBLIC", **offline)
    assert not Note.objects.exists()
    assert laptop.output("promote") == "In sync: 2 added.\n"
    assert set(Note.objects.values_list("content", flat=True)) == {
        "On a branch.\nSecond line.",
        "Another one.",
    }
    assert Note.objects.get(content="Another one.").channel_id
    assert laptop.output("promote") == "Nothing is staged.\n"


@pytest.mark.parametrize(
    ("agent", "path", "event"),
    [
        ("claude", ".claude/settings.json", "SessionStart"),
        ("codex", ".codex/hooks.json", "SessionStart"),
        ("cursor", ".cursor/hooks.json", "sessionStart"),
    ],
)
def test_a_hook_fetches_the_context(laptop: Laptop, agent: str, path: str, event: str) -> None:
    file = laptop.folder / path
    file.parent.mkdir()
    file.write_text('{"hooks": {"stop": [1]}, "model": "x"}')
    laptop.output("install-hook", agent)
    assert "has this hook already" in laptop.output("install-hook", agent)
    settings = json.loads(file.read_text())
    assert (settings["model"], settings["hooks"]["stop"]) == ("x", [1])
    (entry,) = settings["hooks"][event]
    command = entry["command"] if agent == "cursor" else entry["hooks"][0]["command"]
    done = subprocess.run(
        command,
        shell=True,
        env=laptop.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    text = json.loads(done.stdout)["additional_context"] if agent == "cursor" else done.stdout
    assert "We launch on Monday" in text


def test_errors_are_explained(laptop: Laptop) -> None:
    refused = laptop.run("context", MEMORYHUB_KEY="mhr_wrong")
    assert (refused.returncode, "401" in refused.stderr) == (1, True)
    unset = laptop.run("context", MEMORYHUB_KEY="")
    assert "Set MEMORYHUB_URL and MEMORYHUB_KEY." in unset.stderr
    unknown = laptop.run("context", "--channel", "nowhere")
    assert (unknown.returncode, "404" in unknown.stderr) == (1, True)
    # A session begins without a context rather than not at all.
    offline = laptop.run("hook", "claude", MEMORYHUB_URL="http://127.0.0.1:9")
    assert (offline.returncode, offline.stdout) == (0, "")
    assert "cannot be reached" in offline.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["list"], {"MEMORYHUB_URL": "hub.example.com"}, "no address with http"),
        (["list"], {"MEMORYHUB_URL": "http://hub:port"}, "cannot be reached"),
        (["list"], {"MEMORYHUB_KEY": "mhr_キー"}, "MEMORYHUB_KEY is no API key"),
        (["search", "launch", "--limit", "500"], {}, "limit: Input should be less than"),
        (["search", "launch before:tomorrow"], {}, "could not be read: before:tomorrow"),
    ],
)
def test_a_wrong_input_is_named(
    laptop: Laptop, arguments: list[str], environment: dict[str, str], words: str
) -> None:
    refused = laptop.run(*arguments, **environment)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert words in refused.stderr and "Traceback" not in refused.stderr


def test_a_key_from_a_file_may_end_with_a_line_break(laptop: Laptop) -> None:
    key = laptop.environment["MEMORYHUB_KEY"]
    assert laptop.output("list", MEMORYHUB_KEY=f"{key}\r\n") == "There are no notes.\n"


@pytest.mark.parametrize("answer", ["<html>", b"\xff"])
def test_another_web_site_is_no_hub(laptop: Laptop, httpserver: HTTPServer, answer: str) -> None:
    httpserver.expect_request("/api/v1/notes").respond_with_data(answer)
    refused = laptop.run("list", MEMORYHUB_URL=httpserver.url_for(""))
    assert refused.returncode == 1 and "is not a Memory Hub" in refused.stderr


@pytest.mark.parametrize("text", ["[]", "{", '{"hooks": {"SessionStart": null}}'])
def test_hooks_that_cannot_be_read_are_not_overwritten(laptop: Laptop, text: str) -> None:
    file = laptop.folder / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(text)
    refused = laptop.run("install-hook", "claude")
    assert refused.returncode == 1 and "nothing was changed" in refused.stderr
    assert "Traceback" not in refused.stderr and file.read_text() == text


def test_a_redirect_does_not_get_the_key(laptop: Laptop, httpserver: HTTPServer) -> None:
    elsewhere = {"Location": httpserver.url_for("/elsewhere")}
    httpserver.expect_request("/api/v1/context").respond_with_data("", 302, elsewhere)
    refused = laptop.run("context", MEMORYHUB_URL=httpserver.url_for(""))
    assert (refused.returncode, "The hub redirects to http" in refused.stderr) == (1, True)
    assert [request.path for request, _ in httpserver.log] == ["/api/v1/context"]
