"""The threads of a channel, and the page of a thread."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memories.models import Line, Memory, Message
from memories.rules.ingest.timestamps import to_micros
from tests.factories import MONDAY, MessageFactory, make_reply, make_thread_memory
from tests.views.conftest import Cast

LATER = MONDAY + timedelta(days=1)


def test_a_thread_shows_its_memory_and_its_messages(cast: Cast) -> None:
    root = MessageFactory(channel=cast.public, author=cast.author, at=LATER, text="who tests?")
    for i in range(3):
        at = LATER + timedelta(minutes=i + 1)
        make_reply(root=root, author=cast.author, at=at, text=f"answer {i}")
    make_thread_memory(channel=cast.public, thread_ts=root.ts, texts=["- Tom tests"])
    page = cast.clients["member"].get(cast.path(f"c/C0PUBLIC/t/{root.ts}/")).content.decode()
    assert "<h1" in page and "who tests?" in page
    assert "Tom tests" in page
    assert all(f"answer {i}" in page for i in range(3))
    assert "said number" not in page
    assert f"messages/?around={root.ts}" in page


def test_a_replaced_line_of_a_thread_is_folded(cast: Cast) -> None:
    """It is behind the newer line of the text, or else below the lines."""
    root = MessageFactory(channel=cast.public, text="When do we launch?")
    make_reply(root=root, author=cast.author, at=LATER, text="In January.")
    texts = [
        "The printer on the second floor is broken",
        "Kazoe 3 launches on 12 January",
        "会議室の鍵は受付にあります",
        "Kazoe 3 launches on 19 January",
    ]
    memory = make_thread_memory(
        channel=cast.public, thread_ts=root.ts, texts=["\n".join(f"- {text}" for text in texts)]
    )
    lines = memory.current.lines
    for position in range(4):
        at_us = to_micros(LATER + timedelta(hours=position))
        lines.filter(position=position).update(at_us=at_us)
    lines.filter(position__lt=2).update(outcome=Line.Outcome.SUPERSEDED)
    page = cast.clients["member"].get(cast.path(f"c/C0PUBLIC/t/{root.ts}/")).content.decode()
    card = page[page.index('id="memory"') : page.index('id="messages-title"')]
    newer = card[card.index('id="memory-line-3"') :].partition("</li>")[0]
    assert "Replaced 1 earlier line" in newer and f"<del>{texts[1]}</del>" in newer
    folded = card[card.index('<details class="fold"><summary>1 line replaced by a newer line') :]
    assert f"<del>{texts[0]}</del>" in folded
    assert [card.count(text) for text in texts] == [1, 1, 1, 1]


def test_a_thread_links_to_its_context(cast: Cast) -> None:
    root = MessageFactory(channel=cast.public, author=cast.author, at=LATER, text="who tests?")
    make_reply(root=root, author=cast.author, at=LATER + timedelta(minutes=1), text="Tom does")
    make_thread_memory(channel=cast.public, thread_ts=root.ts, texts=["- Tom is our tester"])
    member = cast.clients["member"]
    page = member.get(cast.path(f"c/C0PUBLIC/t/{root.ts}/")).content.decode()
    match = re.search(r'href="([^"]+)">bots in this thread', page)
    assert match
    answer = member.get(unescape(match[1]))
    assert answer.status_code == 200 and "Tom is our tester" in answer.content.decode()


def test_a_thread_without_a_memory_has_the_condition(cast: Cast) -> None:
    root = MessageFactory(channel=cast.public, author=cast.author, at=LATER)
    make_reply(root=root, author=cast.author, at=LATER + timedelta(minutes=1))
    page = cast.clients["member"].get(cast.path(f"c/C0PUBLIC/t/{root.ts}/")).content.decode()
    assert "Threads with at least 5 messages" in page


def test_a_long_thread_is_paged_forward(cast: Cast) -> None:
    root = MessageFactory(channel=cast.public, author=cast.author, at=LATER)
    replies = [
        make_reply(root=root, author=cast.author, at=LATER + timedelta(minutes=i + 1))
        for i in range(60)
    ]
    address = cast.path(f"c/C0PUBLIC/t/{root.ts}/")
    page = cast.clients["member"].get(address).content.decode()
    assert page.count("<article") == 50
    next_page = cast.clients["member"].get(f"{address}?after={replies[48].ts}").content.decode()
    assert next_page.count("<article") == 11


@pytest.mark.nightly("quicker tests run the same lines")
def test_a_long_thread_is_paged_backward(cast: Cast) -> None:
    root = MessageFactory(channel=cast.public, author=cast.author, at=LATER)
    for i in range(120):
        make_reply(root=root, author=cast.author, at=LATER + timedelta(days=i + 1))
    address = cast.path(f"c/C0PUBLIC/t/{root.ts}/")

    def read(path: str) -> tuple[dict[str, str], list[str]]:
        page = cast.clients["member"].get(path).content.decode()
        assert "started <time" in page and page.count('title="6 Jan 2026, 09:00"') >= 1
        steps = re.findall(r'href="(\?(before|after)=[^"]+)"', page)
        return {word: step for step, word in steps}, re.findall(r'id="msg-([^"]+)"', page)

    onwards, back = [], []
    steps, rows = read(address)
    assert "before" not in steps
    while "after" in steps:
        onwards += rows
        steps, rows = read(address + steps["after"])
    while True:
        back = rows + back
        if "before" not in steps:
            break
        steps, rows = read(address + steps["before"])
    assert len(set(onwards + back)) == len(back) == 121
    assert back[: len(onwards)] == onwards


def test_a_memory_without_a_text_has_the_condition(cast: Cast) -> None:
    root = MessageFactory(channel=cast.public, author=cast.author, at=LATER)
    Memory.objects.of_thread(cast.public, root.ts)
    page = cast.clients["member"].get(cast.path(f"c/C0PUBLIC/t/{root.ts}/")).content.decode()
    assert "Threads with at least 5 messages" in page and "summaries" not in page


def test_a_private_thread_is_for_its_members(cast: Cast) -> None:
    root = MessageFactory(channel=cast.private, at=LATER)
    make_thread_memory(channel=cast.private, thread_ts=root.ts, texts=["- secret"])
    for name, status in (("insider", 200), ("member", 404), ("operator", 404)):
        address = cast.path(f"c/C0PRIVATE/t/{root.ts}/")
        assert cast.clients[name].get(address).status_code == status


class TestThreadList:
    def page(self, cast: Cast, name: str = "member", query: str = "") -> str:
        response = cast.clients[name].get(cast.path(f"c/C0PUBLIC/threads/{query}"))
        assert response.status_code == 200
        return response.content.decode().split("<main")[1]

    def begin(self, cast: Cast, words: str, replies: int, hours: int) -> Message:
        at = LATER + timedelta(hours=hours)
        root = MessageFactory(channel=cast.public, author=cast.author, at=at, text=words)
        for i in range(replies):
            make_reply(root=root, author=cast.author, at=at + timedelta(minutes=i + 1))
        return root

    @pytest.mark.slow
    def test_the_newest_threads_are_first(self, cast: Cast) -> None:
        assert "No threads of this channel are stored." in self.page(cast)
        remembered_root = self.begin(cast, "the old one", 5, 0)
        make_thread_memory(channel=cast.public, thread_ts=remembered_root.ts)
        self.begin(cast, "a short one", 1, 1)
        self.begin(cast, "the new one", 6, 2)
        text = self.page(cast)
        rows = text.split("<li data-steps")[1:]
        assert [
            next(words for words in ("the old one", "a short one", "the new one") if words in row)
            for row in rows
        ] == ["the new one", "a short one", "the old one"]
        assert "no memory yet, 7 waiting" in rows[0] and "7 messages" in rows[0]
        assert "summarized from 5 messages on" in rows[1]
        assert "summarized, v1" in rows[2] and "6 waiting" in rows[2]

    @pytest.mark.slow
    def test_pages_have_a_fixed_number_of_queries(self, cast: Cast) -> None:
        counts = []
        for many in (2, 50):
            for i in range(many):
                self.begin(cast, f"thread {many} {i}", 1, many + i)
            with CaptureQueriesContext(connection) as queries:
                self.page(cast)
            counts.append(len(queries))
        assert counts[0] == counts[1]
        older = re.search(r'href="(\?before=\d+)">Older', self.page(cast))
        assert older and "thread 2 0" in self.page(cast, query=older[1])
        assert "thread 2 0" not in self.page(cast)

    def test_the_list_is_for_readers_of_the_channel(self, cast: Cast) -> None:
        for name, status in (("member", 404), ("insider", 200), ("nobody", 302)):
            response = cast.clients[name].get(cast.path("c/C0PRIVATE/threads/"))
            assert response.status_code == status
