"""django-q2's tables, to be read: which tasks are due, queued and done.

Nothing is added, changed or run from here. Arguments and results are neither shown nor read: they may
hold private text, and reading one unpickles it.
"""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from django_q import admin as task_admin
from django_q.models import Failure, OrmQ, Schedule, Success

from memories.admin.audience import AudienceAdmin, ReadOnly
from memories.models import Reader

assert task_admin  # imported first, so that there is something to take away
for _model in (Schedule, Success, Failure, OrmQ):
    if admin.site.is_registered(_model):  # the queue is not, where it is in Redis
        admin.site.unregister(_model)


class OperatorsTable(ReadOnly, AudienceAdmin):
    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows.defer(*self.hidden_fields) if reader.is_operator else rows.none()


@admin.register(Schedule)
class ScheduleAdmin(OperatorsTable):
    list_display = ("name", "func", "schedule_type", "minutes", "next_run")
    search_fields = ("name", "func")
    ordering = ("name",)
    fields = list_display
    hidden_fields = ("hook", "args", "kwargs")


@admin.register(Success, Failure)
class TaskAdmin(OperatorsTable):
    list_display = ("func", "started", "stopped", "seconds", "attempt_count")
    search_fields = ("func",)
    ordering = ("-stopped",)
    fields = ("func", "cluster", "started", "stopped", "seconds", "attempt_count")
    hidden_fields = ("name", "group", "hook", "args", "kwargs", "result")

    @admin.display(description=_("took"))
    def seconds(self, task: Any) -> str:
        return f"{task.time_taken():.1f} s"


@admin.register(OrmQ)
class QueuedTaskAdmin(OperatorsTable):
    list_display = ("id", "key", "lock")
    search_fields = ("key",)
    ordering = ("pk",)
    fields = ("key", "lock")
    hidden_fields = ("payload",)
