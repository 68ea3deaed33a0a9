"""The operations in a reply: their signs, and the forms of replies that models send."""

import pytest

from memories.rules.generate.reply_operations import Operation, parse_operations
from memories.rules.generate.reply_statements import Spans, Statement
from memories.rules.memory.kinds import Kind


def add(text: str, kind: Kind | None = None, spans: Spans = ()) -> Operation:
    return Operation(Statement(text, kind, spans))


def replacing(text: str, *targets: int, kind: Kind | None = None, spans: Spans = ()) -> Operation:
    return Operation(Statement(text, kind, spans), targets)


def remove(*targets: int, spans: Spans = ()) -> Operation:
    return Operation(Statement("", None, spans), targets, removes=True)


@pytest.mark.parametrize(
    ("row", "operation"),
    [
        ("+ decision: a [5]", add("a", Kind.DECISION, ((5, 5),))),
        ("- + decision: a [5]", add("a", Kind.DECISION, ((5, 5),))),
        ("+decision: a [5]", add("a", Kind.DECISION, ((5, 5),))),
        ("＋ 決定: あ [5]", add("あ", Kind.DECISION, ((5, 5),))),
        ("~ L1 status: b [5]", replacing("b", 1, kind=Kind.STATUS, spans=((5, 5),))),
        ("~ L1: b [5]", replacing("b", 1, spans=((5, 5),))),
        ("～ [L1] b", replacing("b", 1)),
        ("~ L1,L2 b", replacing("b", 1, 2)),
        ("~ L1, 2 and L3 b", replacing("b", 1, 2, 3)),
        ("- ~ L1 b", replacing("b", 1)),
        ("1. ~ L1 status: b [5]", replacing("b", 1, kind=Kind.STATUS, spans=((5, 5),))),
        ("~ L1 see note [3] [5]", replacing("see note [3]", 1, spans=((5, 5),))),
        ("- L2 [6]", remove(2, spans=((6, 6),))),
        ("2) - L2 [6]", remove(2, spans=((6, 6),))),
        ("- L2, L3 [6, 7].", remove(2, 3, spans=((6, 6), (7, 7)))),
        ("- L2", remove(2)),
        ("- a bullet [5]", add("a bullet", spans=((5, 5),))),
        ("- a bullet. ~ L1,L2", add("a bullet.")),
        ("- L2 cache misses doubled [5]", add("L2 cache misses doubled", spans=((5, 5),))),
    ],
)
def test_a_row_is_parsed(row: str, operation: Operation) -> None:
    assert parse_operations(f"\n{row}\n") == [operation]


@pytest.mark.parametrize("row", ["L2", "L2 [6]", "1. L2 [6]", "+", "+ NOTHING", "- none"])
def test_a_row_without_a_statement_is_no_operation(row: str) -> None:
    assert parse_operations(f"{row}\n+ a") == [add("a")]


@pytest.mark.parametrize(
    "text",
    [
        "~ L1 decision: We take Bolt. [5]\n+ task: Ann moves the archive. [6]\n- L2 [6]",
        "Here are the changes:\n\n~ L1 decision: We take Bolt. [5]\n"
        "+ task: Ann moves the archive. [6]\n- L2 [6]\n\nLet me know if you need more!",
        "Sure, the list.\n1. ~ L1 decision: We take Bolt. [5]\n"
        "2. + task: Ann moves the archive. [6]\n3. - L2 [6]",
        "## Decisions\n~ L1 We take Bolt. [5]\n## Tasks\n+ Ann moves the archive. [6]\n- L2 [6]",
        "- ~ L1 decision: We take\n  Bolt. [5]\n- + task: Ann moves\n  the archive. [6]\n- - L2 [6]",
        "```\n~ L1 **Decision:** We take Bolt. [5]\n+ **Task:** Ann moves the archive. [6]\n- L2 [6]\n```",
        '{\n  "changes": [\n    "~ L1 decision: We take Bolt. [5]",\n'
        '    "+ task: Ann moves the archive. [6]",\n    "- L2 [6]"\n  ]\n}',
    ],
    ids=["plain", "remarks", "numbers", "headings", "wrapped", "bold", "JSON"],
)
def test_every_form_of_a_reply_gives_the_same_operations(text: str) -> None:
    operations = parse_operations(text)
    assert [(o.statement.text, o.targets, o.removes, o.statement.spans) for o in operations] == [
        ("We take Bolt.", (1,), False, ((5, 5),)),
        ("Ann moves the archive.", (), False, ((6, 6),)),
        ("", (2,), True, ((6, 6),)),
    ]
    assert [o.statement.kind for o in operations[:2]] == [Kind.DECISION, Kind.TASK]
