"""A worker runs only tasks of the project, regardless of what the queue or a table of django-q2 holds.

django-q2 runs any function that a package names: as the task, as a hook, in a chain, or while it
unpickles. So `OwnTasks` checks each package between the broker and django-q2.
"""

import io
import logging
import pickle
import time
from typing import Any

import picklefield.fields
from django.conf import settings
from django.db.models.signals import post_save
from django_q import core_signing
from django_q.conf import Conf
from django_q.models import Task
from django_q.signals import call_hook, pre_enqueue

from memoryhub.heartbeat import build_task

logger = logging.getLogger(__name__)

TIME_CLASSES = {("datetime", "datetime"), ("datetime", "timedelta"), ("datetime", "timezone")}
REQUIRED = {"id", "name", "func", "args", "kwargs", "started"}
OPTIONS = {"group", "save", "cluster", "timeout", "ack_failure"}


class TaskRefused(Exception):
    """The package is not one of the project's own tasks."""


class PlainUnpickler(pickle.Unpickler):
    """Read plain values and times. Refuse a pickle that names anything else before it runs."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in TIME_CLASSES:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a task")
        return super().find_class(module, name)


class PlainPickle:
    """The serializer for `django_q.core_signing.loads`."""

    @staticmethod
    def loads(data: bytes) -> Any:
        return PlainUnpickler(io.BytesIO(data)).load()


def check_package(payload: Any) -> None:
    """Raise `TaskRefused` unless the signed payload is a task of the project with ids as arguments
    and without a hook, chain or other function."""
    from memories.tasks import (
        TASKS,  # a cycle: it queues tasks through the brokers that import this
    )

    try:
        task = core_signing.loads(
            payload, key=Conf.SECRET_KEY, salt=Conf.PREFIX, serializer=PlainPickle
        )
    except Exception as error:
        raise TaskRefused(f"{type(error).__name__}: {error}"[:200]) from None
    if not isinstance(task, dict) or not task.keys() >= REQUIRED:
        raise TaskRefused("it is not a task")
    if not isinstance(task["func"], str) or task["func"] not in TASKS:
        raise TaskRefused(f"{task['func']!r:.200} is not a task of this project")
    if extra := task.keys() - REQUIRED - OPTIONS:
        raise TaskRefused(f"it has options that are not used here: {sorted(extra)!r:.200}")
    if task["kwargs"] or not all(isinstance(value, int | str) for value in task["args"]):
        raise TaskRefused("its arguments are more than ids")
    if not isinstance(task.get("timeout", 0), int):
        raise TaskRefused("its timeout is not a number")


class OwnTasks:
    """Broker mixin: return the project's own tasks, and log and drop others.

    A worker with a supervisor also gets a heartbeat task twice a heartbeat, unless the broker cannot be
    reached.
    """

    _next_beat = float("-inf")  # in seconds of time.monotonic

    def dequeue(self) -> list[tuple[Any, Any]]:
        if settings.MEMORYHUB_WORKER_NAME and time.monotonic() >= self._next_beat:
            self.ping()  # type: ignore[attr-defined]  # raises an error if Redis cannot be reached
            self._next_beat = time.monotonic() + settings.MEMORYHUB_HEARTBEAT / 2
            return [(None, build_task())]
        packages = super().dequeue() or []  # type: ignore[misc]
        return [package for package in packages if self._is_own(*package)]

    def _is_own(self, key: Any, payload: Any) -> bool:
        try:
            check_package(payload)
        except TaskRefused as refused:
            logger.error("a queued task was refused and not run: %s", refused)
            self.fail(key)  # type: ignore[attr-defined]
            return False
        return True


def remove_sync_option(task: dict[str, Any], **kwargs: Any) -> None:
    """Queue a task that its own option would run at once, past the broker."""
    if not Conf.SYNC:
        task.pop("sync", None)


def install() -> None:
    """Close django-q2's ways past the broker: hooks of finished tasks, tasks that are run at once,
    and pickles in its table of results."""
    post_save.disconnect(call_hook, sender=Task)
    pre_enqueue.connect(remove_sync_option)
    picklefield.fields.loads = PlainPickle.loads
