"""Notes: browse, search, add, change, delete, in the workspace and in channels."""

import pytest

from memories.models import Note
from tests.factories import NoteFactory
from tests.views.conftest import Cast


def page_of(cast: Cast, query: str = "", name: str = "member") -> str:
    response = cast.clients[name].get(cast.path(f"notes/{query}"))
    assert response.status_code == 200
    return response.content.decode()


def add(cast: Cast, name: str = "editor", **given: str):
    data = {"content": "A lasting word", "title": "", "kind": "", "tags": "", "channel": ""}
    return cast.clients[name].post(cast.path("notes/"), data | given)


def test_a_note_is_added_with_what_follows_from_it(cast: Cast) -> None:
    content = "Shops are called shops and never clients, because clients are the apps."
    response = add(cast, content=content, kind="pattern", tags="words, shops")
    note = Note.objects.get()
    assert (response.status_code, response["Location"]) == (302, f"/w/team/notes/#note-{note.pk}")
    assert note.title == content[:50] + "..."
    assert note.tags == ["pattern", "words", "shops"]
    assert (note.author, note.channel) == (cast.users["editor"], None)
    page = page_of(cast)
    assert content in page and "words" in page


def test_a_channels_note_is_for_its_readers(cast: Cast) -> None:
    assert add(cast, "insider", content="We pay Tom well", channel="C0PRIVATE").status_code == 302
    assert "We pay Tom well" in page_of(cast, name="insider")
    for name in ("member", "editor", "operator", "guest"):
        assert "We pay Tom well" not in page_of(cast, name=name)
    note = Note.objects.get()
    for what in ("edit", "delete"):
        address = cast.path(f"notes/{note.pk}/{what}/")
        assert cast.clients["editor"].get(address).status_code == 404
        assert cast.clients["editor"].post(address, {"content": "x"}).status_code == 404
    assert Note.objects.get().content == "We pay Tom well"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"content": " \n "}, "This field is required"),
        ({"channel": "C0PRIVATE"}, "Select a valid choice"),
        ({"kind": "poem"}, "Select a valid choice"),
        ({"title": "x" * 61}, "at most 60"),
    ],
    ids=["blank", "another's channel", "no such type", "long title"],
)
def test_what_cannot_be_saved_stays_in_the_form(
    cast: Cast, given: dict[str, str], words: str
) -> None:
    response = add(cast, tags="kept, words", **given)
    page = response.content.decode()
    assert response.status_code == 422
    assert "kept, words" in page
    assert words in page or "A note needs a text." in page
    assert not Note.objects.exists()


def test_a_note_is_changed_under_its_id(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="old words", kind="pattern")
    address = cast.path(f"notes/{note.pk}/edit/")
    assert "old words" in cast.clients["editor"].get(address).content.decode()
    response = cast.clients["editor"].post(
        address, {"content": "new words", "title": "", "kind": "solution", "tags": "a"}
    )
    assert response.status_code == 302
    note.refresh_from_db()
    assert (note.content, note.title, note.tags) == ("new words", "new words", ["solution", "a"])


def test_a_note_is_deleted_after_a_question(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="to be gone")
    address = cast.path(f"notes/{note.pk}/delete/")
    assert "cannot be undone" in cast.clients["editor"].get(address).content.decode()
    assert Note.objects.exists()
    assert cast.clients["editor"].post(address).status_code == 302
    assert not Note.objects.exists()


@pytest.mark.parametrize(
    ("name", "status"),
    [("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)],
)
def test_others_write_nothing(cast: Cast, name: str, status: int) -> None:
    note = NoteFactory(workspace=cast.workspace, content="as it was")
    assert add(cast, name).status_code == status
    # A guest may not even read the workspace's notes.
    status = 404 if name == "guest" else status
    for what in ("edit", "delete"):
        address = cast.path(f"notes/{note.pk}/{what}/")
        assert cast.clients[name].post(address, {"content": "x"}).status_code == status
    assert list(Note.objects.values_list("content", flat=True)) == ["as it was"]


@pytest.mark.parametrize(
    ("query", "found"),
    [("SHOPS", True), ("お店", True), ("ÄRGER", True), ("nowhere", False)],
)
def test_search(cast: Cast, query: str, found: bool) -> None:
    NoteFactory(workspace=cast.workspace, content="shops, お店, Ärger", title="t")
    NoteFactory(workspace=cast.workspace, content="something else entirely")
    page = page_of(cast, f"?q={query}")
    assert ("shops, お店" in page) is found
    assert "something else" not in page
    assert f'value="{query}"' in page
    assert ("1 note holds" if found else "No note holds") in page


def test_search_by_htmx_brings_the_list_and_the_count(cast: Cast) -> None:
    NoteFactory(workspace=cast.workspace, content="shops")
    response = cast.clients["member"].get(
        cast.path("notes/?q=shop"), headers={"HX-Request": "true"}
    )
    part = response.content.decode()
    assert "<html" not in part
    assert 'id="notes"' in part
    assert 'id="notes-count" hx-swap-oob="innerHTML"' in part and "1 note holds" in part


def test_switched_off_notes_are_nowhere(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, channel=cast.public, content="kept but hidden")
    cast.workspace.change_settings({"notes_enabled": False})
    assert cast.clients["editor"].get(cast.path("notes/")).status_code == 404
    assert cast.clients["editor"].post(cast.path(f"notes/{note.pk}/delete/")).status_code == 404
    page = cast.clients["editor"].get(cast.path("c/C0PUBLIC/")).content.decode()
    assert "kept but hidden" not in page and "/notes/" not in page
    assert Note.objects.exists()
