"""Filters in the address of an admin list: look-ups that every database can answer."""

from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.widgets import AutocompleteSelect
from django.core.exceptions import BadRequest, FieldDoesNotExist, ValidationError
from django.db import models
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

if TYPE_CHECKING:
    _ModelMixin = admin.ModelAdmin[Any]
else:
    _ModelMixin = object

_COMPARISONS = frozenset({"exact", "gt", "gte", "lt", "lte"})
_OF_TEXT = frozenset({"iexact", "contains", "icontains", "startswith", "istartswith"})
_PARTS_OF_DATES = {"year": 9998, "month": 12, "day": 31}


class CheckedAutocomplete(AutocompleteSelect):
    """Shows a form again whatever was sent for the related row; Django looks for any value."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        model = self.choices.queryset.model
        valid_keys = [key for key in value if is_answerable(model, "pk", str(key))]
        return super().optgroups(name, valid_keys, attr)


class CheckedLookups(_ModelMixin):
    """Refuses (400) a filter that names no column, an unknown look-up, an impossible value or key."""

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        is_allowed = super().lookup_allowed(lookup, value, request)
        return is_allowed and is_answerable(self.model, lookup, value)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        # Django takes an empty _to_field for the name of a field.
        return super().get_object(request, object_id, from_field or None)

    def response_action(
        self, request: HttpRequest, queryset: models.QuerySet[Any], *args: Any, **kwargs: Any
    ) -> Any:
        keys = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if not all(is_answerable(self.model, "pk", key) for key in keys):
            raise BadRequest("No row has such a key.")
        return super().response_action(request, queryset, *args, **kwargs)


def check_all() -> None:
    """Check the look-ups of every registered admin, those of other apps too."""
    for model, registered in list(admin.site._registry.items()):
        if not isinstance(registered, CheckedLookups):
            own = type(registered)
            admin.site.unregister(model)
            admin.site.register(model, type(own.__name__, (CheckedLookups, own), {}))


def is_answerable(model: type[models.Model], lookup: str, value: str) -> bool:
    """Whether both databases can filter rows of the model by ``lookup=value``."""
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
    word = parts[0] if parts else "exact"
    if word in ("isnull", "isempty"):  # the second is a filter's own
        return True
    if field.is_relation:
        field = getattr(field, "target_field", None)
    if word in _PARTS_OF_DATES:
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 5 else 0
        return isinstance(field, models.DateField) and 1 <= number <= _PARTS_OF_DATES[word]
    if word in _OF_TEXT:
        return isinstance(field, models.CharField | models.TextField)
    values = value.split(",") if word == "in" else [value]
    return word in _COMPARISONS | {"in"} and all(_fits(field, item) for item in values)


def _fits(field: Any, value: str) -> bool:
    """Whether a column can hold the value. Values of JSON and pickles are not compared."""
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
