"""How often the fake Slack lets itself be asked, by a clock that a test may turn.

The tiers are Slack's for an internal app. A budget is held over any 60 seconds on end, which is
stricter than Slack says it is: whoever never meets a 429 here meets none there.
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
# Apps that are distributed and not in the Marketplace: these two methods are slow.
SLOW_PLAN: dict[str, int] = INTERNAL_APP | {"conversations.history": 1, "conversations.replies": 1}
SLOW_PAGE = 15  # messages, whatever is asked for
SLOW_METHODS = ("conversations.history", "conversations.replies")


class VirtualClock:
    """Seconds since 1970 that pass only when they are told to."""

    def __init__(self, start: float = 1_772_452_800.0) -> None:  # 2026-03-02 12:00 UTC
        self.seconds = start

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class Budgets:
    """Calls a minute by method; a method without one is free."""

    def __init__(self, calls: Mapping[str, int] | None = None) -> None:
        self.calls = dict(calls or {})
        self._spent: dict[str, deque[float]] = {}

    def spend(self, method: str, now: float) -> int:
        """0 and the call is counted, or in how many whole seconds there is room for it."""
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
    """The most of these moments that lie within any 60 seconds."""
    most, window = 0, deque[float]()
    for moment in sorted(moments):
        window.append(moment)
        while window[0] <= moment - MINUTE:
            window.popleft()
        most = max(most, len(window))
    return most
