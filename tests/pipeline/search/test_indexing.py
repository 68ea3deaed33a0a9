"""The search index follows all changes of texts, and gives the same results as a full scan."""

import random
import re
from datetime import UTC, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from memories.models import (
    Line,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Reader,
    SearchDocument,
    Workspace,
)
from memories.models.search import search_triggers as triggers
from memories.pipeline.redaction import forget
from memories.pipeline.search import indexing
from memories.pipeline.search.finding import COUNTED, find
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.redaction.shingles import REDACTED, fold
from memories.rules.search.query import Kind, parse, with_fields
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    make_reply,
    make_version,
)

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("full-text search")]

WORDS = (
    "deploy deployed the in 移行 移行計画 東京 京都 日 リリース ﾘﾘｰｽ 請求書 Straße ok v1.2".split()
)
QUERIES = [
    *("deploy", '"deploy"', "the deploy", "in", "日", "移", "移行", "移行計画", "東京 移行"),
    *(
        "リリース",
        "ﾘﾘｰｽ",
        "京",
        "請求書 -deploy",
        "strasse",
        "v1.2",
        '"移行 東京"',
        "無い",
        "depl*",
    ),
    *("-deploy in:messages", "ok has:link", "from:mika 移行", "after:2026-01-05 日"),
]


def public() -> Reader:
    return Reader.public(timezone.now())


def hits_of(typed: str, workspace, reader: Reader | None = None, **fields: str):
    """Keys of the hits, by kind."""
    reader = reader or public()
    query = with_fields(parse(typed), fields)
    channels = list(workspace.channels.visible_to(reader))
    groups = find(query, workspace, reader, channels).groups
    return {group.kind: [row.pk for row in group.rows] for group in groups}


def pks(typed: str, workspace, kind: Kind = Kind.MESSAGES) -> list[int]:
    return hits_of(typed, workspace, **{"in": kind, "sort": "newest"}).get(kind, [])


def raw_index() -> str:
    """All that the tables of the index hold, as bytes and as words."""
    tables = ["memories_searchdocument", "memories_searchpending"]
    if connection.vendor == "sqlite":
        tables += [f"memories_searchwords_{name}" for name in ("data", "idx", "config")]
    rows = []
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT * FROM {table}")  # noqa: S608
            for row in cursor.fetchall():
                rows += [
                    value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
                    for value in row
                ]
    return " ".join(rows)


@pytest.fixture
def channel(workspace):
    return ChannelFactory(workspace=workspace, slack_id="C0OPS", name="ops")


@pytest.mark.slow
def test_each_database_finds_the_same_rows_as_a_full_scan(workspace, channel) -> None:
    chance = random.Random(1)
    mika = PersonFactory(workspace=workspace, name="mika")
    for number in range(120):
        text = chance.choice(["", " ", "、"]).join(chance.choices(WORDS, k=chance.randint(1, 6)))
        MessageFactory(
            channel=channel,
            at=MONDAY + timedelta(hours=number % 50, minutes=number),
            text=text + (" <https://example.com/a>" if number % 9 == 0 else ""),
            author=mika if number % 3 == 0 else None,
        )
    assert indexing.index_pending() == 120
    rows = list(Message.objects.select_related("author").order_by("-micros"))
    for typed in QUERIES:
        query = parse(typed)
        expected = set()
        for row in rows:
            flat = fold(re.sub(r"[<>]", " ", row.text))[0]
            fits = all(
                (re.search(term.pattern, flat) is None) is term.excluded for term in query.terms
            )
            fits &= not query.has or "<http" in row.text
            fits &= not query.person or row.author == mika
            fits &= query.since is None or row.micros >= (query.bounds(UTC)[0] or 0)
            if fits:
                expected.add(row.pk)
        got = find(query, workspace, public(), [channel]).groups
        [group] = got if expected else [None]
        if group is None:
            assert not got, typed
            continue
        assert group.count == len(expected), typed
        fields = {"in": "messages", "sort": "newest"}
        keys = hits_of(typed, workspace, **fields)[Kind.MESSAGES]
        assert set(keys) <= expected and len(keys) == min(50, len(expected)), typed
        moments = [row.micros for row in rows if row.pk in keys]
        by_key = {row.pk: row.micros for row in rows}
        assert [by_key[key] for key in keys] == sorted(moments, reverse=True), typed
        best = hits_of(typed, workspace, **{"in": "messages"})[Kind.MESSAGES]
        assert set(best) <= expected and len(best) == len(keys), typed


def test_each_kind_of_text_is_found_under_its_kind(workspace, channel) -> None:
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    old = make_version(memory=memory, text="- 移行は3月 before")
    new = make_version(memory=memory, text="- 移行は4月 now")
    root = MessageFactory(channel=channel, text="データ移行?")
    make_reply(root=root, text="still 移行")
    thread = make_version(memory=Memory.objects.of_thread(channel, root.ts), text="- 移行 in it")
    note = NoteFactory(workspace=workspace, content="データ移行の手順", tags=["手引"])
    indexing.index_pending()
    assert hits_of("移行", workspace) == {
        Kind.NOTES: [note.pk],
        Kind.MEMORIES: [new.pk],
        Kind.OLDER: [old.pk],
        Kind.THREADS: [thread.pk],
        Kind.MESSAGES: list(Message.objects.order_by("-micros").values_list("pk", flat=True)),
    }
    assert hits_of("手引", workspace) == {Kind.NOTES: [note.pk]}
    assert hits_of("移行 by:model", workspace).keys() == {Kind.MEMORIES, Kind.OLDER, Kind.THREADS}
    assert hits_of("移行 has:thread", workspace) == {Kind.MESSAGES: [root.pk]}
    assert hits_of("移行 in:#ops", workspace).keys() == {
        *(Kind.MEMORIES, Kind.OLDER, Kind.THREADS, Kind.MESSAGES)
    }
    assert hits_of("移行 in:#elsewhere", workspace) == {}
    assert hits_of("in:#ops in:threads", workspace) == {Kind.THREADS: [thread.pk]}


def test_changes_of_a_text_reach_the_index(workspace, channel) -> None:
    message = MessageFactory(channel=channel, text="first words")
    note = NoteFactory(workspace=workspace, content="first note")
    version = make_version(
        memory=Memory.objects.of_channel(channel, MemoryType.LONG_TERM), text="- first memory"
    )
    indexing.index_pending()
    assert sum(map(len, hits_of("first", workspace).values())) == 3
    # Past all of our verbs:
    Message.objects.filter(pk=message.pk).update(text="second words")
    Note.objects.filter(pk=note.pk).update(content="second note", title="")
    MemoryVersion.objects.filter(pk=version.pk).update(content="- second memory")
    assert hits_of("first", workspace) == {} and not SearchDocument.objects.exists()
    assert indexing.index_pending() == 3
    assert sum(map(len, hits_of("second", workspace).values())) == 3
    Message.objects.filter(pk=message.pk).update(reply_count=3)  # nothing that is searched
    assert not indexing.is_behind()
    message.refresh_from_db()
    message.purge()
    message.save()
    assert pks("second", workspace) == []
    note.delete()
    version.delete()
    indexing.index_pending()
    assert not SearchDocument.objects.exists() and not indexing.has_work()


def test_other_forms_of_a_word_are_found_on_every_database(workspace, channel) -> None:
    texts = ["we launched", "the launch", "launching now", "a lunch", "the pricing", "prices 移行"]
    for number, text in enumerate(texts):
        MessageFactory(channel=channel, text=text, at=MONDAY + timedelta(minutes=number))
    indexing.index_pending()
    by_text = {message.pk: message.text for message in Message.objects.all()}
    assert {by_text[pk] for pk in pks("launching", workspace)} == set(texts[:3])
    assert {by_text[pk] for pk in pks("price", workspace)} == set(texts[4:])
    assert [by_text[pk] for pk in pks("price 移行", workspace)] == [texts[5]]
    assert [by_text[pk] for pk in pks('"launching"', workspace)] == ["launching now"]
    assert len(pks("the -launching", workspace)) == 2


def test_lines_are_found_by_kind(workspace, channel) -> None:
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    make_version(memory=memory, text="- Decision: the launch moved to March")
    text = "- Decision: the launch is in April\n- Who books the launch room?\n- Decision: no party"
    version = make_version(memory=memory, text=text)
    for line, kind in zip(version.lines.all(), ("decision", "question", "decision"), strict=True):
        type(line).objects.filter(pk=line.pk).update(kind=kind)
    memory.versions.get(number=1).lines.update(kind="decision")
    indexing.index_pending()
    first, question, last = version.lines.values_list("pk", flat=True)
    assert hits_of("launching kind:decision", workspace) == {Kind.MEMORIES: [first]}
    assert hits_of("kind:decision -launch", workspace) == {Kind.MEMORIES: [last]}
    assert hits_of("kind:question in:#ops", workspace) == {Kind.MEMORIES: [question]}
    assert hits_of("kind:task", workspace) == {}


def test_lines_are_found_by_their_own_author_origin_and_day(workspace, channel) -> None:
    """Not by those of the version, which a merge by a model may have written on another day."""
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    mika = MemberFactory(workspace=workspace, user__username="mika").user
    text = "- Decision: the launch is in April\n- Decision: no party"
    make_version(memory=memory, text=text, author=mika)
    version = make_version(memory=memory, text=text)
    hers, another = version.lines.order_by("position")
    days = MONDAY - timedelta(days=90), MONDAY
    for line, day, given in zip(
        (hers, another), days, ({"author": mika, "origin": "person"}, {}), strict=True
    ):
        values = {"kind": "decision", "at_us": to_micros(day), **given}
        Line.objects.filter(pk=line.pk).update(**values)
    memory.versions.get(number=1).lines.update(kind="decision")
    indexing.index_pending()
    day_of_hers, day = (f"{each:%Y-%m-%d}" for each in days)
    for typed, expected in {
        "from:mika kind:decision": [hers.pk],
        "by:person kind:decision": [hers.pk],
        "by:model kind:decision": [another.pk],
        f"on:{day} kind:decision": [another.pk],
        f"before:{day} kind:decision": [hers.pk],
        f"after:{day_of_hers} launch kind:decision": [],
    }.items():
        assert hits_of(typed, workspace).get(Kind.MEMORIES, []) == expected, typed
    version.lines.update(outcome=Line.Outcome.ARCHIVED)
    assert pks("from:mika", workspace, Kind.ARCHIVE) == [hers.pk]
    assert pks(f"on:{day}", workspace, Kind.ARCHIVE) == [another.pk]


def test_notices_and_names_behind_mentions_are_not_searched(workspace, channel) -> None:
    MessageFactory(channel=channel, text="joined the channel", is_notice=True)
    MessageFactory(channel=channel, text="ask <@U0000009|yuki> in <#C0SECRET|merger>")
    indexing.index_pending()
    assert pks("joined", workspace) == pks("merger", workspace) == pks("yuki", workspace) == []
    assert len(pks("ask", workspace)) == 1


def test_hidden_characters_hide_nothing(workspace, channel) -> None:
    MessageFactory(channel=channel, text="pass\u200bword \u202eof it")
    indexing.index_pending()
    assert len(pks("password of", workspace)) == 1


SECRET = "the merger with Aoyama closes on the second friday of march 青山商事との合併は三月の第二金曜日に完了する予定"


def test_a_forgotten_message_leaves_no_token_in_the_index(workspace, channel) -> None:
    unrelated = MessageFactory(channel=channel, text="an unrelated lunch")
    message = MessageFactory(channel=channel, text=SECRET)
    make_version(
        memory=Memory.objects.of_channel(channel, MemoryType.LONG_TERM),
        text=f"- {SECRET}",
        sources=[message],
    )
    NoteFactory(workspace=workspace, content=f"Mind: {SECRET}")
    indexing.index_pending()
    assert "aoyama" in raw_index() and "青山" in raw_index()
    forget.forget_message(channel, message.ts, by=None)
    # In the same transaction, before any worker comes:
    assert not SearchDocument.objects.filter(tokens__contains="aoyama").exists()
    indexing.index_pending()
    left = raw_index()
    for token in ("oyama", "erger", "山商", "併"):  # FTS5 may leave out how a token begins
        assert token not in left
    assert pks("aoyama", workspace) == []
    assert pks("lunch", workspace) == [unrelated.pk]


def test_a_forgotten_person_is_in_no_index(workspace, channel) -> None:
    mika = PersonFactory(workspace=workspace, slack_id="U0MIKA", name="mikazuki")
    MessageFactory(channel=channel, text="said by mikazuki herself", author=mika)
    NoteFactory(workspace=workspace, content="mikazuki keeps the keys")
    indexing.index_pending()
    forget.forget_person(mika, timezone.now(), by=None)
    indexing.index_pending()
    assert "ikazuki" not in raw_index()


def test_a_message_that_is_only_revoked_is_still_found(workspace, channel) -> None:
    """It is still shown among the messages, but no memory contains it."""
    message = MessageFactory(channel=channel, text="a claim of somebody's")
    indexing.index_pending()
    Message.objects.filter(pk=message.pk).update(is_revoked=True)
    assert pks("claim", workspace) == [message.pk]


def test_texts_of_the_same_time_have_distinct_keys(workspace) -> None:
    channels = ChannelFactory.create_batch(5, workspace=workspace)
    for channel in channels:
        MessageFactory(channel=channel, at=MONDAY, text="at once")
    indexing.index_pending(most=3)
    indexing.index_pending()
    assert len(set(SearchDocument.objects.values_list("pk", flat=True))) == 5
    assert len(pks("once", workspace)) == 5


def test_indexing_stops_in_time_and_continues(workspace, channel) -> None:
    MessageFactory.create_batch(5, channel=channel, text="some of it")
    assert indexing.index_pending(most=2) == 2
    newest = Message.objects.order_by("-micros")[:2]
    assert pks("some", workspace) == [message.pk for message in newest]
    assert indexing.index_pending(seconds=0) == 0
    assert indexing.index_pending() == 3 and not indexing.is_behind()


def test_dropped_triggers_are_installed_again_and_all_rows_read(workspace, channel) -> None:
    MessageFactory(channel=channel, text="before")
    indexing.index_pending()
    assert not triggers.install(connection)
    triggers.remove(connection)
    message = MessageFactory(channel=channel, text="meanwhile")
    assert not indexing.is_behind()
    assert triggers.install(connection)
    indexing.index_pending()
    assert pks("meanwhile", workspace) == [message.pk] and len(pks("before", workspace)) == 1


@pytest.mark.slow
def test_counts_stop_at_a_thousand(workspace, channel) -> None:
    Message.objects.bulk_create(
        Message(channel=channel, ts=f"{n}.000000", micros=n * 10**6, text="again")
        for n in range(1, COUNTED + 5)
    )
    indexing.index_pending()
    result = find(parse("again"), workspace, public(), [channel])
    assert (result.count, result.is_more) == (COUNTED, True)
    query = with_fields(parse("again in:messages"), {"sort": "newest"})
    page = find(query, workspace, public(), [channel]).groups[0]
    after = find(query, workspace, public(), [channel], below=page.below).groups[0]
    assert page.rows[-1].micros == after.rows[0].micros + 10**6


def test_only_readers_find_and_count(workspace, channel) -> None:
    private = ChannelFactory(workspace=workspace, kind="private", name="deals")
    MessageFactory(channel=private, text="合併 of the firms")
    NoteFactory(workspace=workspace, channel=private, content="合併 note")
    make_version(memory=Memory.objects.of_channel(private, MemoryType.LONG_TERM), text="- 合併")
    MessageFactory(channel=channel, text="合併 in the press")
    MessageFactory(channel=channel, text="合併 said before it was public", was_private=True)
    indexing.index_pending()
    result = find(parse("合併"), workspace, public(), [channel])
    assert result.count == 1
    assert find(parse("合併 in:#deals"), workspace, public(), [channel]).groups == []


def test_a_text_without_a_word_is_in_no_index(workspace, channel) -> None:
    MessageFactory(channel=channel, text=f"{REDACTED} … :)")
    indexing.index_pending()
    assert not SearchDocument.objects.exists() and not indexing.is_behind()


def test_an_import_is_indexed(workspace, channel, tmp_path) -> None:
    MessageFactory(channel=channel, text="データ移行")
    NoteFactory(workspace=workspace, content="移行の手順")
    path = str(tmp_path / "team.zip")
    call_command("export", path, "--workspace", "team", stdout=StringIO(), stderr=StringIO())
    call_command("import", path, "--workspace", "copy", stdout=StringIO(), stderr=StringIO())
    assert not indexing.is_behind()
    hits = hits_of("移行", Workspace.objects.get(slug="copy"))
    assert {kind: len(keys) for kind, keys in hits.items()} == {Kind.NOTES: 1, Kind.MESSAGES: 1}
