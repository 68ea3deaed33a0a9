"""The page of a version, its restore, and its sources."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext

from memories.models import Memory, MemoryVersion, Message, NewVersion
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Line, Origin
from tests.factories import (
    MONDAY,
    MessageFactory,
    make_job,
    make_segment,
    make_version,
    make_workspace_memory,
)
from tests.views.conftest import Cast
from tests.views.generate.test_jobs import call, job

pytestmark = pytest.mark.slow

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
    assert (
        f'This is v1. The current version is <a href="/v/{cast.memory.current.pk}/">v2</a>' in page
    )
    assert "Restore v1" in page
    ahead = f'<a href="/diff/{version_of(cast, 1).pk}..{cast.memory.current.pk}/">'
    assert f"{ahead}1 line kept, 1 changed or removed</a>" in page
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
    job = make_job(
        memory=memory,
        inputs=[short, secret],
        model="gpt-of-the-day",
        prompt_version="merge-7",
        prompt_tokens=1234,
        completion_tokens=56,
    )
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
        "from 2 summaries",
        "a line of Aya",
        f"/v/{short.pk}/",
    ):
        assert words in page, words
    assert f"/v/{secret.pk}/" not in page
    assert f"/v/{secret.pk}/" in page_of(cast, version.pk, "insider")


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
    assert "deleted by retention" not in page_of(cast, version.pk)
    cast.workspace.change_settings({"retention_days": 30})
    Message.objects.filter(pk=first.pk).purge(Message.State.EXPIRED)
    page = page_of(cast, version.pk)
    assert "1 of its sources was deleted by retention" in page
    assert f"msg-{first.ts}" not in page and "a deleted source" in page
    assert f"msg-{second.ts}" in page
    Message.objects.filter(pk=second.pk).purge(Message.State.DELETED)
    page = page_of(cast, version.pk)
    assert "1 of its sources was" in page and f"msg-{second.ts}" not in page


def test_kept_and_restored_lines_are_listed(cast: Cast) -> None:
    version = make_version(
        memory=cast.memory, text="- a\n- b", kept=["- of *Aya*"], put_back=["- of Tom", "- b"]
    )
    page = page_of(cast, version.pk, "member")
    assert "Kept: 1 line by people. Restored: 2 lines that the model had dropped." in page
    assert "of <strong>Aya</strong>" in page and "of Tom" in page
    assert "Include" not in page_of(cast, version_of(cast, 1).pk)


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
    assert "Version 1 was restored as version 3." in page
    assert page.count(f'action="/v/{version_of(cast, 2).pk}/restore/"') == 2  # toast and page
    undone = restore(cast, 2, based_on=3)
    cast.memory.refresh_from_db()
    assert undone.status_code == 302
    assert cast.memory.current.number == 4
    assert cast.memory.current.content == version_of(cast, 2).content
    assert cast.memory.versions.count() == 4


def test_a_restore_and_its_undo_leave_other_lines_as_they_were(cast: Cast) -> None:
    aya = cast.memory.current.lines.get(text__contains="Aya")
    cast.memory.pin(aya.position, by=cast.users["editor"], pinned=True, based_on=2, revision=0)

    def state() -> tuple[str, bool, int]:
        cast.memory.refresh_from_db()
        line = cast.memory.current.lines.get(text__contains="Aya")
        return line.origin, line.pinned, line.since

    before = state()
    assert before[:2] == (Origin.MODEL, True)
    assert restore(cast, 1, based_on=2).status_code == 302
    assert (cast.memory.versions.count(), state()) == (3, before)
    assert restore(cast, 2, based_on=3).status_code == 302
    assert (cast.memory.versions.count(), state()) == (4, before)


def test_the_undo_of_a_restore_brings_lines_back_as_they_were(cast: Cast) -> None:
    until = MONDAY + timedelta(days=2)
    make_version(memory=cast.memory, text="- Aya owns iOS\n- Ben owns Android", until=until)
    cast.memory.refresh_from_db()
    number, before = cast.memory.head, cast.memory.current.line_values()
    restore(cast, 1, based_on=number)
    restore(cast, number, based_on=number + 1)
    cast.memory.refresh_from_db()
    assert cast.memory.head == number + 2
    assert cast.memory.current.line_values() == before


def test_restore_by_htmx_returns_the_new_version_and_its_url(cast: Cast) -> None:
    response = restore(cast, 1, based_on=2, headers=HTMX)
    part = response.content.decode()
    assert response.status_code == 200 and "<html" not in part
    assert response["HX-Push-Url"] == f"/v/{version_of(cast, 3).pk}/"
    assert 'id="version"' in part and "v3 of 3" in part
    assert 'id="toast" hx-swap-oob="innerHTML"' in part and "Undo" in part
    assert "autofocus" in part


def test_a_stale_restore_is_refused(cast: Cast) -> None:
    cast.memory.revise("- Something newer", by=cast.users["insider"], based_on=2)
    response = restore(cast, 1, based_on=2)
    assert response.status_code == 409
    assert "Nothing was restored. v3 was saved" in response.content.decode()
    assert cast.memory.versions.count() == 3
    assert restore(cast, 1, based_on=3).status_code == 302


def test_a_restore_over_a_withdrawn_text_is_refused(cast: Cast) -> None:
    Memory.objects.filter(pk=cast.memory.pk).update(current=None)
    page = restore(cast, 1, based_on=2).content.decode()
    assert "Nothing was changed. The text was withdrawn" in page
    assert not re.search(r"\bv0\b", page)


def test_lists_of_versions_have_authors(cast: Cast) -> None:
    cast.memory.revise("- Something newer", by=cast.users["insider"], based_on=2)
    client = cast.clients["member"]
    for path in (f"/m/{cast.memory.pk}/versions/", cast.path("c/C0PUBLIC/")):
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
    assert "This is already the current text." in page
    assert cast.memory.versions.count() == 2


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
    assert 'id="sources-title" tabindex="-1" autofocus' in part
    assert 'id="sources-title">' in page
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
    assert words not in page and "a deleted source" in page


def test_expired_sources_are_counted_in_the_list(cast: Cast) -> None:
    path = f"/v/{cast.memory.current.pk}/sources/"
    assert "deleted by retention" not in cast.clients["member"].get(path).content.decode()
    Message.objects.filter(pk=cast.messages[0].pk).purge(Message.State.EXPIRED)
    page = cast.clients["member"].get(path).content.decode()
    assert "1 of its sources was deleted by retention" in page


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
        messages = [
            MessageFactory(channel=cast.public, text=f"<@{cast.author.slack_id}> {n}")
            for n in range(many)
        ]
        made = make_version(memory=cast.memory, sources=messages)
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
    assert "a source you cannot access" in page
    for detail in (message.text, message.author_name, f"msg-{message.ts}"):
        assert detail not in page


def test_a_source_in_a_closed_channel_has_no_text(cast: Cast) -> None:
    secret = Message.objects.get(channel=cast.private)
    made = make_version(memory=cast.memory, text="- Said elsewhere", sources=[secret])
    pages = {
        name: cast.clients[name].get(f"/v/{made.pk}/sources/").content.decode()
        for name in ("member", "insider")
    }
    assert secret.text in pages["insider"]
    assert secret.text not in pages["member"] and "a source you cannot access" in pages["member"]
