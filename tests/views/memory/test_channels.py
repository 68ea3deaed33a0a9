"""The page of a channel: texts, sources, history, waiting messages and queries."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from memories.models import Channel, ChannelSync, Memory, ModelCall, Seen, Workspace
from memories.pipeline.sync.coverage import coverage_of
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Origin
from memories.views.memory.channels import BAR_WIDTH
from memories.views.sync.coverage import reading_bar
from tests.factories import (
    MONDAY,
    MessageFactory,
    NoteFactory,
    make_call,
    make_job,
    make_reply,
    make_segment,
    make_thread_memory,
    make_version,
    mark_channels_synced,
    set_sync,
)
from tests.views.conftest import Cast, assert_same_queries

pytestmark = pytest.mark.slow


def page_of(cast: Cast, name: str = "member") -> str:
    response = cast.clients[name].get(cast.path("c/C0PUBLIC/"))
    assert response.status_code == 200
    return response.content.decode()


def test_a_line_links_to_its_message(cast: Cast) -> None:
    page = page_of(cast)
    message = cast.messages[0]
    version = cast.memory.current.pk
    address = f"messages/?around={message.ts}&amp;v={version}#msg-{message.ts}"
    assert "We launch on Monday" in page
    assert address in page


def offered(cast: Cast) -> str:
    match = re.search(r'href="(/diff/[^"]+)">(?:(?!</a>).)*version I last saw', page_of(cast))
    return match[1] if match else ""


@pytest.mark.nightly("quicker tests run the same lines")
def test_the_memory_has_a_comparison_with_the_marked_version(cast: Cast) -> None:
    pks = list(cast.memory.versions.in_order().values_list("pk", flat=True))
    assert offered(cast) == ""
    seen = Seen.objects.of(cast.users["member"], cast.memory)
    seen.mark(1, timezone.now())
    assert offered(cast) == f"/diff/{pks[0]}..{pks[1]}/"
    assert "version I last saw" not in page_of(cast, "editor")
    seen.mark(2, timezone.now())
    assert offered(cast) == ""
    made = make_version(memory=cast.memory, text="- New", until=timezone.now())
    assert offered(cast) == f"/diff/{pks[1]}..{made.pk}/"
    cast.memory.versions.filter(number=2).update(audience="nobody")
    assert offered(cast) == f"/diff/{pks[0]}..{made.pk}/"


def test_short_term_memory_has_a_comparison_without_long_term_memory(cast: Cast) -> None:
    short = Memory.objects.get(channel=cast.public, memory_type=MemoryType.SHORT_TERM)
    member = cast.users["member"]
    Seen.objects.of(member, short).mark(1, timezone.now())
    make_version(memory=short, text="- Much shorter", until=MONDAY + timedelta(days=1))
    assert "Compare with the version I last saw" not in page_of(cast)
    cast.memory.versions.update(audience="nobody")
    cast.memory.update_current()
    first, second = short.versions.order_by("number")
    assert offered(cast) == f"/diff/{first.pk}..{second.pk}/"


@pytest.mark.parametrize("is_only", [True, False])
def test_one_shortcut_edits_the_main_text(cast: Cast, *, is_only: bool) -> None:
    short = Memory.objects.get(channel=cast.public, memory_type=MemoryType.SHORT_TERM)
    key = cast.memory.pk
    if is_only:
        cast.memory.delete()
        key = short.pk
    [control] = re.findall(r'<a class="button" data-key="e"[^>]*>', page_of(cast, "editor"))
    assert f"/m/{key}/edit/" in control


def test_the_current_text_is_compared_with_the_previous_text(cast: Cast) -> None:
    """This is true even if a newer number covers an older period."""
    make_version(memory=cast.memory, text="- From before", until=MONDAY - timedelta(days=9))
    cast.memory.refresh_from_db()
    first, current, _late = cast.memory.versions.order_by("number")
    assert cast.memory.current == current
    card = page_of(cast)
    card = card[card.index('id="memory"') : card.index('id="now"')]
    assert re.findall(r'href="(/diff/[^"]+)"', card) == [f"/diff/{first.pk}..{current.pk}/"]


def test_a_topic_names_only_visible_channels(cast: Cast) -> None:
    """Slack adds a name to each id, even of a private channel."""
    topic = "see <#C0PRIVATE|salaries>, <#C0PUBLIC|old> & <b>"
    Channel.objects.filter(pk=cast.public.pk).update(topic=topic)
    assert "see #private, #launch &amp; &lt;b&gt;</p>" in page_of(cast)
    assert "see #salaries, #launch &amp; &lt;b&gt;</p>" in page_of(cast, "insider")


def test_texts_are_escaped(cast: Cast) -> None:
    make_version(memory=cast.memory, text="- <script>alert(1)</script> `<b>`", until=timezone.now())
    page = page_of(cast)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; <code>&lt;b&gt;</code>" in page


def test_hidden_characters_of_a_memory_are_shown(cast: Cast) -> None:
    make_version(memory=cast.memory, text="- safe\u202egnp.exe", until=timezone.now())
    assert "safe⟦U+202E⟧gnp.exe" in page_of(cast)


def test_a_line_without_sources_is_marked(cast: Cast) -> None:
    assert "No source" not in page_of(cast)
    make_version(memory=cast.memory, text="- out of thin air", until=timezone.now())
    assert "No source" in page_of(cast)


def test_each_line_has_its_author_and_a_link_to_its_first_version(cast: Cast) -> None:
    first, second = cast.memory.versions.order_by("number")
    cast.memory.revise("- We launch on Monday\n- Mine", by=cast.users["editor"], based_on=2)
    page = page_of(cast)
    card = page[page.index('id="memory"') : page.index('id="now"')]
    assert card.count(f'<a href="/v/{second.pk}/">Added in v2</a>') == 1
    assert card.count("<b>editor</b>") == 1 and "Added in v3" not in card
    type(first).objects.filter(pk=second.pk).update(audience="members")
    assert "Added in v2" not in page_of(cast), "nobody here may read it"


def test_the_lines_of_a_long_term_memory_are_grouped(cast: Cast) -> None:
    """By kind while they hold. Events come after them, folded by month, newest month first."""
    texts = ("Tom asked", "We ship on Friday", "It broke", "It was fixed", "42 shops", "Aya tests")
    kinds = ("question", "decision", "event", "event", "", "task")
    version = make_version(
        memory=cast.memory, text="\n".join(f"- {text}" for text in texts), until=timezone.now()
    )
    for i, (kind, month) in enumerate(zip(kinds, (1, 1, 1, 2, 1, 1), strict=True)):
        at_us = to_micros(datetime(2026, month, 5, tzinfo=UTC))
        version.lines.filter(position=i).update(kind=kind, at_us=at_us)
    page = page_of(cast)
    words = ["Decided", "We ship on Friday", "Tasks", "Aya tests", "Open", "Tom asked", "Status"]
    words += ["42 shops", "History", "February 2026", "It was fixed", "January 2026", "It broke"]
    card = page[page.index('id="memory"') :]
    places = [card.index(f">{word}") for word in words]
    assert places == sorted(places)
    assert page.count('<details class="month">') == 2


@pytest.mark.nightly("quicker tests run the same lines")
def test_a_replaced_line_is_folded_behind_the_new_line(cast: Cast) -> None:
    line = cast.memory.current.lines.get(position=0)
    line.correct("We launch in May", by=None, based_on=2)
    for _ in range(2):
        page = page_of(cast)
        assert "Replaced 1 earlier line" in page
        assert "<del>We launch on Monday</del>" in page
        # It stays there while later versions keep the line.
        cast.memory.refresh_from_db()
        current = cast.memory.current
        cast.memory.revise(f"{current.content}\n- More", by=None, based_on=current.number)


def test_a_period_shows_the_new_lines_first(cast: Cast) -> None:
    make_version(
        memory=cast.memory,
        text="- Old news\n- New news",
        sources=cast.messages[:1],
        until=timezone.now(),
    )
    cast.memory.refresh_from_db()
    now_us = to_micros(timezone.now())
    cast.memory.current.lines.filter(text="- New news").update(at_us=now_us)

    def shown(since: str) -> str:
        path = cast.path(f"c/C0PUBLIC/?since={since}")
        page = cast.clients["member"].get(path).content.decode()
        return page[page.index('id="memory"') : page.index('class="short-term"')]

    for since in ("24h", "7d", f"day&day={timezone.now():%Y-%m-%d}"):
        card = shown(since)
        assert card.index("New news") < card.index("1 other line") < card.index("Old news"), since
    assert "other line" not in shown("seen"), "the reader has seen nothing yet"
    Seen.objects.of(cast.users["member"], cast.memory).mark(3, timezone.now())
    assert "No new lines in this period." in shown("seen")
    wrong = cast.clients["member"].get(cast.path("c/C0PUBLIC/?since=day&day=tomorrow"))
    assert wrong.status_code == 422 and "not in the future" in wrong.content.decode()


def test_a_period_marks_the_short_term_text_of_a_channel_without_a_long_term_text(
    cast: Cast,
) -> None:
    cast.memory.delete()
    short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM)
    make_version(memory=short, text="- Old news\n- New news", until=timezone.now())
    short.refresh_from_db()
    short.current.lines.filter(text="- Old news").update(at_us=1)
    page = cast.clients["member"].get(cast.path("c/C0PUBLIC/?since=7d")).content.decode()
    card = page[page.index('id="now"') :]
    assert card.index("New news") < card.index("1 other line") < card.index("Old news")
    assert '<details class="short-term" open>' in page


def test_highlights_and_provisional_versions_are_marked(cast: Cast) -> None:
    short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM)
    job = make_job(memory=short, model="offline", state="done")
    make_version(
        memory=short,
        text="- first look",
        sources=cast.messages[:1],
        until=timezone.now(),
        provisional=True,
        job=job,
    )
    page = page_of(cast)
    assert "highlights" in page
    assert "author-icon-provisional" in page and "Provisional" in page


def test_texts_of_people_have_a_lang(cast: Cast) -> None:
    root = MessageFactory(channel=cast.public, author=cast.author, text="誰が試す？")
    make_thread_memory(channel=cast.public, thread_ts=root.ts)
    NoteFactory(workspace=cast.workspace, channel=cast.public, content="水曜は休み")
    page = page_of(cast)
    assert '<span lang="ja">誰が試す？</span>' in page
    assert 'lang="ja">水曜は休み</a>' in page


def test_the_history_has_reasons_and_periods(cast: Cast) -> None:
    page = page_of(cast)
    assert "4 messages, then 2 h without a message" in page
    assert "5 Jan 2026, 09:00" in page


def test_the_newest_segment_has_a_comparison(cast: Cast) -> None:
    short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM)
    first = short.current
    now = 'aria-labelledby="now-title"'
    assert "Compare" not in page_of(cast).split(now)[1].split("</header>")[0]
    second = make_version(memory=short, text="- Later", until=timezone.now())
    card = page_of(cast).split(now)[1].split("</header>")[0]
    assert f'href="/diff/{first.pk}..{second.pk}/"' in card


def test_waiting_messages_and_their_conditions_are_shown(cast: Cast) -> None:
    now = timezone.now()
    for minutes in (50, 43):
        MessageFactory(channel=cast.public, author=cast.author, at=now - timedelta(minutes=minutes))
    page = page_of(cast)
    # Two of the six first ones are in no segment either.
    assert "or after 46 more messages" in page
    assert "Next summary at" in page


def bars_of(page: str) -> list[list[tuple[str, int, int]]]:
    drawn = re.findall(r'<svg class="bar"[^>]*>(.*?)</svg>', page)
    part = re.compile(r'<rect class="bar-(\w+)" x="(\d+)" y="0" width="(\d+)"')
    return [[(what, int(x), int(w)) for what, x, w in part.findall(drawing)] for drawing in drawn]


def test_the_share_of_remembered_messages_is_a_bar(cast: Cast) -> None:
    third = BAR_WIDTH // 3  # two of six messages wait
    [bar] = bars_of(page_of(cast))
    assert bar == [("remembered", 0, BAR_WIDTH - third), ("waiting", BAR_WIDTH - third, third)]


@pytest.mark.parametrize(
    ("mark", "at", "parts"),
    [
        pytest.param("", "", [("waiting", 0, 100)], id="nothing yet"),
        pytest.param("10.0", "", [("remembered", 0, 100)], id="all of it"),
        pytest.param("5.0", "8.0", [("remembered", 0, 100), ("waiting", 50, 30)], id="a gap"),
        pytest.param("", "4.0", [("remembered", 0, 100), ("waiting", 0, 40)], id="from the top"),
        pytest.param("9.9", "10.0", [("remembered", 0, 100), ("waiting", 98, 2)], id="a small one"),
    ],
)
def test_gaps_in_the_sync_are_drawn(mark: str, at: str, parts: list[tuple[str, int, int]]) -> None:
    """The period is from the start mark at 0 s to the newest message at 10 s."""
    channel = Channel(start_us=0)
    channel.sync = ChannelSync(
        synced_ts=mark, history_reached_ts=at, history_newest_ts="10.0" if at else ""
    )
    assert reading_bar(coverage_of(channel, timezone.now()), channel, 100) == parts


@pytest.mark.parametrize(
    ("state", "fault", "words"),
    [
        ("dead", "length", "failed. the reply was cut off"),
        ("waiting", "", "waiting"),
    ],
)
def test_waiting_and_failed_jobs_are_listed(cast: Cast, state: str, fault: str, words: str) -> None:
    make_job(memory=cast.memory, state=state, fault=fault)
    assert words in page_of(cast)


def test_jobs_with_private_messages_are_for_members(cast: Cast) -> None:
    message = MessageFactory(channel=cast.public, author=cast.author, was_private=True)
    segment = make_segment(messages=[message])
    make_job(memory=cast.memory, state="dead", fault="length", segment=segment)
    assert "failed" in page_of(cast, "guest")
    assert "given up" not in page_of(cast) + page_of(cast, "operator")


def test_an_empty_channel_has_the_conditions(cast: Cast) -> None:
    Memory.objects.filter(channel=cast.public).delete()
    assert "No memories yet." in page_of(cast)


def test_the_timeline_is_a_chart_and_a_table(cast: Cast) -> None:
    assert "No messages, versions or decisions in the last 14 days." in page_of(cast)
    now = timezone.now()
    for number, days in enumerate((0, 1, 1, 1, 20)):
        at = now - timedelta(days=days, milliseconds=number)
        MessageFactory(channel=cast.public, author=cast.author, at=at)
    MessageFactory(channel=cast.public, at=now - timedelta(milliseconds=9), is_notice=True)
    make_version(memory=cast.memory, text="- We decided to ship", until=now)
    cast.memory.refresh_from_db()
    cast.memory.current.lines.update(kind="decision", at_us=to_micros(now))
    page = page_of(cast)
    rows = re.findall(r"<dt>(\w+)</dt><dd>(\d+)</dd><dd><svg", page)
    assert rows == [("Messages", "4"), ("Segments", "0"), ("Versions", "1"), ("Decisions", "1")]
    assert page.count('<rect x="') >= 4 * 14 and "<td>3</td>" in page
    assert "Number per day." in page


def test_an_edit_is_on_the_day_when_it_was_saved(cast: Cast) -> None:
    long_ago = timezone.now() - timedelta(days=20)
    make_version(memory=cast.memory, text="- Quiet since then", until=long_ago)
    cast.memory.refresh_from_db()
    cast.memory.revise("- Edited today", by=cast.users["editor"], based_on=3)
    counts = timeline_counts(page_of(cast))
    assert max(counts.items()) == (max(counts), ["0", "0", "1", "0"])


def test_the_days_of_the_timeline_are_the_readers(cast: Cast) -> None:
    cast.users["member"].save_preferences(time_zone="Asia/Tokyo")
    yesterday = (timezone.now() - timedelta(days=1)).astimezone(UTC)
    MessageFactory(channel=cast.public, at=yesterday.replace(hour=20))
    day = (yesterday + timedelta(days=1)).date().isoformat()
    assert timeline_counts(page_of(cast))[day][0] == "1"


def timeline_counts(page: str) -> dict[str, list[str]]:
    """Return the numbers of the table by day."""
    rows = re.findall(r'<th scope="row"><time datetime="(.*?)".*?</th>(.*?)</tr>', page)
    return {day: re.findall(r"<td>(\d+)</td>", cells) for day, cells in rows}


@pytest.mark.nightly("quicker tests run the same lines")
def test_the_cost_of_this_month_is_shown(cast: Cast) -> None:
    assert "Cost this month" not in page_of(cast)
    today = timezone.now().astimezone(UTC).date()
    for day in (today, today.replace(day=1), today - timedelta(days=32)):
        job = make_job(memory=cast.memory, state="done", fence=1)
        used = {"tokens": 120, "prompt_tokens": 100, "completion_tokens": 20}
        make_call(job=job, day=day, ended_at=timezone.now(), **used)
    page = page_of(cast)
    assert "tokens in</dt><dd>200<" in page and "tokens out</dt><dd>40<" in page
    assert "unpriced" in page and "$0" not in page
    ModelCall.objects.update(micros=1_500_000)
    assert "$3.00" in page_of(cast)
    assert "Cost this month" not in page_of(cast, "guest")


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_queries_do_not_grow_with_rows(cast: Cast) -> None:
    assert_same_queries(lambda size: fill(cast, size), lambda: page_of(cast))


def fill(cast: Cast, many: int) -> None:
    """Add this many versions, threads, notes, lines and waiting messages."""
    short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM)
    start = MONDAY + timedelta(days=many)
    for i in range(many):
        at = start + timedelta(hours=i)
        message = MessageFactory(channel=cast.public, author=cast.author, at=at)
        segment = make_segment(messages=[message], outcome="remembered")
        make_version(memory=short, text=f"- short {i}", sources=[message], segment=segment)
        root = MessageFactory(channel=cast.public, author=cast.author, at=at + timedelta(minutes=1))
        make_reply(root=root, author=cast.author, at=at + timedelta(minutes=2))
        make_thread_memory(channel=cast.public, thread_ts=root.ts)
        NoteFactory(workspace=cast.workspace, channel=cast.public)
    make_version(
        memory=cast.memory,
        text="\n".join(f"- line {i}" for i in range(many)),
        sources=cast.messages[:5],
        until=start + timedelta(hours=many),
        origin=Origin.MODEL,
    )


@pytest.mark.nightly("quicker tests run the same lines")
@pytest.mark.parametrize(
    ("values", "says"),
    [
        pytest.param({"is_followed": False}, "Not selected", id="not followed"),
        pytest.param({"bot_is_in": False}, "The bot is not in the channel", id="without the bot"),
        pytest.param(
            {
                "history_newest_ts": "1768000000.000000",
                "history_reached_ts": "1767500000.000000",
            },
            "Older messages are being read",
            id="a walk under way",
        ),
        pytest.param({"error_code": "ratelimited"}, "Slack is limiting requests", id="limited"),
        pytest.param(
            {"error_code": "internal_error", "error_text": "history: internal_error."},
            "Slack had an internal error",
            id="a failure",
        ),
        pytest.param(
            {"error_code": "is_odd"}, "Slack refused the request: is_odd.", id="an odd one"
        ),
        pytest.param({}, "checked against Slack", id="all is well"),
    ],
)
def test_the_coverage_of_the_sync_is_shown(cast: Cast, values: dict[str, Any], says: str) -> None:
    mark_channels_synced(timezone.now())
    of_channel = {name: value for name, value in values.items() if hasattr(Channel, name)}
    Channel.objects.filter(slack_id="C0PUBLIC").update(**of_channel)
    of_sync = {name: value for name, value in values.items() if name not in of_channel}
    set_sync(cast.public, **{"synced_ts": "1767400000.000000"} | of_sync)
    assert "Read from Slack" not in page_of(cast), "an import is no matter of Slack's"
    now = timezone.now()
    Workspace.objects.update(connected_at=now, synced_at=now, listed_at=now)
    page = page_of(cast)
    assert "Read from Slack" in page
    assert says in page


def test_the_latest_threads_with_a_memory_are_linked(cast: Cast) -> None:
    for hour in range(4):
        root = MessageFactory(
            channel=cast.public, author=cast.author, at=MONDAY + timedelta(days=1, hours=hour)
        )
        make_thread_memory(channel=cast.public, thread_ts=root.ts, texts=["- a thread"])
    side = page_of(cast).split('id="threads-title"')[1].split("</section>")[0]
    assert side.count("<li>") == 3
    assert f'href="{cast.path("c/C0PUBLIC/threads/")}">All threads</a>' in side
