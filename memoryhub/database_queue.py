"""django-q2's queue in the database."""

from django_q.brokers.orm import ORM

from memoryhub.task_guard import OwnTasks


class DatabaseQueue(OwnTasks, ORM):  # type: ignore[misc]  # django-q2 has no types
    """The broker in `Q_CLUSTER` by default."""
