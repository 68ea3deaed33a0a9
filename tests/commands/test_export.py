"""Output, refusals and files of `manage.py export` and `import`."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from memories.models import User, Workspace
from tests.databases import manage
from tests.exports import contents, make_odd_workspace, owner_of, rewrite
from tests.factories import ChannelFactory, UserFactory, WorkspaceFactory, make_channel_memory

pytestmark = pytest.mark.postgres("an export reads one snapshot")


def run(*words: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(*words, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def team() -> Workspace:
    workspace = WorkspaceFactory(slug="team")
    make_channel_memory(channel=ChannelFactory(workspace=workspace, name="launch"))
    ChannelFactory(workspace=workspace, kind="private")
    return workspace


@pytest.mark.django_db
def test_export_and_import(tmp_path: Path) -> None:
    team()
    path = tmp_path / "team.zip"
    output, _ = run("export", str(path))
    assert "team written to" in output
    assert "Left out: 1 channels" in output
    output, _ = run("import", str(path), "--workspace", "copy")
    assert "team.zip is now workspace copy" in output
    assert "left out 1 channels" in output
    assert Workspace.objects.get(slug="copy").memories.get().current is not None


@pytest.mark.django_db
def test_refusals_contain_the_remedy(tmp_path: Path) -> None:
    team()
    path = tmp_path / "team.zip"
    run("export", str(path))
    with pytest.raises(CommandError, match="already exists. --force overwrites it"):
        run("export", str(path))
    run("export", str(path), "--force")
    with pytest.raises(
        CommandError, match="There is already a workspace team.*Nothing was imported"
    ):
        run("import", str(path))
    with pytest.raises(CommandError, match="There is no such file"):
        run("import", str(tmp_path / "nowhere.zip"))
    with pytest.raises(CommandError, match="is not made of letters"):
        run("import", str(path), "--workspace", "../x")
    with pytest.raises(CommandError, match="cannot be written: No such file or directory"):
        run("export", str(tmp_path / "no" / "team.zip"))
    with pytest.raises(CommandError, match="There is no active user"):
        run("export", str(path), "--as", "nobody")
    stranger = UserFactory()
    with pytest.raises(CommandError, match="may not read the workspace"):
        run("export", str(tmp_path / "b.zip"), "--as", stranger.username)
    rewrite(path, lambda files: files.pop("notes.jsonl"), honest=True)
    with pytest.raises(CommandError, match="notes.jsonl: is missing. Nothing was imported"):
        run("import", str(path), "--workspace", "copy")
    assert Workspace.objects.count() == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["team.zip"]


@pytest.mark.nightly("six processes; test_export.py of pipeline/transfer imports in one")
@pytest.mark.django_db(transaction=True)
@pytest.mark.cluster
def test_another_installation_imports_the_export(tmp_path: Path, database_url: str) -> None:
    """From this database into an empty SQLite one, and exported again."""
    workspace = make_odd_workspace(slug="odd")
    user = owner_of(workspace)
    first, second = tmp_path / "1.zip", tmp_path / "2.zip"
    other_url = f"sqlite:///{tmp_path}/other.sqlite3"

    def succeed(url: str, *words: str) -> str:
        done = manage(url, tmp_path / "var", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    succeed(database_url, "export", str(first), "--as", user.username)
    succeed(other_url, "migrate", "--verbosity", "0")
    report = json.loads(succeed(other_url, "import", str(first), "--json"))
    assert report["accounts_known"] == 0
    assert report["accounts_made"] == User.objects.count() == 2
    # An imported account reads nothing until an operator activates it and it signs in with Slack.
    succeed(other_url, "shell", "-c", ACTIVATE.format(name=user.username))
    succeed(other_url, "export", str(second), "--as", user.username)
    before, after = contents(first), contents(second)
    assert [name for name in before if before[name] != after.get(name)] == []


ACTIVATE = (
    "from memories.models import Person, User;"
    "Person.objects.filter(user__username='{name}').update(link_valid_until=None);"
    "User.objects.filter(username='{name}').update(is_active=True, is_superuser=True)"
)
