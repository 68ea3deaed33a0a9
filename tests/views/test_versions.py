"""One version, two compared, and an old one brought back and forth."""

import pytest
from django.http import HttpResponse

from memories.models import Generation, Memory, MemoryVersion
from memories.rules.lines import Origin
from memories.rules.memory import MemoryType
from tests.factories import make_version, make_workspace_memory
from tests.views.conftest import Cast

HTMX = {"HX-Request": "true"}


def version_of(cast: Cast, number: int) -> MemoryVersion:
    return cast.memory.versions.get(number=number)


def restore(
    cast: Cast, number: int, based_on: int, name: str = "editor", headers: dict | None = None
) -> HttpResponse:
    address = f"/v/{version_of(cast, number).pk}/restore/"
    return cast.clients[name].post(address, {"based_on": based_on}, headers=headers or {})


def page_of(cast: Cast, pk: int, name: str = "editor") -> str:
    return cast.clients[name].get(f"/v/{pk}/").content.decode()


def test_an_old_version_says_which_is_current(cast: Cast) -> None:
    page = page_of(cast, version_of(cast, 1).pk)
    assert "v1 of 2" in page
    assert f'You are reading v1. Current is <a href="/v/{cast.memory.current.pk}/">v2</a>' in page
    assert "Restore v1" in page
    assert "1 lines kept, 1 changed or gone" in page
    assert "Restore v" not in page_of(cast, cast.memory.current.pk)


def test_where_a_version_comes_from(cast: Cast) -> None:
    short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM).current
    secret = cast.private_memory.current
    memory = make_workspace_memory(workspace=cast.workspace, texts=["- x"])
    generation = Generation.objects.create(
        memory=memory,
        as_of_us=0,
        input_key="k",
        model="gpt-of-the-day",
        prompt_version="merge-7",
        prompt_tokens=1234,
        completion_tokens=56,
    )
    generation.take_inputs([short, secret])
    version = make_version(
        memory=memory,
        text="- y",
        generation=generation,
        trigger={"reason": "merge", "new": 2},
        put_back=["- a line of Aya"],
    )
    page = page_of(cast, version.pk, "member")
    for words in (
        "gpt-of-the-day",
        "merge-7",
        "1234 in, 56 out",
        "merged from 2 texts",
        "a line of Aya",
        f"/v/{short.pk}/",
    ):
        assert words in page, words
    assert f"/v/{secret.pk}/" not in page
    assert f"/v/{secret.pk}/" in page_of(cast, version.pk, "insider")


def test_restore_and_undo_grow_the_history_by_two(cast: Cast) -> None:
    first = restore(cast, 1, based_on=2)
    cast.memory.refresh_from_db()
    made = cast.memory.current
    assert (first.status_code, first["Location"]) == (302, f"/v/{made.pk}/")
    assert (made.number, made.origin, made.restored_from_id) == (
        3,
        Origin.RESTORE,
        version_of(cast, 1).pk,
    )
    page = cast.clients["editor"].get(first["Location"]).content.decode()
    assert "Version 1 is current again, as version 3." in page
    assert page.count(f'action="/v/{version_of(cast, 2).pk}/restore/"') == 2  # toast and page
    undone = restore(cast, 2, based_on=3)
    cast.memory.refresh_from_db()
    assert undone.status_code == 302
    assert cast.memory.current.number == 4
    assert cast.memory.current.content == version_of(cast, 2).content
    assert cast.memory.versions.count() == 4


def test_restore_by_htmx_brings_the_new_version_and_its_address(cast: Cast) -> None:
    response = restore(cast, 1, based_on=2, headers=HTMX)
    part = response.content.decode()
    assert response.status_code == 200 and "<html" not in part
    assert response["HX-Push-Url"] == f"/v/{version_of(cast, 3).pk}/"
    assert 'id="version"' in part and "v3 of 3" in part
    assert 'id="toast" hx-swap-oob="innerHTML"' in part and "Undo" in part
    assert "autofocus" in part


def test_a_restore_that_comes_too_late_does_nothing_and_says_so(cast: Cast) -> None:
    cast.memory.revise("- Something newer", by=cast.users["insider"], based_on=2)
    response = restore(cast, 1, based_on=2)
    assert response.status_code == 409
    assert "Nothing was restored: v3 was saved" in response.content.decode()
    assert cast.memory.versions.count() == 3
    assert restore(cast, 1, based_on=3).status_code == 302


def test_restoring_the_current_text_makes_no_version(cast: Cast) -> None:
    response = restore(cast, 2, based_on=2)
    assert response.status_code == 302
    page = cast.clients["editor"].get(response["Location"]).content.decode()
    assert "This is the current text already." in page
    assert cast.memory.versions.count() == 2


@pytest.mark.parametrize(
    ("name", "status"),
    [("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)],
)
def test_others_restore_nothing(cast: Cast, name: str, status: int) -> None:
    assert restore(cast, 1, based_on=2, name=name).status_code == status
    assert cast.memory.versions.count() == 2


def test_restore_is_never_a_link(cast: Cast) -> None:
    response = cast.clients["editor"].get(f"/v/{version_of(cast, 1).pk}/restore/")
    assert response.status_code == 405


def test_a_comparison_shows_and_tells_the_changes(cast: Cast) -> None:
    old, new = version_of(cast, 1), version_of(cast, 2)
    page = cast.clients["member"].get(f"/diff/{old.pk}..{new.pk}/").content.decode()
    assert "We launch on <del>Friday</del><ins>Monday</ins>" in page
    assert "1 change: 0 added, 0 removed, 1 reworded" in page
    assert "removed “Friday”" in page and "added “Monday”" in page


def test_a_changed_japanese_word_is_marked_and_no_more(cast: Cast) -> None:
    text = (
        "- 同期の不具合は在庫数が多い店舗で起きると分かり、来週の水曜日までに修正する予定です。" * 3
    )
    old = make_version(memory=cast.memory, text=text)
    new = make_version(memory=cast.memory, text=text.replace("水曜日", "金曜日", 1))
    page = cast.clients["member"].get(f"/diff/{old.pk}..{new.pk}/").content.decode()
    assert "来週の<del>水</del><ins>金</ins>曜日" in page


def test_the_same_text_says_so(cast: Cast) -> None:
    old = version_of(cast, 1)
    page = cast.clients["member"].get(f"/diff/{old.pk}..{old.pk}/").content.decode()
    assert "Same text. Only the facts differ." in page


def test_another_pair_has_its_own_address(cast: Cast) -> None:
    old, new = version_of(cast, 1).pk, version_of(cast, 2).pk
    response = cast.clients["member"].get(f"/diff/{old}..{old}/?from={new}&to={old}")
    assert (response.status_code, response["Location"]) == (302, f"/diff/{old}..{new}/")
