"""Rate limits of the fake Slack, with a clock that a test can advance.

The tiers are Slack's for an internal app. A limit counts for any 60 seconds, which is stricter than
Slack's own: a client without a 429 here has none there.
"""

import math
from collections import deque
from collections.abc import Mapping

TIER_1, TIER_2, TIER_3, TIER_4 = 1, 20, 50, 100
MINUTE = 60.0

INTERNAL_APP: dict[str, int] = {
    "auth.test": 600,  # "hundreds of requests per minute"
    "apps.connections.open": TIER_1,
    "users.list": TIER_2,
    "conversations.list": TIER_2,
    "bots.info": TIER_3,
    "team.info": TIER_3,
    "conversations.history": TIER_3,
    "conversations.info": TIER_3,
    "conversations.replies": TIER_3,
    "conversations.members": TIER_4,
}
# Distributed apps outside of the Marketplace have slow limits for two methods.
SLOW_PLAN: dict[str, int] = INTERNAL_APP | {"conversations.history": 1, "conversations.replies": 1}
SLOW_PAGE = 15  # messages
SLOW_METHODS = ("conversations.history", "conversations.replies")


class VirtualClock:
    """A clock in seconds since 1970 that moves only by `advance`."""

    def __init__(self, start: float = 1_772_452_800.0) -> None:  # 2026-03-02 12:00 UTC
        self.seconds = start

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class Budgets:
    """Limits of calls a minute by method; a method without one has no limit."""

    def __init__(self, calls: Mapping[str, int] | None = None) -> None:
        self.calls = dict(calls or {})
        self._spent: dict[str, deque[float]] = {}

    def spend(self, method: str, now: float) -> int:
        """Count the call and return 0, or return the whole seconds until one is free."""
        budget = self.calls.get(method)
        if budget is None:
            return 0
        spent = self._spent.setdefault(method, deque())
        while spent and spent[0] <= now - MINUTE:
            spent.popleft()
        if len(spent) < budget:
            spent.append(now)
            return 0
        return max(1, math.ceil(spent[0] + MINUTE - now))


def busiest_minute(moments: list[float]) -> int:
    """Return the highest number of these times within any 60 seconds."""
    most, window = 0, deque[float]()
    for moment in sorted(moments):
        window.append(moment)
        while window[0] <= moment - MINUTE:
            window.popleft()
        most = max(most, len(window))
    return most
