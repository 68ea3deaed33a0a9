"""Catch up: the news since the reader's mark, and the marks."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memories.models import (
    Channel,
    ChannelPreference,
    Line,
    Memory,
    Seen,
    Workspace,
)
from memories.pipeline.search import indexing
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Origin
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    make_channel_memory,
    make_thread_memory,
    make_version,
    make_workspace_memory,
)
from tests.views.conftest import Cast, assert_same_queries

pytestmark = pytest.mark.slow


def page(cast: Cast, name: str = "member", query: str = "", status: int = 200) -> str:
    response = cast.clients[name].get(cast.path(f"catch-up/{query}"))
    assert response.status_code == status
    return response.content.decode()


def main_of(text: str) -> str:
    return text.partition("<main")[2]


def entry(text: str, memory: Memory) -> str:
    """Return the entry of a memory, "" without one."""
    match = re.search(rf'<article id="entry-{memory.pk}".*?</article>', text, re.DOTALL)
    return match[0] if match else ""


def mark(
    cast: Cast,
    memory: Memory,
    number: int,
    name: str = "member",
    *,
    htmx: bool = False,
    **more: Any,
) -> HttpResponse:
    headers = {"HX-Request": "true"} if htmx else {}
    path = cast.path(f"seen/{memory.pk}/")
    return cast.clients[name].post(path, {"number": number, **more}, headers=headers)


def mark_seen(cast: Cast, memory: Memory, number: int) -> Seen:
    seen = Seen.objects.of(cast.users["member"], memory)
    seen.mark(number, timezone.now())
    return seen


def texts(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


# -- new lines


def test_all_lines_are_news_without_a_mark(cast: Cast) -> None:
    text = page(cast)
    assert "All time" in text
    html = entry(text, cast.memory)
    assert "#launch" in html and "v2, new to you" in html and "6 new messages" in html
    assert "We launch on Monday" in html and "Aya owns iOS" in html
    version = cast.memory.current.pk
    ts = cast.messages[0].ts
    assert f"/w/team/c/C0PUBLIC/messages/?around={ts}&amp;v={version}#msg-{ts}" in html
    assert "We launch on Friday" not in html
    assert "/w/team/c/C0PUBLIC/" in html


def test_only_changes_since_the_marked_version_are_news(cast: Cast) -> None:
    mark_seen(cast, cast.memory, 1)
    html = entry(page(cast), cast.memory)
    new_lines, _, removed_part = html.partition('<details class="fold"')
    assert "We launch on <ins>Monday</ins>" in new_lines and "Reworded:" in new_lines
    assert "Aya owns iOS" not in html
    assert (
        "We launch on Friday" in removed_part and "1 line was removed or reworded" in removed_part
    )
    first, second = cast.memory.versions.order_by("number").values_list("pk", flat=True)
    assert f'/diff/{first}..{second}/">Compare with the version I last saw' in html
    assert "v1 to v2" in html
    # Each line of it leads to its messages.
    assert f"?around={cast.messages[0].ts}" in new_lines


def test_messages_after_the_marked_period_are_counted(cast: Cast) -> None:
    mark_seen(cast, cast.memory, 1)
    for minutes in (30, 90, 95):
        MessageFactory(
            channel=cast.public, author=cast.author, at=MONDAY + timedelta(minutes=minutes)
        )
    MessageFactory(channel=cast.public, at=MONDAY + timedelta(minutes=99), is_notice=True)
    assert "2 new messages" in entry(page(cast), cast.memory)
    for minutes in range(100, 199):
        MessageFactory(channel=cast.public, at=MONDAY + timedelta(minutes=minutes))
    assert "100+ new messages" in entry(page(cast), cast.memory)


def test_a_moved_line_is_no_news(cast: Cast) -> None:
    make_version(memory=cast.memory, text="- Aya owns iOS\n- We launch on Monday")
    cast.memory.refresh_from_db()
    Memory.objects.filter(pk=cast.memory.pk).update(current=cast.memory.versions.get(number=3))
    mark_seen(cast, cast.memory, 2)
    html = entry(page(cast), cast.memory)
    assert "The lines are the same" in html and "We launch" not in html


def test_short_term_memory_is_used_without_long_term_memory(cast: Cast) -> None:
    channel = ChannelFactory(workspace=cast.workspace, name="fresh")
    short = make_channel_memory(
        channel=channel, memory_type=MemoryType.SHORT_TERM, texts=["- they met"]
    )
    assert "they met" in entry(page(cast), short)
    long = make_channel_memory(channel=channel, texts=["- they meet often"])
    text = page(cast)
    assert "they meet often" in entry(text, long) and not entry(text, short)


def test_the_workspace_comes_first_and_not_to_guests(cast: Cast) -> None:
    memory = make_workspace_memory(workspace=cast.workspace, texts=["- We moved to Kobe"])
    text = page(cast)
    assert text.index(f'id="entry-{memory.pk}"') < text.index(f'id="entry-{cast.memory.pk}"')
    assert "We moved to Kobe" in entry(text, memory)
    assert "We moved to Kobe" not in page(cast, "guest")
    assert mark(cast, memory, 1, "guest").status_code == 404


def test_the_most_important_channel_comes_first(cast: Cast) -> None:
    chat = make_channel_memory(channel=ChannelFactory(workspace=cast.workspace, name="chat"))
    Line.objects.filter(version=chat.current_id).update(kind="event")
    Line.objects.filter(version=cast.memory.current_id).update(kind="decision")
    order = re.findall(r'<article id="entry-(\d+)"', page(cast))
    assert order == [str(cast.memory.pk), str(chat.pk)]


def test_among_equals_the_newest_channel_comes_first(cast: Cast) -> None:
    older = make_channel_memory(channel=ChannelFactory(workspace=cast.workspace, name="old"))
    newer = make_channel_memory(channel=ChannelFactory(workspace=cast.workspace, name="new"))
    for memory, days in ((older, -3), (newer, 3)):
        make_version(memory=memory, until=MONDAY + timedelta(days=days))
        memory.versions.filter(number=1).delete()
        memory.refresh_from_db()
        memory.update_current()
    order = re.findall(r'<article id="entry-(\d+)"', page(cast))
    assert order[1:] == [str(memory.pk) for memory in (newer, older)]


# -- since when


def sent(memory: Memory, days: int) -> None:
    """The messages of its lines are so many days old."""
    at = to_micros(timezone.now() - timedelta(days=days))
    Line.objects.filter(version=memory.current_id).update(at_us=at)


@pytest.mark.nightly("quicker tests run the same lines")
def test_a_period_is_based_on_the_time_of_messages(cast: Cast) -> None:
    """An import or a backfill makes versions of old messages today."""
    mark_seen(cast, cast.memory, 2)
    assert not entry(page(cast), cast.memory)
    sent(cast.memory, 3)
    assert not entry(page(cast, query="?since=24h"), cast.memory)
    assert "We launch on Monday" in entry(page(cast, query="?since=7d"), cast.memory)
    old, *_ = Line.objects.filter(version=cast.memory.current_id, text__contains="Aya")
    Line.objects.filter(pk=old.pk).update(at_us=1)
    week = entry(page(cast, query="?since=7d"), cast.memory)
    assert "We launch on Monday" in week and "Aya owns iOS" not in week


def test_a_day_is_a_period(cast: Cast) -> None:
    sent(cast.memory, 10)
    day = timezone.now().date() - timedelta(days=20)
    text = page(cast, query=f"?since={day}")
    assert entry(text, cast.memory)
    # The form has the same day in two fields.
    assert entry(page(cast, query=f"?since=day&day={day}"), cast.memory)
    assert f'name="day" value="{day}"' in text
    assert re.search(r'value="day" checked', text)


# -- the opening


def opening_of(text: str) -> str:
    html = re.search(r'<section class="opening".*?</section>', text, re.DOTALL)
    return texts(html[0]) if html else ""


def test_it_opens_with_the_news_of_public_channels(cast: Cast) -> None:
    assert "We launch on Monday" in opening_of(page(cast))
    make_channel_memory(
        channel=cast.private, texts=["- The team decided to sell the company in May."]
    )
    text = page(cast, "insider")
    assert "sell the company" in text and "sell the company" not in opening_of(text)
    assert "#launch" in opening_of(text)


def test_a_sentence_of_the_opening_has_one_source(cast: Cast) -> None:
    html = re.search(r'<section class="opening".*?</section>', page(cast), re.DOTALL)
    assert html is not None
    lines = re.findall(r"<li.*?</li>", html[0], re.DOTALL)
    assert lines and all(line.count('class="chip"') == 1 for line in lines)


def test_a_period_opens_with_the_workspaces_short_term_memory(cast: Cast) -> None:
    memory = make_workspace_memory(
        workspace=cast.workspace,
        memory_type=MemoryType.SHORT_TERM,
        texts=["- The move to Kobe was agreed for March."],
    )
    sent(memory, 2)
    assert "move to Kobe" in opening_of(page(cast, query="?since=7d"))
    assert "move to Kobe" not in opening_of(page(cast, query="?since=24h"))
    assert "move to Kobe" not in page(cast, "guest", query="?since=7d")


def workspace_short_term(cast: Cast, number: int, *, days: int) -> Memory:
    """Create the workspace's short-term memory. Its newest message is so many days old."""
    texts = [f"- Team {n} moved its service to host {n}{n}." for n in range(number)]
    memory = make_workspace_memory(
        workspace=cast.workspace, memory_type=MemoryType.SHORT_TERM, texts=["\n".join(texts)]
    )
    until_us = to_micros(timezone.now() - timedelta(days=days))
    memory.versions.update(until_us=until_us)
    sent(memory, days)
    return memory


@pytest.mark.parametrize(
    ("lines", "since", "is_alone"),
    [(5, "24h", True), (4, "24h", False), (5, "7d", False)],
    ids=["it covers the day", "too few lines", "it does not cover the week"],
)
def test_the_short_term_memory_opens_a_period_that_it_covers(
    cast: Cast, lines: int, since: str, is_alone: bool
) -> None:
    workspace_short_term(cast, lines, days=0)
    sent(cast.memory, 0)
    opening_text = opening_of(page(cast, query=f"?since={since}"))
    assert "Team 0 moved" in opening_text
    assert ("We launch on Monday" not in opening_text) is is_alone


def test_the_short_term_memory_opens_the_news_since_the_oldest_mark(cast: Cast) -> None:
    mark_seen(cast, cast.memory, 1)
    Seen.objects.update(at=timezone.now() - timedelta(hours=3))
    memory = workspace_short_term(cast, 6, days=0)
    first = memory.current.lines.get(position=0)
    Line.objects.filter(pk=first.pk).update(at_us=first.at_us - 6 * 3_600_000_000)
    opening_text = opening_of(page(cast))
    assert "Team 1 moved" in opening_text and "Team 0 moved" not in opening_text
    assert "We launch on Monday" not in opening_text
    Seen.objects.update(at=timezone.now() - timedelta(days=3))
    assert "We launch on" in opening_of(page(cast))
    assert "Team" not in opening_of(page(cast, "guest"))


def test_the_short_term_memory_does_not_open_news_without_a_mark(cast: Cast) -> None:
    mark_seen(cast, cast.memory, 1)
    workspace_short_term(cast, 6, days=0)
    assert "Team 1 moved" in opening_of(page(cast))
    make_channel_memory(channel=ChannelFactory(workspace=cast.workspace), texts=["- Ann moves"])
    assert "Team" not in opening_of(page(cast))


def test_the_opening_leaves_out_the_lines_of_channels_without_news(cast: Cast) -> None:
    mark_seen(cast, cast.memory, 1)
    memory = workspace_short_term(cast, 6, days=0)
    seen, new = ChannelFactory(workspace=cast.workspace), cast.public
    for line in memory.current.lines.all():
        line.sources.add(MessageFactory(channel=new if line.position else seen))
    opening_text = opening_of(page(cast))
    assert "Team 1 moved" in opening_text and "Team 0 moved" not in opening_text


def test_a_short_term_memory_that_is_off_or_has_long_lines_opens_nothing(cast: Cast) -> None:
    sent(cast.memory, 0)
    memory = workspace_short_term(cast, 6, days=0)
    assert "Team 0 moved" in opening_of(page(cast, query="?since=24h"))
    Workspace.objects.get().change_settings({"workspace_short_term": False})
    opening_text = opening_of(page(cast, query="?since=24h"))
    assert "Team" not in opening_text and "We launch on Monday" in opening_text
    Workspace.objects.get().change_settings({"workspace_short_term": True})
    for line in memory.current.lines.all():
        Line.objects.filter(pk=line.pk).update(text=f"{line.text} {'so ' * 90}")
    assert "We launch on Monday" in opening_of(page(cast, query="?since=24h"))


def test_the_opening_leaves_out_lines_that_rest_on_muted_channels_alone(cast: Cast) -> None:
    message = MessageFactory(channel=cast.public)
    memory = make_workspace_memory(
        workspace=cast.workspace, texts=["- The move to Kobe was agreed."]
    )
    sources = Line.objects.get(version=memory.current_id).sources
    sources.add(message)
    lines = re.findall(r"<li.*?</li>", page(cast).partition('class="opening"')[2], re.DOTALL)
    assert any("move to Kobe" in line and "#launch" in line for line in lines)
    ChannelPreference.objects.create(
        user=cast.users["member"], channel=cast.public, choice=ChannelPreference.Choice.MUTE
    )
    assert "move to Kobe" not in opening_of(page(cast))
    another = MessageFactory(channel=ChannelFactory(workspace=cast.workspace))
    sources.add(another)
    assert "move to Kobe" in opening_of(page(cast))
    sources.set([MessageFactory(channel=cast.private)])
    assert "move to Kobe" not in opening_of(page(cast))


def test_the_opening_names_the_person_who_wrote_a_line(cast: Cast) -> None:
    Line.objects.filter(version=cast.memory.current_id).update(
        origin=Origin.PERSON, author=cast.users["editor"]
    )
    assert f"{cast.users['editor'].username}, #launch" in opening_of(page(cast))


def test_a_folded_channel_shows_the_number_of_new_lines(cast: Cast) -> None:
    assert "2 status updates" in entry(page(cast), cast.memory)
    Line.objects.filter(version=cast.memory.current_id).update(kind="decision")
    html = entry(page(cast), cast.memory)
    summary, _, folded = html.partition("</summary>")
    assert "2 decisions" in summary and "<details class=" in summary and " open" not in summary
    assert "We launch on Monday" in folded


def test_all_that_was_on_the_page_is_marked_at_once(cast: Cast) -> None:
    [second] = many(cast.workspace, 1)
    text = page(cast)
    pairs = re.findall(r'name="seen" value="(\d+:\d+)"', text)
    assert pairs == [f"{memory.pk}:{memory.current.number}" for memory in (cast.memory, second)]
    # Made while the page was open, so it is not seen.
    make_version(memory=cast.memory, text="- later", until=MONDAY + timedelta(days=1))
    client = cast.clients["member"]
    response = client.post(cast.path("seen/"), {"seen": [*pairs, "junk", "7:x", "99999:1"]})
    [mark] = set(Seen.objects.values_list("at", flat=True))
    assert response["Location"] == f"/w/team/catch-up/?undo={to_micros(mark)}"
    after = page(cast, query=f"?undo={to_micros(mark)}")
    assert "2 memories are marked as seen." in after
    assert not entry(after, second) and "later" in entry(after, cast.memory)
    undo = re.search(r'name="(undo)" value="(\d+)"', after)
    for marks in (2, 0):
        client.post(cast.path("seen/"), dict([undo.groups()]))
        assert f"{marks} memories are marked as not seen." in page(cast)
    assert set(Seen.objects.values_list("number", "at")) == {(0, None)}


def test_an_unreadable_memory_is_not_marked(cast: Cast) -> None:
    private = make_channel_memory(channel=cast.private)
    cast.clients["member"].post(cast.path("seen/"), {"seen": [f"{private.pk}:1"]})
    assert not Seen.objects.filter(memory=private).exists()


def test_an_undo_leaves_the_mark_of_an_unreadable_memory(cast: Cast) -> None:
    private = make_channel_memory(channel=cast.private)
    now = timezone.now()
    for memory in (cast.memory, private):
        Seen.objects.mark_all(cast.users["member"], {memory.pk: 1}, now)
    cast.clients["member"].post(cast.path("seen/"), {"undo": to_micros(now)})
    assert "1 memory is marked as not seen." in page(cast)
    assert Seen.objects.get(memory=private).number == 1
    assert Seen.objects.get(memory=cast.memory).number == 0


def test_marking_all_costs_the_same_queries_however_many(cast: Cast) -> None:
    def grow(size: int) -> None:
        many(cast.workspace, size)
        indexing.index_pending()

    def mark_all() -> None:
        pairs = [f"{memory.pk}:1" for memory in Memory.objects.filter(scope="channel")]
        cast.clients["member"].post(cast.path("seen/"), {"seen": pairs})

    assert_same_queries(grow, mark_all, sizes=(2, 6))


@pytest.mark.parametrize("query", ["?since=day", "?since=day&day=soon", "?since=2999-01-01"])
def test_an_invalid_day_has_an_error(cast: Cast, query: str) -> None:
    text = page(cast, query=query, status=422)
    assert "Choose a date that is not in the future." in text and 'aria-invalid="true"' in text
    assert entry(text, cast.memory), "what is new since the last mark is there all the same"


def test_an_invalid_day_is_not_pushed_to_the_history(cast: Cast) -> None:
    client, headers = cast.clients["member"], {"HX-Request": "true"}
    answers = {
        query: client.get(cast.path(f"catch-up/{query}"), headers=headers).get("HX-Push-Url")
        for query in ("?since=day&day=", "?since=7d&day=")
    }
    assert list(answers.values()) == ["false", None]


def test_the_title_has_the_time(cast: Cast) -> None:
    at = timezone.now() - timedelta(days=2)
    Seen.objects.of(cast.users["member"], cast.memory).mark(1, at)
    assert re.search(r"<h1>Since <time [^>]*>[A-Z][a-z]+day \d\d:\d\d</time></h1>", page(cast))
    Seen.objects.update(at=at - timedelta(days=30))
    assert re.search(r"<h1>Since <time [^>]*>\d+ \w+ \d{4}, \d\d:\d\d</time></h1>", page(cast))


@pytest.mark.nightly("quicker tests run the same lines")
def test_the_title_has_the_oldest_mark_with_news(cast: Cast) -> None:
    [second] = many(cast.workspace, 1)
    title = r"<h1>(.*?)</h1>"
    mark_seen(cast, cast.memory, 1)
    assert re.findall(title, page(cast)) == ["Since you last checked"]
    mark_seen(cast, second, 1)
    Seen.objects.filter(memory=cast.memory).update(at=timezone.now() - timedelta(days=30))
    assert re.search(r"Since <time [^>]*>\d+ \w+ \d{4}, ", page(cast))
    mark_seen(cast, cast.memory, 2)
    assert re.search(r"Since <time [^>]*>[A-Z][a-z]+day ", page(cast))


# -- marking


def test_threads_are_not_listed(cast: Cast) -> None:
    thread = make_thread_memory(channel=cast.public, thread_ts=cast.messages[0].ts)
    assert mark(cast, thread, 1).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        *(
            "catch-up/",
            "catch-up/?since=7d",
            "catch-up/?since=2026-01-01",
            "catch-up/?cursor=0-1-1-1",
        ),
        *("catch-up/?marked=1", "", "c/C0PUBLIC/"),
    ],
)
def test_reading_writes_nothing(cast: Cast, path: str) -> None:
    mark_seen(cast, cast.memory, 1)
    for headers in ({}, {"HX-Request": "true"}):
        with CaptureQueriesContext(connection) as queries:
            assert cast.clients["member"].get(cast.path(path), headers=headers).status_code == 200
        verbs = {query["sql"].split()[0].upper() for query in queries}
        assert verbs <= {"SELECT", "WITH"}


# -- access


def test_a_restricted_version_is_not_compared_with(cast: Cast) -> None:
    """The marked version has private sources, so the one before it is used."""
    mark_seen(cast, cast.memory, 2)
    make_version(memory=cast.memory, text="- We launch on Sunday\n- Aya owns iOS")
    cast.memory.versions.filter(number=3).update(until_us=cast.memory.current.until_us)
    cast.memory.versions.filter(number=2).update(audience="nobody", content="- hidden words")
    cast.memory.update_current()
    text = page(cast)
    html = entry(text, cast.memory)
    assert "<ins>Sunday</ins>" in html and "v1 to v3" in html
    assert "hidden words" not in text


def test_navigation_counts_only_visible_news(cast: Cast) -> None:
    def counts(name: str) -> dict[str, int]:
        nav = page(cast, name).partition("<main")[0]
        rows = re.findall(r'<li id="nav-channel-\d+" class="new">.*?</li>', nav)
        return {
            re.search(r"/c/(\w+)/", row)[1]: int(re.search(r'count">(\d+)', row)[1]) for row in rows
        }

    assert counts("insider") == {"C0PUBLIC": 2, "C0PRIVATE": 1}
    assert counts("member") == counts("guest") == {"C0PUBLIC": 2}
    mark_seen(cast, cast.memory, 1)
    assert counts("member") == {"C0PUBLIC": 1}
    mark_seen(cast, cast.memory, 2)
    assert counts("member") == {}


# -- nothing new


@pytest.mark.parametrize(
    ("start", "words"),
    [(None, "All messages are older"), (MONDAY, "The worker makes the first memories soon")],
    ids=["older than the window", "from the start mark on"],
)
def test_messages_without_memories(cast: Cast, start: datetime | None, words: str) -> None:
    """An import of old messages promises no memories that only a backfill makes."""
    Memory.objects.all().delete()
    Channel.objects.update(start_us=to_micros(start) if start else None)
    text = page(cast, "insider")
    assert words in text
    assert ('backfill/?estimate=1"' in text) is (start is None)


# -- attention


def many(workspace: Workspace, number: int) -> list[Memory]:
    """Create channels with two unseen versions each."""
    made = []
    for i in range(number):
        channel = ChannelFactory(workspace=workspace)
        source = MessageFactory(channel=channel, at=MONDAY + timedelta(minutes=i))
        memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
        for text in ("- one thing\n- old words", "- one thing\n- entirely other ones"):
            make_version(memory=memory, text=text, sources=[source], until=MONDAY)
        made.append(memory)
    return made


@pytest.mark.parametrize("query", ["", "?since=24h"])
def test_the_most_important_of_all_channels_comes_first(cast: Cast, query: str) -> None:
    """It is first although 14 channels have newer texts."""
    for memory in many(cast.workspace, 14):
        sent(memory, 0)
    sent(cast.memory, 0)
    Line.objects.filter(version=cast.memory.current_id).update(kind="decision")
    cast.memory.versions.update(until_us=1)
    text = page(cast, query=query)
    assert re.findall(r'<article id="entry-(\d+)"', text)[0] == str(cast.memory.pk)
    assert "5 more" in text


@pytest.mark.nightly("quicker tests run the same lines")
def test_a_page_has_ten_entries(cast: Cast) -> None:
    many(cast.workspace, 24)
    seen: list[str] = []
    query, titles = "", 0
    for expected in (10, 10, 5):
        text = page(cast, query=query)
        titles += "<h1" in text
        keys = re.findall(r'<article id="entry-(\d+)"', text)
        assert len(keys) == expected
        seen += keys
        link = re.search(r'id="more"><a class="button" href="[^"]*(\?[^"]*cursor=[\d-]+)"', text)
        assert bool(link) is (len(seen) < 25)
        query = link[1].replace("&amp;", "&") if link else ""
    assert len(set(seen)) == 25 and titles == 3, "each address is a whole page"


def test_the_next_entries_are_a_part_with_focus(cast: Cast) -> None:
    many(cast.workspace, 14)
    text = page(cast)
    more = re.search(r'id="more"><a class="button" href="([^"]*)" hx-get="([^"]*)"', text)
    assert more and more[1] == more[2] and "5 more" in text
    path = more[1].replace("&amp;", "&")
    response = cast.clients["member"].get(path, headers={"HX-Request": "true"})
    part = response.content.decode()
    assert "<h1" not in part and "<html" not in part
    assert part.count("autofocus") == 1
    assert part.count('form="mark-all" name="seen"') == 5 and 'id="mark-all"' in text
    assert part.index("autofocus") < part.index("</h2>"), "on the first new entry"
    assert "HX-Request" in response["Vary"]


@pytest.mark.nightly("quicker tests run the same lines")
def test_a_mark_between_pages_moves_nothing(cast: Cast) -> None:
    memories = many(cast.workspace, 14)
    text = page(cast)
    shown = set(re.findall(r'<article id="entry-(\d+)"', text))
    query = re.search(r"(\?[^\"]*cursor=[\d-]+)", text)[1]
    for memory in memories:
        if str(memory.pk) in shown:
            mark(cast, memory, 2)
    next_entries = set(re.findall(r'<article id="entry-(\d+)"', page(cast, query=query)))
    assert len(next_entries) == 5 and not next_entries & shown


def test_the_form_replaces_the_whole_region(cast: Cast) -> None:
    path = cast.path("catch-up/?since=7d&day=")
    part = cast.clients["member"].get(path, headers={"HX-Request": "true"}).content.decode()
    assert part.startswith('<div id="catch-up"') and "<html" not in part
    assert re.search(r'<h1 tabindex="-1" autofocus>', part)
    assert 'hx-push-url="true"' in part


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_queries_do_not_grow_with_entries(cast: Cast) -> None:
    """This covers a page, its parts and a mark."""
    counts = []
    for number in (10, 60):
        for i, memory in enumerate(many(cast.workspace, number)):
            if i % 2:
                mark_seen(cast, memory, 1)
            make_version(memory=memory, text="- wholly new", put_back=["- x"], until=MONDAY)
        indexing.index_pending()  # or the mark's request reads some of these in
        for ask in (
            lambda: page(cast),
            lambda: page(cast, query="?since=24h"),
            lambda: page(cast, query="?cursor=1-9-9999999999999999-1"),
            lambda: mark(cast, memory, 2, htmx=True),  # noqa: B023  # asked at once
        ):
            with CaptureQueriesContext(connection) as queries:
                ask()
            counts.append(len(queries))
    assert counts[:4] == counts[4:]
