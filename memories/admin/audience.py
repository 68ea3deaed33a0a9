"""Base classes of the admin: rows that the signed-in user may read (docs/rules.md, readers).

An operator runs the installation but reads no private text without membership. Django's admin takes its
rows from `get_queryset`: lists, searches, single pages, histories and autocompletes. So the rule is
applied there, and also to choices of related rows and to the admin's own log.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import display_for_value
from django.contrib.admin.views.main import ORDER_VAR, PAGE_VAR, SEARCH_VAR
from django.contrib.auth import get_permission_codename
from django.core.paginator import Paginator
from django.db.models import Exists, Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from memories.admin.lookups import CheckedAutocomplete, CheckedLookups, is_valid_lookup
from memories.models import AuditEvent, Reader, User
from memories.models.access.readers import OUTER_ROW

PREVIEW_CHARACTERS = 80
MAX_COUNT = 1_000  # rows of a list
MAX_CHOICES = 100  # rows in a filter
SAMPLED_ROWS = 1_000  # newest rows whose values a filter offers


def preview(text: str) -> str:
    """Return the beginning of a text for a column."""
    return Truncator(" ".join(text.split())).chars(PREVIEW_CHARACTERS)


def display_value(value: Any) -> str:
    """Format a value as in a list. On the page of a row, Django shows "None" and Python's times."""
    return display_for_value(value, AudienceAdmin.empty_value_display)


def user_of(request: HttpRequest) -> User:
    """Return the signed-in user. The admin has no anonymous requests."""
    return cast(User, request.user)


def visible_rows(model: type[Model], request: HttpRequest) -> QuerySet[Any]:
    """Return the rows that the admin of a model shows to the user."""
    return admin.site.get_model_admin(model).get_queryset(request)


class CountedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts at most MAX_COUNT rows. Filters lead to older ones."""

    @cached_property
    def _counted(self) -> int:
        rows = cast(QuerySet[Any], self.object_list)
        return rows.order_by()[: MAX_COUNT + 1].count()

    @property
    def is_cut(self) -> bool:
        return self._counted > MAX_COUNT

    @property
    def count(self) -> int:
        return min(self._counted, MAX_COUNT)


class VisibleChoices(admin.ModelAdmin):  # type: ignore[type-arg]
    """Forms offer only related rows that the user may read."""

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs.setdefault("queryset", visible_rows(db_field.related_model, request))
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs.setdefault("widget", CheckedAutocomplete(db_field, self.admin_site))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


class AuditedChanges(admin.ModelAdmin):  # type: ignore[type-arg]
    """Record additions, changes and deletions in the audit log: the names of fields, not their text."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._record("admin_add", request, obj)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._record("admin_change", request, obj, fields=changed_fields(message))
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        for obj in queryset:
            self._record("admin_delete", request, obj)
        return super().log_deletions(request, queryset)

    def _record(self, action: str, request: HttpRequest, obj: Any, **details: Any) -> None:
        # The key instead of the name, because the name of a channel may be private.
        subject = f"{obj._meta.model_name} {obj.pk}"
        AuditEvent.objects.record(action, by=user_of(request), subject=subject, **details)


def changed_fields(message: Any) -> list[str]:
    """Return the names of fields in Django's change message, and the kinds of inline rows."""
    if not isinstance(message, list):
        return [str(message)]  # "Changed password."
    names: list[str] = []
    for part in message:
        for kind, change in part.items():
            names += [change["name"]] if change.get("name") else change.get("fields", [kind])
    return names


class AudienceAdmin(VisibleChoices, CheckedLookups):
    """Rows that the user may read. Override `filter_for` where a model has no `visible_to`."""

    empty_value_display = "–"
    show_full_result_count = False
    paginator = CountedPaginator
    hidden_fields: tuple[str, ...] = ()  # of rows that are listed without their text

    def filter_for(self, reader: Reader, rows: QuerySet[Any]) -> QuerySet[Any]:
        visible: QuerySet[Any] = rows.visible_to(reader)  # type: ignore[attr-defined]
        return visible

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows that the user may read.

        A list checks each row in the order of an index. With a join to all channels of the reader, a
        database would collect and sort all rows. A search uses the join: the time of a check for each
        match would reveal words in rows that the user may not read.
        """
        rows = super().get_queryset(request)
        visible = self.filter_for(Reader.of(request.user), rows)
        is_search = bool(request.GET.keys() & {SEARCH_VAR, "term"})
        if is_search or type(self).filter_for is not AudienceAdmin.filter_for:
            return visible
        return rows.filter(Exists(visible.filter(OUTER_ROW)))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow filters in a URL only by visible columns of the row itself.

        Other filters would reveal hidden text letter by letter, or the members of a channel.
        """
        if lookup == AttentionFilter.parameter_name:
            filters = self.get_list_filter(request)
            return any(isinstance(f, type) and issubclass(f, AttentionFilter) for f in filters)
        own = {field.name for field in self.opts.concrete_fields} - {*self.hidden_fields}
        return lookup.partition("__")[0] in own and super().lookup_allowed(lookup, value, request)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Respond 409, as the pages do, if somebody saved another text after the form was opened."""
        response = super().changeform_view(request, *args, **kwargs)
        context = getattr(response, "context_data", None) or {}
        if "adminform" in context and getattr(context["adminform"].form, "is_stale", False):
            response.status_code = 409
        return response

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Allow actions with the permission to change the model, also where no form changes it."""
        codename = get_permission_codename("change", self.opts)
        return request.user.has_perm(f"{self.opts.app_label}.{codename}")

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete each row as the page of one row does."""
        for row in queryset:
            self.delete_model(request, row)

    # The log entries outlive memberships, so they name rows by their key and never by their text.

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> LogEntry:
        return self._without_text([super().log_addition(request, obj, message)])[0]

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> LogEntry:
        return self._without_text([super().log_change(request, obj, message)])[0]

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        return self._without_text(super().log_deletions(request, queryset))

    def _without_text(self, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
        for entry in entries:
            entry.object_repr = f"{self.opts.verbose_name} {entry.object_id}"
            entry.save(update_fields=["object_repr"])
        return entries


def row_action(name: str, description: Any, change: Callable[..., Any]) -> Callable[..., None]:
    """Return an action that calls ``change(row, by=user)`` for each row, and reports how many changed."""

    @admin.action(description=description, permissions=["operate"])
    def act(model_admin: AudienceAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        rows = list(queryset.order_by("pk"))
        count = sum(bool(change(row, by=user_of(request))) for row in rows)
        text = _("%(action)s: done for %(count)d of %(total)d.")
        values = {"action": description, "count": count, "total": len(rows)}
        level = messages.SUCCESS if count else messages.WARNING
        model_admin.message_user(request, text % values, level)

    act.__name__ = name
    return act


class ChangeOnly:
    """Rows that are neither added nor deleted in the admin."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnly(ChangeOnly):
    """Rows that are only shown."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnly, AudienceAdmin):
    """Rows that are only shown: their columns in the list, then ``details``."""

    details: tuple[str, ...] = ()
    list_only: tuple[str, ...] = ("id", "beginning")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for name in (*self.list_display, *self.details) if name not in self.list_only]


class OperatorAdmin(ReadOnlyAdmin):
    """Rows of the whole installation. Only operators see them, without the hidden fields."""

    def filter_for(self, reader: Reader, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.defer(*self.hidden_fields) if reader.is_operator else rows.none()


class ValueFilter(admin.AllValuesFieldListFilter):
    """Filter by a value of the newest rows. An empty value is shown as a dash, so it has a link."""

    labels: Mapping[str, Any] = {"": "–"}

    def __init__(self, field: Any, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(field, request, *args, **kwargs)
        newest = field.model._default_manager.order_by("-pk")[:SAMPLED_ROWS]
        self.lookup_choices: Any = sorted({*newest.values_list(field.name, flat=True)})

    def choices(self, changelist: Any) -> Iterator[Any]:
        for choice in super().choices(changelist):
            value = str(choice["display"])
            yield {**choice, "display": self.labels.get(value, value)}


class AttentionFilter(admin.SimpleListFilter):
    """Shows the rows in these ``states`` until a filter or a search is chosen."""

    title = _("attention")
    parameter_name = "show"
    states: tuple[str, ...] = ()

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        super().__init__(request, *args)
        is_list = request.method != "POST" or request.POST.get("select_across") == "1"
        self.is_default = is_list and not request.GET.keys() - {PAGE_VAR, ORDER_VAR}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("attention", _("needs attention")), ("all", _("all"))]

    def value(self) -> str:
        return super().value() or ("attention" if self.is_default else "all")

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(state__in=self.states) if self.value() == "attention" else queryset

    def choices(self, changelist: Any) -> Iterator[Any]:
        for value, title in self.lookup_choices:
            yield {
                "selected": self.value() == value,
                "query_string": changelist.get_query_string({self.parameter_name: value}),
                "display": title,
            }


def needs_attention(*states: str) -> type[AttentionFilter]:
    """Return the filter of a list that opens on rows in these states."""
    return type("AttentionFilter", (AttentionFilter,), {"states": states})


class VisibleFilter(admin.RelatedFieldListFilter):
    """Filter by a related row that the user may read.

    With more than MAX_CHOICES rows, the filter offers only the current choice. Links lead to others.
    """

    def __init__(self, field: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(field, *args, **kwargs)
        self.title = field.related_model._meta.verbose_name

    def field_choices(
        self, field: Any, request: HttpRequest, model_admin: Any
    ) -> list[tuple[str, Any]]:
        rows = visible_rows(field.related_model, request)
        choices = list(rows[: MAX_CHOICES + 1])
        if len(choices) > MAX_CHOICES:
            key = request.GET.get(f"{self.field_path}__id__exact", "")
            is_key = is_valid_lookup(field.related_model, "pk", key)
            choices = list(rows.filter(pk=key)) if is_key else []
        return [(str(row.pk), str(row)) for row in choices]


class OfMemory(ReadOnlyAdmin):
    """Proposed or stopped texts of readable memories. Who may edit memories decides about them."""

    list_filter: ClassVar[Any] = (
        ("memory__workspace", VisibleFilter),
        ("memory__channel", VisibleFilter),
        ("created_at", admin.DateFieldListFilter),
    )
    list_select_related: ClassVar[Any] = ("memory__workspace", "memory__channel")
    ordering = ("-pk",)

    @admin.display(description=_("text"))
    def beginning(self, row: Any) -> str:
        return preview(row.text)

    @admin.display(description=_("memory"), ordering="memory")
    def memory_name(self, row: Any) -> str:
        return str(row.memory)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memories.change_memory")


class ReadOnlyInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]
    template = "admin/memories/rows.html"
    extra = 0
    can_delete = False
    verbose_name_plural: Any = _("lines")
