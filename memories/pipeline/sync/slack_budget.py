"""Rate limit of Slack calls, shared by all processes that use the same token.

A call is taken from the bucket's row under a lock. The transaction ends before the call starts.
The row also stores refusals by Slack.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from memories.models import SlackBudget
from memories.rules.sync import rate_limits


class SharedLimiter:
    """A `Limiter` for `SlackClient`."""

    def __init__(self, token: str, now: Callable[[], datetime] = timezone.now) -> None:
        self._token_key = hashlib.sha256(token.encode()).hexdigest()[:16]
        self._now = now

    def take(self, method: str, *, slow: bool = False) -> float:
        rate = rate_limits.calls_per_minute(method, slow=slow)
        with self._locked_row(method, rate) as row:
            bucket, wait = rate_limits.take(row.bucket, rate, self._now())
            row.save_bucket(bucket)
        return wait

    def limited(self, method: str, seconds: float) -> None:
        with self._locked_row(method, rate_limits.calls_per_minute(method)) as row:
            row.save_bucket(rate_limits.block(row.bucket, seconds, self._now()))

    @contextmanager
    def _locked_row(self, method: str, rate: int) -> Iterator[SlackBudget]:
        with transaction.atomic():
            full = {"calls_left": rate_limits.burst(rate), "counted_at": self._now()}
            row, _is_new = SlackBudget.objects.select_for_update().get_or_create(
                token_key=self._token_key, method=method, defaults=full
            )
            yield row
