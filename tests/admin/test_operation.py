"""Settings, links to people and notes in the admin."""

import re

import pytest
from django.urls import reverse
from time_machine import travel

from memories.models import Channel, Note, Reader, Workspace
from memories.rules.settings import KEYS, MemorySettings
from tests.admin.conftest import sent_data, staff
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
)
from tests.test_forms import shown as shown_in_forms

pytestmark = pytest.mark.django_db


def form_data(response):
    """Return the data of an unchanged form."""
    data = sent_data(response.context["adminform"].form)
    for formset in response.context["inline_admin_formsets"]:
        management = formset.formset.management_form
        data |= {
            management.add_prefix(name): management[name].value() for name in management.fields
        }
    return data


class TestSettings:
    @pytest.fixture
    def workspace(self, operator):
        return WorkspaceFactory(settings={"message_threshold": 20})

    @pytest.fixture
    def address(self, workspace):
        return reverse("admin:memories_workspace_change", args=[workspace.pk])

    def test_the_form_shows_all_settings(self, client, address):
        form = client.get(address).context["adminform"].form
        shown = {key: form[key].value() for key in KEYS}
        assert shown == shown_in_forms(MemorySettings(message_threshold=20))

    def test_a_changed_setting_is_saved(self, client, address):
        data = form_data(client.get(address)) | {"name": "Crew", "max_history_count": "3"}
        data.pop("thread_memories")  # browsers do not send an unchecked box
        assert client.post(address, data).status_code == 302
        workspace = Workspace.objects.get()
        assert workspace.name == "Crew"
        assert workspace.settings == {
            "message_threshold": 20,
            "max_history_count": 3,
            "thread_memories": False,
        }

    @pytest.mark.slow
    def test_a_wrong_value_saves_nothing(self, client, address):
        changes = {"name": "Crew", "max_history_count": "3", "message_threshold": "0"}
        data = form_data(client.get(address)) | changes
        response = client.post(address, data)
        assert response.status_code == 200
        assert list(response.context["adminform"].form.errors) == ["message_threshold"]
        workspace = Workspace.objects.get()
        assert (workspace.name != "Crew", workspace.settings) == (True, {"message_threshold": 20})

    @pytest.mark.slow
    @pytest.mark.parametrize(("before", "after"), [(0, 30), (60, 30)])
    def test_a_shorter_retention_is_refused(self, client, workspace, address, before, after):
        workspace.change_settings({"retention_days": before})
        data = form_data(client.get(address)) | {"name": "Crew", "retention_days": str(after)}
        response = client.post(address, data)
        assert (
            "confirmation first" in response.context["adminform"].form.errors["retention_days"][0]
        )
        workspace.refresh_from_db()
        assert (workspace.name != "Crew", workspace.memory_settings.retention_days) == (
            True,
            before,
        )
        assert client.post(address, data | {"retention_days": "90"}).status_code == (
            302 if before else 200
        )

    def test_a_new_workspace_has_the_defaults(self, client, operator):
        address = reverse("admin:memories_workspace_add")
        data = form_data(client.get(address)) | {"slug": "crew", "name": "Crew"}
        assert client.post(address, data).status_code == 302
        assert Workspace.objects.get(slug="crew").memory_settings == MemorySettings()

    def test_a_viewer_sees_the_settings(self, client, workspace, address):
        user = staff(client, "view_workspace")
        assert client.get(address).status_code == 302  # not a member: no such workspace
        MemberFactory(workspace=workspace, user=user)
        page = client.get(address).content.decode()
        assert "message_threshold = 20" in page
        assert "output_language = conversation" in page


def test_a_user_is_linked_to_a_person(client, operator):
    person = PersonFactory()
    channel = ChannelFactory(workspace=person.workspace, kind="private", members=[person])
    user = UserFactory(username="chie")
    assert not Channel.objects.visible_to(Reader.of(user)).exists()
    address = reverse("admin:memories_person_change", args=[person.pk])
    page = client.get(address).content.decode()
    assert re.search(r'<select name="user"[^>]*class="admin-autocomplete"', page)
    choices = client.get(
        reverse("admin:autocomplete"),
        {"app_label": "memories", "model_name": "person", "field_name": "user", "term": "chi"},
    ).json()
    assert [choice["text"] for choice in choices["results"]] == ["chie"]
    data = {"user": user.pk, "reason": "new here", "name": "other"}
    assert client.post(address, data).status_code == 302
    before = person.name
    person.refresh_from_db()
    assert (person.user, person.name) == (user, before)
    assert Channel.objects.visible_to(Reader.of(user)).get() == channel
    shown = client.get(reverse("admin:memories_user_change", args=[user.pk])).content.decode()
    assert f"{person.name} ({person.workspace})" in shown


class TestNotes:
    @pytest.fixture
    def workspace(self, operator):
        return WorkspaceFactory(settings={"time_zone": "Asia/Tokyo"})

    @travel("2026-03-04T20:00:00Z", tick=False)
    def test_a_note_is_added(self, client, operator, workspace):
        address = reverse("admin:memories_note_add")
        data = {
            "workspace": workspace.pk,
            "content": "Deploy from main only, never from a branch, whatever happens.",
            "kind": "pattern",
            "tags": "deploy, release , ",
        }
        assert client.post(address, data).status_code == 302
        note = Note.objects.get()
        assert note.title == "Deploy from main only, never from a branch, whatev..."
        assert (note.tags, note.kind) == (["pattern", "deploy", "release"], "pattern")
        assert note.date.isoformat() == "2026-03-05"  # it is tomorrow in Tokyo
        assert note.author == operator

    def test_a_note_is_changed(self, client, workspace):
        note = NoteFactory(workspace=workspace, tags=["a", "b"], content="old")
        address = reverse("admin:memories_note_change", args=[note.pk])
        form = form_data(client.get(address))
        assert form["tags"] == "a, b"
        data = form | {"content": "new\r\nlines", "title": "Named", "date": "2026-01-05"}
        assert client.post(address, data).status_code == 302
        note.refresh_from_db()
        assert (note.title, note.tags) == ("Named", ["a", "b"])
        assert note.content.splitlines() == ["new", "lines"]

    def test_a_newer_version_is_not_overwritten(self, client, workspace):
        note = NoteFactory(workspace=workspace, content="old")
        address = reverse("admin:memories_note_change", args=[note.pk])
        data = form_data(client.get(address)) | {"content": "mine"}
        note.rewrite("theirs")
        response = client.post(address, data)
        assert response.status_code == 409
        page = response.content.decode()
        assert "Nothing was saved" in page
        assert "theirs" in page
        assert "mine" in page
        note.refresh_from_db()
        assert note.content == "theirs"
        assert client.post(address, form_data(response)).status_code == 302
        note.refresh_from_db()
        assert (note.content, note.number) == ("mine", 3)

    def test_a_channel_of_another_workspace_is_refused(self, client, workspace):
        data = {"workspace": workspace.pk, "channel": ChannelFactory().pk, "content": "x"}
        response = client.post(reverse("admin:memories_note_add"), data)
        assert "channel" in response.context["adminform"].form.errors

    @pytest.mark.parametrize("content", ["  ", "x" * 20_001])
    def test_a_blank_or_long_note_is_refused(self, client, workspace, content):
        data = {"workspace": workspace.pk, "content": content}
        response = client.post(reverse("admin:memories_note_add"), data)
        assert "content" in response.context["adminform"].form.errors

    @pytest.mark.parametrize("query", ["DEPLOY", "main", "リリース", "Éclair", "éCLAIR"])
    def test_a_search_finds_title_text_and_tag_in_any_case(self, client, workspace, query):
        note = NoteFactory(
            workspace=workspace, content="Deploy from main", tags=["リリース", "éclair"]
        )
        NoteFactory(workspace=workspace, content="Something else")
        address = reverse("admin:memories_note_changelist")
        assert list(client.get(address, {"q": query}).context["cl"].result_list) == [note]

    def test_notes_are_read_only_while_switched_off(self, client, workspace):
        note = NoteFactory(workspace=workspace, content="kept")
        workspace.change_settings({"notes_enabled": False})
        change = reverse("admin:memories_note_change", args=[note.pk])
        listed = reverse("admin:memories_note_changelist")
        add = {"workspace": workspace.pk, "content": "x"}
        response = client.post(reverse("admin:memories_note_add"), add)
        assert "workspace" in response.context["adminform"].form.errors
        assert client.get(change).status_code == 200
        assert client.post(change, add).status_code == 403
        delete = reverse("admin:memories_note_delete", args=[note.pk])
        assert client.post(delete, {"post": "yes"}).status_code == 403
        data = {"action": "delete_selected", "_selected_action": [note.pk], "post": "yes"}
        client.post(listed, data)
        assert Note.objects.get().content == "kept"

    @pytest.mark.parametrize("how", ["alone", "chosen"])
    def test_a_deleted_note_is_in_the_trash(self, client, workspace, how):
        note = NoteFactory(workspace=workspace, content="as it was")
        note.rewrite("as it is")
        ways = {
            "alone": (reverse("admin:memories_note_delete", args=[note.pk]), {}),
            "chosen": (
                reverse("admin:memories_note_changelist"),
                {"action": "delete_selected", "_selected_action": [note.pk]},
            ),
        }
        address, data = ways[how]
        response = client.post(address, data) if data else client.get(address)
        assert "as it is" in response.content.decode()
        assert "note version" not in response.content.decode().lower()
        assert client.post(address, data | {"post": "yes"}).status_code == 302
        [deleted] = Note.objects.in_trash()
        assert (deleted.content, deleted.deleted_by, deleted.versions.count()) == (
            "as it is",
            response.wsgi_request.user,
            1,
        )
        assert deleted.undelete()
