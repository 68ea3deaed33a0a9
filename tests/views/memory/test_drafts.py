"""Previews and drafts of the editor, and the lines that an edit pins."""

from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.utils import timezone

from memories import tasks
from memories.models import AuditEvent, Draft
from tests.views.conftest import Cast
from tests.views.memory.test_memories import HTMX, THEIRS, YOURS, edit, hidden_in, keep, text_in

pytestmark = pytest.mark.slow


def open_editor(cast: Cast, name: str = "editor", query: str = "") -> str:
    path = f"/m/{cast.memory.pk}/edit/{query}"
    page: str = cast.clients[name].get(path).content.decode()
    return page


def pinned(cast: Cast) -> list[str]:
    cast.memory.refresh_from_db()
    lines = cast.memory.current.lines.filter(pinned=True)
    return list(lines.values_list("text", flat=True))


class TestPreview:
    def preview(self, cast: Cast, name: str = "editor", **given: str) -> HttpResponse:
        headers = HTMX if given.pop("htmx", "") else {}
        data = {"text": YOURS, "based_on": "2", "revision": "0", **given}
        return cast.clients[name].post(f"/m/{cast.memory.pk}/preview/", data, headers=headers)

    def test_a_preview_saves_no_version(self, cast: Cast) -> None:
        page = self.preview(cast).content.decode()
        assert "We launch on <del>Monday</del><ins>Tuesday</ins>" in page
        assert "1 change: 0 added, 0 removed, 1 reworded" in page
        assert text_in(page) == YOURS
        assert (hidden_in(page, "based_on"), hidden_in(page, "revision")) == ("2", "0")
        assert cast.memory.versions.count() == 2

    def test_a_preview_by_htmx_is_a_part_with_focus(self, cast: Cast) -> None:
        part = self.preview(cast, htmx="1").content.decode()
        assert "<html" not in part and "<textarea" not in part
        assert "<ins>Tuesday</ins>" in part and 'tabindex="-1" autofocus' in part

    def test_a_preview_compares_with_the_base(self, cast: Cast) -> None:
        cast.memory.revise(THEIRS, by=None, based_on=2)
        page = self.preview(cast).content.decode()
        assert "<del>Monday</del>" in page and "Tom tests" not in page

    def test_a_preview_of_an_unchanged_text(self, cast: Cast) -> None:
        assert (
            "No differences."
            in self.preview(cast, text=cast.memory.current.content).content.decode()
        )

    @pytest.mark.parametrize(
        ("name", "status"), [("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)]
    )
    def test_only_editors_get_a_preview(self, cast: Cast, name: str, status: int) -> None:
        assert self.preview(cast, name).status_code == status


class TestKeptWordForWord:
    AYA = "- Aya owns iOS"

    def test_unprotected_lines_are_offered(self, cast: Cast) -> None:
        page = open_editor(cast)
        assert page.count('name="keep"') == 2 and f'value="{self.AYA}"' in page
        edit(cast, YOURS)
        page = open_editor(cast)  # the person's own line is kept anyway
        assert page.count('name="keep"') == 1
        cast.memory.pin_texts([self.AYA], by=None, based_on=3)
        assert 'name="keep"' not in open_editor(cast)

    def test_ticked_lines_are_pinned_with_the_edit(self, cast: Cast) -> None:
        edit(cast, YOURS, keep=self.AYA)
        assert pinned(cast) == [self.AYA] and cast.memory.current.number == 3
        event = AuditEvent.objects.get(action="line_pin")
        assert (event.actor, event.details) == ("editor", {"version": 3, "line": 1})

    def test_pins_alone_add_no_version(self, cast: Cast) -> None:
        text = cast.memory.current.content
        assert edit(cast, text, keep=self.AYA).status_code == 302
        assert pinned(cast) == [self.AYA] and cast.memory.current.number == 2
        assert edit(cast, text, keep=self.AYA).status_code == 422  # they are already

    def test_unknown_lines_are_not_pinned(self, cast: Cast) -> None:
        edit(cast, YOURS, keep="- No such line")
        assert pinned(cast) == []

    def test_a_conflict_keeps_the_ticks(self, cast: Cast) -> None:
        cast.memory.revise(THEIRS, by=None, based_on=2)
        page = edit(cast, YOURS, keep=self.AYA).content.decode()
        assert pinned(cast) == []
        assert hidden_in(page, "keep") == self.AYA

    def test_ticks_are_saved_if_both_edits_are_equal(self, cast: Cast) -> None:
        cast.memory.revise(YOURS, by=None, based_on=2)
        page = edit(cast, YOURS, keep=self.AYA).content.decode()
        sent = {"yours": YOURS, "seen": "2", "seen_revision": "0", "do": "save"}
        sent["keep"] = hidden_in(page, "keep")
        assert edit(cast, text_in(page), base=3, **sent).status_code == 302
        assert pinned(cast) == [self.AYA] and cast.memory.current.number == 3


OFFER = "You have an unsaved draft from"


class TestDrafts:
    def test_a_draft_is_offered_opened_and_saved(self, cast: Cast) -> None:
        assert OFFER not in open_editor(cast)
        response = keep(cast, htmx="1")
        assert (response.status_code, "Draft saved at" in response.content.decode()) == (200, True)
        page = open_editor(cast)
        assert OFFER in page and text_in(page) == cast.memory.current.content
        draft_page = open_editor(cast, query="?draft=take")
        assert OFFER not in draft_page and text_in(draft_page) == YOURS
        assert (hidden_in(draft_page, "based_on"), hidden_in(draft_page, "revision")) == ("2", "0")
        edit(cast, YOURS)
        assert not Draft.objects.exists()
        assert OFFER not in open_editor(cast)

    def test_a_draft_keeps_its_base(self, cast: Cast) -> None:
        keep(cast)
        cast.memory.revise(THEIRS, by=None, based_on=2)
        draft_page = open_editor(cast, query="?draft=take")
        assert text_in(draft_page) == YOURS and hidden_in(draft_page, "based_on") == "2"

    @pytest.mark.parametrize("htmx", ["", "1"], ids=["page", "part"])
    def test_a_draft_is_discarded(self, cast: Cast, htmx: str) -> None:
        keep(cast)
        now = cast.memory.current.content
        response = keep(cast, now, do="discard", htmx=htmx)
        assert response.status_code == 200
        assert not Draft.objects.exists()
        assert text_in(response.content.decode()) == now
        assert OFFER not in response.content.decode()

    @pytest.mark.parametrize("htmx", ["", "1"], ids=["page", "part"])
    def test_discarding_keeps_the_newly_typed_text(self, cast: Cast, htmx: str) -> None:
        keep(cast, "- Of this morning")
        response = keep(cast, do="discard", htmx=htmx)
        assert text_in(response.content.decode()) == YOURS
        assert Draft.objects.get().text == YOURS

    def test_a_new_draft_removes_the_offer(self, cast: Cast) -> None:
        keep(cast, "- Of this morning")
        assert OFFER in open_editor(cast)
        assert 'id="offer" hx-swap-oob' in keep(cast, htmx="1").content.decode()
        assert 'id="offer"' not in keep(cast, " ", htmx="1").content.decode()

    def test_a_failed_save_keeps_a_draft(self, cast: Cast) -> None:
        edit(cast, "x" * 20_001)
        assert Draft.objects.get().text == "x" * 20_001
        cast.memory.revise(THEIRS, by=None, based_on=2)
        edit(cast, YOURS)
        assert Draft.objects.get().text == YOURS

    def test_a_preview_keeps_a_draft(self, cast: Cast) -> None:
        TestPreview().preview(cast)
        assert Draft.objects.get().text == YOURS

    def test_only_the_last_draft_is_kept(self, cast: Cast) -> None:
        keep(cast, "- First")
        keep(cast)
        keep(cast, cast.memory.current.content)  # nothing was typed there
        assert Draft.objects.get().text == YOURS

    def test_a_draft_is_for_its_author(self, cast: Cast) -> None:
        keep(cast)
        assert OFFER not in open_editor(cast, "insider")
        assert text_in(open_editor(cast, "insider", "?draft=take")) == cast.memory.current.content
        keep(cast, cast.memory.current.content, name="insider", do="discard")
        assert Draft.objects.get().user == cast.users["editor"]

    def test_a_draft_of_an_unreadable_base_is_not_offered(self, cast: Cast) -> None:
        keep(cast)
        cast.memory.revise(THEIRS, by=None, based_on=2)
        cast.memory.versions.filter(number=2).update(audience="nobody")
        assert OFFER not in open_editor(cast)
        assert "Tuesday" not in open_editor(cast, query="?draft=take")
        assert "Draft saved" not in keep(cast, "- Again", htmx="1").content.decode()

    def test_a_draft_is_kept_for_a_day(self, cast: Cast) -> None:
        keep(cast)
        Draft.objects.update(at=timezone.now() - timedelta(hours=24))
        assert OFFER not in open_editor(cast)
        tasks.retention()
        assert not Draft.objects.exists()

    @pytest.mark.parametrize(
        ("name", "status"), [("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)]
    )
    def test_other_readers_save_no_drafts(self, cast: Cast, name: str, status: int) -> None:
        assert keep(cast, name=name).status_code == status
        assert not Draft.objects.exists()
