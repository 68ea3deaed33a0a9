"""The page of a version, the comparison of two, and restore, name, undo and pin."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext

from memories.models import AuditEvent, Job, Memory, MemoryVersion, Message, NewVersion
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Line, Origin
from memories.rules.redaction.shingles import QuoteMatcher
from memories.views.memory.versions import PAIRS_SHOWN
from tests.factories import (
    MONDAY,
    ChannelMemberFactory,
    MessageFactory,
    make_segment,
    make_version,
    make_workspace_memory,
)
from tests.views.conftest import Cast
from tests.views.generate.test_jobs import call, job

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


def test_an_old_version_links_to_the_current_one(cast: Cast) -> None:
    page = page_of(cast, version_of(cast, 1).pk)
    assert "v1 of 2" in page
    assert f'You are reading v1. Current is <a href="/v/{cast.memory.current.pk}/">v2</a>' in page
    assert "Restore v1" in page
    ahead = f'<a href="/diff/{version_of(cast, 1).pk}..{cast.memory.current.pk}/">'
    assert f"{ahead}1 line kept, 1 changed or gone</a>" in page
    address = f"http://testserver/v/{version_of(cast, 1).pk}/"
    assert f'<a id="address" href="{address}">{address}</a>' in page
    assert 'data-copy="#address"' in page
    assert "Restore v" not in page_of(cast, cast.memory.current.pk)


def test_restricted_versions_are_skipped(cast: Cast) -> None:
    for text in ("- It is for nobody", "- It is the newest"):
        make_version(memory=cast.memory, text=text)
    cast.memory.versions.filter(number=3).update(audience=MemoryVersion.Audience.NOBODY)
    before, after = version_of(cast, 2).pk, version_of(cast, 4).pk
    assert f'<a href="/v/{after}/" data-key="]"' in page_of(cast, before)
    page = page_of(cast, after)
    assert f'<a href="/v/{before}/" data-key="["' in page
    assert f'href="/diff/{before}..{after}/"' in page and "Compare with v2" in page


def test_the_provenance_of_a_version(cast: Cast) -> None:
    short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM).current
    secret = cast.private_memory.current
    memory = make_workspace_memory(workspace=cast.workspace, texts=["- x"])
    job = Job.objects.create(
        memory=memory,
        as_of_us=0,
        input_key="k",
        model="gpt-of-the-day",
        prompt_version="merge-7",
        prompt_tokens=1234,
        completion_tokens=56,
    )
    job.add_inputs([short, secret])
    version = make_version(
        memory=memory,
        text="- y",
        job=job,
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


@pytest.mark.slow
def test_the_job_and_its_cost_are_shown_to_its_readers(cast: Cast) -> None:
    made = call(job(cast.public, "done"), micros=2_500_000).job
    version = make_version(memory=cast.memory, text="- y", job=made)
    address = cast.path(f"jobs/{made.pk}/")
    for name in cast.clients:
        is_open = cast.clients[name].get(address).status_code == 200
        if cast.clients[name].get(f"/v/{version.pk}/").status_code == 200:
            page = page_of(cast, version.pk, name)
            assert (f'href="{address}"' in page, "$2.50" in page) == (is_open, is_open), name
    assert address in page_of(cast, version.pk, "member")
    make_version(memory=cast.memory, text="- z", job=made, audience="members")
    assert address not in page_of(cast, version.pk, "member")  # it rests on more than they may read


def test_expired_sources_are_counted(cast: Cast) -> None:
    first, second = cast.messages[:2]
    version = cast.memory.current
    assert "removed by retention" not in page_of(cast, version.pk)
    cast.workspace.change_settings({"retention_days": 30})
    Message.objects.filter(pk=first.pk).purge(Message.State.EXPIRED)
    page = page_of(cast, version.pk)
    assert "1 of its sources was removed by retention" in page
    assert f"msg-{first.ts}" not in page and "a source that was removed" in page
    assert f"msg-{second.ts}" in page
    Message.objects.filter(pk=second.pk).purge(Message.State.DELETED)
    page = page_of(cast, version.pk)
    assert "1 of its sources was" in page and f"msg-{second.ts}" not in page


def test_kept_and_put_back_lines_are_listed(cast: Cast) -> None:
    version = make_version(
        memory=cast.memory, text="- a\n- b", kept=["- of *Aya*"], put_back=["- of Tom", "- b"]
    )
    page = page_of(cast, version.pk, "member")
    assert "Kept: 1 line of people. Put back: 2 lines the model had lost." in page
    assert "of <strong>Aya</strong>" in page and "of Tom" in page
    assert "Put back" not in page_of(cast, version_of(cast, 1).pk)


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
        assert "Pinned: every later update keeps this line word for word." in page
        assert 'name="unpin" value="1" aria-pressed="true"' in page
        assert 'name="pin" value="0" aria-pressed="false"' in page
        pin(cast, 1, "unpin")
        assert pins(cast) == []
        events = AuditEvent.objects.filter(action__startswith="line").order_by("pk")
        told = list(events.values_list("action", "actor"))
        assert told == [("line_pin", "editor"), ("line_unpin", "editor")]

    @pytest.mark.parametrize("on", ["memory", "version"])
    def test_a_pin_by_htmx_returns_its_part(self, cast: Cast, on: str) -> None:
        response = pin(cast, 0, on=on, htmx="1")
        part = response.content.decode()
        assert response.status_code == 200 and "<html" not in part
        assert f'<section id="{on}"' in part or f'<div id="{on}"' in part
        assert f'id="{on}-pin-0"' in part and 'aria-pressed="true"' in part
        assert "autofocus" not in part  # it stays where it is: on the button
        assert 'id="toast"' in part and "Pinned: every later update" in part

    def test_a_line_of_the_newest_segment_is_pinned(self, cast: Cast) -> None:
        short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM)
        given = {"on": "now", "version": short.current.pk}
        assert pin(cast, 0, **given)["Location"] == "/w/team/c/C0PUBLIC/#now"
        page = cast.clients["editor"].get(cast.path("c/C0PUBLIC/")).content.decode()
        assert 'id="now-pin-0" name="unpin"' in page
        part = pin(cast, 0, "unpin", htmx="1", **given).content.decode()
        assert part.startswith('<section id="now"') and 'id="now-pin-0" name="pin"' in part
        assert 'id="toast"' in part and "No longer pinned" in part
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
        assert "Nothing was pinned: v3 was saved after you opened this page." in page
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

    @pytest.mark.parametrize(
        ("name", "status"), [("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)]
    )
    def test_other_readers_cannot_pin(self, cast: Cast, name: str, status: int) -> None:
        assert pin(cast, 0, name=name).status_code == status
        assert pins(cast) == []
        cast.memory.pin(0, by=None, based_on=2)
        page = page_of(cast, cast.memory.current.pk, "member")
        assert "#pinned" in page and "pinned</span>" in page
        assert "/pin/" not in page

    def test_a_pin_needs_a_post(self, cast: Cast) -> None:
        assert cast.clients["editor"].get(f"/v/{cast.memory.current.pk}/pin/").status_code == 405

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


def test_restore_by_htmx_returns_the_new_version_and_its_url(cast: Cast) -> None:
    response = restore(cast, 1, based_on=2, headers=HTMX)
    part = response.content.decode()
    assert response.status_code == 200 and "<html" not in part
    assert response["HX-Push-Url"] == f"/v/{version_of(cast, 3).pk}/"
    assert 'id="version"' in part and "v3 of 3" in part
    assert 'id="toast" hx-swap-oob="innerHTML"' in part and "Undo" in part
    assert "autofocus" in part


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
    assert "version 3, for members of the channel alone; it is not the current one." in page
    assert "current again" not in page and 'class="toast"' in page
    cast.memory.refresh_from_db()
    assert cast.memory.current.number == 2


def test_a_stale_restore_is_refused(cast: Cast) -> None:
    cast.memory.revise("- Something newer", by=cast.users["insider"], based_on=2)
    response = restore(cast, 1, based_on=2)
    assert response.status_code == 409
    assert "Nothing was restored: v3 was saved" in response.content.decode()
    assert cast.memory.versions.count() == 3
    assert restore(cast, 1, based_on=3).status_code == 302


def test_a_restore_over_a_withdrawn_text_is_refused(cast: Cast) -> None:
    Memory.objects.filter(pk=cast.memory.pk).update(current=None)
    page = restore(cast, 1, based_on=2).content.decode()
    assert "Nothing was changed: the text was withdrawn" in page
    assert not re.search(r"\bv0\b", page)


def test_lists_of_versions_have_authors(cast: Cast) -> None:
    cast.memory.revise("- Something newer", by=cast.users["insider"], based_on=2)
    client = cast.clients["member"]
    for path in (f"/m/{cast.memory.pk}/versions/", cast.path("c/C0PUBLIC/"), cast.path()):
        page = client.get(path).content.decode()
        rail = " ".join(re.findall(r'<ol class="rail.*?</ol>', page, re.DOTALL))
        assert ">insider</span>" in rail and "model" in rail, path


def test_another_segment_loses_no_lines(cast: Cast) -> None:
    memory = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM)
    segments = [make_segment(messages=[message]) for message in cast.messages[:2]]
    first, _second = (
        make_version(memory=memory, text=f"- {n}", segment=segment)
        for n, segment in enumerate(segments)
    )
    assert "kept, " not in page_of(cast, first.pk)
    assert "kept, " in page_of(cast, version_of(cast, 1).pk)


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
def test_other_readers_cannot_restore(cast: Cast, name: str, status: int) -> None:
    assert restore(cast, 1, based_on=2, name=name).status_code == status
    assert cast.memory.versions.count() == 2


def test_restore_needs_a_post(cast: Cast) -> None:
    response = cast.clients["editor"].get(f"/v/{version_of(cast, 1).pk}/restore/")
    assert response.status_code == 405


class TestNames:
    def call(self, cast: Cast, called: str, name: str = "editor", **headers: str) -> HttpResponse:
        path = f"/v/{version_of(cast, 1).pk}/name/"
        return cast.clients[name].post(path, {"name": called}, headers=headers)

    def test_a_version_is_listed_by_its_name(self, cast: Cast) -> None:
        version = version_of(cast, 1)
        before = (version.content, version.revision, version.updated_at)
        answer = self.call(cast, "  before\nthe <launch> ")
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
        assert news in self.call(cast, called, **HTMX).content.decode()
        answer = self.call(cast, f"{called} ")
        assert news in cast.clients["editor"].get(answer["Location"]).content.decode()

    def test_a_name_is_removed(self, cast: Cast) -> None:
        self.call(cast, "a name")
        self.call(cast, "a name")
        assert AuditEvent.objects.filter(action="version_name").count() == 1
        part = self.call(cast, "", **HTMX)
        assert 'id="version"' in part.content.decode() and "<html" not in part.content.decode()
        assert version_of(cast, 1).name == ""

    def test_a_long_name_stays_in_the_form(self, cast: Cast) -> None:
        self.call(cast, "x" * 80)
        answer = self.call(cast, "y" * 81)
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
        assert "is current again" in restored and undo in restored
        path = f"/v/{version_of(cast, 3).pk}/name/"
        named = toast(client.post(path, {"name": "as agreed"}, headers=headers))
        assert "as agreed" in named and undo not in named

    @pytest.mark.parametrize(
        ("name", "status"), [("member", 403), ("outsider", 404), ("nobody", 302)]
    )
    def test_other_readers_cannot_name(self, cast: Cast, name: str, status: int) -> None:
        assert self.call(cast, "mine", name).status_code == status
        assert version_of(cast, 1).name == ""


def test_a_comparison_shows_the_changes(cast: Cast) -> None:
    old, new = version_of(cast, 1), version_of(cast, 2)
    page = cast.clients["member"].get(f"/diff/{old.pk}..{new.pk}/").content.decode()
    assert "We launch on <del>Friday</del><ins>Monday</ins>" in page
    assert "1 change: 0 added, 0 removed, 1 reworded" in page
    assert 'removed “<span lang="en">Friday</span>”' in page
    assert 'added “<span lang="en">Monday</span>”' in page


def test_each_change_has_the_author_of_the_line(cast: Cast) -> None:
    cast.memory.revise("- We launch on Tuesday\n- Aya owns iOS", by=None, based_on=2)
    cast.memory.revise("- We launch on Thursday\n- Tom tests", by=None, based_on=3)
    old, new = version_of(cast, 3).pk, version_of(cast, 4).pk
    path = f"/diff/{old}..{new}/"
    page = cast.clients["member"].get(path).content.decode()
    text, words = page[page.index('<ul class="diff">') :].split("</ul>", 1)
    assert text.count("by hand, v4") == 2  # one reworded, one added
    assert "<del>Aya owns iOS</del>" in text and text.count("by the model, ") == 1
    assert f'href="/v/{version_of(cast, 2).pk}/"' in text  # where the removed line came from
    assert words.count("by hand, v4") == 2 and words.count("by the model, ") == 1
    split = cast.clients["member"].get(f"{path}?view=split").content.decode()
    table = split[split.index('<table class="split">') : split.index("</table>")]
    assert table.count("by the model, ") == 1
    assert table.count("by hand, v3") == 1 and table.count("by hand, v4") == 2


@pytest.mark.parametrize("view", ["inline", "split"])
def test_each_change_links_to_its_messages(cast: Cast, view: str) -> None:
    said, other = cast.messages[2:4]
    old = make_version(memory=cast.memory, text="- It was said", sources=[said])
    new = make_version(memory=cast.memory, text="- Something else", sources=[other])
    address = f"/diff/{old.pk}..{new.pk}/?view={view}"
    page = cast.clients["member"].get(address).content.decode()
    assert "1 added, 1 removed" in page
    for message, version in ((said, old), (other, new)):
        place = f"messages/?around={message.ts}&amp;v={version.pk}#msg-{message.ts}"
        assert f'<a class="chip" href="/w/team/c/C0PUBLIC/{place}"' in page


def test_only_the_changed_japanese_word_is_marked(cast: Cast) -> None:
    text = (
        "- 同期の不具合は在庫数が多い店舗で起きると分かり、来週の水曜日までに修正する予定です。" * 3
    )
    old = make_version(memory=cast.memory, text=text)
    new = make_version(memory=cast.memory, text=text.replace("水曜日", "金曜日", 1))
    page = cast.clients["member"].get(f"/diff/{old.pk}..{new.pk}/").content.decode()
    assert "来週の<del>水</del><ins>金</ins>曜日" in page


def test_both_texts_side_by_side(cast: Cast) -> None:
    old, new = version_of(cast, 1).pk, version_of(cast, 2).pk
    page = cast.clients["member"].get(f"/diff/{old}..{new}/?view=split").content.decode()
    assert page.count('<table class="split">') == 1
    assert "<del>Friday</del>" in page and "<ins>Monday</ins>" in page
    assert 'class="unsplit"' in page  # where there is no room
    plain = cast.clients["member"].get(f"/diff/{old}..{new}/").content.decode()
    assert 'class="split"' not in plain and '?view=split"' in plain
    picked = cast.clients["member"].get(f"/diff/{old}..{old}/?from={new}&to={old}&view=split")
    assert picked["Location"] == f"/diff/{old}..{new}/?view=split"


def test_a_comparison_by_htmx_is_a_part_with_its_title(cast: Cast) -> None:
    old, new = version_of(cast, 1).pk, version_of(cast, 2).pk
    client = cast.clients["member"]
    page = client.get(f"/diff/{old}..{new}/").content.decode()
    assert page.count('hx-push-url="true"') == 2  # the view, and the pair
    picked = client.get(f"/diff/{new}..{new}/?from={old}&to={new}", headers=HTMX)
    part = client.get(picked["Location"], headers=HTMX).content.decode()
    assert "<html" not in part and part.startswith("<title>v1 to v2, #launch")
    assert (
        'id="diff"' in part and 'tabindex="-1" autofocus>v1' in part and "<ins>Monday</ins>" in part
    )
    assert 'tabindex="-1" autofocus>v1' not in page


@pytest.mark.slow
def test_queries_do_not_grow_with_rows(cast: Cast) -> None:
    """Lines, sources and versions to choose from are added."""
    counts = []
    for many in (10, 100):
        for n in range(many):
            make_version(memory=cast.memory, text=f"- version {n} of {many}")
        text = "\n".join(f"- line {n} of {many}" for n in range(many))
        made = make_version(memory=cast.memory, text=text, sources=cast.messages)
        for path in (
            f"/v/{made.pk}/",
            f"/v/{made.pk}/sources/",
            f"/diff/{version_of(cast, 1).pk}..{made.pk}/",
        ):
            with CaptureQueriesContext(connection) as queries:
                assert cast.clients["editor"].get(path).status_code == 200
            counts.append(len(queries))
    assert counts[:3] == counts[3:]


def test_a_button_lists_the_sources(cast: Cast) -> None:
    """It is a part of the memory's card or a page, with the first words of readable messages."""
    version = cast.memory.current
    path = f"/v/{version.pk}/sources/"
    card = cast.clients["member"].get(cast.path("c/C0PUBLIC/")).content.decode()
    for text in (card, page_of(cast, version.pk, "member")):
        assert f'href="{path}" hx-get="{path}" hx-target="#sources"' in text
    page = cast.clients["member"].get(path).content.decode()
    part = cast.clients["member"].get(path, headers={"HX-Request": "true"}).content.decode()
    assert "<nav" in page and "<nav" not in part
    for text in (page, part):
        assert cast.messages[0].text in text
        assert f"?around={cast.messages[0].ts}&amp;v={version.pk}#msg-" in text
        assert re.findall(r"</span>(\d+)</a>", text) == [
            str(n + 1) for n in range(len(set(version.lines.values_list("sources", flat=True))))
        ]
    assert cast.clients["outsider"].get(path).status_code == 404


@pytest.mark.parametrize("state", ["deleted", "expired"])
def test_a_removed_source_has_no_text(cast: Cast, state: str) -> None:
    words = cast.messages[0].text
    Message.objects.filter(pk=cast.messages[0].pk).update(state=state)
    page = cast.clients["member"].get(f"/v/{cast.memory.current.pk}/sources/").content.decode()
    assert words not in page and "a source that was removed" in page


def test_expired_sources_are_counted_in_the_list(cast: Cast) -> None:
    path = f"/v/{cast.memory.current.pk}/sources/"
    assert "removed by retention" not in cast.clients["member"].get(path).content.decode()
    Message.objects.filter(pk=cast.messages[0].pk).purge(Message.State.EXPIRED)
    page = cast.clients["member"].get(path).content.decode()
    assert "1 of its sources was removed by retention" in page


def test_sources_are_in_the_order_of_their_numbers(cast: Cast) -> None:
    """This is their order in the text, not in time."""
    first, second, third = cast.messages[:3]
    lines = [
        Line("- Last things first", Origin.MODEL, sources=(third.pk,)),
        Line("- And what came before", Origin.MODEL, sources=(second.pk, first.pk, third.pk)),
    ]
    version = cast.memory.add_version(NewVersion(lines=lines, origin=Origin.MODEL), expected_head=2)
    page = cast.clients["member"].get(f"/v/{version.pk}/sources/").content.decode()
    pinned_lines = re.findall(
        r"msg-([\d.]+)\"><span class=\"hidden\">Source </span>(\d+)</a>", page
    )
    assert pinned_lines == [(third.ts, "1"), (first.ts, "2"), (second.ts, "3")]


def test_a_version_without_sources_has_no_button(cast: Cast) -> None:
    made = make_version(memory=cast.memory, text="- Said by nobody")
    assert 'id="sources"' not in page_of(cast, made.pk)
    page = cast.clients["member"].get(f"/v/{made.pk}/sources/").content.decode()
    assert '<p class="empty">no source</p>' in page


def test_queries_for_sources_do_not_grow(cast: Cast) -> None:
    """Each source has its own author and its own mention."""
    counts = []
    for many in (2, 20):
        said = [
            MessageFactory(channel=cast.public, text=f"<@{cast.author.slack_id}> {n}")
            for n in range(many)
        ]
        made = make_version(memory=cast.memory, sources=said)
        with CaptureQueriesContext(connection) as queries:
            page = cast.clients["member"].get(f"/v/{made.pk}/sources/").content.decode()
        assert page.count("@mika ") == many
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_a_private_source_has_no_text(cast: Cast) -> None:
    """This is true even if the channel is public now: no words, author or time."""
    message = MessageFactory(channel=cast.public, text="said behind doors")
    Message.objects.filter(pk=message.pk).update(was_private=True)
    made = make_version(memory=cast.memory, text="- Said before", sources=[message])
    page = cast.clients["member"].get(f"/v/{made.pk}/sources/").content.decode()
    assert "a source you may not open" in page
    for told in (message.text, message.author_name, f"msg-{message.ts}"):
        assert told not in page


def test_a_source_in_a_closed_channel_has_no_text(cast: Cast) -> None:
    secret = Message.objects.get(channel=cast.private)
    made = make_version(memory=cast.memory, text="- Said elsewhere", sources=[secret])
    pages = {
        name: cast.clients[name].get(f"/v/{made.pk}/sources/").content.decode()
        for name in ("member", "insider")
    }
    assert secret.text in pages["insider"]
    assert secret.text not in pages["member"] and "a source you may not open" in pages["member"]


def test_different_facts_of_equal_texts_are_listed(cast: Cast) -> None:
    old = version_of(cast, 1)
    page = cast.clients["member"].get(f"/diff/{old.pk}..{old.pk}/").content.decode()
    assert "Same text. Only the facts differ." in page
    assert "facts-title" not in page
    made = make_version(memory=cast.memory, text=old.content, until=MONDAY)
    MemoryVersion.objects.filter(pk=made.pk).update(
        origin="restore", restored_from=old, source_message_count=old.source_message_count
    )
    page = cast.clients["member"].get(f"/diff/{old.pk}..{made.pk}/").content.decode()
    facts = page[page.index("facts-title") : page.index("pair-title")]
    assert "Same text. Only the facts differ." in page
    assert "restored from v1" in facts
    assert re.findall("<dt>([^<]+)", facts) == ["Written by", "Why", "Time"]


def test_another_pair_has_its_own_url(cast: Cast) -> None:
    old, new = version_of(cast, 1).pk, version_of(cast, 2).pk
    response = cast.clients["member"].get(f"/diff/{old}..{old}/?from={new}&to={old}")
    assert (response.status_code, response["Location"]) == (302, f"/diff/{old}..{new}/")


@pytest.mark.slow
def test_older_versions_are_reached_by_links(cast: Cast) -> None:
    for i in range(PAIRS_SHOWN + 60):
        draft = NewVersion(lines=[Line(f"- {i}", Origin.MODEL)], origin=Origin.MODEL)
        cast.memory.add_version(draft, expected_head=i + 2)
    numbers = dict(cast.memory.versions.values_list("number", "pk"))
    last = max(numbers)
    page = cast.clients["member"].get(f"/diff/{numbers[3]}..{numbers[4]}/").content.decode()
    for older, newer in ((2, 3), (4, 5)):
        assert f'href="/diff/{numbers[older]}..{numbers[newer]}/"' in page
    choice = page[page.index('class="pair-form"') :]
    checked = re.findall(r'name="(\w+)" value="(\d+)"[^>]* checked', choice)
    assert sorted(checked) == [("from", str(numbers[3])), ("to", str(numbers[4]))]
    offered = [int(n) for n in re.findall(r">v(\d+)</th>", choice)]
    assert offered == [last, *range(4 + PAIRS_SHOWN // 2, 0, -1)]
    page = cast.clients["member"].get(f"/diff/{numbers[1]}..{numbers[last]}/").content.decode()
    offered = [int(n) for n in re.findall(r">v(\d+)</th>", page)]
    assert offered == [*range(last, last - PAIRS_SHOWN, -1), 1]
    assert "← older" not in page and "newer →" not in page


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
        assert "The change is undone, in version 3." in page
        assert "took back a change of v2" in page
        assert page.count(f'action="/v/{new.pk}/restore/"') == 2  # toast and page

    def test_an_undo_keeps_the_other_lines(self, cast: Cast) -> None:
        cast.memory.revise("- We launch on Monday\n- Bo owns iOS\n- New", by=None, based_on=2)
        assert undo(cast, based_on=3).status_code == 302
        assert version_of(cast, 4).content == "- We launch on Friday\n- Bo owns iOS\n- New"

    def test_a_changed_line_is_not_undone(self, cast: Cast) -> None:
        cast.memory.revise("- We launch on Monday, at noon\n- Aya owns iOS", by=None, based_on=2)
        response = undo(cast, based_on=3)
        assert response.status_code == 409
        told = "Nothing was undone: in v3 these lines are different by now."
        assert told in response.content.decode()
        assert cast.memory.versions.count() == 3

    def test_a_stale_undo_is_refused(self, cast: Cast) -> None:
        cast.memory.revise("- We launch on Monday\n- Bo owns iOS", by=None, based_on=2)
        response = undo(cast)
        assert response.status_code == 409
        assert "Nothing was undone: v3 was saved" in response.content.decode()
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

    def test_an_undo_leaves_no_empty_text(self, cast: Cast) -> None:
        make_version(memory=cast.memory, text="- Only this", until=MONDAY + timedelta(hours=2))
        make_version(
            memory=cast.memory, text="- Only this\n- And that", until=MONDAY + timedelta(hours=2)
        )
        cast.memory.revise("- And that", by=None, based_on=4)
        response = undo(cast, between=(3, 4), based_on=5)
        assert response.status_code == 409
        assert "says nothing else" in response.content.decode()

    @pytest.mark.parametrize("change", [1, "", "x", -1])
    def test_an_unknown_change_is_not_found(self, cast: Cast, change: object) -> None:
        assert undo(cast, change).status_code == 404

    @pytest.mark.parametrize(
        ("name", "status"), [("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)]
    )
    def test_other_readers_cannot_undo(self, cast: Cast, name: str, status: int) -> None:
        old, new = version_of(cast, 1).pk, version_of(cast, 2).pk
        assert undo(cast, name=name).status_code == status
        assert cast.memory.versions.count() == 2
        if status == 403:
            page = cast.clients[name].get(f"/diff/{old}..{new}/").content.decode()
            assert "/undo/" not in page
