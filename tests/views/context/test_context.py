"""The context preview: the text of `manage.py context`, with the source and tokens of each block."""

import html
import re
import shlex
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memories.models import ApiKey, Endpoint, Memory, MemoryVersion, Message
from memories.rules.memory.identity import MemoryType
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    make_channel_memory,
    make_reply,
    make_thread_memory,
    make_version,
    make_workspace_memory,
)
from tests.views.conftest import Cast

AT = "2026-01-06T09:00:00Z"


@pytest.fixture
def full(cast: Cast) -> Cast:
    """A piece of each kind; among the words some that HTML would take for its own."""
    make_workspace_memory(workspace=cast.workspace, texts=["- the team <ships> & 出荷する"])
    short = MemoryType.SHORT_TERM
    make_channel_memory(channel=cast.private, memory_type=short, texts=["- pay", "- pay rise"])
    for channel in (None, cast.public, cast.private):
        NoteFactory(workspace=cast.workspace, channel=channel, content="# not a heading")
    root = MessageFactory(channel=cast.public, author=cast.author, at=MONDAY + timedelta(hours=1))
    make_reply(root=root, author=cast.author, at=MONDAY + timedelta(hours=2), text="</pre> 'x'")
    make_thread_memory(channel=cast.public, thread_ts=root.ts, texts=["- a thread"])
    cast.messages.append(root)
    return cast


def get(cast: Cast, query: str = "", name: str = "member", suffix: str = "") -> str:
    response = cast.clients[name].get(cast.path(f"context/{suffix}{query}"), follow=True)
    assert response.status_code == 200, response.status_code
    content: str = response.content.decode()
    return content


def shown(page: str) -> str:
    """The text, as a browser would read it from the page."""
    return "\n\n".join(
        html.unescape(block) for block in re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.S)
    )


def numbers(page: str) -> tuple[list[int], int]:
    """The tokens of the rows of the legend, and the sum on the page."""
    rows = re.findall(r"</th><td>[\d,]*</td><td>([\d,]+)</td>", page)
    total = re.search(r'id="sum">([\d,]+)<', page)
    assert total is not None
    return [int(row.replace(",", "")) for row in rows], int(total[1].replace(",", ""))


def sum_of_blocks(page: str) -> int:
    """Return the sum of all tokens that are shown at blocks of the text."""
    return sum(int(n) for n in re.findall(r"<p class=\"facts\"><span>(\d+) tokens?</span>", page))


OPTIONS: list[dict[str, str]] = [
    {"channel": "C0PUBLIC", "budget": "200", "query": "Who ships, <and> 'what'?"},
    {},
    {"channel": "C0PUBLIC"},
    {"channel": "launch", "budget": "60"},
    {"channel": "C0PUBLIC", "budget": "30"},
    {"query": "出荷はいつ？", "budget": "0"},
    {"channel": "C0PUBLIC", "thread": "ROOT"},
    {"channel": "C0PUBLIC", "at": AT},
    {"channel": "C0PUBLIC", "without": "short_term", "persona": "You're <Momo>."},
    {"without": "long_term", "budget": "40"},
    {"at": "2026-01-05T18:03:00+09:00", "channel": "#launch", "budget": "100000"},
]
EACH = [
    *(pytest.param("insider", options, id=" ".join(options) or "workspace") for options in OPTIONS),
    *(pytest.param(name, OPTIONS[0], id=name) for name in ("member", "guest", "editor")),
    *(
        pytest.param(name, options, marks=pytest.mark.nightly("all readers"))
        for name in ("member", "guest", "editor")
        for options in OPTIONS[1:]
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), EACH)
def test_the_text_is_that_of_the_command(
    full: Cast, capsys: Any, name: str, options: dict[str, str]
) -> None:
    options = {key: full.messages[-1].ts if v == "ROOT" else v for key, v in options.items()}
    Message.objects.update(stored_at=MONDAY)  # `at` shows what was stored then
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    capsys.readouterr()
    call_command("context", "--workspace", "team", "--as", name, *words)
    printed = capsys.readouterr().out
    client = full.clients[name]
    file = client.get(full.path("context/download/"), options)
    assert file.content.decode() == printed
    assert file["Content-Type"] == "text/plain; charset=utf-8"
    page = client.get(full.path("context/"), options).content.decode()
    assert f"{shown(page)}\n" == printed
    rows, total = numbers(page)
    assert sum(rows) == total == sum_of_blocks(page)


@pytest.mark.slow
def test_a_bot_reads_public_channels_only(full: Cast, capsys: Any) -> None:
    capsys.readouterr()
    call_command("context", "--workspace", "team", "--channel", "C0PUBLIC")
    printed = capsys.readouterr().out
    for name in ("member", "insider"):
        assert f"{shown(get(full, '?channel=C0PUBLIC&as=bot', name))}\n" == printed
    path = full.path("context/?channel=C0PRIVATE&as=bot")
    assert full.clients["insider"].get(path).status_code == 422
    assert "as=bot" not in get(full, name="guest") and 'name="as"' not in get(full, name="guest")
    assert not any("salaries" in get(full, name=name) for name in ("member", "guest", "operator"))
    own = get(full, "?channel=C0PUBLIC", "guest")
    assert shown(get(full, "?channel=C0PUBLIC&as=bot", "guest")) == shown(own)


@pytest.mark.slow
def test_a_section_is_left_out_and_restored(full: Cast) -> None:
    page = get(full, "?channel=C0PUBLIC&budget=5000")
    assert "# Long-term memory" in shown(page)
    [leave] = re.findall(r'id="leave-long_term" href="([^"]+)"', page)
    without = full.clients["member"].get(html.unescape(leave)).content.decode()
    assert "# Long-term memory" not in shown(without) and "# Short-term memory" in shown(without)
    assert "Long-term memory is left out" in without
    [back] = re.findall(r'id="back-1" href="([^"]+)"', without)
    again = full.clients["member"].get(html.unescape(back)).content.decode()
    assert shown(again) == shown(page)
    assert full.clients["member"].get(full.path("context/?without=all")).status_code == 422


@pytest.mark.slow
def test_the_command_prints_the_same_text(full: Cast, capsys: Any) -> None:
    """The command that the page shows prints the text of the page."""
    query = "?channel=C0PUBLIC&budget=300&persona=-Momo%27s&without=notes&at=2026-01-06T09:00"
    page = get(full, query)
    command = re.search(r'<code id="command">(.*?)</code>', page)
    assert command is not None
    _, *words = shlex.split(html.unescape(command[1]))
    capsys.readouterr()
    call_command(*words)
    assert capsys.readouterr().out == f"{shown(page)}\n"


@pytest.mark.slow
def test_an_address_means_the_same_time_in_every_zone(full: Cast) -> None:
    """The control sends and shows the reader's own time; the address includes the zone."""

    def moment(name: str, query: str) -> tuple[str, str]:
        """Return the final address, and the time that the control shows there."""
        answer = full.clients[name].get(full.path(f"context/{query}"), follow=True)
        assert answer.status_code == 200
        [control] = re.findall(r'name="at" value="([^"]*)"', answer.content.decode())
        return answer.request["QUERY_STRING"], control

    far, near = full.users["member"], full.users["insider"]
    far.save_preferences(time_zone="America/New_York")
    near.save_preferences(time_zone="Asia/Tokyo")
    local = "2026-01-06T09:00"
    shared, shown_here = moment("member", f"?channel=C0PUBLIC&at={local}")
    assert shared == "channel=C0PUBLIC&at=2026-01-06T14%3A00%3A00Z"
    assert shown_here == f"{local}:00"
    assert moment("insider", f"?{shared}") == (shared, "2026-01-06T23:00:00")
    assert moment("member", f"?channel=C0PUBLIC&at={shown_here}") == (shared, shown_here)
    for edge in ("0001-01-01T00:00", "9999-12-31T23:59", "9999-12-31T23:59Z"):
        for name in ("member", "insider"):
            answer = full.clients[name].get(full.path(f"context/?at={edge}"), follow=True)
            assert answer.status_code in (200, 422)


def test_an_empty_context_names_its_channel_and_its_tokens(cast: Cast) -> None:
    new = MemberFactory(user=cast.users["member"]).workspace
    ChannelFactory(workspace=new, slack_id="C0EMPTY", name="empty")
    response = cast.clients["member"].get(f"/w/{new.slug}/context/?channel=empty&persona=Momo")
    page = response.content.decode()
    assert "A bot would receive 1 token: its own instructions only." in page
    assert "#empty has no memory yet" in page
    assert f'href="/w/{new.slug}/c/C0EMPTY/">#empty</a>' in page.split("has no memory yet")[1]


@pytest.mark.slow
def test_the_preview_writes_nothing(full: Cast) -> None:
    with CaptureQueriesContext(connection) as queries:
        for suffix in ("", "download/"):
            for query in ("", "?channel=C0PUBLIC&budget=20", "?channel=C0NOWHERE", "?at=soon"):
                full.clients["insider"].get(full.path(f"context/{suffix}{query}"))
    writes = ("INSERT", "UPDATE", "DELETE", "REPLACE")
    assert [q["sql"] for q in queries if q["sql"].lstrip("( ").upper().startswith(writes)] == []
    assert full.clients["insider"].post(full.path("context/")).status_code == 405


def test_the_api_returns_the_same_text(full: Cast) -> None:
    """The page shows the address of the same context in the API."""
    query = "?channel=C0PUBLIC&budget=300&query=Who+ships%3F&without=notes&at=2026-01-06T09:00"
    page = get(full, query)
    address = re.search(r'<code id="address">http://testserver(.*?)</code>', page)
    assert address is not None
    _key, token = ApiKey.objects.issue(
        full.workspace, name="laptop", by=full.users["member"], user=full.users["member"]
    )
    answer = Client().get(html.unescape(address[1]), headers={"Authorization": f"Bearer {token}"})
    assert answer.content.decode().rstrip("\n") == shown(page)


@pytest.mark.parametrize("query", ["budget=0", "budget=20001", "archive=on", "persona=Momo"])
def test_the_page_shows_no_address_of_another_context(full: Cast, query: str) -> None:
    page = get(full, f"?{query}")
    assert 'id="address"' not in page and "The API does not take all of these options" in page
    assert 'id="address">http://testserver/api/v1/context?<' in get(full)


@pytest.mark.parametrize(("query", "is_open"), [("?query=ships", False), ("?archive=on", True)])
def test_other_options_are_folded_until_they_are_set(full: Cast, query: str, is_open: bool) -> None:
    assert ("<details open>" in get(full, query)) == is_open


@pytest.mark.slow
def test_each_block_links_to_its_version(full: Cast) -> None:
    page = get(full, "?channel=C0PRIVATE", name="insider")
    history = Memory.objects.get(channel=full.private, memory_type=MemoryType.SHORT_TERM)
    for version in history.versions.all():
        assert f'href="/v/{version.pk}/"' in page
    current = MemoryVersion.objects.filter(memory__memory_type=MemoryType.LONG_TERM).exclude(
        memory__current=None
    )
    assert all(f'href="/v/{v.pk}/"' in page for v in current if v.memory.current_id == v.pk)
    ts = full.messages[-1].ts
    page = get(full, f"?channel=C0PUBLIC&thread={ts}")
    thread = Memory.objects.get(thread_ts=ts)
    assert f'href="/v/{thread.current_id}/"' in page and f"/t/{ts}/" in page


@pytest.mark.slow
def test_omitted_parts_have_a_reason(full: Cast) -> None:
    page = get(full, "?channel=C0PRIVATE&budget=20", name="insider")
    total = re.search(r"(\d+) items left out: over the limit of 20 tokens", page)
    assert total is not None and int(total[1]) > 1
    assert "<li>Long-term memory, #launch" in page
    assert "Over the token limit" in get(full, "?channel=C0PUBLIC&budget=1&persona=You+are+Momo")
    assert "Unused:" in get(full, "?channel=C0PUBLIC&budget=90000")


def test_the_reserve_follows_the_worst_ratio_of_the_model(full: Cast) -> None:
    assert "Reserve" not in get(full)
    Endpoint.objects.create(fingerprint="f", name="tiny", worst_ratio=1.5)
    page = get(full, "?budget=5000")
    _rows, total = numbers(page)
    assert f"up to {-(-total // 2)} more" in page
    assert "budget-reserve" in page and "style=" not in page.split("<main")[1]


@pytest.mark.slow
def test_versions_from_private_days_are_counted_as_withheld(full: Cast) -> None:
    history = Memory.objects.get(channel=full.public, scope="channel", memory_type="short_term")
    make_version(memory=history, text="- Later", until=MONDAY + timedelta(hours=9))
    history.versions.filter(number=1).update(audience="members")
    assert "1 version is hidden" in get(full)
    assert 'id="withheld"' not in get(full, name="guest")  # who is in the channel
    full.workspace.change_settings({"max_history_count": 1})
    assert 'id="withheld"' not in get(full)  # it would not have been in it


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "wrong", "error"),
    [
        ("?thread=1.000000", "thread", "Choose the channel of the thread as well."),
        ("?channel=C0PUBLIC&thread=soon", "thread", "Enter a valid ts."),
        ("?budget=-1", "budget", "greater than or equal to 0"),
        ("?channel=C0PUBLIC&thread=1.000000", "thread", "This channel has no such thread."),
        ("?budget=lots", "budget", "whole number"),
        ("?at=soon", "at", "Enter a valid date and time."),
        ("?at=2026-13-45T00:00", "at", "Enter a valid date and time."),
        ("?at=soon&budget=lots&channel=C0NOWHERE", "channel", "This channel does not exist."),
    ],
)
def test_an_invalid_field_has_an_error_and_focus(
    full: Cast, query: str, wrong: str, error: str
) -> None:
    """And focus goes to the first of it, of which the reason is a description."""
    for headers in ({}, {"HX-Request": "true"}):
        response = full.clients["member"].get(full.path(f"context/{query}"), headers=headers)
        page = html.unescape(response.content.decode())
        assert response.status_code == 422 and error in page
        [field] = re.findall(r"<(?:input|select) [^>]* autofocus[^>]*>", page)
        assert f'id="id_{wrong}"' in field and f"id_{wrong}_error" in field
    assert not re.search(r"<(?:input|select) [^>]* autofocus", get(full))


@pytest.mark.slow
def test_notes_on_request(full: Cast) -> None:
    assert "Include notes" not in get(full)
    full.workspace.change_settings({"notes_inject": "manual"})
    assert "not a heading" not in get(full)
    assert "not a heading" in get(full, "?notes=on")


def test_a_part_of_the_page_without_a_memory(cast: Cast) -> None:
    new = MemberFactory(user=cast.users["member"]).workspace
    client, path = cast.clients["member"], f"/w/{new.slug}/context/"
    page = client.get(path).content.decode()
    assert "A bot would receive 0 tokens: its own instructions only." in page
    assert f'class="button" href="/w/{new.slug}/"' in page
    part = client.get(path, headers={"HX-Request": "true"})
    assert part.content.startswith(b'<div id="preview"') and b"autofocus" in part.content


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_no_more_queries_for_more_channels(full: Cast) -> None:
    counts = []
    for many in (10, 60):
        for _ in range(many):
            channel = ChannelFactory(workspace=full.workspace)
            make_channel_memory(channel=channel)
            make_channel_memory(channel=channel, memory_type=MemoryType.SHORT_TERM)
        with CaptureQueriesContext(connection) as queries:
            get(full, "?channel=C0PUBLIC")
        counts.append(len(queries))
    assert counts[0] == counts[1], counts
