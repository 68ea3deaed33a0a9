"""django-q2's queue in Redis."""

from django_q.brokers.redis_broker import Redis

from memoryhub.task_guard import OwnTasks


class RedisQueue(OwnTasks, Redis):  # type: ignore[misc]  # django-q2 has no types
    """The broker in `Q_CLUSTER` if MEMORYHUB_BROKER is set."""
