"""A search does the same work for a word of texts that its reader may not see as for a word of no text."""

from functools import partial

import pytest
from django.db import connection
from django.utils import timezone

from memories.models import (
    Channel,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Person,
    Reader,
    SearchDocument,
    Workspace,
)
from memories.models.search.documents import WORDS
from memories.pipeline.access.channel_audience import update_audience
from memories.pipeline.search import indexing
from memories.pipeline.search.finding import find
from memories.rules.memory.identity import MemoryType
from memories.rules.search.query import Kind, parse
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    make_version,
)
from tests.work import work_of

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("full-text search")]

MANY = 3_000  # private messages
SOME = 300  # versions, notes, and messages from the private days of a public channel
SECRET, NOWHERE = ("kabuto", "合併計画"), ("nobuko", "駱駝計画")
QUERIES = """
{0} | {0} in:messages | {0} in:memories | {0} in:older | {0} in:notes | {0} in:threads | "{0}"
"deploy {0}" | deploy {0} | {0} -deploy | {1} | データ{1} | {1} deploy | "{1}の件" | {0} from:mika
{0} kind:decision | kind:task {1} | {0} in:#ops | {1} in:#ops in:messages | {0} in:#deals | {0} after:1970-01-01 | {0} by:model
"""


@pytest.fixture
def ops(workspace: Workspace) -> Channel:
    return ChannelFactory(workspace=workspace, name="ops")


@pytest.fixture
def deals(workspace: Workspace) -> Channel:
    return ChannelFactory(workspace=workspace, name="deals", kind=Channel.Kind.PRIVATE)


@pytest.fixture
def readers(workspace: Workspace) -> dict[str, Reader]:
    """All but the guest read #ops. No reader can read #deals."""
    member, guest = UserFactory(), UserFactory()
    in_board = PersonFactory(workspace=workspace, user=member)
    in_lobby = PersonFactory(workspace=workspace, user=guest, is_guest=True)
    board = ChannelFactory(workspace=workspace, kind=Channel.Kind.PRIVATE, members=[in_board])
    lobby = ChannelFactory(workspace=workspace, name="lobby", members=[in_lobby])
    for channel in (board, lobby):
        MessageFactory(channel=channel, text="deploy データ移行")
    now = timezone.now()
    return {
        "member": Reader.of(member, now),
        "guest": Reader.of(guest, now),
        "public": Reader.public(now),
        "operator": Reader.of(UserFactory(is_superuser=True), now),
    }


def hits(typed: str, workspace: Workspace, reader: Reader) -> set[int]:
    """Return the keys of all results, of all kinds that are searched."""
    channels = list(workspace.channels.visible_to(reader))
    groups = find(parse(typed), workspace, reader, channels).groups
    return {row.pk for group in groups for row in group.rows}


def add_readable_texts(channel: Channel) -> None:
    text = "deploy データ移行"
    MessageFactory.create_batch(5, channel=channel, text=text)
    NoteFactory.create_batch(5, workspace=channel.workspace, channel=channel, content=text)
    make_version(memory=Memory.objects.of_channel(channel, MemoryType.SHORT_TERM), text=text)


def add_unreadable_texts(ops: Channel, deals: Channel) -> None:
    """Add texts of a private channel, private messages of a public one, notes in the trash, and
    withheld versions.
    """
    text = f"deploy {SECRET[0]} データ{SECRET[1]}の件"
    Message.objects.bulk_create(
        Message(channel=channel, ts=f"{n}.000000", micros=n, text=text, was_private=channel == ops)
        for channel, count in ((deals, MANY), (ops, SOME))
        for n in range(1, count + 1)
    )
    Note.objects.bulk_create(
        Note(
            workspace=ops.workspace,
            channel=channel,
            content=text,
            date=MONDAY.date(),
            was_private=channel == ops,
            deleted_at=None if channel else MONDAY,
        )
        for channel in (deals, ops, None)
        for _ in range(SOME)
    )
    memories = Memory.objects
    for memory, audience in (
        (memories.of_channel(deals, MemoryType.LONG_TERM), MemoryVersion.Audience.SCOPE),
        (memories.of_channel(ops, MemoryType.LONG_TERM), MemoryVersion.Audience.MEMBERS),
        (
            memories.of_workspace(ops.workspace, MemoryType.LONG_TERM),
            MemoryVersion.Audience.NOBODY,
        ),
    ):
        MemoryVersion.objects.bulk_create(
            MemoryVersion(memory=memory, number=n, content=text, origin="model", audience=audience)
            for n in range(1, SOME + 1)
        )
    make_version(memory=memories.of_channel(deals, MemoryType.SHORT_TERM), text=text)


def settle_statistics() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        if connection.vendor == "postgresql":
            cursor.execute("SELECT gin_clean_pending_list(%s)", [WORDS])


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_words_of_unreadable_texts_cost_no_work(
    workspace: Workspace, ops: Channel, deals: Channel, readers: dict[str, Reader]
) -> None:
    add_readable_texts(ops)
    add_unreadable_texts(ops, deals)
    indexing.index_pending()
    settle_statistics()
    differing = {}
    for name, reader in readers.items():
        channels = list(workspace.channels.visible_to(reader))
        for typed in QUERIES.replace("\n", "|").strip("|").split("|"):
            secret, nowhere = (
                work_of(partial(find, parse(typed.format(*words)), workspace, reader, channels))
                for words in (SECRET, NOWHERE)
            )
            if not nowhere * 0.9 <= secret <= nowhere * 1.1:
                differing[name, typed.strip()] = secret, nowhere
    assert differing == {}


def test_a_guest_finds_only_texts_of_their_channels(
    workspace: Workspace, ops: Channel, readers: dict[str, Reader]
) -> None:
    add_readable_texts(ops)
    indexing.index_pending()
    [lobby] = workspace.channels.visible_to(readers["guest"])
    expected = {lobby.messages.get().pk}
    assert hits("deploy データ", workspace, readers["guest"]) == expected
    assert hits("deploy in:#lobby", workspace, readers["guest"]) == expected
    assert hits("deploy in:#ops", workspace, readers["guest"]) == set()


@pytest.mark.slow
def test_readers_find_visible_texts_after_a_channel_changes_kind(
    workspace: Workspace, readers: dict[str, Reader]
) -> None:
    people = Person.objects.filter(user__in=[readers["member"].user_id, readers["guest"].user_id])
    channel = ChannelFactory(workspace=workspace, members=list(people))
    for kind in (Channel.Kind.PRIVATE, Channel.Kind.PUBLIC, Channel.Kind.MPIM, Channel.Kind.PUBLIC):
        add_readable_texts(channel)
        indexing.index_pending()
        was = channel.kind
        channel.update_fields({"kind": kind})
        update_audience(channel, was, was_shared=False)
        indexing.index_pending()
        add_readable_texts(channel)
        indexing.index_pending()
        for reader in readers.values():
            expected = {
                Kind.MESSAGES: set(Message.objects.visible_to(reader)),
                Kind.NOTES: set(Note.objects.visible_to(reader)),
                Kind.MEMORIES: set(MemoryVersion.objects.visible_to(reader).current()),
                Kind.OLDER: set(MemoryVersion.objects.visible_to(reader).not_current()),
            }
            expected = {found_as: {row.pk for row in rows} for found_as, rows in expected.items()}
            keys = {
                found_as: hits(f"deploy in:{found_as}", workspace, reader) for found_as in expected
            }
            assert keys == expected


@pytest.mark.parametrize("is_member", [True, False])
def test_a_channel_of_changed_kind_is_found_before_the_index_follows(
    workspace: Workspace, readers: dict[str, Reader], is_member: bool
) -> None:
    people = Person.objects.filter(user=readers["member"].user_id) if is_member else []
    channel = ChannelFactory(workspace=workspace, members=people)
    message = MessageFactory(channel=channel, text="kabuto")
    indexing.index_pending()
    channel.update_fields({"kind": Channel.Kind.PRIVATE})
    assert indexing.is_behind()
    expected = {message.pk} if is_member else set()
    assert hits("kabuto in:messages", workspace, readers["member"]) == expected
    indexing.index_pending()
    assert hits("kabuto in:messages", workspace, readers["member"]) == expected
    assert not SearchDocument.objects.exclude(workspace_key="").filter(message=message.pk)


def test_a_note_out_of_the_trash_is_found_again(workspace: Workspace) -> None:
    note = NoteFactory(workspace=workspace, content="kabuto")
    Note.objects.filter(pk=note.pk).update(deleted_at=MONDAY)
    indexing.index_pending()
    assert not SearchDocument.objects.exists()
    Note.objects.filter(pk=note.pk).update(deleted_at=None)
    indexing.index_pending()
    assert hits("kabuto in:notes", workspace, Reader.public(timezone.now())) == {note.pk}


@pytest.mark.slow
def test_a_text_of_very_many_different_words_is_indexed(workspace: Workspace, ops: Channel) -> None:
    letters = [chr(0x20000 + number) for number in range(300)]
    text = " ".join(first + second for first in letters for second in letters)
    message = MessageFactory(channel=ops, text=text)
    assert indexing.index_pending() == 1
    assert hits(text[:2], workspace, Reader.public(timezone.now())) == {message.pk}


@pytest.mark.slow
def test_a_member_of_many_private_channels_finds_the_same(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words left out of the question to the index are looked for in the stored text."""
    person = PersonFactory(workspace=workspace, user=UserFactory())
    channels = ChannelFactory.create_batch(
        5, workspace=workspace, kind=Channel.Kind.PRIVATE, members=[person]
    )
    for channel in channels:
        MessageFactory(channel=channel, text="deploy on friday 移行計画")
        MessageFactory(channel=channel, text="deploy on monday")
    indexing.index_pending()
    reader = Reader.of(person.user, timezone.now())
    typed = ("deploy friday", "on deploy 移行", "deploy -monday", '"on friday"', "friday deploy")
    before = [hits(f"{query} in:messages", workspace, reader) for query in typed]
    monkeypatch.setattr("memories.models.search.documents.MAX_LOOKUPS", 6)
    assert [hits(f"{query} in:messages", workspace, reader) for query in typed] == before
    assert [len(keys) for keys in before] == [5] * 5
