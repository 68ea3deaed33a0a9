"""The faults of model calls and replies, and what happens to a job after each of them.

docs/rules.md shows the same table in words.
"""

from dataclasses import dataclass
from enum import StrEnum

from memories.rules.generate.circuit_breaker import OUTAGES
from memories.rules.generate.summariser import RequestStrategy
from memories.rules.generate.tokens import estimate_tokens

MAX_ATTEMPTS = 5
_SMALLEST_SHARE = 0.3  # of the size before: a person approves a text that shrinks further
_SMALLEST_CHECKED = 60  # tokens: a shorter text may shrink without approval


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
    NOTHING = "nothing"  # "nothing worth keeping", but the messages have content (rule 8)
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


_ENDPOINT = Policy(Action.WAIT)
_LATER = Policy(Action.RETRY_LATER)
_BAD_REPLY = Policy(Action.RETRY_NOW, changes_form=True)
_REFUSED = Policy(Action.RETRY_NOW, (RequestStrategy.WHOLE, RequestStrategy.ISOLATE))

POLICIES: dict[str, Policy] = {
    # The endpoint accepts no call. The circuit breaker decides until when.
    "rate_limited": _ENDPOINT,
    "out_of_credit": _ENDPOINT,
    "unauthorised": _ENDPOINT,
    "forbidden": _ENDPOINT,
    "not_found": _ENDPOINT,
    # The endpoint is down, or fails for this request only: see `choose_next_step`.
    "server_error": _ENDPOINT,
    "connection": _ENDPOINT,
    "timeout": _ENDPOINT,
    "malformed": _ENDPOINT,
    # The endpoint cannot answer this request in its present form.
    "bad_request": Policy(Action.GIVE_UP),
    "context_too_long": Policy(Action.RETRY_NOW, (RequestStrategy.SPLIT,)),
    "length": Policy(Action.RETRY_NOW, (RequestStrategy.WHOLE, RequestStrategy.SPLIT)),
    "content_filter": _REFUSED,
    "refusal": _REFUSED,
    # The reply is unusable. The next one may be better.
    "empty": _BAD_REPLY,
    "blank": _BAD_REPLY,
    "unknown_finish": _BAD_REPLY,
    "prompt_echoed": _BAD_REPLY,
    "too_long": _BAD_REPLY,
    "too_short": _BAD_REPLY,
    "wrong_language": _BAD_REPLY,
    "no_operation": _BAD_REPLY,
    "nothing": _BAD_REPLY,  # after both forms failed, the offline highlights are used
    "copied": _BAD_REPLY,  # after both forms failed, the quotes are kept
    "no_room": Policy(Action.RETRY_NOW),  # the endpoint's thinking allowance has grown
    # A safety rule stopped every line. Another call would cost again and change nothing.
    "quarantined": Policy(Action.GIVE_UP),
    # An exception in our own code.
    "unexpected": _LATER,
}


def choose_next_step(
    code: str, attempt: int, strategy: RequestStrategy, *, others_succeed: bool = False
) -> NextStep:
    """Return what happens after attempt number ``attempt`` failed with this fault and strategy.

    ``others_succeed``: the endpoint has answered other requests since this one failed before. Then an
    outage is a fault of the request.
    """
    policy = POLICIES.get(code, _LATER)
    if others_succeed and code in OUTAGES:
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
    return size >= _SMALLEST_CHECKED and estimate_tokens(after) < _SMALLEST_SHARE * size
