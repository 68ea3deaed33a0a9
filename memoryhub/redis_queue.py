"""django-q2's queue in Redis, and before it what is meant for this cluster alone."""

from typing import Any

from django.conf import settings
from django_q.brokers.redis_broker import Redis

from memoryhub.task_guard import OwnTasks

WAIT_SECONDS = 1


class _Lists(Redis):  # type: ignore[misc]  # django-q2 has no types
    def dequeue(self) -> Any:
        # This module may be typed before the settings are.
        name = settings.MEMORYHUB_WORKER_NAME  # type: ignore[misc, unused-ignore]
        own = f"django_q:{name}:q"  # as the base class names its lists
        item = self.connection.blpop([own, self.list_key], WAIT_SECONDS)
        return [(None, item[1])] if item else None


class RedisQueue(OwnTasks, _Lists):
    """The queue that `Q_CLUSTER` names where there is a Redis."""
