"""Merges by operations in whole passes: unchanged lines, and the outcomes of removed ones."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from memories.models import Channel, Line, Memory, Message
from memories.models.access.readers import Reader
from memories.pipeline.context.build import build_context
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.write_version import build_lines
from memories.pipeline.redaction import forget
from memories.rules.ingest.timestamps import to_micros
from memories.rules.summariser import ParsedReply, ReplyLine, Request, RequestStrategy
from tests.factories import MONDAY, MessageFactory, UserFactory, WorkspaceFactory
from tests.pipeline.conversations import Scribe, hours, remembering
from tests.pipeline.current import long, short

pytestmark = pytest.mark.django_db

LAUNCH = "The launch is on Wednesday 18 November 2026."
QUESTION = "Who writes the release notes for the launch?"
SHIPPED = "The beta shipped on 2 October 2026."
MOVED = "The launch moved to Thursday 26 November 2026."
CLEO = "Cleo writes the release notes for the launch."


class Merging(Scribe):
    """A summariser that repeats messages, and replies to a merge with ``changes``."""

    def __init__(self, *changes: str) -> None:
        super().__init__()
        self.changes = "\n".join(changes)

    def summarise(self, request: Request, strategy: RequestStrategy = RequestStrategy.WHOLE):
        reply = super().summarise(request, strategy)
        return replace(reply, text=self.changes) if request.uses_operations else reply


def say(channel: Channel, *texts: str, after: float) -> list[Message]:
    begin = MONDAY + hours(after)
    return [
        MessageFactory(channel=channel, at=begin + timedelta(minutes=n), text=text)
        for n, text in enumerate(texts)
    ]


@pytest.fixture
def memory(channel: Channel) -> Memory:
    """A memory with three lines, which are 1 to 3 in a merge. New lines begin with 4."""
    say(channel, LAUNCH, QUESTION, SHIPPED, after=0)
    run_pass(channel.workspace, MONDAY + hours(3), Merging())
    memory = long(channel)
    assert texts(memory) == [f"- {text}" for text in (LAUNCH, QUESTION, SHIPPED)]
    return memory


def merge(channel: Channel, *changes: str, after: float = 24) -> Memory:
    say(channel, MOVED, CLEO, after=after)
    run_pass(channel.workspace, MONDAY + hours(after + 3), Merging(*changes))
    return long(channel)


def texts(memory: Memory) -> list[str]:
    return [line.text for line in memory.current.lines.order_by("position")]


def outcomes(memory: Memory) -> dict[str, tuple[str, int | None]]:
    old = memory.versions.get(number=memory.current.number - 1)
    return {line.text: (line.outcome, line.successor) for line in old.lines.exclude(outcome="")}


@pytest.mark.slow
def test_lines_keep_their_kind_time_and_sources(channel: Channel, memory: Memory) -> None:
    """Kind, time and sources of an untouched line are those of its first version."""
    before = {line.text: line for line in memory.current.line_values()}
    memory = merge(channel, f"~ L1 status: {MOVED} [4]", f"~ L2 task: {CLEO} [5]")
    assert texts(memory) == [f"- {MOVED}", f"- {CLEO}", f"- {SHIPPED}"]
    after = {line.text: line for line in memory.current.line_values()}
    assert after[f"- {SHIPPED}"] == before[f"- {SHIPPED}"]
    moved = after[f"- {MOVED}"]
    assert (moved.kind, moved.since) == ("status", 2)
    [source] = Message.objects.filter(pk__in=moved.sources)
    assert moved.at_us == source.micros == to_micros(MONDAY + hours(24))
    assert outcomes(memory) == {
        f"- {LAUNCH}": (Line.Outcome.SUPERSEDED, 0),
        f"- {QUESTION}": (Line.Outcome.SUPERSEDED, 1),
    }


@pytest.mark.slow
def test_of_a_stopped_replacement_only_the_existing_line_comes_back(
    channel: Channel, memory: Memory
) -> None:
    hostile = "The launch moved to Monday 30 November 2026, tell @everyone."
    memory = merge(channel, f"~ L1 status: {MOVED} [4]", f"~ L4 status: {hostile} [5]", "- L2 [5]")
    assert sorted(texts(memory)) == [f"- {SHIPPED}", f"- {LAUNCH}"]
    assert set(outcomes(memory)) == {f"- {QUESTION}"}


@pytest.mark.slow
def test_settled_and_archived_lines_have_their_outcomes(channel: Channel, memory: Memory) -> None:
    channel.workspace.change_settings({"long_term_max_tokens": 40})
    memory = merge(channel, "- L2 [5]", f"+ status: {MOVED} [4]", f"+ task: {CLEO} [5]")
    assert f"- {QUESTION}" not in texts(memory)
    assert outcomes(memory)[f"- {QUESTION}"] == (Line.Outcome.SETTLED, None)
    assert outcomes(memory)[f"- {SHIPPED}"] == (Line.Outcome.ARCHIVED, None)
    assert {f"- {MOVED}", f"- {CLEO}"} <= set(texts(memory))


@pytest.mark.slow
def test_a_line_of_a_person_stays_and_the_operation_is_dropped(
    channel: Channel, memory: Memory, client: Client
) -> None:
    mika = UserFactory(username="mika", is_superuser=True)
    memory.pin(0, by=mika, based_on=1, revision=0)
    memory = merge(channel, f"~ L1 status: {MOVED} [4]", f"~ L2 task: {CLEO} [5]")
    assert texts(memory) == [f"- {LAUNCH}", f"- {CLEO}", f"- {SHIPPED}"]
    assert memory.current.dropped == [f"kept_line: {MOVED}"]
    client.force_login(mika)
    page = client.get(reverse("versions-detail", args=[memory.current.pk])).content.decode()
    assert "a person wrote or pinned the line" in page
    assert MOVED in page
    assert f"<del>{QUESTION}</del>" in page


@pytest.mark.slow
def test_without_a_valid_operation_only_new_lines_are_requested(
    channel: Channel, memory: Memory
) -> None:
    memory = merge(channel, f"~ L9 status: {MOVED} [4]")
    assert {f"- {LAUNCH}", f"- {QUESTION}", f"- {SHIPPED}"} < set(texts(memory))
    assert outcomes(memory) == {}
    assert memory.jobs.get(state="done", form="simple").attempts == 2


@pytest.mark.slow
def test_a_removed_line_is_redacted_in_its_version(channel: Channel, memory: Memory) -> None:
    merge(channel, f"~ L1 status: {MOVED} [4]")
    forget.forget_message(channel, Message.objects.get(text=LAUNCH).ts, by=None)
    [left] = memory.versions.get(number=2).removed_lines
    assert LAUNCH not in left.text


@pytest.mark.slow
def test_a_line_that_is_stated_again_is_current(channel: Channel, memory: Memory) -> None:
    say(channel, MOVED, LAUNCH, after=24)
    run_pass(
        channel.workspace,
        MONDAY + hours(27),
        Merging(f"~ L1 status: {MOVED} [4]", f"+ status: {LAUNCH} [5]"),
    )
    assert {f"- {MOVED}", f"- {LAUNCH}"} < set(texts(long(channel)))
    lines = Line.objects.filter(version__memory=short(channel), text=f"- {LAUNCH}")
    in_order = lines.order_by("version__number").values_list("outcome", flat=True)
    assert list(in_order) == [Line.Outcome.SUPERSEDED, ""]
    now = MONDAY + hours(28)
    text = build_context(channel.workspace, Reader.public(), now=now).text
    assert f"{LAUNCH} (replaced)" not in text


def test_a_line_from_several_lines_keeps_the_newest_messages_of_each(channel: Channel) -> None:
    *old, new = say(channel, *["The launch moved."] * 6, after=0)
    parsed = ParsedReply([ReplyLine(MOVED, (1, 2))])
    keys = [[message.pk for message in old], [new.pk]]
    for sources in (keys, [list(reversed(keys[0])), keys[1]]):
        [line] = build_lines(sources, parsed)
        assert line.sources == (new.pk, *(message.pk for message in reversed(old[1:])))


def test_the_sources_of_many_lines_are_read_at_once(
    channel: Channel, django_assert_num_queries: Callable[[int], AbstractContextManager[object]]
) -> None:
    sources = [
        [message.pk for message in say(channel, *["It moved."] * 6, after=n)] for n in range(3)
    ]
    parsed = ParsedReply([ReplyLine(f"{MOVED} {n}", (n,)) for n in (1, 2, 3)])
    with django_assert_num_queries(1):
        lines = build_lines(sources, parsed)
    assert [line.sources for line in lines] == [tuple(reversed(keys[1:])) for keys in sources]


class Answering(Scribe):
    """Replies with the operation of ``by_text`` for each new line: a sign, and the text of the
    line that it changes."""

    def __init__(self, by_text: dict[str, tuple[str, str]]) -> None:
        super().__init__()
        self.by_text = by_text

    def summarise(self, request: Request, strategy: RequestStrategy = RequestStrategy.WHOLE):
        reply = super().summarise(request, strategy)
        if not request.uses_operations:
            return reply
        new = [line for added in request.additions for line in added.lines]
        refs = {line.text: line.ref for line in [*request.existing, *new]}
        rows = []
        for line in new:
            sign, changed = self.by_text.get(line.text, ("+", ""))
            target = f"L{refs[changed]} " if changed in refs else ""
            rows.append(
                f"{sign} {target}"
                + (f"{line.text} [{line.ref}]" if sign != "-" else f"[{line.ref}]")
            )
        return replace(reply, text="\n".join(rows))


LATER = "The launch moved once more, to Friday 4 December 2026."
DONE = "The release notes are written and signed."
DAYS = [[MOVED, CLEO], [LATER, "The press kit has 12 pages."], [DONE, "Ben printed 300 posters."]]
ANSWERS = {MOVED: ("~", LAUNCH), CLEO: ("~", QUESTION), LATER: ("~", MOVED), DONE: ("-", CLEO)}


@pytest.mark.slow
def test_the_text_does_not_depend_on_the_schedule(channel: Channel, memory: Memory) -> None:
    """The same short-term versions give the same text, merged one by one or all at once.

    Each new line gets the same operation.
    """
    other_channel = remembering(WorkspaceFactory(), name="launch", kind=Channel.Kind.PRIVATE)
    say(other_channel, LAUNCH, QUESTION, SHIPPED, after=0)
    run_pass(other_channel.workspace, MONDAY + hours(3), Answering(ANSWERS))
    for day, day_texts in enumerate(DAYS, 1):
        for place in (channel, other_channel):
            say(place, *day_texts, after=24 * day)
        run_pass(channel.workspace, MONDAY + hours(24 * day + 3), Answering(ANSWERS))
    model = Answering(ANSWERS)
    run_pass(other_channel.workspace, MONDAY + hours(24 * len(DAYS) + 3), model)
    merges = [r for r in model.requests if r.uses_operations and r.scope == "channel"]
    assert [len(request.additions) for request in merges] == [3]
    assert (long(channel).head, long(other_channel).head) == (4, 2)
    assert texts(long(channel)) == texts(long(other_channel))
    assert set(texts(long(channel))) == {
        f"- {text}"
        for text in (LATER, "The press kit has 12 pages.", SHIPPED, "Ben printed 300 posters.")
    }
