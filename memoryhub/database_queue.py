"""django-q2's queue in the database, and before it what is meant for this cluster alone."""

from typing import Any

from django.conf import settings
from django.utils import timezone
from django_q.brokers.orm import ORM

from memoryhub.task_guard import OwnTasks


class _Rows(ORM):  # type: ignore[misc]  # django-q2 has no types
    def dequeue(self) -> Any:
        return self._own() or super().dequeue()

    def _own(self) -> list[tuple[int, str]]:
        """The question of this cluster's supervisor, if there is one."""
        # This module may be typed before the settings are.
        name = settings.MEMORYHUB_WORKER_NAME  # type: ignore[misc, unused-ignore]
        if not name:
            return []
        tasks = self.get_connection().filter(key=name)
        task = tasks.filter(lock__lt=timezone.now()).first()
        if task is None or not tasks.filter(pk=task.pk).update(lock=self.timeout(task)):
            return []
        return [(task.pk, task.payload)]


class DatabaseQueue(OwnTasks, _Rows):
    """The queue that `Q_CLUSTER` names."""
