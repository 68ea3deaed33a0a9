"""Check the filters in the URL of an admin list before a database gets them."""

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.widgets import AutocompleteSelect
from django.core.exceptions import BadRequest, FieldDoesNotExist, ValidationError
from django.db import models
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

_COMPARISONS = frozenset({"exact", "gt", "gte", "lt", "lte"})
_TEXT_LOOKUPS = frozenset({"iexact", "contains", "icontains", "startswith", "istartswith"})
_DATE_PARTS = {"year": 9998, "month": 12, "day": 31}


class CheckedAutocomplete(AutocompleteSelect):
    """An autocomplete that ignores invalid keys when a form is shown again. Django queries any value."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        model = self.choices.queryset.model
        valid_keys = [key for key in value if is_valid_lookup(model, "pk", str(key))]
        return super().optgroups(name, valid_keys, attr)


class CheckedLookups(admin.ModelAdmin):  # type: ignore[type-arg]
    """Refuse a filter with an unknown column or lookup, or an impossible value or key (status 400)."""

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        is_allowed = super().lookup_allowed(lookup, value, request)
        return is_allowed and is_valid_lookup(self.model, lookup, value)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        # Django uses an empty _to_field as the name of a field.
        return super().get_object(request, object_id, from_field or None)

    def response_action(
        self, request: HttpRequest, queryset: models.QuerySet[Any], *args: Any, **kwargs: Any
    ) -> Any:
        keys = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if not all(is_valid_lookup(self.model, "pk", key) for key in keys):
            raise BadRequest("No row has such a key.")
        return super().response_action(request, queryset, *args, **kwargs)


def add_checked_lookups() -> None:
    """Add `CheckedLookups` to the registered admins of other apps."""
    for model, model_admin in list(admin.site._registry.items()):
        if not isinstance(model_admin, CheckedLookups):
            base = type(model_admin)
            admin.site.unregister(model)
            admin.site.register(model, type(base.__name__, (CheckedLookups, base), {}))


def is_valid_lookup(model: type[models.Model], lookup: str, value: str) -> bool:
    """Return whether both databases can filter rows of the model by ``lookup=value``."""
    field: Any = None
    parts = lookup.split("__")
    options: Any = model._meta
    while parts and options is not None:
        try:
            field = options.pk if parts[0] == "pk" else options.get_field(parts[0])
        except FieldDoesNotExist:
            break
        parts.pop(0)
        options = field.related_model._meta if field.is_relation and field.related_model else None
    if field is None or len(parts) > 1:
        return False
    name = parts[0] if parts else "exact"
    if name in ("isnull", "isempty"):  # the second belongs to EmptyFieldListFilter
        return True
    if field.is_relation:
        field = getattr(field, "target_field", None)
    if name in _DATE_PARTS:
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 5 else 0
        return isinstance(field, models.DateField) and 1 <= number <= _DATE_PARTS[name]
    if name in _TEXT_LOOKUPS:
        return isinstance(field, models.CharField | models.TextField)
    values = value.split(",") if name == "in" else [value]
    return name in _COMPARISONS | {"in"} and all(_is_valid_value(field, item) for item in values)


def _is_valid_value(field: Any, value: str) -> bool:
    """Return whether a column can hold the value. No value of JSON or a pickle is valid."""
    try:
        if isinstance(field, models.DateTimeField):
            moment = parse_datetime(value)
            if moment is None or moment.tzinfo is None:
                return False
            moment.astimezone(UTC)
        elif isinstance(field, models.IntegerField | models.DecimalField):
            field.run_validators(field.to_python(value))
        elif isinstance(field, models.BooleanField | models.DateField):
            field.to_python(value)
        else:
            return isinstance(field, models.CharField | models.TextField)
    except (ValidationError, ValueError, OverflowError):
        return False
    return True
