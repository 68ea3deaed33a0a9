"""What every admin page starts from: rows that the signed-in user may read (docs/rules.md, readers).

An operator runs everything but sees no private text without membership. All of Django's admin
asks `get_queryset` for its rows (lists, searches, single pages, histories, autocompletes), so the
rule stands there; choices of related rows and the admin's own log are the rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import display_for_value
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.paginator import Paginator
from django.db.models import Exists, Model, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from memories.admin.lookups import CheckedAutocomplete, CheckedLookups, is_answerable
from memories.models import AuditEvent, Reader, User

if TYPE_CHECKING:
    from django.contrib.admin.options import BaseModelAdmin

    _Mixin = BaseModelAdmin[Any]
    _ModelMixin = admin.ModelAdmin[Any]
else:
    _Mixin = _ModelMixin = object

PREVIEW_CHARACTERS = 80
COUNTED = 10_000  # rows of a list
OFFERED = 100  # rows that a filter offers
LOOKED_THROUGH = 1_000  # newest rows whose values a filter offers


def preview(text: str) -> str:
    """The beginning of a text, for a column."""
    return Truncator(" ".join(text.split())).chars(PREVIEW_CHARACTERS)


def spelled(value: Any) -> str:
    """As a list has it. On a row's own page Django would say "None", and times as Python does."""
    return display_for_value(value, AudienceAdmin.empty_value_display)


def visible_rows(model: type[Model], request: HttpRequest) -> QuerySet[Any]:
    """The rows of a model that its own admin shows to this user."""
    return admin.site.get_model_admin(model).get_queryset(request)


def runs_all(request: HttpRequest) -> bool:
    """Whether an operator asks."""
    return cast(User, request.user).is_operator


class CountedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts as many rows as an operator pages through; who looks for older ones filters."""

    @cached_property
    def _counted(self) -> int:
        rows = cast(QuerySet[Any], self.object_list)
        return rows.order_by()[: COUNTED + 1].count()

    @property
    def is_cut(self) -> bool:
        return self._counted > COUNTED

    @property
    def count(self) -> int:
        return min(self._counted, COUNTED)


class VisibleChoices(_Mixin):
    """Forms offer only related rows that the user may read."""

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs.setdefault("queryset", visible_rows(db_field.related_model, request))
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs.setdefault("widget", CheckedAutocomplete(db_field, self.admin_site))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


class Recorded(_ModelMixin):
    """What is added, changed or deleted here is in the record: which fields, never their text."""

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
        # A key says which; a channel's name, say, may be private.
        subject = f"{obj._meta.model_name} {obj.pk}"
        by = cast(User, request.user)
        AuditEvent.objects.record(action, by=by, subject=subject, **details)


def changed_fields(message: Any) -> list[str]:
    """The names in Django's message about a change; of what was changed beside it, only what kind."""
    if not isinstance(message, list):
        return [str(message)]  # "Changed password."
    names: list[str] = []
    for part in message:
        for what, change in part.items():
            names += [change["name"]] if change.get("name") else change.get("fields", [what])
    return names


class AudienceAdmin(VisibleChoices, CheckedLookups, admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows that the user may read; `show` says which, where a model has no `visible_to`."""

    empty_value_display = "–"
    show_full_result_count = False
    paginator = CountedPaginator
    hidden_fields: tuple[str, ...] = ()  # of rows that are listed without their text

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        shown: QuerySet[Any] = rows.visible_to(reader)  # type: ignore[attr-defined]
        return shown

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """The rows that the user may read.

        A list checks them one by one, in the order of an index: given all channels of the reader, a
        database collects and sorts all their rows. A search must not do so: its time would say which
        words are in rows that the user may not read.
        """
        rows = super().get_queryset(request)
        shown = self.show(rows, Reader.of(request.user))
        is_search = bool(request.GET.keys() & {SEARCH_VAR, "term"})
        if is_search or type(self).show is not AudienceAdmin.show:
            return shown
        return rows.filter(Exists(shown.filter(pk=OuterRef("pk"))))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Addresses filter by a row's own columns only: no guessing at what is not shown, letter
        by letter, and no way round by what refers to it (who is in which channel)."""
        own = {field.name for field in self.opts.concrete_fields} - {*self.hidden_fields}
        return lookup.partition("__")[0] in own and super().lookup_allowed(lookup, value, request)

    # The log outlives memberships: it names rows by their key, never by their text.

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> LogEntry:
        return self._nameless([super().log_addition(request, obj, message)])[0]

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> LogEntry:
        return self._nameless([super().log_change(request, obj, message)])[0]

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        return self._nameless(super().log_deletions(request, queryset))

    def _nameless(self, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
        for entry in entries:
            entry.object_repr = f"{self.opts.verbose_name} {entry.object_id}"
            entry.save(update_fields=["object_repr"])
        return entries


class ReadOnly(_Mixin):
    """History, or what Slack says: nothing is added, changed or deleted here."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class Kept(_Mixin):
    """Rows that come from elsewhere and stay: some of their fields may be changed."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ValueFilter(admin.AllValuesFieldListFilter):
    """The values of the newest rows, as `words` say them; none is a dash, so that there is a link."""

    words: Mapping[str, Any] = {"": "–"}

    def __init__(self, field: Any, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(field, request, *args, **kwargs)
        newest = field.model._default_manager.order_by("-pk")[:LOOKED_THROUGH]
        self.lookup_choices: Any = sorted({*newest.values_list(field.name, flat=True)})

    def choices(self, changelist: Any) -> Iterator[Any]:
        for choice in super().choices(changelist):
            shown = str(choice["display"])
            yield {**choice, "display": self.words.get(shown, shown)}


class VisibleFilter(admin.RelatedFieldListFilter):
    """A filter by a related row, among those that the user may read; named after what it is of. Where
    these are very many it offers only the one that the list is narrowed to: links lead there."""

    def __init__(self, field: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(field, *args, **kwargs)
        self.title = field.related_model._meta.verbose_name

    def field_choices(
        self, field: Any, request: HttpRequest, model_admin: Any
    ) -> list[tuple[str, Any]]:
        rows = visible_rows(field.related_model, request)
        offered = list(rows[: OFFERED + 1])
        if len(offered) > OFFERED:
            chosen = request.GET.get(f"{self.field_path}__id__exact", "")
            is_key = is_answerable(field.related_model, "pk", chosen)
            offered = list(rows.filter(pk=chosen)) if is_key else []
        return [(str(row.pk), str(row)) for row in offered]


class ReadOnlyInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]
    """Rows that belong to the one shown."""

    template = "admin/memories/rows.html"
    extra = 0
    can_delete = False
    verbose_name_plural: Any = _("lines")
