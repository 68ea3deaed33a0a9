"""Prices, budgets and model calls. The audit log records each change."""

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    AudienceAdmin,
    ReadOnlyAdmin,
    ValueFilter,
    VisibleFilter,
    display_value,
    user_of,
)
from memories.models import Budget, ModelCall, Price, Reader, Workspace
from memories.models.costs.model_calls import ModelCallQuerySet
from memories.rules.costs.money import MICROS


@admin.register(Price)
class PriceAdmin(AudienceAdmin):
    list_display = ("model", "input_price", "output_price", "changed_at")
    search_fields = ("model",)
    fields = ("model", "input_price", "output_price")

    def filter_for(self, reader: Reader, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows  # no private data

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("model",) if obj else ()

    def save_model(self, request: HttpRequest, obj: Price, form: Any, change: Any) -> None:
        prices = (obj.input_price, obj.output_price)
        obj.pk = Price.objects.change(obj.model, *prices, by=user_of(request)).pk

    def delete_model(self, request: HttpRequest, obj: Price) -> None:
        obj.remove(by=user_of(request))


class BudgetForm(forms.ModelForm):  # type: ignore[type-arg]
    """A budget with a limit of tokens or dollars. Only operators set one for the installation."""

    is_operator = False

    class Meta:
        model = Budget
        fields = ("workspace", "period", "tokens", "money")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("tokens") is None and cleaned.get("money") is None and not self.errors:
            self.add_error(
                None, _("Enter tokens or dollars. Delete the budget to remove the limit.")
            )
        workspace = cleaned.get("workspace", self.instance.workspace)
        if workspace is None and not self.is_operator:
            self.add_error(None, _("Only operators can set the budget of the whole installation."))
        return cleaned


@admin.register(Budget)
class BudgetAdmin(AudienceAdmin):
    form = BudgetForm
    list_display = ("workspace_name", "period", "tokens", "money")
    list_filter = ("period", ("workspace", VisibleFilter))
    list_select_related = ("workspace",)
    search_fields = ("workspace__slug", "workspace__name", "period")
    autocomplete_fields = ("workspace",)
    ordering = ("workspace", "period")

    def filter_for(self, reader: Reader, rows: QuerySet[Any]) -> QuerySet[Any]:
        if reader.is_operator:
            return rows
        return rows.filter(workspace__in=Workspace.objects.visible_to(reader).values("pk"))

    @admin.display(description=_("workspace"), ordering="workspace")
    def workspace_name(self, budget: Budget) -> Any:
        return budget.workspace or _("the whole installation")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("workspace", "period") if obj else ()

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form = super().get_form(request, *args, **kwargs)
        reader = Reader.of(request.user)
        return type("BudgetForm", (form,), {"is_operator": reader.is_operator})

    def save_model(self, request: HttpRequest, obj: Budget, form: Any, change: Any) -> None:
        limits = {"tokens": obj.tokens, "money": obj.money}
        budget = Budget.objects.change(obj.workspace, obj.period, **limits, by=user_of(request))
        obj.pk = budget.pk if budget else obj.pk

    def delete_model(self, request: HttpRequest, obj: Budget) -> None:
        no_limits = {"tokens": None, "money": None}
        Budget.objects.change(obj.workspace, obj.period, **no_limits, by=user_of(request))


@admin.register(ModelCall)
class CallAdmin(ReadOnlyAdmin):
    """Tokens and dollars are the reserved amounts until the used ones are known."""

    list_display = (
        "id",
        "workspace",
        "job_number",
        "model",
        "began_at",
        "ended_at",
        "tokens",
        "dollars",
        "requests",
        "fault",
    )
    list_filter = (
        ("workspace", VisibleFilter),
        ("model", ValueFilter),
        ("fault", ValueFilter),
        ("day", admin.DateFieldListFilter),
    )
    list_select_related = ("workspace",)
    search_fields = ("=id", "=job__id", "model", "fault")
    ordering = ("-pk",)
    details = ("fence", "backfill_number", "day", "prompt_tokens", "completion_tokens")

    def filter_for(self, reader: Reader, rows: QuerySet[Any]) -> QuerySet[Any]:
        return cast(ModelCallQuerySet, rows).readable_by(reader)

    @admin.display(description=_("job"), ordering="job")
    def job_number(self, call: ModelCall) -> str:
        return display_value(call.job_id)

    @admin.display(description=_("backfill"))
    def backfill_number(self, call: ModelCall) -> str:
        return display_value(call.backfill_id)

    @admin.display(description=_("dollars"), ordering="micros")
    def dollars(self, call: ModelCall) -> Any:
        return _("unpriced") if call.micros is None else f"{call.micros / MICROS:.6f}"
