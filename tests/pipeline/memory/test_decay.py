"""The state of a memory after fifty merges by operations, with rewrites to compare."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from memories.models import Channel, Message, Workspace
from memories.pipeline.generate.passes import run_pass
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.figures import SourceFigures, find_unverified
from memories.rules.memory.lines import Line, strip_bullet
from memories.rules.summariser import Request, RequestStrategy
from memories.rules.tokens import estimate_tokens
from tests.factories import MONDAY, MessageFactory, PersonFactory, WorkspaceFactory
from tests.pipeline.conversations import Scribe, hours, remembering
from tests.pipeline.current import long

pytestmark = pytest.mark.django_db

THINGS = "door garden budget printer server poster contract kitchen archive lamp".split()
MONTHS = "March April May June July".split()


class Replayed(Scribe):
    """Random replies of a model, from the words of the merged texts."""

    def __init__(self) -> None:
        super().__init__()
        self.named: set[str] = set()  # lines of the channel's text that the last merge named

    def summarise(self, request: Request, strategy: RequestStrategy = RequestStrategy.WHOLE):
        reply = super().summarise(request, strategy)
        if not request.additions or not request.existing:
            return reply
        new = [line for added in request.additions for line in added.lines]
        rows = self._operations(request, new) if request.uses_operations else _rewrite(request, new)
        return replace(reply, text="\n".join(rows))

    def _operations(self, request, new):
        chance = random.Random(new[0].text)
        named = set()
        for line in new:
            kind = "event" if "shipped" in line.text else "status"
            target = chance.choice(request.existing)
            sign = chance.choice("+++~-")
            named |= set() if sign == "+" else {target.text}
            if sign == "-":
                yield f"- L{target.ref} [{line.ref}]"
            else:
                number = f"L{target.ref} " if sign == "~" else ""
                yield f"{sign} {number}{kind}: {line.text} [{line.ref}]"
        if request.scope == "channel":
            self.named = named


def _rewrite(request, new):
    """Rewrite all lines. Over the limit the first two become one, with half of their words."""
    lines = [(line.text, [line.ref]) for line in [*request.existing, *new]]
    while len(lines) > 1 and sum(estimate_tokens(text) for text, _ in lines) > request.max_tokens:
        (a, refs), (b, more) = lines[:2]
        halves = [" ".join(text.split()[: len(text.split()) // 2]) for text in (a, b)]
        lines[:2] = [(" and ".join(halves), refs + more)]
    return [f"- {text} {refs[:5]}" for text, refs in lines]


@dataclass
class Decay:
    """The counts of lines of one memory."""

    touched: list[str] = field(
        default_factory=list
    )  # lines that changed although no operation names them
    lost: list[str] = field(default_factory=list)  # lines of people that a version lacks
    unverified: list[str] = field(default_factory=list)  # lines with figures of no source
    lines: Counter[str] = field(default_factory=Counter)


def say(channel: Channel, day: int) -> None:
    chance = random.Random(day)
    author = PersonFactory(workspace=channel.workspace, name="mika")
    for n in range(3):
        thing, month = chance.choice(THINGS), chance.choice(MONTHS)
        verb = chance.choice(["needs", "costs", "shipped with"])
        text = f"The {thing} {verb} {day * 10 + n} parts of plan {chance.randrange(900)} by {n + 1} {month} 2026."
        at = MONDAY + hours(24 * day) + timedelta(minutes=n)
        MessageFactory(channel=channel, author=author, at=at, text=text)


def lived(mode: str, merges: int) -> Decay:
    """Merge a number of texts into a memory with a pinned line and a line of a person."""
    workspace: Workspace = WorkspaceFactory(settings={"merge_mode": mode})
    channel = remembering(workspace, kind=Channel.Kind.PRIVATE)
    model, decay = Replayed(), Decay()
    protected_texts: list[str] = []
    before: dict[str, Line] = {}
    for day in range(merges + 1):
        say(channel, day)
        run_pass(workspace, MONDAY + hours(24 * day + 3), model)
        memory = long(channel)
        assert memory.head == day + (2 if day else 1)
        now = {line.text: line for line in memory.current.line_values()}
        archived = {line.text for line in memory.archived_lines()}
        decay.lost += [text for text in protected_texts if text not in now]
        decay.touched += [
            text
            for text, line in before.items()
            if strip_bullet(text) not in model.named
            and text not in archived
            and now.get(text) != line
        ]
        if day == 0:
            version = memory.revise(
                f"{memory.current.content}\n- Ask Ben first.", by=None, based_on=1
            )
            memory.pin(0, by=None, based_on=version.number)
            memory.refresh_from_db()
            now = {line.text: line for line in memory.current.line_values()}
            protected_texts = [text for text, line in now.items() if line.is_protected]
            assert len(protected_texts) == 2
        before = now
    for text, line in before.items():
        source_messages = Message.objects.filter(pk__in=line.sources)
        figures = [SourceFigures(f"mika {m.text}", from_micros(m.micros)) for m in source_messages]
        decay.unverified += [text] if find_unverified(text, figures) else []
    decay.lines = Counter(text=len(before), archive=memory.archived_lines().count())
    return decay


@pytest.mark.parametrize(
    "merges",
    [
        pytest.param(5, marks=pytest.mark.slow),
        pytest.param(50, marks=pytest.mark.nightly("a hundred passes")),
    ],
)
def test_merges_by_operations_do_not_wear_out_a_memory(merges: int) -> None:
    by_operations, rewritten = lived("operations", merges), lived("rewrite", merges)
    for mode, decay in (("operations", by_operations), ("rewrite", rewritten)):
        print(  # noqa: T201
            f"{mode}: {dict(decay.lines)}, {len(decay.touched)} changed unasked, "
            f"{len(decay.unverified)} with figures of no source, {len(decay.lost)} of people lost"
        )
    assert by_operations.touched == []
    assert by_operations.unverified == []
    assert by_operations.lost == []
    assert by_operations.lines["text"] > 5
    assert by_operations.lines["archive"] or merges < 50
