"""The admin's way to forget messages, people and channels for good, behind a page that asks."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memories.models import Channel, Message, Person, User
from memories.pipeline.locks import Busy
from memories.pipeline.redaction import forget
from memories.pipeline.redaction.forget import ForgetReport

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = object

MOST = 100  # rows at once


def _message(row: Message, by: User) -> ForgetReport:
    return forget.message(row.channel, row.ts, by=by)


def _person(row: Person, by: User) -> ForgetReport:
    return forget.person(row, timezone.now(), by=by)


def _channel(row: Channel, by: User) -> ForgetReport:
    return forget.channel(row, timezone.now(), by=by)


_WAYS: dict[type, Callable[[Any, User], ForgetReport]] = {
    Message: _message,
    Person: _person,
    Channel: _channel,
}


class Forgetting(_ModelAdmin):
    """Rows that an operator may have forgotten: those that they may read."""

    actions = ("forget_for_good",)

    def has_forget_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memories.delete_message")

    @admin.action(description=gettext_lazy("Forget for good…"), permissions=["forget"])
    def forget_for_good(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        rows = list(queryset[: MOST + 1])
        if len(rows) > MOST:
            text = _("At most %(count)d at once.") % {"count": MOST}
            self.message_user(request, text, messages.ERROR)
        elif "confirmed" not in request.POST:
            context = {
                **self.admin_site.each_context(request),
                "title": _("Forget for good?"),
                "opts": self.opts,
                "rows": rows,
                "keys": [row.pk for row in rows],
            }
            return TemplateResponse(request, "admin/memories/forget.html", context)
        else:
            self._forget(request, rows)
        return None

    def _forget(self, request: HttpRequest, rows: list[Any]) -> None:
        by = cast(User, request.user)  # the admin lets nobody in who is not signed in
        count = versions = 0
        try:
            for row in rows:
                report = _WAYS[self.model](row, by)
                count += report.redaction.messages
                versions += report.redaction.versions + report.versions_deleted
        except Busy:
            text = _("An import or a sync of this workspace is running; try again when it is done.")
            self.message_user(request, text, messages.ERROR)
            return
        text = ngettext(
            "%(count)d message was forgotten; %(versions)d versions held words of it.",
            "%(count)d messages were forgotten; %(versions)d versions held words of them.",
            count,
        )
        self.message_user(request, text % {"count": count, "versions": versions})
