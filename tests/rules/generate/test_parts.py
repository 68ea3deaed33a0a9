from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.generate.parts import combination, halves, restored
from memories.rules.generate.summary import Addition, MemoryLine, ParsedReply, ReadLine, Reference
from memories.rules.generate.tokens import estimate
from tests.llm.requests import added, long, memory, messages, short


@given(st.lists(st.text(min_size=1, max_size=300), min_size=2, max_size=20))
def test_halves_hold_every_message_once_and_in_order(texts: list[str]) -> None:
    whole = short(messages(*texts), references=[Reference("r", "x")])
    first, second = halves(whole)
    assert [*first.messages, *second.messages] == list(whole.messages)
    assert first.messages and second.messages
    assert first.references == second.references == whole.references


def test_halves_are_about_as_long() -> None:
    """In tokens, not in messages: one long message may weigh as much as forty others."""
    first, second = halves(short(messages("a" * 4000, *["b" * 100] * 40)))
    sizes = [sum(estimate(m.text) for m in half.messages) for half in (first, second)]
    assert len(first.messages) < 12 < len(second.messages)
    assert max(sizes) < 1.5 * min(sizes)


def test_a_long_message_is_cut_in_two_of_the_same_number() -> None:
    [message] = messages("word " * 1_000)
    first, second = (half.messages[0] for half in halves(short([message])))
    assert first.text + second.text == message.text
    assert replace(first, text="") == replace(second, text="") == replace(message, text="")
    assert halves(short([replace(message, text=message.text[:3_000])])) == ()


def test_an_existing_memory_goes_with_the_earlier_half() -> None:
    first, second = halves(short(messages("a", "b", first=2), existing=memory("was")))
    assert list(first.existing) == memory("was")
    assert list(second.existing) == []


def test_a_merge_is_cut_between_or_within_additions() -> None:
    whole = long(
        existing=memory("was"),
        additions=[*added("a", "b", title="one", first=2), *added("c", "d", title="two", first=4)],
    )
    first, second = halves(whole)
    assert [line.text for line in first.existing] == ["was"]
    assert [(a.title, [line.ref for line in a.lines]) for a in first.additions] == [("one", [2, 3])]
    assert [(a.title, [line.ref for line in a.lines]) for a in second.additions] == [
        ("two", [4, 5])
    ]
    assert list(second.existing) == []


@pytest.mark.parametrize(
    "whole",
    [short(messages("one")), short(), long(existing=memory("a", "b")), long(additions=added("a"))],
    ids=["one message", "no message", "nothing added", "one line"],
)
def test_what_cannot_be_cut(whole: object) -> None:
    assert halves(whole) == ()  # type: ignore[arg-type]


PARTS = [
    ParsedReply([ReadLine("early", (1, 2)), ReadLine("unmarked")]),
    ParsedReply(nothing=True),
    ParsedReply([ReadLine("late", (40, 41, 42, 43, 44))]),
]


def test_a_short_combination_has_the_parts_as_additions() -> None:
    whole = combination(short(messages("x"), existing=memory("was")), PARTS)
    assert not whole.messages and not whole.existing
    assert whole.additions == [
        Addition("part 1", [MemoryLine(1, "early"), MemoryLine(2, "unmarked")]),
        Addition("part 2", []),
        Addition("part 3", [MemoryLine(3, "late")]),
    ]


def test_a_long_combination_grows_from_the_first_part() -> None:
    own = [MemoryLine(1, "early", by_person=True)]
    whole = combination(long(existing=own, additions=added("x", first=2)), PARTS)
    assert whole.existing == [MemoryLine(1, "early", by_person=True), MemoryLine(2, "unmarked")]
    assert [line.ref for addition in whole.additions for line in addition.lines] == [3]


@pytest.mark.parametrize(
    ("cited", "refs"),
    [
        ((1,), (1, 2)),
        ((2,), ()),
        ((3, 1), (40, 41, 42, 43, 44)),
        ((1, 3), (1, 2, 40, 41, 42)),
        ((), ()),
    ],
)
def test_references_lead_back_to_the_whole(cited: tuple[int, ...], refs: tuple[int, ...]) -> None:
    [line] = restored(ParsedReply([ReadLine("all", cited)]), PARTS)
    assert (line.text, line.refs) == ("all", refs)
