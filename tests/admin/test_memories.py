"""Memories in the admin: an edit or a restore adds a version."""

from dataclasses import replace

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from memories.models import AuditEvent, Memory, MemoryVersion, NewVersion
from memories.rules.memory.lines import Line, Origin
from tests.admin.conftest import act, staff
from tests.factories import (
    ChannelFactory,
    MessageFactory,
    UserFactory,
    make_channel_memory,
    make_version,
)

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


@pytest.fixture
def memory():
    return make_channel_memory(channel=ChannelFactory(), texts=["- old", "- one\n- two"])


def page_of(memory):
    return reverse("admin:memories_memory_change", args=[memory.pk])


def opened(client, memory):
    """Return the values of the form when the page is opened."""
    form = client.get(page_of(memory)).context["adminform"].form
    return {name: form[name].value() for name in form.fields}


def messages_of(response):
    return [str(message) for message in response.context["messages"]]


class TestEdit:
    def test_the_page_shows_the_current_text(self, client, operator, memory):
        assert opened(client, memory) == {
            "text": "- one\n- two",
            "pinned": [],
            "initial_pins": "",
            "based_on": 2,
            "revision": 0,
        }

    def test_a_save_adds_a_version(self, client, operator, memory):
        form = opened(client, memory) | {"text": "- one\r\n- three"}
        response = client.post(page_of(memory), form)
        assert response.status_code == 302
        memory.refresh_from_db()
        version = memory.current
        assert (version.number, version.content) == (3, "- one\n- three")
        assert (version.origin, version.author, version.base.number) == ("person", operator, 2)
        assert [replace(line, at_us=0) for line in version.line_values()] == [
            Line("- one", Origin.MODEL, 2),
            Line("- three", Origin.PERSON, 3, author=operator.pk),
        ]
        assert LogEntry.objects.get().user == operator

    def test_the_identity_cannot_be_changed(self, client, operator, memory):
        before = Memory.objects.values("scope", "scope_id", "memory_type", "channel").get()
        form = opened(client, memory) | {"text": "- x", "scope": "workspace", "channel": ""}
        client.post(page_of(memory), form)
        assert Memory.objects.values(*before).get() == before

    def test_a_stale_save_keeps_both_texts(self, client, operator, memory):
        form = opened(client, memory) | {"text": "- one\n- mine"}
        memory.revise("- one\n- theirs", by=UserFactory(), based_on=2)
        response = client.post(page_of(memory), form)
        assert response.status_code == 409
        assert memory.versions.count() == 3
        bound = response.context["adminform"].form
        assert "another text in the meantime" in str(bound.non_field_errors())
        assert bound["text"].value() == "- one\n- mine"
        assert "- theirs" in response.content.decode()
        # The page of the memory combines both by paragraph.
        page = f"{reverse('memories-edit', args=[memory.pk])}?draft=take"
        assert page in response.content.decode()
        assert "- mine" in client.get(page).content.decode()
        # Having seen it, the person may save again.
        again = {name: bound[name].value() for name in bound.fields}
        assert client.post(page_of(memory), again).status_code == 302
        memory.refresh_from_db()
        assert (memory.head, memory.current.content) == (4, "- one\n- mine")
        assert memory.current.base.number == 3

    def test_a_save_over_a_revised_version_is_stale(self, client, operator, memory):
        form = opened(client, memory) | {"text": "- mine"}
        version = memory.current
        again = [Line("- made again", Origin.MODEL)]
        version.rewrite(NewVersion(lines=again, origin=Origin.MODEL, until_us=version.until_us))
        response = client.post(page_of(memory), form)
        assert response.status_code == 409
        assert "- made again" in response.content.decode()
        assert memory.versions.count() == 2

    def test_the_same_text_adds_no_version(self, client, operator, memory):
        form = opened(client, memory) | {"text": "- one\r\n- two"}
        response = client.post(page_of(memory), form, follow=True)
        assert messages_of(response) == ["Nothing changed, so there is no new version."]
        assert memory.versions.count() == 2

    @pytest.mark.parametrize("text", ["", "  \r\n ", "- \r\n- "])
    def test_an_empty_text_is_refused(self, client, operator, memory, text):
        response = client.post(page_of(memory), opened(client, memory) | {"text": text})
        assert response.status_code == 200
        assert "text" in response.context["adminform"].form.errors
        assert memory.versions.count() == 2

    @pytest.mark.parametrize("base", ["", "-1", "two", "99", "9" * 40])
    def test_an_unknown_base_saves_nothing(self, client, operator, memory, base):
        form = opened(client, memory) | {"text": "- x", "based_on": base}
        assert client.post(page_of(memory), form).status_code in (200, 409)
        assert memory.versions.count() == 2

    def test_the_first_version(self, client, operator):
        memory = Memory.objects.of_workspace(ChannelFactory().workspace, "long_term")
        form = opened(client, memory)
        assert (form["text"], form["based_on"], form["pinned"]) == ("", 0, [])
        assert client.post(page_of(memory), form | {"text": "- by hand"}).status_code == 302
        memory.refresh_from_db()
        assert (memory.head, memory.current.content) == (1, "- by hand")

    def test_a_viewer_gets_no_form(self, client, memory):
        staff(client, "view_memory", workspace=memory.workspace)
        response = client.get(page_of(memory))
        assert "- two" in response.content.decode()
        assert "<textarea" not in response.content.decode()
        assert client.post(page_of(memory), {"text": "- x", "based_on": 2}).status_code == 403
        assert memory.versions.count() == 2

    def test_the_page_links_to_its_versions(self, client, operator, memory):
        make_channel_memory(channel=ChannelFactory(), texts=["- elsewhere"])
        address = f"{reverse('admin:memories_memoryversion_changelist')}?memory__id__exact="
        assert f"{address}{memory.pk}" in client.get(page_of(memory)).content.decode()
        page = client.get(f"{address}{memory.pk}").content.decode()
        assert "- old" in page
        assert "- elsewhere" not in page


class TestPins:
    def pins(self, memory):
        return list(memory.current.lines.filter(pinned=True).values_list("text", flat=True))

    def test_checked_lines_are_pinned_without_a_new_version(self, client, operator, memory):
        response = client.post(
            page_of(memory), opened(client, memory) | {"pinned": ["1"]}, follow=True
        )
        assert messages_of(response)[0] == "Pins saved."
        assert self.pins(memory) == ["- two"]
        assert memory.versions.count() == 2
        assert AuditEvent.objects.get(action="line_pin").actor == operator.username
        assert opened(client, memory)["pinned"] == ["1"]
        client.post(page_of(memory), opened(client, memory) | {"pinned": []})
        assert self.pins(memory) == []

    def test_an_edit_keeps_a_pin(self, client, operator, memory):
        form = opened(client, memory) | {"pinned": ["1"], "text": "- new\n- two"}
        assert client.post(page_of(memory), form).status_code == 302
        memory.refresh_from_db()
        assert (memory.head, self.pins(memory)) == (3, ["- two"])

    def test_a_pin_by_another_person_stays(self, client, operator, memory):
        form = opened(client, memory) | {"pinned": ["1"]}
        memory.pin(0, by=UserFactory(), based_on=2)
        client.post(page_of(memory), form)
        assert self.pins(memory) == ["- one", "- two"]

    def test_a_stale_form_pins_nothing(self, client, operator, memory):
        form = opened(client, memory) | {"pinned": ["1"]}
        memory.revise("- other\n- two", by=UserFactory(), based_on=2)
        assert client.post(page_of(memory), form).status_code == 409
        memory.refresh_from_db()
        assert self.pins(memory) == []

    @pytest.mark.parametrize("position", ["2", "-1", "x", "9" * 40])
    def test_an_unknown_line_is_refused(self, client, operator, memory, position):
        form = opened(client, memory) | {"pinned": [position]}
        response = client.post(page_of(memory), form)
        assert response.status_code == 200
        assert "pinned" in response.context["adminform"].form.errors
        assert self.pins(memory) == []


class TestRestore:
    def act(self, client, *versions, rendered_at=None):
        return act(
            client, "restore", *versions, rendered_at=rendered_at or timezone.now().isoformat()
        )

    def test_a_list_that_is_older_than_the_text_is_stale(self, client, operator, memory):
        page = client.get(reverse("admin:memories_memoryversion_changelist"))
        assert "Rendered at" not in page.content.decode()  # to itself, not to people
        rendered_at = page.context["action_form"]["rendered_at"].value()
        memory.revise("- meanwhile", by=None, based_on=2)
        stale = "Somebody saved another text in the meantime. Check it, then try again."
        assert self.act(client, memory.versions.get(number=1), rendered_at=rendered_at) == [stale]
        assert memory.versions.count() == 3

    @pytest.mark.parametrize("time", ["x", "2100-01-01T00:00:00", "2100-13-01T00:00:00+00:00"])
    def test_an_unreadable_time_is_stale(self, client, operator, memory, time):
        [text] = self.act(client, memory.versions.get(number=1), rendered_at=time)
        assert text.startswith("Somebody saved another text") and memory.versions.count() == 2

    def test_a_restore_adds_a_version_with_the_old_text(self, client, operator, memory):
        old = memory.versions.get(number=1)
        assert self.act(client, old) == ["Version 1 was restored as version 3."]
        memory.refresh_from_db()
        assert (memory.current.number, memory.current.content) == (3, "- old")
        assert (memory.current.restored_from, memory.current.author) == (old, operator)

    def test_the_current_text_is_not_restored(self, client, operator, memory):
        assert self.act(client, memory.current) == ["This is already the current text."]
        assert memory.versions.count() == 2

    def test_a_restore_needs_exactly_one_version(self, client, operator, memory):
        assert self.act(client, *memory.versions.all()) == ["Select one version to restore."]
        assert memory.versions.count() == 2

    def test_a_viewer_cannot_restore(self, client, memory):
        user = staff(client, "view_memoryversion", workspace=memory.workspace)
        old = memory.versions.get(number=1)
        self.act(client, old)
        assert memory.versions.count() == 2
        user.user_permissions.add(Permission.objects.get(codename="change_memory"))
        self.act(client, old)
        assert memory.versions.count() == 3


def test_a_version_shows_its_lines_and_their_number_of_sources(client, operator):
    messages = MessageFactory.create_batch(3, channel=ChannelFactory())
    memory = Memory.objects.of_channel(messages[0].channel, "short_term")
    version = make_version(memory=memory, text="- the only line", sources=messages)
    page = client.get(reverse("admin:memories_memoryversion_change", args=[version.pk]))
    text = page.content.decode()
    assert "the only line" in text
    assert '<td class="field-source_count">' in text
    assert text.split("field-source_count")[1].startswith('">3</td>')


def test_a_search_finds_versions_by_their_text(client, operator, memory):
    address = reverse("admin:memories_memoryversion_changelist")
    results = client.get(f"{address}?q=old").context["cl"].result_list
    assert list(results) == [MemoryVersion.objects.get(number=1)]
