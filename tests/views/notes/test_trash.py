"""The trash: notes deleted, brought back, purged after a question."""

import pytest

from memories.models import Note, NoteVersion
from tests.factories import NoteFactory
from tests.views.conftest import Cast, assert_same_queries

PART = {"HX-Request": "true"}


def bin_of(cast: Cast, name: str = "editor") -> str:
    return cast.clients[name].get(cast.path("notes/trash/")).content.decode()


@pytest.mark.slow
def test_a_deleted_note_is_only_in_the_trash_and_can_be_restored(cast: Cast) -> None:
    editor = cast.clients["editor"]
    note = NoteFactory(workspace=cast.workspace, content="to be gone")
    answer = editor.post(cast.path(f"notes/{note.pk}/delete/"))
    assert (answer.status_code, answer["Location"]) == (302, "/w/team/notes/")
    page = editor.get(answer["Location"]).content.decode()
    assert "to be gone" not in page and "1 deleted note can" in page
    assert "to be gone" in bin_of(cast)
    assert "is in the trash" in editor.get(cast.path(f"notes/{note.pk}/")).content.decode()
    answer = editor.post(cast.path(f"notes/{note.pk}/undelete/"))
    assert answer["Location"] == f"/w/team/notes/#note-{note.pk}"
    assert "to be gone" in editor.get("/w/team/notes/").content.decode()
    assert "to be gone" not in bin_of(cast)


def test_htmx_removes_and_restores_the_row(cast: Cast) -> None:
    editor = cast.clients["editor"]
    note = NoteFactory(workspace=cast.workspace, content="to be gone")
    deleted = editor.post(cast.path(f"notes/{note.pk}/delete/"), headers=PART).content.decode()
    assert f'id="note-{note.pk}"' in deleted and "Undo" in deleted and "<html" not in deleted
    assert '“<span lang="en">to be gone</span>” is in the trash.' in deleted
    back = editor.post(cast.path(f"notes/{note.pk}/undelete/"), headers=PART).content.decode()
    assert (
        f'id="note-{note.pk}"' in back and "to be gone" in back and "The note was restored." in back
    )


def test_it_is_purged_after_a_question(cast: Cast) -> None:
    editor = cast.clients["editor"]
    note = NoteFactory(workspace=cast.workspace, content="to be gone")
    note.rewrite("once more")
    address = cast.path(f"notes/{note.pk}/purge/")
    assert editor.get(address).status_code == 302  # it is not in the trash
    editor.post(address)
    assert Note.objects.exists()
    note.remove()
    assert "cannot be undone" in editor.get(address).content.decode()
    part = editor.get(address, headers=PART).content.decode()
    assert "cannot be undone" in part and "<html" not in part
    assert Note.objects.exists()
    assert editor.post(address)["Location"] == "/w/team/notes/trash/"
    assert not Note.objects.exists() and not NoteVersion.objects.exists()


@pytest.mark.parametrize(
    ("name", "status"), [("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)]
)
def test_other_readers_cannot_see_or_restore(cast: Cast, name: str, status: int) -> None:
    note = NoteFactory(workspace=cast.workspace, content="to be gone")
    note.remove()
    client = cast.clients[name]
    assert client.get(cast.path("notes/trash/")).status_code == status
    status = 404 if name in ("member", "guest") else status
    assert client.get(cast.path(f"notes/{note.pk}/")).status_code == status
    for what in ("undelete", "purge"):
        assert client.post(cast.path(f"notes/{note.pk}/{what}/")).status_code == status
    assert Note.objects.in_trash().count() == 1


def test_a_private_channels_note_is_no_strangers_in_the_trash_either(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, channel=cast.private, content="We pay Tom well")
    note.remove()
    assert "We pay Tom well" in bin_of(cast, "insider")
    assert "We pay Tom well" not in bin_of(cast)
    page = cast.clients["editor"].get(cast.path("notes/")).content.decode()
    assert "The trash is empty." in page  # counts reveal no more
    for what in ("", "purge/"):
        assert cast.clients["editor"].get(cast.path(f"notes/{note.pk}/{what}")).status_code == 404


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_queries_do_not_grow_with_rows(cast: Cast) -> None:
    def grow(size: int) -> None:
        for note in NoteFactory.create_batch(size, workspace=cast.workspace, channel=cast.public):
            note.remove(by=cast.users["editor"])

    assert_same_queries(grow, lambda: bin_of(cast))
