"""A workspace with very many messages and their index, most of both made by the database itself."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.core.management.color import no_style
from django.db import connection
from django.db.models import Model
from django.utils import timezone

from bench.talk import MessageGenerator
from memories.models import (
    Channel,
    ChannelMember,
    Member,
    Message,
    Note,
    Person,
    Reader,
    SearchDocument,
    SearchPending,
    Segment,
    User,
    Workspace,
)
from memories.models.search.documents import SLOTS, WORDS
from memories.pipeline.search import indexing

CHANNELS = 60
PRIVATE = 4  # each fourth
READ = 5  # of the private ones
PEOPLE = 300
NOTES = 200
BASE = 100_000  # messages that are written here; the database repeats them, each time later
LAST = 2_000  # messages that come in after all others, as they do every day
SECRET = "kabuto"  # a word that is said, and often, but only where the reader is not
APART = 30  # seconds between two messages
FIRST = 1_500_000_000


@dataclass(frozen=True)
class Rows:
    """``reader`` reads ``channels``: all public ones and some private ones."""

    workspace: Workspace
    reader: Reader
    channels: list[Channel]
    talk: MessageGenerator


def fill(rows: int) -> Rows:
    talk = MessageGenerator(random.Random(1))
    workspace = Workspace.objects.create(slug="bench", name="bench")
    people = Person.objects.bulk_create(
        Person(workspace=workspace, slack_id=f"U{n:07d}", name=f"person{n}") for n in range(PEOPLE)
    )
    user = User.objects.create_user("reader")
    Member.objects.create(workspace=workspace, user=user)
    people[0].link(user, "slack")
    channels = Channel.objects.bulk_create(
        Channel(
            workspace=workspace,
            slack_id=f"C{number:07d}",
            name=f"channel{number}",
            kind="private" if number % PRIVATE == PRIVATE - 1 else "public",
            members_known_at=timezone.now(),
        )
        for number in range(CHANNELS)
    )
    private = [channel for channel in channels if not channel.is_public]
    ChannelMember.objects.bulk_create(
        ChannelMember(channel=channel, person=people[0]) for channel in private[:READ]
    )
    Note.objects.bulk_create(
        Note(
            workspace=workspace,
            title=f"{number}",
            content=talk.message(),
            date=timezone.localdate(),
        )
        for number in range(NOTES)
    )
    speakers = Speakers(talk, channels, people, private[READ:])
    base = min(rows, BASE)
    Message.objects.insert(list(speakers.say(0, base)))
    indexing.index_pending()
    repeat(base, rows // base)
    Message.objects.insert(list(speakers.say(rows, LAST)))
    indexing.index_pending()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE" if connection.vendor == "sqlite" else "VACUUM ANALYZE")
    reader = Reader.of(user)
    return Rows(workspace, reader, list(workspace.channels.visible_to(reader)), talk)


@dataclass(frozen=True)
class Speakers:
    """Some channels and some people say much more than others."""

    talk: MessageGenerator
    channels: Sequence[Channel]
    people: Sequence[Person]
    secret: Sequence[Channel]
    begin: int = FIRST  # seconds since 1970

    def say(self, first: int, count: int) -> Iterator[Message]:
        chance = self.talk.chance
        where = chance.choices(self.channels, _few_much(len(self.channels)), k=count)
        who = chance.choices(self.people, _few_much(len(self.people)), k=count)
        for number, channel, person in zip(range(first, first + count), where, who, strict=True):
            text = self.talk.message()
            if channel in self.secret and chance.random() < 0.1:
                text += f" {SECRET}"
            seconds = self.begin + number * APART
            yield Message(
                channel=channel,
                author=person,
                ts=f"{seconds}.000000",
                micros=seconds * 10**6,
                text=text,
                was_private=chance.random() < 0.01,
            )


def _few_much(count: int) -> list[float]:
    return [1 / (rank + 3) for rank in range(count)]


def repeat(base: int, times: int) -> None:
    """The first messages once more, with their threads, their segments, and what the index has of
    them. An index of PostgreSQL is made in one go afterwards, as `pg_restore` does."""
    segments = Segment.objects.count()
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", [WORDS])
            [[index]] = cursor.fetchall()
            cursor.execute(f"DROP INDEX {WORDS}")
        for time in range(1, times):
            seconds, keys = time * base * APART, time * base
            moments = {
                name: f"{name} + {seconds * 10**6}"
                for name in ("micros", "first_us", "last_us", "closed_us")
            }
            thread = f"CAST(CAST(SUBSTR(thread_ts, 1, 10) AS INTEGER) + {seconds} AS TEXT)"
            _repeat(
                Segment,
                f"id <= {segments}",
                moments | {"id": f"id + {time * segments}", "number": f"number + {time * base}"},
            )
            _repeat(
                Message,
                f"id <= {base}",
                moments
                | {
                    "id": f"id + {keys}",
                    "ts": f"CAST(micros / 1000000 + {seconds} AS TEXT) || '.000000'",
                    "thread_ts": f"CASE WHEN thread_ts = '' THEN '' ELSE {thread} || '.000000' END",
                    "segment_id": f"segment_id + {time * segments}",
                },
            )
            _repeat(
                SearchDocument,
                f"message <= {base}",
                {
                    "id": f"id + {seconds * 10**6 * SLOTS}",
                    "message": f"message + {keys}",
                },
            )
        if connection.vendor == "postgresql":
            cursor.execute(index)
            for statement in connection.ops.sequence_reset_sql(no_style(), [Message, Segment]):
                cursor.execute(statement)
    SearchPending.objects.all().delete()  # the rows above are in the index


def _repeat(model: type[Model], which: str, changed: dict[str, str]) -> None:
    """Add these rows once more, in the order of their keys, with expressions for some columns."""
    columns = [str(field.column) for field in model._meta.concrete_fields]
    table, values = model._meta.db_table, [changed.get(name, name) for name in columns]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)})"
            f" SELECT {', '.join(values)} FROM {table} WHERE {which} ORDER BY id"
        )
