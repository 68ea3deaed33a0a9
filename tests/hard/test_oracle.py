"""The oracle counts each planted error and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from memories.models import Channel, Line, Memory, MemoryVersion
from memories.rules.memory.identity import MemoryType
from tests.factories import ChannelFactory, make_version
from tests.hard import oracle
from tests.hard.model_client import RecordedCall

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.nightly("a tool of the hard tests that run whole there"),
]

FIRST, SECOND = "uq000001x", "uq000002x"


def call(n: int, *words: str, fault: str = "") -> RecordedCall:
    return RecordedCall(n, 0.0, "", words, 0, messages=True, fault=fault, prompt_tokens=1,
                 completion_tokens=1)  # fmt: skip


LEDGER = [
    call(1, FIRST),
    call(2, SECOND),
    call(3, FIRST, SECOND),
    call(4, SECOND, fault="length"),
    call(5, SECOND),
]


@pytest.fixture
def channel() -> Channel:
    """Two segments' texts and the long-term memory of both, as they must be."""
    channel: Channel = ChannelFactory()
    short = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    make_version(memory=short, text=f"- an000001x {FIRST} is settled")
    make_version(memory=short, text=f"- an000002x {SECOND} is settled")
    long = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    make_version(memory=long, text=f"- an000003x {FIRST} {SECOND}")
    return channel


def test_archived_lines_count_as_remembered(channel: Channel) -> None:
    old = Memory.objects.of_channel(channel, MemoryType.LONG_TERM).versions.get()
    long = old.memory
    new = make_version(memory=long, text=f"- an000005x {SECOND}", base=old)
    assert verdict(channel) == {"not_in_long_term": 1}
    old.lines.update(outcome=Line.Outcome.ARCHIVED)
    assert verdict(channel) == {}
    assert new.base == old


def verdict(channel: Channel) -> dict[str, Any]:
    counts = oracle.verdict({channel.pk: [FIRST, SECOND]}, LEDGER)
    return {key: count for key, count in counts.items() if count}


def test_nothing_is_wrong_where_nothing_is(channel: Channel) -> None:
    assert verdict(channel) == {}


def short_term(channel: Channel) -> Memory:
    return Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)


def reword(channel: Channel, memory_type: MemoryType, number: int, text: str) -> None:
    MemoryVersion.objects.filter(
        memory__channel=channel, memory__memory_type=memory_type, number=number
    ).update(content=text)


def lose(channel: Channel) -> None:
    reword(channel, MemoryType.SHORT_TERM, 2, "- an000002x nothing of note")


def double(channel: Channel) -> None:
    make_version(memory=short_term(channel), text=f"- an000005x {SECOND} again")


def use_twice(channel: Channel) -> None:
    make_version(memory=short_term(channel), text="- an000002x once more")


def stray(channel: Channel) -> None:
    reword(channel, MemoryType.SHORT_TERM, 2, f"- an000002x {SECOND} and uq000777x")


def forget(channel: Channel) -> None:
    reword(channel, MemoryType.LONG_TERM, 1, f"- an000003x {FIRST}")


def spoil(channel: Channel) -> None:
    reword(channel, MemoryType.SHORT_TERM, 2, f"- an000004x {SECOND} is sett")


def skip_a_number(channel: Channel) -> None:
    MemoryVersion.objects.filter(memory=short_term(channel), number=2).update(number=3)


def lag_behind(channel: Channel) -> None:
    Memory.objects.filter(pk=short_term(channel).pk).update(head=1)


def point_back(channel: Channel) -> None:
    memory = short_term(channel)
    first = memory.versions.get(number=1)
    Memory.objects.filter(pk=memory.pk).update(current=first)


@pytest.mark.parametrize(
    ("plant", "wrong"),
    [
        (lose, {"lost": 1}),
        (double, {"duplicate": 1}),
        (use_twice, {"answers_used_twice": 1}),
        (stray, {"astray": 1, "not_an_answer": 1}),
        (forget, {"not_in_long_term": 1}),
        (spoil, {"not_an_answer": 1}),
        (skip_a_number, {"gaps": 1}),
        (lag_behind, {"wrong_heads": 1}),
        (point_back, {"wrong_heads": 1}),
    ],
)
def test_planted_errors_are_reported(
    channel: Channel, plant: Callable[[Channel], None], wrong: dict[str, int]
) -> None:
    plant(channel)
    assert verdict(channel) == wrong
