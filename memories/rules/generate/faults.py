"""The faults of model calls and replies, and what happens to a job after each of them.

docs/rules.md shows the same table in words.
"""

from dataclasses import dataclass
from enum import StrEnum

from memories.rules.generate.circuit_breaker import OPERATOR_FAULTS, OUTAGES, RATE_LIMITED
from memories.rules.summariser import RequestStrategy
from memories.rules.tokens import estimate_tokens

MAX_ATTEMPTS = 5
_MIN_SHARE = 0.3  # of the size before: a person approves a text that shrinks further
_MIN_CHECKED_TOKENS = 60  # a shorter text may shrink without approval


class Fault(StrEnum):
    """Why a reply is not saved."""

    LENGTH = "length"  # cut off at the token limit
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    UNKNOWN_FINISH = "unknown_finish"
    BLANK = "blank"
    PROMPT_ECHOED = "prompt_echoed"
    TOO_LONG = "too_long"
    TOO_SHORT = "too_short"
    WRONG_LANGUAGE = "wrong_language"
    NO_OPERATION = "no_operation"  # a merge can apply none of the operations
    NOTHING = "nothing"  # "nothing worth keeping", but a message is salient (rule 8)
    NO_ROOM = "no_room"  # a reasoning model used the whole limit before its answer


REFUSALS = frozenset({Fault.CONTENT_FILTER, Fault.REFUSAL})  # of the whole input or a part of it


class Action(StrEnum):
    """What happens to a job after a fault."""

    WAIT = "wait"  # for the endpoint, without using an attempt
    RETRY_LATER = "retry_later"  # after a backoff
    RETRY_NOW = "retry_now"
    GIVE_UP = "give_up"


@dataclass(frozen=True)
class NextStep:
    action: Action
    strategy: RequestStrategy = RequestStrategy.WHOLE
    changes_form: bool = False


@dataclass(frozen=True)
class Policy:
    """``strategies``: one for each attempt after the first; the last one also for all later attempts.

    The job fails when the last strategy fails, unless that is WHOLE. ``changes_form``: each attempt uses
    the other prompt form.
    """

    action: Action
    strategies: tuple[RequestStrategy, ...] = (RequestStrategy.WHOLE,)
    changes_form: bool = False


_LATER = Policy(Action.RETRY_LATER)
_REFUSED = Policy(Action.RETRY_NOW, (RequestStrategy.WHOLE, RequestStrategy.ISOLATE))
_BAD_REPLIES = (
    *("blank", "unknown_finish", "prompt_echoed", "too_long", "too_short"),
    *("wrong_language", "no_operation"),
    "nothing",  # after both forms failed, the offline highlights are used
    "copied",  # after both forms failed, the quotes are kept
)

POLICIES: dict[str, Policy] = {
    # The circuit breaker decides when the endpoint accepts calls again.
    **dict.fromkeys((RATE_LIMITED, *OPERATOR_FAULTS, *OUTAGES), Policy(Action.WAIT)),
    # The endpoint cannot answer this request in its present form.
    "bad_request": Policy(Action.GIVE_UP),
    "context_too_long": Policy(Action.RETRY_NOW, (RequestStrategy.SPLIT,)),
    "length": Policy(Action.RETRY_NOW, (RequestStrategy.WHOLE, RequestStrategy.SPLIT)),
    "content_filter": _REFUSED,
    "refusal": _REFUSED,
    # The reply is unusable. The next one may be better.
    **dict.fromkeys(_BAD_REPLIES, Policy(Action.RETRY_NOW, changes_form=True)),
    "no_room": Policy(Action.RETRY_NOW),  # the endpoint's thinking allowance has grown
    # A safety rule stopped every line. Another call would cost again and change nothing.
    "quarantined": Policy(Action.GIVE_UP),
    # An exception in our own code.
    "unexpected": _LATER,
}


def choose_next_step(
    code: str,
    attempt: int,
    strategy: RequestStrategy,
    *,
    is_partly_paid: bool = False,
    others_succeed: bool = False,
) -> NextStep:
    """Return what happens after attempt number ``attempt`` failed with this fault and strategy.

    ``is_partly_paid``: the endpoint answered some calls of the attempt, which the next one pays again.
    ``others_succeed``: the endpoint has answered other requests since this one failed before. Then an
    outage is a fault of the request.
    """
    policy = POLICIES.get(code, _LATER)
    is_outage_of_request = others_succeed and code in OUTAGES
    if policy.action is Action.WAIT and (is_partly_paid or is_outage_of_request):
        policy = _LATER
    if policy.action in (Action.WAIT, Action.GIVE_UP):
        return NextStep(policy.action, strategy)
    order = list(RequestStrategy).index
    last = policy.strategies[-1]
    is_exhausted = (
        last is not RequestStrategy.WHOLE
        and order(strategy) >= order(last)
        and attempt > len(policy.strategies)
    )
    if attempt >= MAX_ATTEMPTS or is_exhausted:
        return NextStep(Action.GIVE_UP, strategy)
    planned = policy.strategies[min(attempt, len(policy.strategies)) - 1]
    # A job never returns to an earlier strategy.
    return NextStep(policy.action, max(strategy, planned, key=order), policy.changes_form)


def is_sudden_shrink(before: str, after: str) -> bool:
    """Return whether a long-term text lost so much that a person must approve it (rule 8)."""
    size = estimate_tokens(before)
    return size >= _MIN_CHECKED_TOKENS and estimate_tokens(after) < _MIN_SHARE * size
