"""What becomes of a job whose call failed or whose answer was no good: the whole policy.

docs/rules.md shows the same table in words.
"""

from dataclasses import dataclass
from enum import StrEnum

from memories.rules.generate.breaker import DOWN
from memories.rules.generate.summary import RequestStrategy
from memories.rules.generate.tokens import estimate

MOST_ATTEMPTS = 5
SHRUNK_TO = 0.3  # of what it was: less is held for a person
WORTH_ASKING = 60  # tokens: a shorter text may shrink as it likes


class Then(StrEnum):
    """What to do next with the row."""

    WAIT = "wait"  # the endpoint's fault: no attempt used, it waits as long as the endpoint does
    AGAIN_LATER = "again_later"  # after a back-off, an attempt used
    AGAIN = "again"  # at once
    GIVE_UP = "give_up"


@dataclass(frozen=True)
class Next:
    then: Then
    way: RequestStrategy = RequestStrategy.WHOLE
    changes_form: bool = False


@dataclass(frozen=True)
class Policy:
    """``ways``: how the attempts after the first ask, the last one for all that follow.
    ``changes_form``: each attempt is asked in the other form of the prompt."""

    then: Then
    ways: tuple[RequestStrategy, ...] = (RequestStrategy.WHOLE,)
    gives_up_after: RequestStrategy | None = (
        None  # asked so, or further, in vain: nothing else would help
    )
    changes_form: bool = False


_ENDPOINT = Policy(Then.WAIT)
_LATER = Policy(Then.AGAIN_LATER)
_BAD_ANSWER = Policy(Then.AGAIN, changes_form=True)
_REFUSED = Policy(
    Then.AGAIN, (RequestStrategy.WHOLE, RequestStrategy.ISOLATE), RequestStrategy.ISOLATE
)

POLICIES: dict[str, Policy] = {
    # The endpoint will not have any call: rules.breaker says until when.
    "rate_limited": _ENDPOINT,
    "out_of_credit": _ENDPOINT,
    "unauthorised": _ENDPOINT,
    "forbidden": _ENDPOINT,
    "not_found": _ENDPOINT,
    # It could not answer, or not this request: see `what_next`.
    "server_error": _ENDPOINT,
    "connection": _ENDPOINT,
    "timeout": _ENDPOINT,
    "malformed": _ENDPOINT,
    # This request cannot be answered as it is.
    "bad_request": Policy(Then.GIVE_UP),
    "context_too_long": Policy(Then.AGAIN, (RequestStrategy.SPLIT,), RequestStrategy.SPLIT),
    "length": Policy(
        Then.AGAIN, (RequestStrategy.WHOLE, RequestStrategy.SPLIT), RequestStrategy.SPLIT
    ),
    "content_filter": _REFUSED,
    "refusal": _REFUSED,
    # An answer that is none: the next one may be better.
    "empty": _BAD_ANSWER,
    "blank": _BAD_ANSWER,
    "unknown_finish": _BAD_ANSWER,
    "prompt_echoed": _BAD_ANSWER,
    "too_long": _BAD_ANSWER,
    "too_short": _BAD_ANSWER,
    "wrong_language": _BAD_ANSWER,
    "no_operation": _BAD_ANSWER,
    "nothing": _BAD_ANSWER,  # in the other form too: the offline highlights stand in
    "copied": _BAD_ANSWER,  # in the other form too: the quotes are kept
    # It thought until the limit: the endpoint's allowance has grown.
    "no_room": Policy(Then.AGAIN),
    # Nothing of it may enter a memory (rules.guard): asked again it would be paid again.
    "quarantined": Policy(Then.GIVE_UP),
    # Ours.
    "unexpected": _LATER,
}


def what_next(code: str, attempt: int, way: RequestStrategy, *, fails_alone: bool = False) -> Next:
    """After the nth attempt, asked in this way, ended with this fault. ``fails_alone``: the endpoint
    answered others since this one failed before, so the fault is the request's."""
    policy = POLICIES.get(code, _LATER)
    if fails_alone and code in DOWN:
        policy = _LATER
    if policy.then in (Then.WAIT, Then.GIVE_UP):
        return Next(policy.then, way)
    last = policy.gives_up_after
    in_vain = last is not None and _further(way, last) is way and attempt > len(policy.ways)
    if attempt >= MOST_ATTEMPTS or in_vain:
        return Next(Then.GIVE_UP, way)
    asked = policy.ways[min(attempt, len(policy.ways)) - 1]
    return Next(policy.then, _further(way, asked), policy.changes_form)


def _further(one: RequestStrategy, other: RequestStrategy) -> RequestStrategy:
    """The one of two ways that comes later: a row never goes back to an earlier one."""
    return max(one, other, key=list(RequestStrategy).index)


def is_sudden_shrink(before: str, after: str) -> bool:
    """Whether a long-term text lost so much that a person should see it first (rule 8)."""
    size = estimate(before)
    return size >= WORTH_ASKING and estimate(after) < SHRUNK_TO * size
