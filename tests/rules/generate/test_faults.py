"""The policy, as the table that docs/rules.md shows."""

import re
from pathlib import Path

import pytest

from memories.rules.generate import circuit_breaker
from memories.rules.generate.faults import (
    MAX_ATTEMPTS,
    POLICIES,
    Action,
    Fault,
    NextStep,
    choose_next_step,
    is_sudden_shrink,
)
from memories.rules.summariser import RequestStrategy

ENDPOINT_FAULTS = {
    circuit_breaker.RATE_LIMITED,
    *circuit_breaker.OPERATOR_FAULTS,
    *circuit_breaker.OUTAGES,
}
WHOLE, SPLIT, ISOLATE = RequestStrategy.WHOLE, RequestStrategy.SPLIT, RequestStrategy.ISOLATE
BAD_REPLIES = [
    "blank", "unknown_finish", "prompt_echoed", "too_long", "too_short", "wrong_language",
    "nothing", "copied",
]  # fmt: skip
FOUR_RETRIES_LATER = ["retry_later whole"] * 4 + ["give_up whole"]


def steps_after(
    code: str, *, is_partly_paid: bool = False, others_succeed: bool = False
) -> list[str]:
    """The step after each attempt when all attempts end with the same fault."""
    steps, strategy = [], WHOLE
    for attempt in range(1, MAX_ATTEMPTS + 1):
        step = choose_next_step(
            code,
            attempt,
            strategy,
            is_partly_paid=is_partly_paid,
            others_succeed=others_succeed,
        )
        steps.append(f"{step.action} {step.strategy}")
        if step.action is Action.GIVE_UP:
            return steps
        strategy = step.strategy
    raise AssertionError("never failed")


@pytest.mark.parametrize("code", sorted(ENDPOINT_FAULTS))
@pytest.mark.parametrize("attempt", [1, MAX_ATTEMPTS, 99])
@pytest.mark.parametrize("strategy", RequestStrategy)
def test_a_fault_of_the_endpoint_uses_no_attempt(
    code: str, attempt: int, strategy: RequestStrategy
) -> None:
    assert choose_next_step(code, attempt, strategy) == NextStep(Action.WAIT, strategy)


@pytest.mark.parametrize("code", sorted(circuit_breaker.OUTAGES))
def test_a_request_that_fails_alone_is_given_up(code: str) -> None:
    assert steps_after(code, others_succeed=True) == FOUR_RETRIES_LATER
    assert choose_next_step(code, 2, ISOLATE, others_succeed=True) == NextStep(
        Action.RETRY_LATER, ISOLATE
    )


@pytest.mark.parametrize("code", sorted(ENDPOINT_FAULTS - circuit_breaker.OUTAGES))
def test_a_refusal_of_all_calls_is_never_a_fault_of_one_job(code: str) -> None:
    assert choose_next_step(code, 99, WHOLE, others_succeed=True) == NextStep(Action.WAIT, WHOLE)


@pytest.mark.parametrize("code", sorted(ENDPOINT_FAULTS))
def test_a_partly_paid_request_is_given_up(code: str) -> None:
    assert steps_after(code, is_partly_paid=True) == FOUR_RETRIES_LATER


@pytest.mark.parametrize("code", ["unexpected", "a new one"])
def test_an_unknown_fault_is_retried_later(code: str) -> None:
    assert steps_after(code) == FOUR_RETRIES_LATER
    assert choose_next_step(code, 2, ISOLATE) == NextStep(Action.RETRY_LATER, ISOLATE)


@pytest.mark.parametrize("code", BAD_REPLIES)
def test_a_bad_reply_is_requested_again_in_the_other_form(code: str) -> None:
    assert steps_after(code) == ["retry_now whole"] * 4 + ["give_up whole"]
    assert choose_next_step(code, 1, WHOLE).changes_form


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("bad_request", ["give_up whole"]),
        ("context_too_long", ["retry_now split", "give_up split"]),
        ("length", ["retry_now whole", "retry_now split", "give_up split"]),
        ("content_filter", ["retry_now whole", "retry_now isolate", "give_up isolate"]),
        ("refusal", ["retry_now whole", "retry_now isolate", "give_up isolate"]),
    ],
)
def test_another_strategy_may_help(code: str, expected: list[str]) -> None:
    assert steps_after(code) == expected


@pytest.mark.parametrize(
    ("code", "attempt", "strategy", "expected"),
    [
        ("length", 2, WHOLE, NextStep(Action.RETRY_NOW, SPLIT)),
        ("length", 2, SPLIT, NextStep(Action.RETRY_NOW, SPLIT)),
        ("length", 3, SPLIT, NextStep(Action.GIVE_UP, SPLIT)),
        ("length", 3, ISOLATE, NextStep(Action.GIVE_UP, ISOLATE)),
        ("refusal", 1, SPLIT, NextStep(Action.RETRY_NOW, SPLIT)),
        ("refusal", 2, SPLIT, NextStep(Action.RETRY_NOW, ISOLATE)),
        ("refusal", 4, SPLIT, NextStep(Action.RETRY_NOW, ISOLATE)),
        ("refusal", 5, WHOLE, NextStep(Action.GIVE_UP, WHOLE)),
        ("context_too_long", 4, WHOLE, NextStep(Action.RETRY_NOW, SPLIT)),
        ("context_too_long", 5, WHOLE, NextStep(Action.GIVE_UP, WHOLE)),
        ("context_too_long", 2, ISOLATE, NextStep(Action.GIVE_UP, ISOLATE)),
        ("blank", 3, SPLIT, NextStep(Action.RETRY_NOW, SPLIT, changes_form=True)),
        ("no_room", 3, WHOLE, NextStep(Action.RETRY_NOW, WHOLE)),
    ],
)
def test_the_step_after_a_fault(
    code: str, attempt: int, strategy: RequestStrategy, expected: NextStep
) -> None:
    assert choose_next_step(code, attempt, strategy) == expected


def test_every_fault_of_a_reply_has_its_row() -> None:
    assert {fault.value for fault in Fault} <= set(POLICIES)


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
