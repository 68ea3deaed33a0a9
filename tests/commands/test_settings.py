"""`manage.py settings` (rule 9)."""

from functools import partial

import pytest
from django.core.management import CommandError

from memories.models import Workspace
from memories.rules.settings import KEYS
from tests.factories import WorkspaceFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(run):
    return partial(run, "settings")


def test_all_of_them_with_their_defaults(run):
    WorkspaceFactory(settings={"max_history_count": 7, "history_enabled": False})
    lines = run().splitlines()
    assert [line.split()[0] for line in lines] == list(KEYS)
    output = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert output["max_history_count"] == "7  (default: 5)"
    assert output["history_enabled"] == "false  (default: true)"
    assert output["message_threshold"] == "50  (default)"


def test_several_settings_are_changed_and_printed(run):
    workspace = WorkspaceFactory()
    output = run("max_history_count=3", "time_zone=Asia/Tokyo", "notes_inject=auto")
    assert output == "max_history_count: 5 → 3\ntime_zone: UTC → Asia/Tokyo\n"
    workspace.refresh_from_db()
    assert workspace.settings == {"max_history_count": 3, "time_zone": "Asia/Tokyo"}
    assert run("max_history_count=3") == "Nothing changed.\n"


@pytest.mark.parametrize(
    "bad",
    [
        "max_history_count=0",
        "max_history_count=-1",
        "message_threshold=many",
        "history_enabled=maybe",
        "notes_inject=sometimes",
        "time_zone=Moon/Base",
        "no_such_key=1",
        "just words",
        "message_threshold=9",
    ],
)
def test_one_invalid_setting_prevents_all_changes(run, bad):
    workspace = WorkspaceFactory()
    with pytest.raises(CommandError):
        run("message_threshold=10", "short_term_window_hours=3", bad)
    workspace.refresh_from_db()
    assert workspace.settings == {}


def test_each_workspace_has_its_own(run):
    row, second = WorkspaceFactory(slug="one"), WorkspaceFactory(slug="other")
    with pytest.raises(CommandError, match="one, other"):
        run("message_threshold=9")
    run("--workspace", "one", "message_threshold=9")
    for workspace in (row, second):
        workspace.refresh_from_db()
    assert (row.settings, second.settings) == ({"message_threshold": 9}, {})


def test_the_default_workspace_is_created(run):
    run()
    assert Workspace.objects.get().slug == "default"
