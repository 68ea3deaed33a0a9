"""One budget of calls for each token and method of Slack, whoever makes them.

A call is taken from the row under its lock, in a short transaction of its own that ends before the
call begins. What Slack itself refuses is kept there too, so that every process knows of it.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from memories.models import SlackBudget
from memories.rules.sync import rate_limits


class Budget:
    """The `Limiter` of a client. ``now`` is the clock that the minutes are counted by."""

    def __init__(self, token: str, now: Callable[[], datetime] = timezone.now) -> None:
        self._key = hashlib.sha256(token.encode()).hexdigest()[:16]
        self._now = now

    def take(self, method: str, *, slow: bool = False) -> float:
        rate = rate_limits.per_minute(method, slow=slow)
        with self._row(method, rate) as row:
            bucket, wait = rate_limits.take(row.bucket, rate, self._now())
            row.holds(bucket)
        return wait

    def limited(self, method: str, seconds: float) -> None:
        with self._row(method, rate_limits.per_minute(method)) as row:
            row.holds(rate_limits.refuse(row.bucket, seconds, self._now()))

    @contextmanager
    def _row(self, method: str, rate: int) -> Iterator[SlackBudget]:
        with transaction.atomic():
            full = rate_limits.full(rate, self._now())
            SlackBudget.objects.get_or_create(
                token_key=self._key,
                method=method,
                defaults={"calls_left": full.calls_left, "counted_at": full.counted_at},
            )
            rows = SlackBudget.objects.select_for_update()
            yield rows.get(token_key=self._key, method=method)
