"""Changes of versions by people: names, pins and undo, and who may change them."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.http import HttpResponse

from memories.models import AuditEvent, Memory
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Origin
from memories.rules.redaction.shingles import QuoteMatcher
from tests.factories import (
    MONDAY,
    ChannelMemberFactory,
    make_version,
)
from tests.views.conftest import Cast
from tests.views.memory.test_versions import HTMX, page_of, restore, version_of

pytestmark = pytest.mark.slow


def set_name(cast: Cast, version_name: str, name: str = "editor", **headers: str) -> HttpResponse:
    path = f"/v/{version_of(cast, 1).pk}/name/"
    return cast.clients[name].post(path, {"name": version_name}, headers=headers)


class TestNames:
    def test_a_version_is_listed_by_its_name(self, cast: Cast) -> None:
        version = version_of(cast, 1)
        before = (version.content, version.revision, version.updated_at)
        answer = set_name(cast, "  before\nthe <launch> ")
        assert answer["Location"] == f"/v/{version.pk}/"
        version.refresh_from_db()
        assert (version.content, version.revision, version.updated_at) == before
        assert version.name == "before the <launch>"
        short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM).current
        short.rename("the short one", by=None)
        channel = cast.clients["member"].get(cast.path("c/C0PUBLIC/")).content.decode()
        assert "the short one" in channel
        for path in (f"/v/{version.pk}/", f"/m/{cast.memory.pk}/versions/"):
            page = cast.clients["member"].get(path).content.decode()
            assert "before the &lt;launch&gt;" in page and 'id="name"' not in page
        assert "before the &lt;launch&gt;" in channel
        event = AuditEvent.objects.get(action="version_name", actor="editor")
        assert event.details == {"version": 1, "named": True}

    @pytest.mark.parametrize(
        ("called", "language", "name"),
        [
            ("<launch>", "en", "&lt;launch&gt;"),
            ("公開前", "ja", "公開前"),
            ("Начало", "", "Начало"),
        ],
    )
    def test_the_toast_has_the_name_with_its_lang(
        self, cast: Cast, called: str, language: str, name: str
    ) -> None:
        news = f'Named “<span lang="{language}">{name}</span>”.'
        assert news in set_name(cast, called, **HTMX).content.decode()
        answer = set_name(cast, f"{called} ")
        assert news in cast.clients["editor"].get(answer["Location"]).content.decode()

    def test_a_name_is_removed(self, cast: Cast) -> None:
        set_name(cast, "a name")
        set_name(cast, "a name")
        assert AuditEvent.objects.filter(action="version_name").count() == 1
        part = set_name(cast, "", **HTMX)
        assert 'id="version"' in part.content.decode() and "<html" not in part.content.decode()
        assert version_of(cast, 1).name == ""

    def test_a_long_name_stays_in_the_form(self, cast: Cast) -> None:
        set_name(cast, "x" * 80)
        answer = set_name(cast, "y" * 81)
        assert answer.status_code == 422 and "y" * 81 in answer.content.decode()
        assert version_of(cast, 1).name == "x" * 80

    @pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "part"])
    def test_the_toast_of_a_name_has_no_undo(self, cast: Cast, headers: dict[str, str]) -> None:
        """The toast of a restore has an undo, that of a name has none."""
        client, undo = cast.clients["editor"], f'action="/v/{version_of(cast, 2).pk}/restore/"'

        def toast(answer: HttpResponse) -> str:
            page = client.get(answer["Location"]) if answer.status_code == 302 else answer
            return page.content.decode().partition('id="toast"')[2].partition("data-dismiss")[0]

        restored = toast(restore(cast, 1, based_on=2, headers=headers))
        assert "was restored as" in restored and undo in restored
        path = f"/v/{version_of(cast, 3).pk}/name/"
        named = toast(client.post(path, {"name": "as agreed"}, headers=headers))
        assert "as agreed" in named and undo not in named


def pin(
    cast: Cast, position: object, word: str = "pin", name: str = "editor", **given: object
) -> HttpResponse:
    headers = HTMX if given.pop("htmx", "") else {}
    path = f"/v/{given.pop('version', cast.memory.current.pk)}/pin/"
    data = {word: position, "revision": 0, "on": "memory"} | given
    return cast.clients[name].post(path, data, headers=headers)


def pins(cast: Cast) -> list[str]:
    cast.memory.refresh_from_db()
    pinned_lines = cast.memory.current.lines.filter(pinned=True)
    return list(pinned_lines.values_list("text", flat=True))


class TestPins:
    @pytest.mark.parametrize(
        ("on", "path"), [("memory", "/w/team/c/C0PUBLIC/#memory"), ("version", "/v/{}/")]
    )
    def test_a_line_is_pinned_in_place_and_unpinned(self, cast: Cast, on: str, path: str) -> None:
        response = pin(cast, 1, on=on)
        assert response.status_code == 302
        assert response["Location"] == path.format(cast.memory.current.pk)
        assert pins(cast) == ["- Aya owns iOS"]
        assert cast.memory.versions.count() == 2
        page = cast.clients["editor"].get(response["Location"]).content.decode()
        assert "Pinned. Updates keep this line unchanged." in page
        assert 'name="unpin" value="1" aria-pressed="true"' in page
        assert 'name="pin" value="0" aria-pressed="false"' in page
        pin(cast, 1, "unpin")
        assert pins(cast) == []
        events = AuditEvent.objects.filter(action__startswith="line").order_by("pk")
        recorded = list(events.values_list("action", "actor"))
        assert recorded == [("line_pin", "editor"), ("line_unpin", "editor")]

    @pytest.mark.parametrize("on", ["memory", "version"])
    def test_a_pin_by_htmx_returns_its_part(self, cast: Cast, on: str) -> None:
        response = pin(cast, 0, on=on, htmx="1")
        part = response.content.decode()
        assert response.status_code == 200 and "<html" not in part
        assert f'<section id="{on}"' in part or f'<div id="{on}"' in part
        assert f'id="{on}-pin-0"' in part and 'aria-pressed="true"' in part
        assert "autofocus" not in part  # it stays where it is: on the button
        assert 'id="toast"' in part and "Pinned. Updates keep" in part

    def test_a_line_of_the_newest_segment_is_pinned(self, cast: Cast) -> None:
        short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM)
        given = {"on": "now", "version": short.current.pk}
        assert pin(cast, 0, **given)["Location"] == "/w/team/c/C0PUBLIC/#now"
        page = cast.clients["editor"].get(cast.path("c/C0PUBLIC/")).content.decode()
        assert 'id="now-pin-0" name="unpin"' in page
        part = pin(cast, 0, "unpin", htmx="1", **given).content.decode()
        assert part.startswith('<section id="now"') and 'id="now-pin-0" name="pin"' in part
        assert 'id="toast"' in part and "Unpinned" in part
        late = pin(cast, 0, htmx="1", revision=9, **given)
        assert late.status_code == 409 and "Nothing was pinned" in late.content.decode()

    @pytest.mark.parametrize("htmx", ["", "1"], ids=["page", "part"])
    @pytest.mark.parametrize("on", ["memory", "version"])
    def test_an_old_text_is_not_pinned(self, cast: Cast, on: str, htmx: str) -> None:
        seen = cast.memory.current.pk
        cast.memory.revise("- Other\n- Aya owns iOS", by=None, based_on=2)
        response = pin(cast, 1, version=seen, on=on, htmx=htmx)
        page = response.content.decode()
        assert response.status_code == 409
        assert "Nothing was pinned. v3 was saved after you opened this page." in page
        assert pins(cast) == []
        assert ("<html" in page) is (not htmx)

    def test_a_rewritten_text_is_not_pinned(self, cast: Cast) -> None:
        cast.memory.versions.filter(number=2).update(revision=1)
        assert pin(cast, 1).status_code == 409
        assert pin(cast, 1, revision=1).status_code == 302

    @pytest.mark.parametrize("position", [2, -1, "", "x", "9" * 40])
    def test_an_unknown_line_is_not_found(self, cast: Cast, position: object) -> None:
        assert pin(cast, position).status_code == 404
        assert pins(cast) == []

    def test_an_old_version_has_no_pin_buttons(self, cast: Cast) -> None:
        assert "/pin/" not in page_of(cast, version_of(cast, 1).pk)
        assert pin(cast, 0, version=version_of(cast, 1).pk).status_code == 409

    def test_equal_lines_are_pinned_together(self, cast: Cast) -> None:
        make_version(
            memory=cast.memory, text="- twice\n- once\n* twice", until=MONDAY + timedelta(hours=1)
        )
        cast.memory.refresh_from_db()
        pin(cast, 2)
        assert pins(cast) == ["- twice", "* twice"]

    def test_a_pin_stays_with_its_line(self, cast: Cast) -> None:
        pin(cast, 1)
        cast.memory.refresh_from_db()
        cast.memory.revise("- New\n- Aya owns iOS", by=None, based_on=2)
        assert pins(cast) == ["- Aya owns iOS"]
        restore(cast, 1, based_on=3)
        assert pins(cast) == ["- Aya owns iOS"]


def undo(
    cast: Cast, change: object = 0, name: str = "editor", between: tuple = (1, 2), **given: object
) -> HttpResponse:
    older, newer = (version_of(cast, number).pk for number in between)
    data = {"change": change, "based_on": 2, "revision": 0, **given}
    return cast.clients[name].post(f"/diff/{older}..{newer}/undo/", data)


class TestUndo:
    def test_a_change_is_undone_in_a_new_version(self, cast: Cast) -> None:
        old, new = version_of(cast, 1), version_of(cast, 2)
        page = cast.clients["editor"].get(f"/diff/{old.pk}..{new.pk}/").content.decode()
        assert f'action="/diff/{old.pk}..{new.pk}/undo/"' in page and "Undo this change" in page
        response = undo(cast)
        cast.memory.refresh_from_db()
        made = cast.memory.current
        assert (response.status_code, response["Location"]) == (302, f"/v/{made.pk}/")
        assert made.content == "- We launch on Friday\n- Aya owns iOS"
        assert (made.number, made.base, made.author) == (3, new, cast.users["editor"])
        came, stood = made.lines.all()
        assert (came.origin, stood.origin) == (Origin.RESTORE, Origin.MODEL)
        assert set(came.sources.all()) == set(cast.messages[:2])
        event = AuditEvent.objects.get(action="memory_undo")
        assert (event.actor, event.details) == ("editor", {"version": 3, "of": [1, 2]})
        page = cast.clients["editor"].get(response["Location"]).content.decode()
        assert "The change was undone in version 3." in page
        assert "undid a change of v2" in page
        assert page.count(f'action="/v/{new.pk}/restore/"') == 2  # toast and page

    def test_an_undo_keeps_the_other_lines(self, cast: Cast) -> None:
        cast.memory.revise("- We launch on Monday\n- Bo owns iOS\n- New", by=None, based_on=2)
        assert undo(cast, based_on=3).status_code == 302
        assert version_of(cast, 4).content == "- We launch on Friday\n- Bo owns iOS\n- New"

    def test_a_changed_line_is_not_undone(self, cast: Cast) -> None:
        cast.memory.revise("- We launch on Monday, at noon\n- Aya owns iOS", by=None, based_on=2)
        response = undo(cast, based_on=3)
        assert response.status_code == 409
        refusal = "Nothing was undone. These lines have changed again in v3."
        assert refusal in response.content.decode()
        assert cast.memory.versions.count() == 3

    def test_a_stale_undo_is_refused(self, cast: Cast) -> None:
        cast.memory.revise("- We launch on Monday\n- Bo owns iOS", by=None, based_on=2)
        response = undo(cast)
        assert response.status_code == 409
        assert "Nothing was undone. v3 was saved" in response.content.decode()
        cast.memory.versions.filter(number=3).update(revision=1)
        assert undo(cast, based_on=3).status_code == 409
        assert undo(cast, based_on=3, revision=1).status_code == 302

    def test_a_redacted_line_is_not_restored(self, cast: Cast) -> None:
        old = version_of(cast, 1)
        old.redact(QuoteMatcher(frozenset()), [old.lines.first().pk])
        assert undo(cast).status_code == 409
        assert cast.memory.versions.count() == 2

    def test_an_undo_publishes_nothing(self, cast: Cast) -> None:
        cast.memory.versions.filter(number=1).update(audience="members")
        assert undo(cast).status_code == 404  # not even in the public channel's own pages
        cast.memory.undo(version_of(cast, 1), version_of(cast, 2), 0, by=None, based_on=2)
        assert version_of(cast, 3).audience == "members"
        cast.memory.refresh_from_db()
        assert cast.memory.current.number == 2

    def test_an_undo_reads_the_versions_again(self, cast: Cast) -> None:
        old, new = version_of(cast, 1), version_of(cast, 2)
        cast.memory.versions.filter(number=1).update(audience="members")
        cast.memory.undo(old, new, 0, by=None, based_on=2)
        assert version_of(cast, 3).audience == "members"

    def test_an_undo_leaves_no_empty_text(self, cast: Cast) -> None:
        make_version(memory=cast.memory, text="- Only this", until=MONDAY + timedelta(hours=2))
        make_version(
            memory=cast.memory, text="- Only this\n- And that", until=MONDAY + timedelta(hours=2)
        )
        cast.memory.revise("- And that", by=None, based_on=4)
        response = undo(cast, between=(3, 4), based_on=5)
        assert response.status_code == 409
        assert "contains nothing else" in response.content.decode()

    @pytest.mark.parametrize("change", [1, "", "x", -1])
    def test_an_unknown_change_is_not_found(self, cast: Cast, change: object) -> None:
        assert undo(cast, change).status_code == 404


CHANGES: dict[str, Callable[[Cast, str], HttpResponse]] = {
    "restore": lambda cast, name: restore(cast, 1, based_on=2, name=name),
    "name": lambda cast, name: set_name(cast, "mine", name),
    "undo": lambda cast, name: undo(cast, name=name),
    "pin": lambda cast, name: pin(cast, 0, name=name),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    ("name", "status"), [("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)]
)
def test_only_editors_change_versions(
    cast: Cast, change: Callable[[Cast, str], HttpResponse], name: str, status: int
) -> None:
    assert change(cast, name).status_code == status
    assert cast.memory.versions.count() == 2
    assert pins(cast) == [] and version_of(cast, 1).name == ""


@pytest.mark.parametrize("name", ["member", "guest"])
def test_only_editors_see_the_buttons(cast: Cast, name: str) -> None:
    cast.memory.pin(0, by=None, based_on=2)
    old, current = version_of(cast, 1).pk, version_of(cast, 2).pk
    page = page_of(cast, current, name)
    assert "#pinned" in page and 'aria-label="Pinned"' in page and "/pin/" not in page
    assert "/undo/" not in cast.clients[name].get(f"/diff/{old}..{current}/").content.decode()
    assert "/restore/" not in page_of(cast, old, name)
    channel = cast.clients[name].get(cast.path("c/C0PUBLIC/")).content.decode()
    assert f"/m/{cast.memory.pk}/edit/" not in channel


@pytest.mark.parametrize("word", ["restore", "pin"])
def test_changes_need_a_post(cast: Cast, word: str) -> None:
    path = f"/v/{version_of(cast, 1).pk}/{word}/"
    assert cast.clients["editor"].get(path).status_code == 405


@pytest.mark.parametrize("verb", ["restore", "undo"])
def test_a_restored_text_for_members_is_not_called_current(cast: Cast, verb: str) -> None:
    """A text from the private time of a channel stays for its members."""
    ChannelMemberFactory(channel=cast.public, person=cast.users["insider"].people.get())
    cast.memory.versions.filter(number=1).update(audience="members")
    response = (
        restore(cast, 1, based_on=2, name="insider")
        if verb == "restore"
        else undo(cast, name="insider")
    )
    assert response["Location"] == f"/v/{version_of(cast, 3).pk}/"
    page = cast.clients["insider"].get(response["Location"]).content.decode()
    assert (
        "version 3. It is visible to members of the channel only and is not the current version."
        in page
    )
    assert "current again" not in page and 'class="toast"' in page
    cast.memory.refresh_from_db()
    assert cast.memory.current.number == 2
