"""Prices, caps and calls: what models cost and how much may be spent. Each change is recorded."""

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import AudienceAdmin, ReadOnly, ValueFilter, VisibleFilter, spelled
from memories.models import Cap, ModelCall, Price, Reader, User, Workspace
from memories.models.costs.model_calls import ModelCallQuerySet
from memories.rules.costs.money import MICROS


@admin.register(Price)
class PriceAdmin(AudienceAdmin):
    """A model that is not here costs "unpriced tokens"."""

    list_display = ("model", "input_price", "output_price", "changed_at")
    search_fields = ("model",)
    fields = ("model", "input_price", "output_price")

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return rows  # prices are no secret: Django's permissions say who sees them

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("model",) if obj else ()

    def save_model(self, request: HttpRequest, obj: Price, form: Any, change: Any) -> None:
        given = (obj.model, obj.input_price, obj.output_price)
        obj.pk = Price.objects.change(*given, by=cast(User, request.user)).pk

    def delete_model(self, request: HttpRequest, obj: Price) -> None:
        obj.remove(by=cast(User, request.user))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for price in queryset:
            self.delete_model(request, price)


class CapForm(forms.ModelForm):  # type: ignore[type-arg]
    """A cap limits something; who wants none deletes it. The installation's are an operator's."""

    is_operator = False

    class Meta:
        model = Cap
        fields = ("workspace", "period", "tokens", "money")

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if given.get("tokens") is None and given.get("money") is None and not self.errors:
            self.add_error(None, _("Give tokens or dollars; delete the cap to have none."))
        workspace = given.get("workspace", self.instance.workspace)
        if workspace is None and not self.is_operator:
            self.add_error(None, _("Only operators set caps of the whole installation."))
        return given


@admin.register(Cap)
class CapAdmin(AudienceAdmin):
    """Raising one lets go on what waits for it."""

    form = CapForm
    list_display = ("whose", "period", "tokens", "money")
    list_filter = ("period", ("workspace", VisibleFilter))
    list_select_related = ("workspace",)
    search_fields = ("workspace__slug", "workspace__name", "period")
    autocomplete_fields = ("workspace",)
    ordering = ("workspace", "period")

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        if reader.is_operator:
            return rows
        return rows.filter(workspace__in=Workspace.objects.visible_to(reader).values("pk"))

    @admin.display(description=_("workspace"), ordering="workspace")
    def whose(self, cap: Cap) -> Any:
        return cap.workspace or _("the whole installation")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("workspace", "period") if obj else ()

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form = super().get_form(request, *args, **kwargs)
        reader = Reader.of(request.user)
        return type("CapForm", (form,), {"is_operator": reader.is_operator})

    def save_model(self, request: HttpRequest, obj: Cap, form: Any, change: Any) -> None:
        cap = Cap.objects.change(
            obj.workspace,
            obj.period,
            tokens=obj.tokens,
            money=obj.money,
            by=cast(User, request.user),
        )
        obj.pk = cap.pk if cap else obj.pk

    def delete_model(self, request: HttpRequest, obj: Cap) -> None:
        by = cast(User, request.user)
        Cap.objects.change(obj.workspace, obj.period, tokens=None, money=None, by=by)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for cap in queryset:
            self.delete_model(request, cap)


@admin.register(ModelCall)
class CallAdmin(ReadOnly, AudienceAdmin):
    """Until a call has ended, tokens and dollars are the most that it may use."""

    list_display = (
        "id",
        "workspace",
        "job_key",
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
    fields = (
        "workspace",
        "job_key",
        "fence",
        "backfill_key",
        "model",
        "day",
        "began_at",
        "ended_at",
        "tokens",
        "dollars",
        "prompt_tokens",
        "completion_tokens",
        "requests",
        "fault",
    )

    def show(self, rows: QuerySet[Any], reader: Reader) -> QuerySet[Any]:
        return cast(ModelCallQuerySet, rows).readable_by(reader)

    @admin.display(description=_("job"), ordering="job")
    def job_key(self, call: ModelCall) -> str:
        return spelled(call.job_id)

    @admin.display(description=_("backfill"))
    def backfill_key(self, call: ModelCall) -> str:
        return spelled(call.backfill_id)

    @admin.display(description=_("dollars"), ordering="micros")
    def dollars(self, call: ModelCall) -> Any:
        return _("unpriced") if call.micros is None else f"{call.micros / MICROS:.6f}"
