"""Merges by operations: the changes of the text."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.generate import prompts
from memories.rules.generate.reply import parse_reply
from memories.rules.ingest.timestamps import HOUR
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.kinds import Kind
from memories.rules.memory.operations import (
    Change,
    DropReason,
    apply_operations,
)
from memories.rules.summariser import (
    Addition,
    MemoryLine,
    ParsedReply,
    Reply,
    ReplyLine,
    Request,
)
from memories.rules.tokens import estimate_tokens

OLD = [
    MemoryLine(1, "The launch is on 18 November 2026.", kind=Kind.STATUS, at_us=10),
    MemoryLine(2, "Ann asked who writes the release notes.", kind=Kind.QUESTION, at_us=20),
    MemoryLine(3, "The beta shipped on 2 October 2026.", kind=Kind.EVENT, at_us=30),
    MemoryLine(4, "Deploy from main only.", by_person=True, at_us=40),
]
NEW = [
    MemoryLine(5, "Ben moved the launch to 26 November 2026.", at_us=50),
    MemoryLine(6, "Cleo writes the release notes by Friday 20 November 2026.", at_us=60),
    MemoryLine(7, "Old news from March.", at_us=5),
]
REQUEST = Request(
    scope=MemoryScope.CHANNEL,
    memory_type=MemoryType.LONG_TERM,
    max_tokens=500,
    language="en",
    zone="UTC",
    scope_name="#launch",
    existing=OLD,
    additions=[Addition("2026-11-10", NEW)],
    operations=True,
)


def read(text: str, request: Request = REQUEST) -> ParsedReply:
    return parse_reply(Reply(text, "stop", "model", "1"), request)


def texts(reading: ParsedReply) -> list[str]:
    return [line.text for line in reading.lines]


def test_a_merge_changes_only_the_named_lines() -> None:
    reading = read(
        "~ L1 status: The launch is on 26 November 2026. [5]\n"
        "~ L2 task: Cleo writes the release notes by Friday 20 November 2026. [6]\n"
    )
    assert texts(reading) == [
        "The launch is on 26 November 2026.",
        "Cleo writes the release notes by Friday 20 November 2026.",
        "Deploy from main only.",
        "The beta shipped on 2 October 2026.",
    ]
    assert [line.kind for line in reading.lines] == [Kind.STATUS, Kind.TASK, None, Kind.EVENT]
    assert reading.superseded == {
        1: "The launch is on 26 November 2026.",
        2: "Cleo writes the release notes by Friday 20 November 2026.",
    }
    assert not reading.dropped


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("~ L9 status: The launch is on 26 November 2026. [5]", DropReason.UNKNOWN_LINE),
        ("~ L4 decision: The launch is on 26 November 2026. [5]", DropReason.KEPT_LINE),
        ("- L4 [5]", DropReason.KEPT_LINE),
        ("~ L3 event: Old news from March. [7]", DropReason.OLDER_NEWS),
        ("- L2", DropReason.OLDER_NEWS),
        ("- L2 [7]", DropReason.OLDER_NEWS),
        ("+ status: The launch is on 18 November 2026. [5]", DropReason.DUPLICATE),
    ],
)
def test_invalid_operations_are_dropped(row: str, reason: DropReason) -> None:
    """The text stays, and a valid operation in the same reply is applied."""
    reading = read(f"{row}\n+ task: Cleo writes the release notes by Friday 20 November 2026. [6]")
    assert [why for _, why in reading.dropped] == [reason]
    assert {line.text for line in OLD} <= set(texts(reading))
    assert len(reading.lines) == len(OLD) + 1


def test_lines_become_one_line_without_news() -> None:
    old = [
        MemoryLine(1, "Ann tests the search.", kind=Kind.TASK, at_us=10),
        MemoryLine(2, "Ann tests the export.", kind=Kind.TASK, at_us=20),
    ]
    reading = read(
        "~ L1,L2 task: Ann tests the search and the export.", replace(REQUEST, existing=old)
    )
    assert texts(reading) == ["Ann tests the search and the export."]
    assert reading.lines[0].refs == (1, 2)
    assert set(reading.superseded) == {1, 2} and not reading.dropped


def test_a_line_from_several_lines_keeps_their_sources() -> None:
    reading = read("~ L1,L2 status: Ben moved the launch to 26 November 2026. [5]")
    assert reading.lines[0].refs == (5, 1, 2)


def test_lines_do_not_become_a_line_that_rests_on_another_line() -> None:
    reading = read(
        "~ L1,L2 event: The beta shipped on 2 October 2026, again. [3]\n"
        "+ task: Cleo writes the release notes by Friday 20 November 2026. [6]"
    )
    assert [why for _, why in reading.dropped] == [DropReason.OLDER_NEWS]
    assert {line.text for line in OLD} <= set(texts(reading))


def test_a_line_is_replaced_once() -> None:
    reading = read(
        "~ L1 status: Ben moved the launch to 26 November 2026. [5]\n"
        "- L1 [6]\n~ L1,L2 status: Cleo writes the release notes by Friday 20 November 2026. [6]"
    )
    assert [why for _, why in reading.dropped] == [DropReason.UNKNOWN_LINE] * 2
    assert OLD[1].text in texts(reading)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("~ L9 status: The launch is on 26 November 2026. [5]", "no_operation"),
        ("- L4 [5]\n- L9 [5]", "no_operation"),
        ("+ status: The launch is on 18 November 2026. [1]", ""),
        ("NOTHING", ""),
    ],
)
def test_a_reply_that_changes_nothing(text: str, fault: str) -> None:
    """A known statement is no fault. A reply with only invalid operations is one."""
    reading = read(text)
    assert reading.fault == fault
    if not fault:
        assert {line.text for line in reading.lines} == {line.text for line in OLD}


def test_old_events_are_archived_over_the_limit() -> None:
    request = replace(REQUEST, max_tokens=2 + sum(estimate_tokens(line.text) for line in OLD))
    reading = read("+ decision: Ben moved the launch to 26 November 2026. [5]", request)
    assert [line.text for line in reading.archived] == ["The beta shipped on 2 October 2026."]
    assert "Deploy from main only." in texts(reading)
    assert "Ben moved the launch to 26 November 2026." in texts(reading)


def test_new_lines_are_never_archived() -> None:
    reading = read(
        "+ event: Ben moved the launch to 26 November 2026. [5]", replace(REQUEST, max_tokens=1)
    )
    assert texts(reading) == [
        "Deploy from main only.",
        "Ben moved the launch to 26 November 2026.",
    ]
    assert len(reading.archived) == 3


def test_the_prompt_numbers_the_lines() -> None:
    text = prompts.user_text(REQUEST, "key")
    assert "\nL1 [1970-01-01] The launch is on 18 November 2026.\n" in text
    assert "\n5 Ben moved the launch" in text
    assert "L1 " not in prompts.user_text(replace(REQUEST, operations=False), "key")


changes = st.lists(
    st.builds(
        Change,
        st.none() | st.builds(ReplyLine, st.text("abc", min_size=1, max_size=3)),
        st.lists(st.integers(1, 9), max_size=3, unique=True).map(tuple),
        st.lists(st.integers(1, 9), max_size=3).map(tuple),
    ).filter(lambda change: change.line is not None or change.targets),
    max_size=8,
)


@given(changes, st.integers(1, 200))
def test_each_line_stays_or_has_an_outcome(made: list[Change], limit: int) -> None:
    """Lines without an operation stay as they are, and lines of people always do."""
    request = replace(REQUEST, max_tokens=limit)
    reading = apply_operations(request, made, lambda a, b: a == b)
    archived = {line.text for line in reading.archived}
    for line in OLD:
        outcomes = [
            line.ref in reading.superseded,
            line.ref in reading.settled,
            line.text in archived,
        ]
        assert (texts(reading).count(line.text) == 1) is not any(outcomes)
        assert sum(outcomes) <= 1
        assert not line.by_person or line.text in texts(reading)
    carried_out = len(made) - len(reading.dropped)
    assert carried_out >= len(set(reading.superseded.values()))
    for text in reading.superseded.values():
        assert text in texts(reading)


def test_an_operation_may_name_a_line_of_the_same_reply() -> None:
    """It uses the number of the new line's source. That source is superseded, too."""
    reading = read(
        "~ L1 status: Ben moved the launch to 26 November 2026. [5]\n"
        "~ L5 task: Cleo writes the release notes by Friday 20 November 2026. [6]\n"
    )
    assert texts(reading)[0] == "Cleo writes the release notes by Friday 20 November 2026."
    assert reading.superseded == {1: texts(reading)[0], 5: texts(reading)[0]}
    assert not reading.dropped


def test_an_event_that_becomes_a_status_moves_to_the_end() -> None:
    reading = read("~ L3 status: Ben moved the launch to 26 November 2026. [5]")
    assert texts(reading)[-1] == "Ben moved the launch to 26 November 2026."
    assert len(reading.lines) == len(OLD)


@pytest.mark.parametrize(
    ("old", "first"),
    [
        (("The disk was full.", Kind.EVENT, 50), ("Ann owns the budget.", Kind.TASK, 10)),
        (("It is as it was.", Kind.STATUS, 50), ("The budget is 1,200 dollars.", Kind.STATUS, 50)),
        (("Ann owns the budget.", Kind.TASK, 0), ("Ben owns the door.", Kind.TASK, 90)),
    ],
    ids=["an event", "what says little", "what is old"],
)
def test_the_line_of_least_value_is_archived_first(
    old: tuple[str, Kind, int], first: tuple[str, Kind, int]
) -> None:
    """The limit fits one of two old lines beside the new one. Times are in days."""
    day = 24 * HOUR
    lines = [
        MemoryLine(n, *_line(text, kind, at * day))
        for n, (text, kind, at) in ((1, old), (2, first))
    ]
    request = replace(
        REQUEST,
        existing=lines,
        additions=[Addition("", [MemoryLine(5, "Cleo joined.", at_us=100 * day)])],
        max_tokens=max(estimate_tokens(line.text) for line in lines)
        + estimate_tokens("Cleo joined."),
    )
    reading = read("+ event: Cleo joined. [5]", request)
    assert [line.text for line in reading.archived] == [old[0]]


def _line(text: str, kind: Kind, at_us: int) -> tuple[str, bool, Kind, int]:
    return text, False, kind, at_us


# The operation of each new line, and the earlier line that it changes.
replies = st.lists(
    st.tuples(st.sampled_from("+~-"), st.integers(0, 9), st.sampled_from(list(Kind))), max_size=9
)


@given(replies)
def test_one_merge_gives_the_same_text_as_several(made: list[tuple[str, int, Kind]]) -> None:
    """Each new line gets the same operation in one merge for all as in a merge of its own."""
    old = [MemoryLine(1, "old 1", kind=Kind.STATUS, at_us=1)]
    new = [MemoryLine(n, f"new {n}", at_us=n) for n in range(2, len(made) + 2)]
    standing = ["old 1"]
    each: list[tuple[MemoryLine, str | None, Kind | None]] = []  # line, what it changes, its kind
    for line, (sign, index, kind) in zip(new, made, strict=True):
        target = standing[index % len(standing)] if sign != "+" and standing else None
        if target is not None:
            standing.remove(target)
        if sign != "-":
            standing.append(line.text)
        each.append((line, target, None if sign == "-" else kind))

    def change(line: MemoryLine, target: int | None, kind: Kind | None) -> Change:
        text = ReplyLine(line.text, (line.ref,), kind) if kind else None
        return Change(text, () if target is None else (target,), (line.ref,))

    def merge(
        existing: list[MemoryLine], rows: list[Change], added: list[MemoryLine]
    ) -> ParsedReply:
        request = replace(REQUEST, existing=existing, additions=[Addition("", added)])
        reading = apply_operations(request, rows, lambda a, b: a == b)
        assert not reading.dropped
        return reading

    refs = {line.text: line.ref for line in [*old, *new]}
    rows = [change(line, refs[t] if t else None, kind) for line, t, kind in each if t or kind]
    at_once = merge(old, rows, new)
    text = old
    for line, target, kind in each:
        numbers = {old_line.text: n for n, old_line in enumerate(text, 1)}
        added = replace(line, ref=100)
        existing = [replace(old_line, ref=numbers[old_line.text]) for old_line in text]
        changes_of_line = [change(added, numbers[target] if target else None, kind)] * bool(
            target or kind
        )
        reading = merge(existing, changes_of_line, [added])
        by_text = {old_line.text: old_line for old_line in [*existing, added]}
        text = [replace(by_text[old_line.text], kind=old_line.kind) for old_line in reading.lines]
    assert texts(at_once) == [line.text for line in text]
