"""Notes: browse, search, add, change, delete, in the workspace and in channels."""

import re
from datetime import date
from html import unescape

import pytest

from memories.models import Note
from tests.factories import MONDAY, MessageFactory, NoteFactory
from tests.views.conftest import Cast, assert_same_queries

pytestmark = pytest.mark.slow


def page_of(cast: Cast, query: str = "", name: str = "member") -> str:
    response = cast.clients[name].get(cast.path(f"notes/{query}"))
    assert response.status_code == 200
    return response.content.decode()


def add(cast: Cast, name: str = "editor", **given: str):
    data = {"content": "A lasting word", "title": "", "kind": "", "tags": "", "channel": ""}
    return cast.clients[name].post(cast.path("notes/"), data | given)


def test_a_note_is_added_with_derived_fields(cast: Cast) -> None:
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
    for what in ("", "edit/"):
        assert cast.clients["editor"].get(cast.path(f"notes/{note.pk}/{what}")).status_code == 404
    for what in ("edit", "delete", "mark", "undelete", "purge", "versions/1/restore"):
        address = cast.path(f"notes/{note.pk}/{what}/")
        assert cast.clients["editor"].post(address, {"content": "x"}).status_code == 404
    assert Note.objects.get().content == "We pay Tom well"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"content": " \n "}, "This field is required"),
        ({"channel": "C0PRIVATE"}, "This channel does not exist."),
        ({"kind": "poem"}, "Select a valid choice"),
        ({"title": "x" * 61}, "at most 60"),
        ({"content": "x" * 20_001}, "at most 20000 characters (it has 20001)"),
        ({"review_on": "2020-01-01"}, "This day is before the note."),
    ],
    ids=["blank", "another's channel", "no such type", "long title", "long", "past review"],
)
def test_invalid_input_stays_in_the_form(cast: Cast, given: dict[str, str], words: str) -> None:
    response = add(cast, tags="kept, words", **given)
    page = response.content.decode()
    assert response.status_code == 422
    assert "kept, words" in page
    assert words in page or "A note needs a text." in page
    assert not Note.objects.exists()


def test_a_long_note_is_folded(cast: Cast) -> None:
    add(cast, content="word " * 4_000)
    note = Note.objects.get()
    assert len(note.content) == 20_000
    page = cast.clients["member"].get(cast.path(f"notes/{note.pk}/")).content.decode()
    assert '<details class="note-fold">' in page and "Show all 20,000 characters" in page
    Note.objects.update(content="short")
    assert "note-fold" not in page_of(cast)


def change(cast: Cast, note: Note, name: str = "editor", **given: str):
    data = {"content": "new words", "title": "", "kind": "", "tags": ""}
    seen = {"based_on": "1", "revision": "0"}
    return cast.clients[name].post(cast.path(f"notes/{note.pk}/edit/"), data | seen | given)


def test_an_unchanged_review_day_is_accepted(cast: Cast) -> None:
    """A command may have set it, or the time zone may have changed."""
    note = NoteFactory(workspace=cast.workspace, content="old words", review_on=date(2020, 1, 1))
    assert change(cast, note, review_on="2020-01-01").status_code == 302
    assert change(cast, note, review_on="2020-01-02").status_code == 422
    note.refresh_from_db()
    assert note.content == "new words"


def test_a_note_is_changed_under_its_id(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="old words", kind="pattern")
    address = cast.path(f"notes/{note.pk}/edit/")
    assert "old words" in cast.clients["editor"].get(address).content.decode()
    response = change(cast, note, kind="solution", tags="a", review_on="2026-01-31")
    assert response.status_code == 302
    note.refresh_from_db()
    assert (note.content, note.title, note.tags) == ("new words", "new words", ["solution", "a"])
    assert (note.number, note.written_by) == (2, cast.users["editor"])
    assert note.review_on.isoformat() == "2026-01-31"
    page = cast.clients["member"].get(cast.path(f"notes/{note.pk}/?v=1")).content.decode()
    assert "Text of v1" in page and "old words" in page and "<del>" in page
    assert "Restore v1" not in page  # for editors


def test_a_stale_save_keeps_both_texts(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="old words")
    note.rewrite("their words", by=cast.users["insider"])
    response = change(cast, note, content="my words", tags="mine")
    page = response.content.decode()
    assert response.status_code == 409
    for words in ("my words", "their words", "mine", "v2 was saved", "Save as new version"):
        assert words in page
    assert Note.objects.get().content == "their words"
    assert change(cast, note, content="our words", based_on="2", revision="1").status_code == 302
    note.refresh_from_db()
    assert (note.number, note.content) == (3, "our words")


def test_a_cleared_title_is_derived_again(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="words", title="Custom")
    response = change(cast, note, content="words", title="")
    note.refresh_from_db()
    assert (note.title, note.number) == ("words", 2)
    same = {"content": "words", "title": "words", "based_on": "2", "revision": "1"}
    drawn = {"initial-review_on": "", "review_on": ""}
    response = change(cast, note, **same, **drawn)
    assert response.status_code == 302
    assert "Nothing changed." in cast.clients["editor"].get(cast.path("notes/")).content.decode()


def drawn_in(page: str) -> dict[str, str]:
    """Return the fields beside the text of a form twice: the current and the initial values."""
    drawn = dict(re.findall(r'name="(initial-\w+)" value="([^"]*)"', page))
    drawn = {name: unescape(value) for name, value in drawn.items()}
    drawn |= {
        f"initial-{name}": "" for name in ("kind", "review_on") if f"initial-{name}" not in drawn
    }
    return drawn | {name.removeprefix("initial-"): shown for name, shown in drawn.items()}


def test_unchanged_fields_keep_the_saved_values(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="words", title="Old", tags=["old"])
    form = drawn_in(
        cast.clients["editor"].get(cast.path(f"notes/{note.pk}/edit/")).content.decode()
    )
    assert (form["title"], form["initial-tags"]) == ("Old", "old")
    note.rewrite("words", title="Saved text", tags=["theirs"], kind="solution")
    note.set_flags(review_on=date(2026, 12, 1))
    page = change(cast, note, **form | {"content": "Mine.", "tags": "mine"}).content.decode()
    shown = drawn_in(page)
    assert (shown["initial-title"], shown["initial-review_on"]) == ("Saved text", "2026-12-01")
    assert 'name="title" value="Saved text"' in page and 'name="tags" value="mine"' in page
    assert "Saved text: theirs" in page and "Saved text: Theirs" not in page
    seen = {"content": "Mine.", "tags": "mine", "based_on": "2", "revision": "1"}
    assert change(cast, note, **shown | seen).status_code == 302
    note.refresh_from_db()
    assert (note.title, note.tags, note.content) == ("Saved text", ["solution", "mine"], "Mine.")
    assert note.review_on == date(2026, 12, 1)


def test_a_date_set_meanwhile_is_kept(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="words", review_on=date(2026, 12, 1))
    form = drawn_in(
        cast.clients["editor"].get(cast.path(f"notes/{note.pk}/edit/")).content.decode()
    )
    note.set_flags(review_on=None)  # reviewed, which makes no version
    assert change(cast, note, **form | {"content": "other"}).status_code == 302
    note.refresh_from_db()
    assert (note.content, note.review_on) == ("other", None)


def test_an_example_keeps_typed_text(cast: Cast) -> None:
    path = cast.path("notes/")
    assert 'name="example"' in cast.clients["editor"].get(path).content.decode()
    for given, stays in (({"example": "1"}, True), ({}, False)):
        data = {"content": "words"} | given
        part = cast.clients["editor"].post(path, data, headers={"HX-Request": "true"})
        assert ('id="add"' not in part.content.decode()) is stays


BASE = "First.\n\nSecond.\n\nThird."


REPLACED = re.compile(r"<textarea readonly[^>]*>(.*?)</textarea>")


def content_in(page: str) -> str:
    textarea = re.search(r'<textarea name="content"[^>]*>\n?(.*?)</textarea>', page, re.DOTALL)
    assert textarea
    return unescape(textarea[1])


def test_each_paragraph_of_a_conflict_is_chosen(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content=BASE)
    note.rewrite(BASE.replace("First", "1st").replace("Third", "3rd"), by=cast.users["insider"])
    yours = BASE.replace("Second", "2nd").replace("Third", "III")
    page = change(cast, note, content=yours, tags="mine").content.decode()
    # A paragraph that one side changed is merged; one that both changed is kept twice.
    assert content_in(page) == "1st.\n\n2nd.\n\nIII.\n3rd."
    choices = re.findall(r'name="(choice-\d+)" value="yours"', page)
    assert len(choices) == 3
    seen = {"based_on": "2", "revision": "1", "yours": yours, "seen": "1", "do": "choose"}
    given = seen | dict(zip(choices, ("theirs", "yours", "theirs"), strict=True)) | {"tags": "mine"}
    response = change(cast, note, content="whatever stood there", **given)
    page = response.content.decode()
    assert response.status_code == 200
    assert content_in(page) == "1st.\n\n2nd.\n\n3rd." and 'value="mine"' in page
    assert REPLACED.findall(page) == ["whatever stood there"]
    note.refresh_from_db()
    assert note.number == 2
    note.rewrite("Other", by=cast.users["insider"])
    response = change(cast, note, content="whatever", **given)  # based on a text that was redacted
    page = response.content.decode()
    assert response.status_code == 409 and "v3 was saved" in page
    assert REPLACED.findall(page) == ["whatever"]


def test_a_result_that_was_put_together_is_not_shown_twice(cast: Cast) -> None:
    note, page = met_over_the_third(cast)
    given = inputs_in(page) | {"based_on": "2", "revision": "1", "do": "choose"}
    page = change(cast, note, content=content_in(page), **given).content.decode()
    assert content_in(page) == "First.\n\nSecond.\n\nIII." and REPLACED.findall(page) == []


def test_a_result_that_cannot_be_saved_leaves_the_conflict_open(cast: Cast) -> None:
    note, page = met_over_the_third(cast)
    given = inputs_in(page) | {"based_on": "2", "revision": "1"}
    response = change(cast, note, content="Mine\nagain", title="x" * 300, **given)
    page = response.content.decode()
    assert response.status_code == 422 and 'aria-invalid="true"' in page
    assert content_in(page) == "Mine\nagain"
    assert 'value="yours" checked' in page and inputs_in(page)["yours"] == given["yours"]


def inputs_in(page: str, choice: str = "yours") -> dict[str, str]:
    """Return the other inputs of a conflict form, with one choice for all paragraphs."""
    page = page[page.index('name="revision"') :]
    sent = dict(re.findall(r'name="((?:made-\d+|seen|note|channel))" value="([^"]*)"', page))
    yours = re.search(r'name="yours" value="([^"]*)"', page)
    assert yours
    chosen = {f"choice-{name[5:]}": choice for name in sent if name.startswith("made")}
    return sent | chosen | {"yours": unescape(yours[1])}


def met_over_the_third(cast: Cast) -> tuple[Note, str]:
    note = NoteFactory(workspace=cast.workspace, content=BASE)
    note.rewrite(BASE.replace("Third", "3rd"), by=cast.users["insider"])
    page = change(cast, note, content=BASE.replace("Third", "III")).content.decode()
    assert content_in(page) == "First.\n\nSecond.\n\nIII.\n3rd."
    return note, page


def test_words_redacted_during_an_edit_do_not_return(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="Tom is ill.\n\nSecond.")
    note.redact("[…]\n\nSecond.", title="[…]", tags=[])
    response = change(cast, note, content="Tom is ill.\n\n2nd.")
    page = response.content.decode()
    assert response.status_code == 409
    assert content_in(page).startswith("[…]\n\n") and "Tom" not in content_in(page)
    assert "2nd." in page  # beside it, to be chosen
    given = {"based_on": "1", "revision": "1", "content": "[…]\n\n2nd."}
    assert change(cast, note, **inputs_in(page) | given).status_code == 302
    note.refresh_from_db()
    assert (note.number, note.content) == (2, "[…]\n\n2nd.")


@pytest.mark.parametrize(
    ("typed", "saved"),
    [
        pytest.param("", "First.\n\nSecond.\n\nIII.", id="the choices"),
        pytest.param("Thirds.", "Thirds.", id="what was typed"),
        pytest.param("III.\n\n3rd.", "III.\n\n3rd.", id="an empty line alone"),
    ],
)
def test_choices_count_without_being_put_together(cast: Cast, typed: str, saved: str) -> None:
    note, page = met_over_the_third(cast)
    given = inputs_in(page) | {"based_on": "2", "revision": "1"}
    given["content"] = (typed or content_in(page)).replace("\n", "\r\n")
    assert change(cast, note, **given).status_code == 302
    note.refresh_from_db()
    assert (note.number, note.content) == (3, saved)


def test_they_count_where_yet_another_text_was_saved(cast: Cast) -> None:
    note, page = met_over_the_third(cast)
    note.rewrite("Other", by=cast.users["insider"])
    given = inputs_in(page) | {"based_on": "2", "revision": "1", "content": content_in(page)}
    response = change(cast, note, **given)
    assert response.status_code == 409
    assert inputs_in(response.content.decode())["yours"] == "First.\n\nSecond.\n\nIII."


def test_enter_in_a_field_of_a_conflict_saves(cast: Cast) -> None:
    """Enter presses the first button of the form. Merging again would drop the typed text."""
    note = NoteFactory(workspace=cast.workspace, content="old words")
    note.rewrite("their words", by=cast.users["insider"])
    page = change(cast, note, content="my words").content.decode()
    form = page[page.index('aria-labelledby="choose-title"') :]
    buttons = re.findall(r"<button[^>]*>", form)
    assert "do" not in buttons[0] and 'value="choose"' in buttons[1]


def test_choices_count_in_a_note_that_is_added_instead(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="old words")
    note.remove()
    page = change(cast, note, content="my words").content.decode()
    given = inputs_in(page, "theirs") | {"based_on": "1", "content": content_in(page)}
    assert add(cast, **given).status_code == 302
    assert Note.objects.latest("pk").content == "old words"
    Note.objects.filter(pk=note.pk).delete()  # the text is kept without it
    assert add(cast, **given).status_code == 302
    assert Note.objects.latest("pk").content == "my words"


def test_a_save_over_a_deleted_note_keeps_the_text(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="old words")
    note.remove()
    response = change(cast, note, content="my words")
    page = response.content.decode()
    assert response.status_code == 409
    assert "my words" in page and "Restore note" in page and "Add as a new note" in page
    assert cast.clients["editor"].get(cast.path(f"notes/{note.pk}/edit/")).status_code == 302


def test_a_restore_needs_the_current_version(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="old words")
    note.rewrite("new words")
    address = cast.path(f"notes/{note.pk}/versions/1/restore/")
    assert cast.clients["member"].post(address).status_code == 403
    stale = cast.clients["editor"].post(address, {"based_on": "1", "revision": "0"})
    assert stale.status_code == 409
    assert "v2 was saved after you opened this page" in stale.content.decode()
    done = cast.clients["editor"].post(address, {"based_on": "2", "revision": "1"})
    assert (done.status_code, done["Location"]) == (302, f"/w/team/notes/{note.pk}/")
    page = cast.clients["editor"].get(done["Location"]).content.decode()
    assert "Version 1 was restored as version 3." in page
    note.refresh_from_db()
    assert (note.content, note.restored_from) == ("old words", 1)


@pytest.mark.parametrize(
    ("given", "field", "value", "says"),
    [
        ({"pinned": "1"}, "is_pinned", True, "pinned"),
        ({"in_context": "0"}, "in_context", False, "not in contexts"),
        ({"reviewed": "1"}, "review_on", None, "Marked as reviewed."),
    ],
)
def test_toggles_answer_with_the_row(
    cast: Cast, given: dict[str, str], field: str, value: object, says: str
) -> None:
    note = NoteFactory(workspace=cast.workspace, review_on=MONDAY.date())
    assert "review due" in page_of(cast)
    address = cast.path(f"notes/{note.pk}/mark/")
    assert cast.clients["member"].post(address, given).status_code == 403
    part = cast.clients["editor"].post(address, given, headers={"HX-Request": "true"})
    words = part.content.decode()
    assert f'id="note-{note.pk}"' in words and says in words and "<html" not in words
    assert 'id="toast"' in words
    note.refresh_from_db()
    assert (getattr(note, field), note.number) == (value, 1)
    plain = cast.clients["editor"].post(address, given)
    assert (plain.status_code, plain["Location"]) == (302, f"/w/team/notes/#note-{note.pk}")
    assert cast.clients["editor"].post(address, {}).status_code == 404


def test_pinned_notes_come_first(cast: Cast) -> None:
    NoteFactory(workspace=cast.workspace, content="pinned words", is_pinned=True)
    NoteFactory(workspace=cast.workspace, content="newer words")
    page = page_of(cast)
    assert page.index("pinned words") < page.index("newer words")


def test_htmx_puts_a_new_note_first(cast: Cast) -> None:
    data = {"content": "A lasting word", "title": "", "kind": "", "tags": "", "channel": ""}
    editor, headers = cast.clients["editor"], {"HX-Request": "true"}
    part = editor.post(cast.path("notes/"), data, headers=headers).content.decode()
    note = Note.objects.get()
    assert re.match(rf'\s*<article class="card note"[^>]* id="note-{note.pk}"', part)
    assert 'id="add"' in part and 'hx-swap-oob="true"' in part and 'id="notes-none"' in part
    refused = editor.post(cast.path("notes/"), data | {"content": " "}, headers=headers)
    assert (refused.status_code, refused["HX-Retarget"]) == (422, "#add")
    assert "<html" not in refused.content.decode()


def test_examples_are_offered_until_there_is_a_note(cast: Cast) -> None:
    page = page_of(cast, name="editor")
    assert page.count("Use this example") == 2
    assert "Use this example" not in page_of(cast)
    assert add(cast, content="Customers get an answer.", kind="pattern").status_code == 302
    assert "Use this example" not in page_of(cast, name="editor")


@pytest.mark.nightly("growth: fills tables, and counts again")
@pytest.mark.parametrize("path", ["notes/", "notes/{}/?v=1"])
def test_queries_do_not_grow_with_rows(cast: Cast, path: str) -> None:
    note, editor = NoteFactory(workspace=cast.workspace), cast.users["editor"]

    def grow(size: int) -> None:
        for i in range(size):
            second = NoteFactory(workspace=cast.workspace, channel=cast.public, author=editor)
            second.rewrite("other words", by=editor)
            note.rewrite(f"{size} {i}", by=editor)

    def look() -> None:
        assert cast.clients["editor"].get(cast.path(path.format(note.pk))).status_code == 200

    assert_same_queries(grow, look)


@pytest.mark.parametrize(
    ("name", "status"),
    [("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)],
)
def test_other_readers_cannot_write_notes(cast: Cast, name: str, status: int) -> None:
    note = NoteFactory(workspace=cast.workspace, content="as it was")
    assert add(cast, name).status_code == status
    # A guest may not even read the workspace's notes.
    status = 404 if name == "guest" else status
    for what in ("edit", "delete", "mark"):
        address = cast.path(f"notes/{note.pk}/{what}/")
        assert cast.clients[name].post(address, {"content": "x"}).status_code == status
    assert list(Note.objects.values_list("content", flat=True)) == ["as it was"]


@pytest.mark.parametrize(
    ("query", "is_match"),
    [("SHOPS", True), ("お店", True), ("ÄRGER", True), ("nowhere", False)],
)
def test_search(cast: Cast, query: str, is_match: bool) -> None:
    NoteFactory(workspace=cast.workspace, content="shops, お店, Ärger", title="t")
    NoteFactory(workspace=cast.workspace, content="something else entirely")
    page = page_of(cast, f"?q={query}")
    assert ("shops, お店" in page) is is_match
    assert "something else" not in page
    assert f'value="{query}"' in page
    assert ("1 note contains" if is_match else "No note contains") in page


def test_search_by_htmx_brings_the_list_and_the_count(cast: Cast) -> None:
    NoteFactory(workspace=cast.workspace, content="shops")
    response = cast.clients["member"].get(
        cast.path("notes/?q=shop"), headers={"HX-Request": "true"}
    )
    part = response.content.decode()
    assert "<html" not in part
    assert 'id="notes"' in part
    assert 'id="notes-count" hx-swap-oob="innerHTML"' in part and "1 note contains" in part


def test_switched_off_notes_are_nowhere(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, channel=cast.public, content="kept but hidden")
    cast.workspace.change_settings({"notes_enabled": False})
    assert cast.clients["editor"].get(cast.path("notes/")).status_code == 404
    assert cast.clients["editor"].post(cast.path(f"notes/{note.pk}/delete/")).status_code == 404
    page = cast.clients["editor"].get(cast.path("c/C0PUBLIC/")).content.decode()
    assert "kept but hidden" not in page and "/notes/" not in page
    assert Note.objects.exists()


def test_a_note_links_to_its_message_for_those_who_may_read_it(cast: Cast) -> None:
    message = MessageFactory(channel=cast.public)
    note = NoteFactory(workspace=cast.workspace, content="Kept", source=message)
    href = f"{cast.path('c/C0PUBLIC/messages/')}?around={message.ts}#msg-{message.ts}"
    assert href in page_of(cast, f"{note.pk}/")
    cast.public.messages.update(was_private=True)
    assert "around=" not in page_of(cast, f"{note.pk}/")
