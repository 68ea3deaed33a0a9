"""The action that forgets messages, people or channels, after a page of confirmation."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memories.admin.audience import user_of
from memories.models import Message, Person, User
from memories.pipeline.locks import Busy
from memories.pipeline.redaction.forget import (
    ForgetReport,
    forget_channel,
    forget_message,
    forget_person,
)

MAX_ROWS = 100


def forget_row(row: Any, by: User) -> ForgetReport:
    if isinstance(row, Message):
        return forget_message(row.channel, row.ts, by=by)
    if isinstance(row, Person):
        return forget_person(row, timezone.now(), by=by)
    return forget_channel(row, timezone.now(), by=by)


class ForgettingAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A base class with the action. It needs the permission to delete messages.

    It applies to the rows that the user may read.
    """

    actions = ("forget_permanently",)

    def has_forget_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memories.delete_message")

    @admin.action(description=gettext_lazy("Forget permanently…"), permissions=["forget"])
    def forget_permanently(
        self, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        rows = list(queryset[: MAX_ROWS + 1])
        if len(rows) > MAX_ROWS:
            text = _("At most %(count)d at once.") % {"count": MAX_ROWS}
            self.message_user(request, text, messages.ERROR)
        elif "confirmed" not in request.POST:
            context = {
                **self.admin_site.each_context(request),
                "title": _("Forget permanently?"),
                "opts": self.opts,
                "rows": rows,
                "keys": [row.pk for row in rows],
            }
            return TemplateResponse(request, "admin/memories/forget.html", context)
        else:
            self._forget(request, rows)
        return None

    def _forget(self, request: HttpRequest, rows: list[Any]) -> None:
        count = versions = 0
        try:
            for row in rows:
                report = forget_row(row, user_of(request))
                count += report.redaction.messages
                versions += report.redaction.versions + report.versions_deleted
        except Busy:
            text = _(
                "An import or a sync of this workspace is running. Try again when it has finished."
            )
            self.message_user(request, text, messages.ERROR)
            return
        text = ngettext(
            "%(count)d message was forgotten. %(versions)d versions were changed or deleted.",
            "%(count)d messages were forgotten. %(versions)d versions were changed or deleted.",
            count,
        )
        self.message_user(request, text % {"count": count, "versions": versions})
