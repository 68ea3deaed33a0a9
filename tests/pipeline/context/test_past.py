"""Contexts at a past time, ``at``: the content of that time, as the reader may read it now."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from django.db.models import Q
from time_machine import TimeMachineFixture

from memories.demo.ids import person_id
from memories.demo.workspace import DEMO_PERSON, build_export
from memories.llm.offline import OfflineSummariser
from memories.models import Line, Memory, Message, NewVersion, Note, Reader, User, Workspace
from memories.models.ingest.people import IN_DEMO
from memories.pipeline.access.channel_audience import update_audience
from memories.pipeline.context.build import build_context
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.ingest.importing import import_export
from memories.pipeline.redaction.redactor import redact_messages
from memories.pipeline.redaction.removed import RemovedMessage
from memories.pipeline.search import indexing
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Line as LineValue
from memories.rules.memory.lines import Origin
from memories.slack.export import Export
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    NoteFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_segment,
    make_thread_memory,
)

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
NOW = datetime(2026, 11, 24, 9, tzinfo=UTC)
DAYS = 24
CHANNELS = ("general", "launch", "dev")
QUESTION = "When does the launch take place?"


def contexts(workspace: Workspace, reader: Reader, **when: datetime) -> list[str]:
    """The contexts of a reader, as JSON: whole, and within budgets."""
    visible = workspace.channels.visible_to(reader).order_by("slack_id")
    shown = visible.filter(Q(name__in=CHANNELS) | Q(kind="private"))
    texts = []
    for channel in ("", *shown.values_list("name", flat=True)):
        for options in ({"budget": 0}, {"budget": 1_000}, {"budget": 2_000, "question": QUESTION}):
            built = build_context(
                workspace, reader, channel=channel or None, **options, **{"now": NOW, **when}
            )
            texts.append(json.dumps(built.as_json(), ensure_ascii=False, indent=1))
    return texts


class GrowingDemo:
    """The demo. Each step imports new messages, runs a pass and makes a change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        build_export(folder / "whole", NOW)
        self.workspace: Workspace = WorkspaceFactory(settings={"time_zone": "Asia/Tokyo"})
        self.user: User = UserFactory()
        self.random = Random(5)

    def grow(self, moment: datetime, step: int) -> None:
        part = self.folder / f"part{step}"
        for path in (self.folder / "whole").rglob("*.json"):
            rows = json.loads(path.read_text("utf-8"))
            if path.parent.name != "whole":
                rows = [row for row in rows if float(row["ts"]) <= moment.timestamp()]
            target = part / path.relative_to(self.folder / "whole")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(rows), "utf-8")
        with Export(part) as export:
            import_export(self.workspace, export, moment, backfill="all" if step == 2 else None)
        if not step:
            person = self.workspace.people.get(slack_id=person_id(DEMO_PERSON))
            person.link(self.user, IN_DEMO)
        run_pass(self.workspace, moment, OfflineSummariser())
        for _ in range(2):
            self.random.choice((self.revise, self.pin, self.add_note, self.rewrite_note))()
        indexing.index_pending()

    def readers(self) -> list[Reader]:
        """A reader of public channels, and a person who is in a private one."""
        return [Reader.public(), Reader.of(self.user)]

    def _memory(self) -> Memory | None:
        memories = Memory.objects.filter(current__isnull=False).order_by("pk")
        return self.random.choice(list(memories)) if memories else None

    def revise(self) -> None:
        if (memory := self._memory()) and memory.current:
            text = f"{memory.current.content}\n- A person added line {self.random.random()}."
            memory.revise(text, by=self.user, based_on=memory.current.number)

    def pin(self) -> None:
        if (memory := self._memory()) and memory.current:
            line = self.random.choice(list(memory.current.lines.all()))
            number = memory.current.number
            memory.pin(line.position, by=self.user, based_on=number, pinned=not line.pinned)

    def add_note(self) -> None:
        Note.objects.write(self.workspace, f"Note {self.random.random()}", author=self.user)

    def rewrite_note(self) -> None:
        if note := Note.objects.order_by("?").first():
            note.rewrite(f"Note rewritten {self.random.random()}", by=self.user)


@pytest.mark.timeout(1800)
@pytest.mark.nightly("the whole demo grows; the tests below make each change by itself")
@pytest.mark.parametrize("count", [5, 100])
def test_a_past_context_equals_the_context_at_that_time(
    tmp_path: Path, time_machine: TimeMachineFixture, count: int
) -> None:
    demo = GrowingDemo(tmp_path)
    seconds = sorted(Random(count).sample(range(DAYS * 86400), count))
    moments = [NOW - timedelta(days=DAYS) + timedelta(seconds=n) for n in seconds]
    then = {}
    for step, moment in enumerate(moments):
        time_machine.move_to(moment - timedelta(minutes=1), tick=False)
        demo.grow(moment - timedelta(minutes=1), step)
        time_machine.move_to(moment, tick=False)
        then[moment] = [contexts(demo.workspace, who, now=moment) for who in demo.readers()]
    time_machine.move_to(NOW, tick=False)
    demo.grow(NOW, count)
    for moment in moments:
        for who, before in zip(demo.readers(), then[moment], strict=True):
            assert contexts(demo.workspace, who, at=moment) == before, (moment, who)
    assert len({of_public[0] for of_public, _ in then.values()}) > 0.9 * count
    last_of_public, last_of_person = then[moments[-1]]
    assert len(last_of_person) > len(last_of_public)


def rewrite(memory: Memory, text: str) -> None:
    """Rewrite the only version in place, as a job does."""
    lines = [LineValue(text, Origin.MODEL)]
    assert memory.versions.get().rewrite(NewVersion(lines=lines, origin=Origin.MODEL, until_us=1))


def context_at(workspace: Workspace, at: datetime, **options: object) -> str:
    return build_context(workspace, Reader.public(), now=NOW, at=at, **options).text  # type: ignore[arg-type]


@pytest.fixture
def clock(time_machine: TimeMachineFixture) -> Callable[[int], datetime]:
    """Set the time to an hour of Monday, and return the time half an hour later."""

    def move(hour: int) -> datetime:
        moment = MONDAY + timedelta(hours=hour)
        time_machine.move_to(moment, tick=False)
        return moment + timedelta(minutes=30)

    return move


def test_a_text_that_was_rewritten_in_place_has_its_words_of_then(clock: Callable) -> None:
    early = clock(1)
    channel = ChannelFactory(start_us=0)
    root = MessageFactory(channel=channel, text="Where do we meet?", at=MONDAY)
    Message.objects.update(thread_ts=root.ts)
    memory = make_thread_memory(channel=channel, thread_ts=root.ts, texts=["- They meet in Ulm"])
    clock(2)
    rewrite(memory, "- They meet in Bonn")
    options = {"channel": channel.slack_id, "thread_ts": root.ts}
    assert "Ulm" in context_at(channel.workspace, early, **options)
    assert "Bonn" in context_at(channel.workspace, MONDAY + timedelta(hours=3), **options)


def test_deleted_words_are_in_no_past_context(clock: Callable) -> None:
    early = clock(1)
    channel = ChannelFactory(start_us=0)
    secret = MessageFactory(channel=channel, text="The vault opens with seven nine two", at=MONDAY)
    Message.objects.update(thread_ts=secret.ts)
    texts = [f"- {secret.text}"]
    memory = make_thread_memory(channel=channel, thread_ts=secret.ts, texts=texts)
    make_channel_memory(channel=channel, texts=texts)
    for line in Line.objects.all():
        line.sources.set([secret])
    clock(2)
    rewrite(memory, "- They spoke of a vault")
    options = {"channel": channel.slack_id, "thread_ts": secret.ts}
    assert "seven nine two" in context_at(channel.workspace, early, **options)
    removed = RemovedMessage.of(secret)
    secret.purge()
    secret.save()
    redact_messages(channel.workspace, [removed])
    options["thread_ts"] = None
    assert "seven" not in context_at(channel.workspace, early, **options)


@pytest.mark.parametrize("history_enabled", [True, False])
def test_one_text_of_all_segments_has_no_past_after_a_deletion(
    clock: Callable, history_enabled: bool
) -> None:
    early = clock(1)
    workspace = WorkspaceFactory(settings={"history_enabled": history_enabled})
    channel = ChannelFactory(workspace=workspace, start_us=0)
    secret = MessageFactory(channel=channel, text="The vault opens with seven nine two", at=MONDAY)
    make_segment(messages=[secret], outcome="remembered")
    kind = MemoryType.SHORT_TERM
    memory = make_channel_memory(channel=channel, memory_type=kind, texts=["- They hide things"])
    clock(2)
    rewrite(memory, "- They like animals")
    removed = RemovedMessage.of(secret)
    secret.purge()
    secret.save()
    redact_messages(workspace, [removed])
    assert ("They hide things" in context_at(workspace, early)) == history_enabled


def test_one_text_of_all_segments_has_no_past_after_history_is_on_again(clock: Callable) -> None:
    early = clock(1)
    channel = ChannelFactory(start_us=0)
    secret, stays = (
        MessageFactory(channel=channel, text=text, at=MONDAY + timedelta(minutes=minutes))
        for minutes, text in enumerate(["The vault opens with seven nine two", "A cat"])
    )
    _, last = (
        make_segment(messages=[message], outcome="remembered", reason="history_off")
        for message in (secret, stays)
    )
    kind = MemoryType.SHORT_TERM
    memory = make_channel_memory(channel=channel, memory_type=kind, texts=["- They hide things"])
    clock(2)
    rewrite(memory, "- They like animals")
    memory.versions.update(segment=last, until_us=last.last_us)
    assert "They hide things" in context_at(channel.workspace, early)
    removed = RemovedMessage.of(secret)
    secret.purge()
    secret.save()
    redact_messages(channel.workspace, [removed])
    assert "They hide things" not in context_at(channel.workspace, early)


def test_words_from_private_days_are_in_no_past_context(clock: Callable) -> None:
    early = clock(1)
    channel = ChannelFactory(start_us=0, kind="private")
    root = MessageFactory(channel=channel, text="a secret", at=MONDAY)
    Message.objects.update(thread_ts=root.ts)
    memory = make_thread_memory(channel=channel, thread_ts=root.ts, texts=["- The salaries rise"])
    clock(2)
    rewrite(memory, "- Something changed")
    channel.update_fields({"kind": "public"})
    update_audience(channel, "private", was_shared=False)
    clock(3)
    rewrite(memory, "- They speak in the open")
    memory.versions.update(audience="scope")
    text = context_at(channel.workspace, early, channel=channel.slack_id)
    assert "salaries" not in text and "secret" not in text


def test_a_line_has_the_pin_and_the_outcome_that_it_had_then(clock: Callable) -> None:
    early = clock(1)
    channel = ChannelFactory(start_us=0)
    long_text = "\n".join(f"- Line {n} was decided on Monday by Mika" for n in range(60))
    memory = make_channel_memory(channel=channel, texts=[long_text])
    late = clock(2)
    memory.pin(3, by=None, based_on=1)
    memory.current.lines.filter(position=5).update(
        outcome=Line.Outcome.SUPERSEDED, outcome_us=to_micros(MONDAY + timedelta(hours=2))
    )
    tight = {"channel": channel.slack_id, "budget": 200}
    before, after = (context_at(channel.workspace, at, **tight) for at in (early, late))
    assert "Line 3 " in after and before != after
    unpinned = early
    clock(3)
    memory.pin(3, by=None, based_on=1, pinned=False)
    assert context_at(channel.workspace, unpinned, **tight) == before
    assert context_at(channel.workspace, late, **tight) == after


def test_a_line_that_was_pinned_after_it_was_superseded_is_in_force_before(clock: Callable) -> None:
    early = clock(1)
    channel = ChannelFactory(start_us=0)
    long_text = "\n".join(f"- Line {n} was decided on Monday by Mika" for n in range(60))
    memory = make_channel_memory(channel=channel, texts=[long_text])
    tight = {"channel": channel.slack_id, "budget": 200}
    before = context_at(channel.workspace, early, **tight)
    late = clock(2)
    memory.current.lines.filter(position__lt=10).update(
        outcome=Line.Outcome.SUPERSEDED, outcome_us=to_micros(MONDAY + timedelta(hours=2))
    )
    after = context_at(channel.workspace, late, **tight)
    clock(3)
    memory.pin(3, by=None, based_on=1)
    assert before != after
    assert context_at(channel.workspace, early, **tight) == before
    assert context_at(channel.workspace, late, **tight) == after


def test_messages_are_in_the_conversation_until_their_segment_was_closed(clock: Callable) -> None:
    early = clock(1)
    channel = ChannelFactory(start_us=0)
    message = MessageFactory(channel=channel, text="We meet at noon", at=MONDAY)
    MessageFactory(channel=channel, text="It was sent later", at=MONDAY + timedelta(hours=2))
    clock(2)
    segment = make_segment(messages=[message])
    type(segment).objects.update(created_us=to_micros(MONDAY + timedelta(hours=2)))
    options = {"channel": channel.slack_id, "without": ["short_term"], "budget": 0}
    assert "We meet at noon" in context_at(channel.workspace, early, **options)
    assert "sent later" not in context_at(channel.workspace, early, **options)
    assert "We meet" not in context_at(channel.workspace, MONDAY + timedelta(hours=3), **options)


def test_a_note_has_its_words_of_then(clock: Callable) -> None:
    clock(0)
    workspace = WorkspaceFactory()
    note = NoteFactory(workspace=workspace, content="Ship on Fridays")
    early = clock(1)
    clock(2)
    note.rewrite("Ship on Mondays")
    NoteFactory(workspace=workspace, content="A later note")
    text = context_at(workspace, early)
    assert "Fridays" in text and "Mondays" not in text and "later" not in text
    assert "Mondays" in context_at(workspace, MONDAY + timedelta(hours=3))


def test_before_the_first_import_messages_count_from_their_own_time() -> None:
    channel = ChannelFactory(workspace=WorkspaceFactory())
    for hours, text in ((0, "the key is 4711"), (2, "the key has changed")):
        MessageFactory(channel=channel, at=MONDAY + timedelta(hours=hours), text=text)
    at = MONDAY + timedelta(hours=1)
    text = build_context(
        channel.workspace, Reader.public(), channel=channel.name, now=NOW, at=at
    ).text
    assert "4711" in text and "changed" not in text


@pytest.mark.parametrize("question", ["", "launch"])
def test_a_future_time_is_now(clock: Callable, question: str) -> None:
    now = clock(1)
    channel = ChannelFactory(start_us=0)
    MessageFactory(channel=channel, text="We launch in Ulm", at=MONDAY)
    make_channel_memory(channel=channel, texts=["- The launch is in Ulm"])
    indexing.index_pending()
    options = {"channel": channel.slack_id, "question": question}
    future = context_at(channel.workspace, datetime(9999, 12, 31, tzinfo=UTC), **options)
    assert "We launch in Ulm" in future
    assert future == context_at(channel.workspace, now, **options)
