"""The policy, as the table that docs/rules.md shows."""

import re
from pathlib import Path

import pytest

from memories.rules.generate import breaker
from memories.rules.generate.faults import (
    MOST_ATTEMPTS,
    POLICIES,
    Next,
    Then,
    is_sudden_shrink,
    what_next,
)
from memories.rules.generate.reply import Fault
from memories.rules.generate.summary import RequestStrategy

ENDPOINTS = {breaker.RATE_LIMITED, *breaker.NEEDS_PERSON, *breaker.DOWN}
WHOLE, SPLIT, ISOLATE = RequestStrategy.WHOLE, RequestStrategy.SPLIT, RequestStrategy.ISOLATE
BAD_ANSWERS = [
    "empty", "blank", "unknown_finish", "prompt_echoed", "too_long", "too_short", "wrong_language",
    "nothing", "copied",
]  # fmt: skip


def story(code: str, way: RequestStrategy = WHOLE, *, fails_alone: bool = False) -> list[str]:
    """What follows each attempt when all end with the same fault."""
    told = []
    for attempt in range(1, MOST_ATTEMPTS + 1):
        following = what_next(code, attempt, way, fails_alone=fails_alone)
        told.append(f"{following.then} {following.way}")
        if following.then is Then.GIVE_UP:
            return told
        way = following.way
    raise AssertionError("never given up")


@pytest.mark.parametrize("code", sorted(ENDPOINTS))
@pytest.mark.parametrize("attempt", [1, MOST_ATTEMPTS, 99])
@pytest.mark.parametrize("way", RequestStrategy)
def test_what_the_endpoint_will_not_do_uses_no_attempt(
    code: str, attempt: int, way: RequestStrategy
) -> None:
    assert what_next(code, attempt, way) == Next(Then.WAIT, way)


@pytest.mark.parametrize("code", sorted(breaker.DOWN))
def test_what_fails_alone_while_others_are_answered_is_given_up(code: str) -> None:
    assert story(code, fails_alone=True) == ["again_later whole"] * 4 + ["give_up whole"]
    assert what_next(code, 2, ISOLATE, fails_alone=True) == Next(Then.AGAIN_LATER, ISOLATE)


@pytest.mark.parametrize("code", sorted(ENDPOINTS - breaker.DOWN))
def test_what_the_endpoint_refuses_to_all_is_never_a_jobs_fault(code: str) -> None:
    assert what_next(code, 99, WHOLE, fails_alone=True) == Next(Then.WAIT, WHOLE)


@pytest.mark.parametrize("code", ["unexpected", "a new one"])
def test_what_may_pass_is_tried_again_later(code: str) -> None:
    assert story(code) == ["again_later whole"] * 4 + ["give_up whole"]
    assert what_next(code, 2, ISOLATE) == Next(Then.AGAIN_LATER, ISOLATE)


@pytest.mark.parametrize("code", BAD_ANSWERS)
def test_a_bad_answer_is_asked_for_again(code: str) -> None:
    assert story(code) == ["again whole"] * 4 + ["give_up whole"]
    assert what_next(code, 1, WHOLE).changes_form


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("bad_request", ["give_up whole"]),
        ("context_too_long", ["again split", "give_up split"]),
        ("length", ["again whole", "again split", "give_up split"]),
        ("content_filter", ["again whole", "again isolate", "give_up isolate"]),
        ("refusal", ["again whole", "again isolate", "give_up isolate"]),
    ],
)
def test_what_another_way_may_help(code: str, expected: list[str]) -> None:
    assert story(code) == expected


@pytest.mark.parametrize(
    ("code", "attempt", "way", "expected"),
    [
        ("length", 2, WHOLE, Next(Then.AGAIN, SPLIT)),
        ("length", 2, SPLIT, Next(Then.AGAIN, SPLIT)),
        ("length", 3, SPLIT, Next(Then.GIVE_UP, SPLIT)),
        ("length", 3, ISOLATE, Next(Then.GIVE_UP, ISOLATE)),
        ("refusal", 1, SPLIT, Next(Then.AGAIN, SPLIT)),
        ("refusal", 2, SPLIT, Next(Then.AGAIN, ISOLATE)),
        ("refusal", 4, SPLIT, Next(Then.AGAIN, ISOLATE)),
        ("refusal", 5, WHOLE, Next(Then.GIVE_UP, WHOLE)),
        ("context_too_long", 4, WHOLE, Next(Then.AGAIN, SPLIT)),
        ("context_too_long", 5, WHOLE, Next(Then.GIVE_UP, WHOLE)),
        ("context_too_long", 2, ISOLATE, Next(Then.GIVE_UP, ISOLATE)),
        ("blank", 3, SPLIT, Next(Then.AGAIN, SPLIT, changes_form=True)),
        ("no_room", 3, WHOLE, Next(Then.AGAIN, WHOLE)),
    ],
)
def test_one_fault_after_another(
    code: str, attempt: int, way: RequestStrategy, expected: Next
) -> None:
    assert what_next(code, attempt, way) == expected


def test_every_fault_of_a_reply_has_its_row() -> None:
    assert {fault.value for fault in Fault} <= set(POLICIES)


def test_policy_and_breaker_agree() -> None:
    """Who waits for the endpoint is who closes it."""
    waits = {code for code, policy in POLICIES.items() if policy.then is Then.WAIT}
    assert waits == ENDPOINTS


def test_the_documented_table_names_every_fault() -> None:
    text = (Path(__file__).parents[3] / "docs" / "rules.md").read_text()
    [section] = re.findall(r"^## Faults of the model\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    first_cells = re.findall(r"^\| ([^|]+) \|", section, re.M)
    named = {code for cell in first_cells for code in re.findall(r"`(\w+)`", cell)}
    assert named == set(POLICIES)


SIXTY = "word" * 60  # tokens


@pytest.mark.parametrize(
    ("before", "after", "sudden"),
    [
        (SIXTY, "word" * 17, True),
        (SIXTY, "word" * 18, False),
        (SIXTY, SIXTY * 2, False),
        (SIXTY, "", True),
        ("word" * 59, "", False),
        ("", "", False),
        ("記憶" * 50, "記憶" * 14, True),
        ("記憶" * 50, "word" * 30, False),
    ],
    ids=["under", "at", "grows", "nothing", "short", "both empty", "Japanese", "translated"],
)
def test_sudden_shrink(before: str, after: str, sudden: bool) -> None:
    assert is_sudden_shrink(before, after) is sudden
