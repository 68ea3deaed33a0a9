"""A thread's memory, and what was said in it."""

from datetime import timedelta

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


def test_a_thread_without_a_memory_says_from_when_on(cast: Cast) -> None:
    root = MessageFactory(channel=cast.public, author=cast.author, at=LATER)
    make_reply(root=root, author=cast.author, at=LATER + timedelta(minutes=1))
    page = cast.clients["member"].get(cast.path(f"c/C0PUBLIC/t/{root.ts}/")).content.decode()
    assert "remembered from 5 messages on" in page


def test_a_long_thread_goes_on(cast: Cast) -> None:
    root = MessageFactory(channel=cast.public, author=cast.author, at=LATER)
    replies = [
        make_reply(root=root, author=cast.author, at=LATER + timedelta(minutes=i + 1))
        for i in range(60)
    ]
    address = cast.path(f"c/C0PUBLIC/t/{root.ts}/")
    page = cast.clients["member"].get(address).content.decode()
    assert page.count("<article") == 50
    rest = cast.clients["member"].get(f"{address}?after={replies[48].ts}").content.decode()
    assert rest.count("<article") == 11


def test_a_private_thread_is_for_its_members(cast: Cast) -> None:
    root = MessageFactory(channel=cast.private, at=LATER)
    make_thread_memory(channel=cast.private, thread_ts=root.ts, texts=["- secret"])
    for name, status in (("insider", 200), ("member", 404), ("operator", 404)):
        address = cast.path(f"c/C0PRIVATE/t/{root.ts}/")
        assert cast.clients[name].get(address).status_code == status
