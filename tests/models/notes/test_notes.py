"""Notes: versions, stale changes, the trash."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from threading import Barrier

import pytest
from django.db import IntegrityError, connection, transaction

from memories.models import (
    AuditEvent,
    Note,
    NotesDisabled,
    NoteVersion,
    Reader,
    StaleNote,
)
from memories.pipeline.access import channel_audience
from memories.pipeline.context.build import build_context
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
)

pytestmark = pytest.mark.postgres("constraints and conditional updates")


def wordings(note: Note) -> list[tuple[int, str]]:
    """The number and text of each version, the newest last."""
    note.refresh_from_db()
    older = note.versions.order_by("number").values_list("number", "content")
    return [*older, (note.number, note.content)]


@pytest.mark.django_db
class TestVersions:
    def test_each_change_keeps_the_previous_version(self):
        first, second = UserFactory(), UserFactory()
        note = Note.objects.write(WorkspaceFactory(), "one", author=first, now=MONDAY)
        assert note.rewrite("two", tags=["a"], by=second)
        assert note.rewrite("three", by=first)
        assert wordings(note) == [(1, "one"), (2, "two"), (3, "three")]
        assert list(note.versions.order_by("number").values_list("written_by", "tags")) == [
            (first.pk, []), (second.pk, ["a"]),
        ]  # fmt: skip
        assert (note.author, note.written_by) == (first, first)

    def test_the_same_words_are_no_version(self):
        note = NoteFactory(content="one", title="one")
        assert not note.rewrite("one")
        assert wordings(note) == [(1, "one")]

    def test_a_flag_is_no_version_and_survives_a_change_beside_it(self):
        note = NoteFactory(content="one")
        seen = Note.objects.get(pk=note.pk)
        note.set_flags(is_pinned=True, in_context=False, review_on=date(2026, 1, 5))
        seen.rewrite("two")
        note.refresh_from_db()
        assert (note.content, note.is_pinned, note.in_context) == ("two", True, False)
        assert note.number == 2

    def test_a_save_based_on_older_words_is_refused(self):
        note = NoteFactory(content="one")
        ours, theirs = Note.objects.get(pk=note.pk), Note.objects.get(pk=note.pk)
        theirs.rewrite("theirs", based_on=1, revision=0)
        with pytest.raises(StaleNote) as caught:
            ours.rewrite("mine", based_on=1, revision=0)
        assert caught.value.current.content == "theirs"
        assert wordings(note) == [(1, "one"), (2, "theirs")]

    def test_an_edit_of_redacted_text_is_refused(self):
        note = NoteFactory(content="one and a secret")
        note.redact("one and […]", note.title, [])
        with pytest.raises(StaleNote):
            note.rewrite("one and a secret, still", based_on=1, revision=0)

    def test_an_older_version_is_restored_as_the_newest(self):
        editor = UserFactory()
        note = NoteFactory(content="one", kind="pattern", title="Ours")
        note.rewrite("two", title="Other")
        assert note.restore(note.versions.get(), by=editor, based_on=2, revision=1)
        assert wordings(note) == [(1, "one"), (2, "two"), (3, "one")]
        assert (note.title, note.kind, note.restored_from) == ("Ours", "pattern", 1)
        with pytest.raises(StaleNote):
            note.restore(note.versions.get(number=2), by=editor, based_on=2, revision=1)
        assert not note.restore(note.versions.get(number=1), by=editor, based_on=3, revision=2)

    def test_a_version_number_is_unique(self):
        note = NoteFactory()
        note.rewrite("two")
        copy = NoteVersion.objects.get()
        copy.pk = None
        with pytest.raises(IntegrityError), transaction.atomic():
            copy.save(force_insert=True)


@pytest.mark.django_db
class TestTrash:
    def test_a_deleted_note_is_hidden_until_it_is_restored(self):
        note = NoteFactory(content="one")
        note.rewrite("two")
        assert note.remove(by=UserFactory())
        assert not note.remove()
        public = Reader.public()
        assert not Note.objects.visible_to(public).exists()
        assert not Note.objects.in_use(note.workspace).exists()
        assert build_context(note.workspace, public, with_notes=True, now=MONDAY).notes == []
        with pytest.raises(StaleNote):
            note.rewrite("three")
        assert note.undelete()
        assert not note.undelete()
        assert wordings(note) == [(1, "one"), (2, "two")]
        assert Note.objects.visible_to(public).get() == note

    def test_only_a_deleted_note_is_purged_and_the_purge_is_recorded(self):
        note = NoteFactory(content="one")
        note.rewrite("two")
        assert not note.purge(by=None)
        note.remove()
        pk, by = note.pk, UserFactory()
        assert note.purge(by=by)
        assert not Note.objects.exists() and not NoteVersion.objects.exists()
        event = AuditEvent.objects.get(action="note_purge")
        assert (event.subject, event.actor) == (f"note {pk}", by.username)

    def test_disabled_notes_cannot_be_changed(self):
        note = NoteFactory(content="one")
        note.workspace.change_settings({"notes_enabled": False})
        for change in (
            note.remove, note.undelete, lambda: note.purge(by=None), lambda: note.set_flags(is_pinned=True),
        ):  # fmt: skip
            with pytest.raises(NotesDisabled):
                change()


@pytest.mark.django_db
class TestContexts:
    def test_notes_can_be_left_out_of_contexts(self):
        workspace = WorkspaceFactory()
        NoteFactory(workspace=workspace, content="in")
        NoteFactory(workspace=workspace, content="out", in_context=False)
        context = build_context(workspace, Reader.public(), with_notes=True, now=MONDAY)
        assert [note.content for note in context.notes] == ["in"]


@pytest.mark.django_db
class TestAudience:
    def test_older_versions_of_a_private_note_stay_private(self):
        workspace = WorkspaceFactory()
        insider, member = UserFactory(), UserFactory()
        for user in (insider, member):
            MemberFactory(workspace=workspace, user=user, role="editor")
        person = PersonFactory(workspace=workspace, user=insider)
        channel = ChannelFactory(workspace=workspace, kind="private", members=[person])
        note = NoteFactory(workspace=workspace, channel=channel, content="said in private")
        note.channel, note.content = None, "for all"
        note.save_wording(by=insider)
        for user, many in ((insider, 1), (member, 0)):
            assert Note.objects.visible_to(Reader.of(user)).count() == 1
            assert NoteVersion.objects.visible_to(Reader.of(user)).count() == many
        channel.update_fields({"kind": "public"})
        channel_audience.publish(channel)
        assert NoteVersion.objects.visible_to(Reader.of(insider)).count() == 1
        assert NoteVersion.objects.visible_to(Reader.of(member)).count() == 0

    def test_older_versions_of_a_public_note_become_private_with_it(self):
        workspace = WorkspaceFactory()
        user = UserFactory()
        person = PersonFactory(workspace=workspace, user=user)
        note = NoteFactory(workspace=workspace, content="for all")
        note.channel = ChannelFactory(workspace=workspace, kind="private", members=[person])
        note.content = "for its members"
        note.save_wording(by=None)
        assert NoteVersion.objects.visible_to(Reader.of(user)).get().content == "for all"
        assert not NoteVersion.objects.visible_to(Reader.public()).exists()

    def test_versions_are_for_the_notes_readers(self):
        workspace = WorkspaceFactory()
        channel = ChannelFactory(workspace=workspace, kind="private")
        NoteFactory(workspace=workspace, channel=channel).rewrite("two")
        NoteFactory(workspace=workspace).rewrite("two")
        stranger = Reader.of(UserFactory())
        assert not NoteVersion.objects.visible_to(stranger).exists()
        assert NoteVersion.objects.visible_to(Reader.public()).count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_first_of_concurrent_saves_wins():
    note = NoteFactory(content="begin")
    barrier = Barrier(4)

    def save(number: int) -> str:
        try:
            copy = Note.objects.select_related("workspace").get(pk=note.pk)
            barrier.wait(timeout=120)
            try:
                copy.rewrite(f"by {number}", based_on=1, revision=0)
            except StaleNote:
                return ""
            return copy.content
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        saved = [text for text in pool.map(save, range(4)) if text]
    assert len(saved) == 1
    assert wordings(note) == [(1, "begin"), (2, saved[0])]


@pytest.mark.django_db(transaction=True)
def test_concurrent_saves_without_a_base_version_are_all_kept():
    note = NoteFactory(content="begin")
    barrier = Barrier(4)

    def save(number: int) -> None:
        try:
            copy = Note.objects.select_related("workspace").get(pk=note.pk)
            barrier.wait(timeout=120)
            copy.rewrite(f"by {number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(4)))
    assert [number for number, _ in wordings(note)] == [1, 2, 3, 4, 5]
    assert {text for _, text in wordings(note)} == {"begin", *(f"by {n}" for n in range(4))}
