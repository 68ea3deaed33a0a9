"""Types of notes of the team's own: in forms, the API, the command and files."""

import json

import pytest
from django.core.management import CommandError, call_command

from memories.models import ApiKey, Note
from memories.rules.notes.fields import InvalidNote
from tests.factories import NoteFactory, WorkspaceFactory
from tests.views.conftest import Cast, cast, cast_from_the_start, shared_cast

__all__ = ["cast", "cast_from_the_start", "shared_cast"]
pytestmark = pytest.mark.django_db


def test_a_type_comes_from_the_settings():
    workspace = WorkspaceFactory(settings={"note_types": "runbook"})
    note = Note.objects.write(workspace, "Restart the spooler", kind="runbook", tags=["print"])
    assert (note.kind, note.tags, note.value.as_json()["type"]) == (
        "runbook",
        ["runbook", "print"],
        "runbook",
    )
    with pytest.raises(InvalidNote, match="runbook"):
        Note.objects.write(workspace, "Restart", kind="idea")


def test_a_note_keeps_a_type_that_the_setting_lost():
    workspace = WorkspaceFactory(settings={"note_types": "runbook"})
    note = Note.objects.write(workspace, "Restart the spooler", kind="runbook")
    workspace.change_settings({"note_types": ""})
    note = Note.objects.get(pk=note.pk)
    note.rewrite("Restart it twice", tags=note.tags, kind="runbook")
    assert note.kind == "runbook"


def test_the_page_the_api_and_the_command_accept_a_new_type(cast: Cast, capsys, client):
    cast.workspace.change_settings({"note_types": "runbook"})
    page = cast.clients["editor"].get(cast.path("notes/")).content.decode()
    assert '<option value="runbook">runbook</option>' in page
    cast.clients["editor"].post(cast.path("notes/"), {"content": "By page", "kind": "runbook"})
    token = ApiKey.objects.issue(
        cast.workspace, name="x", by=None, user=cast.users["editor"], scopes=["notes"]
    )[1]
    body = {"content": "By API", "type": "runbook"}
    headers = {"Authorization": f"Bearer {token}"}
    answer = client.post("/api/v1/notes", body, "application/json", headers=headers)
    assert answer.json()["type"] == "runbook"
    wrong = client.post(
        "/api/v1/notes", body | {"type": "idea"}, "application/json", headers=headers
    )
    assert wrong.status_code == 422
    call_command("memory", "add", "By command", "--type", "runbook", "--format", "json")
    assert json.loads(capsys.readouterr().out)["type"] == "runbook"
    with pytest.raises(CommandError, match="runbook"):
        call_command("memory", "add", "By command", "--type", "idea")
    assert set(Note.objects.values_list("kind", flat=True)) == {"runbook"}
    assert Note.objects.count() == 3


def test_a_file_brings_the_type_as_the_first_tag(tmp_path):
    workspace = WorkspaceFactory(settings={"note_types": "runbook"})
    NoteFactory(workspace=workspace, kind="runbook")
    path = tmp_path / "memories.md"
    call_command("memory", "export", str(path), "--workspace", workspace.slug)
    Note.objects.all().delete()
    call_command("memory", "import", str(path), "--workspace", workspace.slug)
    assert Note.objects.get().kind == "runbook"
