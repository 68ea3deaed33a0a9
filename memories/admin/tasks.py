"""django-q2's tables, read-only: schedules, queued and finished tasks.

Arguments and results are neither shown nor read. They may contain private text, and reading a result
unpickles it.
"""

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _
from django_q import admin as task_admin
from django_q.models import Failure, OrmQ, Schedule, Success

from memories.admin.audience import OperatorAdmin

assert task_admin  # its import registers the models
for _model in (Schedule, Success, Failure, OrmQ):
    if admin.site.is_registered(_model):  # OrmQ is not, if the queue is in Redis
        admin.site.unregister(_model)


@admin.register(Schedule)
class ScheduleAdmin(OperatorAdmin):
    list_display = ("name", "func", "schedule_type", "minutes", "next_run")
    search_fields = ("name", "func")
    ordering = ("name",)
    hidden_fields = ("hook", "args", "kwargs")


@admin.register(Success, Failure)
class TaskAdmin(OperatorAdmin):
    list_display = ("func", "started", "stopped", "seconds", "attempt_count")
    search_fields = ("func",)
    ordering = ("-stopped",)
    details = ("cluster",)
    hidden_fields = ("name", "group", "hook", "args", "kwargs", "result")

    @admin.display(description=_("took"))
    def seconds(self, task: Any) -> str:
        return f"{task.time_taken():.1f} s"


@admin.register(OrmQ)
class QueuedTaskAdmin(OperatorAdmin):
    list_display = ("id", "key", "lock")
    search_fields = ("key",)
    ordering = ("pk",)
    hidden_fields = ("payload",)
