"""How often Slack's methods may be called: a bucket of calls for each, which fills up again.

Slack counts by the minute and by (app, workspace, method). A full bucket and what runs into it in
any 60 seconds are together one minute's worth, so no minute, wherever it begins, holds more. Calls
are not on their way for the same time each: so our minute is a little longer than Slack's.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE = 62.0  # seconds
SLOW_PAGE = 15  # messages a page of the slow plan
SLOW_METHODS = frozenset(["conversations.history", "conversations.replies"])

_NEARLY = 1e-5  # of a call: moments are whole microseconds
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
}


def per_minute(method: str, *, slow: bool = False) -> int:
    """Calls a minute; ``slow``: the app is on the plan of one history page a minute."""
    if slow and method in SLOW_METHODS:
        return _SLOW
    return _PER_MINUTE.get(method, _TIER_2)


@dataclass(frozen=True)
class Bucket:
    """``calls_left`` as of ``counted_at``; no call at all before ``not_before``."""

    calls_left: float
    counted_at: datetime
    not_before: datetime | None = None


def burst(rate: int) -> int:
    """How many calls may be made at once after a pause."""
    return max(1, rate // 4)


def full(rate: int, now: datetime) -> Bucket:
    return Bucket(burst(rate), now)


def take(bucket: Bucket, rate: int, now: datetime) -> tuple[Bucket, float]:
    """Take one call out: the bucket after it and 0.0, or the bucket as it is and how many seconds
    there is to wait for one. A clock that was put back waits for nothing."""
    if bucket.not_before is not None and now < bucket.not_before:
        return bucket, (bucket.not_before - now).total_seconds()
    a_second = (rate - burst(rate) + 1) / MINUTE
    passed = max(0.0, (now - bucket.counted_at).total_seconds())
    left = min(burst(rate), bucket.calls_left + passed * a_second)
    if left >= 1.0 - _NEARLY:
        return Bucket(left - 1.0, now), 0.0
    return Bucket(left, now, bucket.not_before), (1.0 - left) / a_second


def refuse(bucket: Bucket, seconds: float, now: datetime) -> Bucket:
    """Slack had enough, and says for how long."""
    until = now + timedelta(seconds=seconds)
    later = max(until, bucket.not_before) if bucket.not_before else until
    return Bucket(bucket.calls_left, bucket.counted_at, later)
