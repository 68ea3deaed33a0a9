"""The small team of story.py grown large: 60 channels, 20,000 messages, one memory of 200 versions."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from memories.models import Channel, Memory, Message, Note, Person, Seen, Segment, Workspace
from memories.pipeline.search import indexing
from memories.rules.generate.segments import Trigger
from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from memories.rules.memory.identity import MemoryType
from tests.browser.story import LINES, LINES_JA, SENTENCES, SENTENCES_JA, Story, tell
from tests.factories import ChannelMemberFactory, make_version

CHANNELS = 60
MESSAGES = 20_000
SEGMENT = 50  # messages
VERSIONS = 200
NAMES = ("sales", "倉庫", "support", "開発", "field-tests", "広報")
# Two hundred characters and no space; the second version has another word in its midst.
PROSE = (
    "倉庫の棚卸しは毎月二十五日に締め、翌営業日の午前中に各店舗の担当者が数を確かめる。"
    "数が合わないときは写真を添えて報告し、原因が分かるまで発注を止める。"
    "新しい端末への移行は店舗ごとに進め、古い端末は一か月のあいだ予備として残す。"
    "連絡は必ずこのチャンネルで行い、電話で決めたことも後から書き残す。"
    "困ったときは一人で抱え込まず、早めに周りへ声をかける。急ぎの件は店長が判断し、"
    "その理由を翌日までに必ず記録する。"
)
WORD, OTHER_WORD = "写真", "領収書"


@dataclass
class Team(Story):
    """``long`` has two hundred versions, ``prose`` one unspaced paragraph in two."""

    long: Memory
    prose: Memory


@transaction.atomic
def grow() -> Team:
    story = tell()
    workspace, now = story.workspace, timezone.now().replace(microsecond=0)
    people = list(Person.objects.filter(workspace=workspace).order_by("pk"))
    channels = open_channels(workspace, people)
    talk(channels, people, now - timedelta(days=28))
    memories = [remember(channel, i) for i, channel in enumerate(channels)]
    Seen.objects.bulk_create(
        Seen(user=story.user, memory=item, number=1, at=now) for item in memories
    )
    long, prose = memories[0], memories[1]
    for number in range(long.head, VERSIONS):
        changed = [
            f"- Shelf {shelf}: counted {number - (number - shelf) % 12} times."
            for shelf in range(12)
        ]
        make_version(memory=long, text="\n".join(changed), sources=first_of(long))
    for word in (WORD, OTHER_WORD):
        make_version(memory=prose, text=PROSE.replace(WORD, word), sources=first_of(prose))
    for memory in (long, prose):
        memory.refresh_from_db()
    for i in range(30):
        Note.objects.write(workspace, f"Lasting statement {i}: 移行.", author=story.user)
    indexing.index_pending()
    return Team(**vars(story), long=long, prose=prose)


def open_channels(workspace: Workspace, people: list[Person]) -> list[Channel]:
    """As many as are missing; each ninth is private, and all are in it."""
    missing = CHANNELS - workspace.channels.count()
    Channel.objects.bulk_create(
        Channel(
            workspace=workspace,
            slack_id=f"C1{i:04}",
            name=f"{NAMES[i % len(NAMES)]}-{i:02}",
            kind=Channel.Kind.PRIVATE if i % 9 == 8 else Channel.Kind.PUBLIC,
        )
        for i in range(missing)
    )
    channels = list(workspace.channels.filter(slack_id__startswith="C1").order_by("slack_id"))
    for channel in channels:
        if not channel.is_public:
            for person in people:
                ChannelMemberFactory(channel=channel, person=person)
    return channels


def talk(channels: list[Channel], people: list[Person], start: datetime) -> None:
    """Create the missing messages, evenly over the channels; half of them are Japanese.

    All but the last few are in closed segments.
    """
    missing = MESSAGES - Message.objects.count()
    each = missing // len(channels)
    start_us = to_micros(start)

    def moment(i: int, at: int) -> int:
        return start_us + (at * 90 + i) * 60_000_000

    Segment.objects.bulk_create(
        Segment(
            channel=channel,
            number=at // SEGMENT + 1,
            first_us=moment(i, at),
            last_us=moment(i, at + SEGMENT - 1),
            closed_us=moment(i, at + SEGMENT),
            message_count=SEGMENT,
            reason=Trigger.FULL,
            outcome=Segment.Outcome.REMEMBERED,
        )
        for i, channel in enumerate(channels)
        for at in range(0, each - SEGMENT, SEGMENT)
    )
    segments = {(item.channel_id, item.number): item for item in Segment.objects.all()}
    rows = []
    for n in range(missing):
        i, at = n % len(channels), n // len(channels)
        sentences = SENTENCES_JA if i % 2 else SENTENCES
        rows.append(
            Message(
                channel=channels[i],
                ts=ts_from_micros(moment(i, at)),
                micros=moment(i, at),
                author=people[(n * n + at) % len(people)],
                text=f"{sentences[(at + i) % len(sentences)]} ({n})"
                + (" 端末の移行" if at == 7 else ""),
                segment=segments.get((channels[i].pk, at // SEGMENT + 1)),
            )
        )
    Message.objects.insert(rows)
    for channel in channels:
        channel.remember_from(start_us)


def first_of(memory: Memory) -> list[Message]:
    return list(memory.channel.messages.in_order()[:1])


def remember(channel: Channel, i: int) -> Memory:
    """Create two versions. The second has one more line and one changed line."""
    lines = [*(LINES_JA if i % 2 else LINES)][:3]
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    messages = list(channel.messages.in_order()[:4])
    after = [lines[0], f"- Number {i} was counted again: 移行.", lines[2], f"- News of number {i}."]
    for text in (lines, after):
        make_version(memory=memory, text="\n".join(text), sources=messages[:2])
    memory.refresh_from_db()
    return memory
