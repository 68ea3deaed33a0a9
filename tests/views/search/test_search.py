"""The search page: results, access, and parts for htmx."""

import re
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memories.models import Line, Memory
from memories.pipeline.search import indexing
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import OFFLINE
from tests.factories import MONDAY, MessageFactory, NoteFactory, make_job, make_version
from tests.views.conftest import Cast

pytestmark = [pytest.mark.slow, pytest.mark.postgres("full-text search")]


def page_of(cast: Cast, typed: str = "", name: str = "member", *, part: bool = False, **fields):
    query = urlencode({"q": typed, **fields})
    headers = {"HX-Request": "true"} if part else {}
    response = cast.clients[name].get(cast.path(f"search/?{query}"), headers=headers)
    assert response.status_code == 200
    assert "HX-Request" in response["Vary"]
    return response.content.decode()


def test_a_hit_shows_place_time_author_and_marked_words(cast: Cast) -> None:
    message = MessageFactory(
        channel=cast.public, text="来月のデータ移行計画 & <b>", author=cast.author
    )
    NoteFactory(workspace=cast.workspace, content="移行 is done by night")
    indexing.index_pending()
    page = page_of(cast, "移行")
    assert "来月のデータ<mark>移行</mark>計画 &amp; &lt;b&gt;" in page
    assert f"?around={message.ts}#msg-{message.ts}" in page and cast.author.name in page
    assert page.index("<mark>移行</mark> is done") < page.index("来月のデータ")  # notes come first
    assert "2 results in" in page and 'role="status"' in page
    assert 'value="移行"' in page


def test_a_line_names_the_person_who_wrote_it(cast: Cast) -> None:
    editor = cast.users["editor"]
    Line.objects.filter(version=cast.memory.current_id).update(kind="decision", author=editor)
    indexing.index_pending()
    assert f"<span>{editor.username}</span>" in page_of(cast, "kind:decision")


def test_htmx_gets_the_results_and_their_number(cast: Cast) -> None:
    MessageFactory(channel=cast.public, text="移行計画")
    indexing.index_pending()
    part = page_of(cast, "移行", part=True)
    assert part.lstrip().startswith('<div id="results"') and "<html" not in part
    assert 'id="results-count" hx-swap-oob' in part and "1 result in" in part
    page = page_of(cast)
    for words in ('hx-trigger="q-change delay:250ms"', 'hx-sync="this:replace"', "hx-replace-url"):
        assert words in page
    assert 'hx-push-url="true"' in page and 'method="get"' in page


def test_empty_searches_and_results_suggest_a_next_step(cast: Cast) -> None:
    assert "What are you looking for?" in page_of(cast)
    assert "What are you looking for?" in page_of(cast, "!?")
    page = page_of(cast, "nosuchword in:messages", channel=cast.public.slack_id)
    assert "No results in what you can access." in page
    assert "Active filters: only Messages, in #launch." in page
    assert 'href="/w/team/search/?q=nosuchword"' in page and "Search everywhere" in page
    assert "0 results" in page
    assert "Only “nosuchword”" in page_of(cast, "nosuchword other")
    unknown = page_of(cast, "x in:#elsewhere")
    assert 'You cannot access a channel “<span lang="en">elsewhere</span>”' in unknown
    assert "Ignored because it could not be read: has:colour" in page_of(cast, "x has:colour")


@pytest.mark.parametrize(
    ("language", "day"),
    [
        ("en", "from 1 Nov 2026, until 20 Nov 2026."),
        ("ja", "2026年11月1日 から, 2026年11月20日 まで"),
    ],
)
def test_days_have_the_usual_format(cast: Cast, language: str, day: str) -> None:
    path = cast.path("search/?q=nosuchword&from=2026-11-01&to=2026-11-20")
    headers = {"accept-language": language}
    assert day in cast.clients["member"].get(path, headers=headers).content.decode()


def test_private_texts_are_neither_listed_nor_counted_nor_named(cast: Cast) -> None:
    MessageFactory(channel=cast.private, text="移行 of the secret kind")
    NoteFactory(workspace=cast.workspace, channel=cast.private, content="移行 secretly")
    make_version(
        memory=Memory.objects.of_channel(cast.private, MemoryType.LONG_TERM), text="- 移行"
    )
    indexing.index_pending()
    assert "3 results" in page_of(cast, "移行", "insider")
    for name in ("editor", "member", "guest", "operator"):
        for fields in ({}, {"channel": cast.private.slack_id}, {"in": "notes"}, {"sort": "newest"}):
            page = page_of(cast, "移行", name, **fields)
            assert "results in" in page and "0 results" in page or "no channel" in page
            assert "<mark>" not in page and f"#{cast.private.name}" not in page
    response = cast.clients["outsider"].get(cast.path("search/?q=移行"))
    assert response.status_code == 404


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_many_hits_take_no_more_queries_than_few(cast: Cast) -> None:
    def count_queries(typed: str, **fields: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            page_of(cast, typed, **fields)
        return len(queries)

    def say(count: int) -> None:
        for number in range(count):
            at = MONDAY + timedelta(days=1, minutes=number)
            MessageFactory(channel=cast.public, text="移行 <@U0000001>", at=at, author=cast.author)
            NoteFactory(workspace=cast.workspace, content="移行 again", author=cast.users["editor"])
        indexing.index_pending()

    say(10)
    page_of(cast, "移行")
    few = [
        count_queries("移行", **{"in": "messages"}),
        count_queries("移行"),
        count_queries("移行", sort="newest"),
    ]
    for message in cast.public.messages.filter(text__startswith="移行"):
        message.delete()
    say(100)
    many = [
        count_queries("移行", **{"in": "messages"}),
        count_queries("移行"),
        count_queries("移行", sort="newest"),
    ]
    # One count a kind more, where the page does not hold them all.
    assert all(after <= before + 2 for before, after in zip(few, many, strict=True))


def test_older_hits_are_a_link_away(cast: Cast) -> None:
    for number in range(60):
        at = MONDAY + timedelta(days=1, minutes=number)
        MessageFactory(channel=cast.public, text=f"移行 number {number} end", at=at)
    indexing.index_pending()
    page = page_of(cast, "移行")
    assert "Messages: all 60" in page and "in=messages" in page
    best = page_of(cast, "移行", **{"in": "messages"})
    assert best.count('class="hit"') == 50 and "Show all, newest first" in best
    first = page_of(cast, "移行", **{"in": "messages", "sort": "newest"})
    assert first.count('class="hit"') == 50 and "Older results" in first
    below = first.split("below=")[1].split("&")[0].split('"')[0]
    second = page_of(cast, "移行", **{"in": "messages", "sort": "newest", "below": below})
    assert second.count('class="hit"') == 10 and "number 9 end" in second
    assert "number 10 end" not in second


@pytest.mark.parametrize("below", ["x", "-1", "9" * 19, "9" * 40, "１"])
def test_any_query_string_is_answered(cast: Cast, below: str) -> None:
    page_of(cast, "x" * 5000 + ' "', below=below, by="?", channel="?", **{"from": "x", "in": "y"})


@pytest.mark.parametrize("sort", ["best", "newest"])
def test_a_day_may_be_far_in_the_future(cast: Cast, sort: str) -> None:
    MessageFactory(channel=cast.public, text="移行計画")
    indexing.index_pending()
    assert "1 result in" in page_of(cast, "移行 before:3000-01-01", sort=sort)
    assert "0 results" in page_of(cast, "移行 after:3000-01-01", sort=sort)


def test_a_new_note_is_found_at_once(cast: Cast) -> None:
    data = {"content": "A lasting word", "title": "", "kind": "", "tags": "", "channel": ""}
    assert cast.clients["editor"].post(cast.path("notes/"), data).status_code == 302
    assert "A <mark>lasting</mark> word" in page_of(cast, "lasting")


def test_a_hit_in_a_memory_shows_its_writer_by_icon_and_word(cast: Cast) -> None:
    indexing.index_pending()
    page = page_of(cast, "Aya iOS", **{"in": "memories"})
    assert re.search(
        r'<span class="writer model"><svg class="author-icon author-icon-model".*?</svg>model<',
        page,
    )
    job = make_job(memory=cast.memory, state="done", model=OFFLINE)
    cast.memory.versions.update(job=job)
    assert "</svg>highlights<" in page_of(cast, "Aya iOS", **{"in": "memories"})
    cast.memory.revise("- Aya owns iOS still", by=cast.users["editor"], based_on=2, revision=0)
    indexing.index_pending()
    page = page_of(cast, "Aya iOS", **{"in": "memories"})
    assert re.search(
        r'<span class="writer person"><svg class="author-icon.*?</svg><span[^>]*>editor<', page
    )


def test_a_note_is_a_click_away(cast: Cast) -> None:
    note = NoteFactory(workspace=cast.workspace, content="the kettle is blue")
    indexing.index_pending()
    assert f'href="{cast.path(f"notes/{note.pk}/")}"' in page_of(cast, "kettle")


def test_filters_are_removed_one_by_one(cast: Cast) -> None:
    page = page_of(cast, "nosuchword in:messages from:mika", channel="C0PUBLIC")
    assert (
        "Remove filter: only Messages" in page
        and "Remove filter: in #launch" in page
        and "Remove filter: by mika" in page
    )
    query = urlencode({"q": 'nosuchword from:"mika"', "in": "messages"}).replace("&", "&amp;")
    assert f'href="/w/team/search/?{query}"' in page


def test_an_empty_search_lists_recent_memories(cast: Cast) -> None:
    page = page_of(cast).partition("<main")[2]
    assert "Recent memories" in page and ">#launch</a>" in page
    assert "salaries" not in page
    assert ">#salaries</a>" in page_of(cast, name="insider").partition("<main")[2]


@pytest.mark.nightly("quicker tests run the same lines")
def test_a_misspelled_name_suggests_similar_names(cast: Cast) -> None:
    NoteFactory(workspace=cast.workspace, title="Deployment checklist", content="Step by step")
    page = page_of(cast, "lanch")
    assert "Similar names" in page and f'href="{cast.path(f"c/{cast.public.slack_id}/")}"' in page
    assert "Deployment checklist" in page_of(cast, "deploymant")
    for name in ("member", "operator"):
        page = page_of(cast, f"{cast.private.name}x", name)
        assert f"#{cast.private.name}" not in page
    assert f"#{cast.private.name}" in page_of(cast, f"{cast.private.name}x", "insider")


def test_older_versions_are_folded_behind_the_current_one(cast: Cast) -> None:
    for number in range(3):
        at = MONDAY + timedelta(days=300, hours=number)
        make_version(memory=cast.memory, text=f"- Kettle {number}", until=at)
    MessageFactory(channel=cast.public, text="the kettle")
    indexing.index_pending()
    page = page_of(cast, "kettle")
    assert "2 older versions</summary>" in page and 'id="found-older"' not in page
    assert page.index("2 older versions") < page.index("the <mark>kettle</mark>")
    assert 'id="found-older"' in page_of(cast, "kettle 0")
    assert page_of(cast, "kettle 0").index("<details><summary>Show older versions") > 0
    assert "2026-13-01" in page_of(cast, "kettle", **{"from": "2026-13-01"})
