"""The pages of messages."""

import json
import re
from datetime import timedelta
from html import escape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memories.models import Message
from memories.views.ingest.messages import files_of
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    PersonFactory,
    make_reply,
    make_version,
)
from tests.views.conftest import Cast

LATER = MONDAY + timedelta(days=2)


def page_of(cast: Cast, query: str = "", name: str = "member", **headers: str) -> str:
    address = cast.path(f"c/C0PUBLIC/messages/{query}")
    response = cast.clients[name].get(address, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def make_messages(cast: Cast, count: int) -> list[Message]:
    return [
        MessageFactory(
            channel=cast.public,
            author=cast.author,
            at=LATER + timedelta(minutes=10 * i),
            text=f"line {i} of many, hello <@U{i:07d}>",
        )
        for i in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <b>bold</b> claim", "a &lt;b&gt;bold&lt;/b&gt; claim"),
        ("&lt;script&gt;", "&lt;script&gt;"),
        ("*no* ~way~", "<strong>no</strong> <s>way</s>"),
        ("2*3*4", "2*3*4"),
        ("`x &lt; y`", "<code>x &lt; y</code>"),
        ("<https://a.example/?q=1&amp;r=2|here>", 'href="https://a.example/?q=1&amp;r=2"'),
        ("<javascript:alert(1)|here>", "here"),
        ("&gt; quoted\nanswer", "<blockquote>quoted</blockquote>answer"),
        ("```a\nb```\nafter", "<code>a\nb</code></pre>after"),
        ("in <#C0PUBLIC|old-name>", 'href="/w/team/c/C0PUBLIC/">#launch</a>'),
        ("in <#C0PRIVATE|salaries>", '<span class="mention">#private</span>'),
        (":tada:", "🎉"),
        ("turned\u202eround", "turned⟦U+202E⟧round"),
    ],
    ids=lambda value: value[:20],
)
def test_markup_is_rendered_and_escaped(cast: Cast, text: str, shown: str) -> None:
    MessageFactory(channel=cast.public, author=cast.author, at=LATER, text=text)
    page = page_of(cast)
    assert shown in page
    assert "javascript:" not in page


def test_mentions_show_names(cast: Cast) -> None:
    aya = PersonFactory(workspace=cast.workspace, slack_id="U0AYA", name="aya")
    MessageFactory(channel=cast.public, author=cast.author, at=LATER, text=f"ask <@{aya.slack_id}>")
    assert '<span class="mention">@aya</span>' in page_of(cast)


def test_a_message_shows_its_state(cast: Cast) -> None:
    given = {"channel": cast.public, "author": cast.author}
    raw = json.dumps({"files": [{"title": "棚.pdf"}, {"name": "b.csv"}, {"mode": "tombstone"}]})
    MessageFactory(**given, at=LATER, text="changed", edited_ts="1.000000", raw=raw)
    MessageFactory(**given, at=LATER + timedelta(minutes=1), text="taken back", state="deleted")
    MessageFactory(**given, at=LATER + timedelta(hours=1), text="built", is_bot=True)
    root = MessageFactory(**given, at=LATER + timedelta(hours=2), text="a root")
    make_reply(root=root, author=cast.author, at=LATER + timedelta(hours=3), text="a reply")
    page = page_of(cast)
    for words in ("edited", "棚.pdf", "b.csv", "bot", "1 reply", "in a thread"):
        assert words in page, words
    assert "taken back" not in page and "This message was deleted." in page
    assert f"/w/team/c/C0PUBLIC/t/{root.ts}/" in page


@pytest.mark.parametrize(
    ("author", "badge"),
    [({"is_guest": True}, "guest"), ({"is_external": True}, "external"), ({}, None)],
)
def test_guests_and_outsiders_have_a_badge(cast: Cast, author, badge) -> None:
    MessageFactory(
        channel=cast.public, author=PersonFactory(workspace=cast.workspace, **author), at=LATER
    )
    page = page_of(cast)
    shown = [name for name in ("guest", "external") if f'"badge">{name}<' in page]
    assert shown == ([badge] if badge else [])


def test_a_message_links_to_slack(cast: Cast) -> None:
    root = MessageFactory(channel=cast.public, author=cast.author, at=LATER)
    reply = make_reply(root=root, author=cast.author, at=LATER + timedelta(minutes=1))
    page = page_of(cast)
    link = f"https://team.slack.com/archives/C0PUBLIC/p{root.ts.replace('.', '')}"
    assert f'{link}"' in page
    own = reply.ts.replace(".", "")
    assert f"p{own}?thread_ts={root.ts}&amp;cid=C0PUBLIC" in page
    cast.workspace.domain = ""
    cast.workspace.save()
    assert "slack.com" not in page_of(cast)


def test_the_sources_of_a_version_are_marked(cast: Cast) -> None:
    version = cast.memory.current.pk
    ts = cast.messages[0].ts
    page = page_of(cast, f"?around={ts}&v={version}")
    assert "2 of 2 on this page" in page
    assert page.count('class="message source') == 2
    assert "source 1" in page and "source 2" in page
    assert f'id="msg-{ts}" class="message source target"' in page
    only = page_of(cast, f"?v={version}&only=sources")
    assert only.count("<article") == 2


def test_the_filter_by_sources_keeps_the_position(cast: Cast) -> None:
    ts, version = cast.messages[0].ts, cast.memory.current
    path = cast.path("c/C0PUBLIC/messages/")
    place = f"?v={version.pk}&around={ts}"
    client = cast.clients["member"]
    page = client.get(path + place).content.decode()
    assert f'href="{path}{escape(place)}&amp;only=sources#msg-{ts}"' in page
    page = client.get(f"{path}{place}&only=sources").content.decode()
    assert page.count("<article") == 2 and f'id="msg-{ts}"' in page
    assert f'href="{path}{escape(place)}#msg-{ts}"' in page


@pytest.mark.slow
def test_the_pager_reaches_all_messages(cast: Cast) -> None:
    messages = make_messages(cast, 120)
    page = page_of(cast)
    seen = set(shown_in(page))
    assert len(seen) == 50 and messages[-1].ts in seen
    while "50 older" in page:
        page = page_of(cast, f"?before={min(seen)}")
        older = set(shown_in(page))
        assert older and not seen & older
        seen |= older
    assert seen == set(Message.objects.filter(channel=cast.public).values_list("ts", flat=True))
    assert shown_in(page_of(cast, f"?after={messages[9].ts}")) == [m.ts for m in messages[10:60]]
    around = shown_in(page_of(cast, f"?around={messages[60].ts}"))
    assert around == [m.ts for m in messages[35:85]]


def test_a_part_has_rows_and_the_next_pager_only(cast: Cast) -> None:
    messages = make_messages(cast, 120)
    part = page_of(cast, f"?before={messages[100].ts}", **{"HX-Request": "true"})
    assert "<html" not in part
    assert 'id="older"' in part and 'id="newer"' not in part
    # The focus moves to the new row beside the old ones.
    assert f'id="msg-{messages[99].ts}"' in part.split("autofocus")[0].rsplit("<article", 1)[1]


def shown_in(page: str) -> list[str]:
    return re.findall(r'<article [^>]*id="msg-([^"]+)"', page)


def test_a_version_may_have_no_sources_in_a_channel(cast: Cast) -> None:
    version = make_version(memory=cast.memory, text="- out of thin air")
    page = page_of(cast, f"?v={version.pk}&only=sources")
    assert "No sources of this version are in this channel." in page


def test_an_empty_channel_has_a_hint(cast: Cast) -> None:
    Message.objects.filter(channel=cast.public).delete()
    assert "No messages are stored here yet." in page_of(cast)


@pytest.mark.parametrize(("word", "at"), [("after", -1), ("before", 0)])
def test_beyond_either_end_the_nearest_messages_are_shown(cast: Cast, word: str, at: int) -> None:
    make_messages(cast, 60)
    stored = list(cast.public.messages.in_order())
    page = page_of(cast, f"?{word}={stored[at].ts}")
    assert f'id="msg-{stored[at].ts}"' in page and "No messages are stored" not in page
    assert ("50 older" in page, "50 newer" in page) == (word == "after", word == "before")


def test_the_number_of_queries_is_constant(cast: Cast) -> None:
    counts = []
    for count in (10, 100):
        Message.objects.filter(channel=cast.public).delete()
        make_messages(cast, count)
        with CaptureQueriesContext(connection) as queries:
            page_of(cast)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_an_empty_channel_names_the_retention(cast: Cast) -> None:
    empty = ChannelFactory(workspace=cast.workspace, slack_id="C0EMPTY", name="empty")
    path = cast.path(f"c/{empty.slack_id}/messages/")
    assert b"Import an export or connect Slack." in cast.clients["member"].get(path).content
    cast.workspace.settings = {"retention_days": 90}
    cast.workspace.save()
    assert b"Messages are deleted after 90 days" in cast.clients["member"].get(path).content


def test_the_page_shows_how_many_messages_a_version_uses(cast: Cast) -> None:
    version = make_version(
        memory=cast.memory, text="- a", sources=cast.messages[:2], source_message_count=31
    )
    path = cast.path(f"c/C0PUBLIC/messages/?v={version.pk}")
    text = cast.clients["member"].get(path).content.decode()
    assert "2 of 31 messages used." in text


@pytest.mark.parametrize("files", [5, True, "x", {"a": 1}, [None, 5, {"name": 5}, {"title": []}]])
def test_odd_files_have_no_names(files: object) -> None:
    assert files_of(json.dumps({"files": files})) == []
