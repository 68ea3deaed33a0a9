"""Rate limits of Slack's methods: a token bucket for each method.

Slack counts by minute and by app, workspace and method. A full bucket and its refill in any 60
seconds are one minute's calls together. Requests take different times to arrive, so the minute
here is a little longer than Slack's.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE = 62.0  # seconds
SLOW_PAGE = 15  # messages on a page of the slow plan
SLOW_METHODS = frozenset(["conversations.history", "conversations.replies"])

_TOLERANCE = 1e-5  # of a call: times are rounded to microseconds
_SLOW = 1
_TIER_2 = 20
_TIER_3 = 50
_TIER_4 = 100
_PER_MINUTE = {
    "auth.test": _TIER_4,
    "users.list": _TIER_2,
    "conversations.list": _TIER_2,
    "conversations.history": _TIER_3,
    "conversations.replies": _TIER_3,
    "conversations.info": _TIER_3,
    "conversations.members": _TIER_4,
    "views.publish": _TIER_4,
    "chat.postEphemeral": _TIER_4,
    "chat.postMessage": _TIER_4,  # one a second in each channel, and several hundred a minute
    "chat.unfurl": _TIER_3,
}


def calls_per_minute(method: str, *, slow: bool = False) -> int:
    """Return the limit of a method. ``slow``: Slack allows the app one history page a minute."""
    if slow and method in SLOW_METHODS:
        return _SLOW
    return _PER_MINUTE.get(method, _TIER_2)


@dataclass(frozen=True)
class Bucket:
    """``calls_left`` as of ``counted_at``. No call is allowed before ``paused_until``."""

    calls_left: float
    counted_at: datetime
    paused_until: datetime | None = None


def burst(rate: int) -> int:
    """Return how many calls are allowed at once after a pause."""
    return max(1, rate // 4)


def seconds_per_call(rate: int) -> float:
    """Return the time between calls once those at once are used up."""
    return MINUTE / (rate - burst(rate) + 1)


def take(bucket: Bucket, rate: int, now: datetime) -> tuple[Bucket, float]:
    """Take one call. Return the new bucket, and 0.0 or the seconds to wait for a call.

    A clock that was set back does not shorten the wait.
    """
    if bucket.paused_until is not None and now < bucket.paused_until:
        return bucket, (bucket.paused_until - now).total_seconds()
    per_second = 1 / seconds_per_call(rate)
    passed = max(0.0, (now - bucket.counted_at).total_seconds())
    left = min(burst(rate), bucket.calls_left + passed * per_second)
    if left >= 1.0 - _TOLERANCE:
        return Bucket(left - 1.0, now), 0.0
    return Bucket(left, now, bucket.paused_until), (1.0 - left) / per_second


def block(bucket: Bucket, seconds: float, now: datetime) -> Bucket:
    """Return the bucket after Slack refused a call for so many seconds."""
    until = now + timedelta(seconds=seconds)
    later = max(until, bucket.paused_until) if bucket.paused_until else until
    return Bucket(bucket.calls_left, bucket.counted_at, later)
