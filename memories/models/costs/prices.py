"""Prices of models, and budgets, which limit spending."""

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_CEILING, Decimal
from typing import Any

from django.core.validators import MinValueValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.users import User
from memories.models.access.workspaces import Workspace
from memories.models.generate.jobs import Job
from memories.rules.costs.money import MICROS
from memories.rules.summariser import MAX_MODEL_NAME

_RELEASE = re.compile(r"-(?:latest|\d{4}|\d{4}-?\d{2}-?\d{2})")


class PriceQuerySet(models.QuerySet["Price"]):
    def of_model(self, name: str) -> "Price | None":
        """Return the price of a model. A dated release (``name-2026-07-18``) has its family's."""
        prices = (price for price in self.all() if price.covers(name))
        return max(prices, key=lambda price: len(price.model), default=None)

    @transaction.atomic
    def change(
        self, model: str, input_price: Decimal, output_price: Decimal, *, by: User | None
    ) -> "Price":
        """Set the price of a model in dollars per million tokens. Raises ValidationError.

        Jobs that wait for a price are due again.
        """
        price = self.select_for_update().filter(model=model).first() or Price(model=model)
        before = price.recorded if price.pk else None
        price.input_price, price.output_price = input_price, output_price
        price.full_clean()
        price.save()
        if price.recorded != before:
            AuditEvent.objects.record(
                "price", by=by, subject=model, before=before, after=price.recorded
            )
            _make_due(None)
        return price


class Price(models.Model):
    """Dollars per million tokens. The tokens of a model without a price are unpriced, not free."""

    model = models.CharField(_("model"), max_length=MAX_MODEL_NAME, unique=True)
    input_price = models.DecimalField(
        _("dollars per million input tokens"),
        max_digits=12,
        decimal_places=6,
        validators=[MinValueValidator(0)],
    )
    output_price = models.DecimalField(
        _("dollars per million output tokens"),
        max_digits=12,
        decimal_places=6,
        validators=[MinValueValidator(0)],
    )
    changed_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = PriceQuerySet.as_manager()

    class Meta:
        ordering = ["model"]
        verbose_name = _("price")
        verbose_name_plural = _("prices")

    def __str__(self) -> str:
        return self.model

    @property
    def recorded(self) -> list[str]:
        """Dollars per million tokens in and out, as the audit log has them."""
        return [f"{price:.6f}" for price in (self.input_price, self.output_price)]

    @transaction.atomic
    def remove(self, *, by: User | None) -> None:
        """Delete the price. The model's next tokens are unpriced."""
        AuditEvent.objects.record(
            "price", by=by, subject=self.model, before=self.recorded, after=None
        )
        self.delete()

    def covers(self, name: str) -> bool:
        """Return whether this is the price of a model, or of the family of a dated release."""
        release = name.removeprefix(self.model)
        return release == "" or (release != name and bool(_RELEASE.fullmatch(release)))

    def micros(self, tokens_in: int, tokens_out: int) -> int:
        """Return the price of a call in millionths of a dollar, rounded up."""
        exact = tokens_in * Decimal(self.input_price) + tokens_out * Decimal(self.output_price)
        return int(exact.to_integral_value(ROUND_CEILING))


class BudgetQuerySet(models.QuerySet["Budget"]):
    def binding(self, workspace: Workspace | None) -> "BudgetQuerySet":
        """Filter the budgets of calls for this workspace: its own and the installation's."""
        return self.filter(Q(workspace=workspace) | Q(workspace=None)).order_by("pk")

    @transaction.atomic
    def change(
        self,
        workspace: Workspace | None,
        period: str,
        *,
        by: User | None,
        **limits: int | Decimal | None,
    ) -> "Budget | None":
        """Set ``tokens`` or ``money`` (dollars) of a budget; None removes that limit.

        Returns None for a budget without limits, which is deleted. Jobs that wait for the budget are
        due again. Raises ValidationError.
        """
        rows = self.select_for_update(of=("self",)).filter(workspace=workspace, period=period)
        budget = rows.first() or Budget(workspace=workspace, period=period)
        before = budget.limits
        for name, limit in limits.items():
            setattr(budget, name, limit)
        budget.full_clean()
        if budget.limits != before:
            if budget.is_empty and budget.pk:
                budget.delete()
            elif not budget.is_empty:
                budget.save()
            # The log is append-only, so the action keeps the name of the first release.
            AuditEvent.objects.record(
                "cap",
                by=by,
                workspace=workspace,
                subject=period,
                before=before,
                after=budget.limits,
            )
            _make_due(workspace)
        return None if budget.is_empty else budget


class Budget(models.Model):
    """A limit on spending in a day or a month (UTC), of a workspace or of the installation.

    ``money`` is in dollars. Null is no limit in that unit.
    """

    class Period(models.TextChoices):
        DAY = "day", _("day")
        MONTH = "month", _("month")

    workspace = models.ForeignKey(
        Workspace,
        on_delete=models.CASCADE,
        related_name="budgets",
        null=True,
        blank=True,
        help_text=_("Empty: applies to the whole installation."),
    )
    period = models.CharField(_("period"), max_length=5, choices=Period)
    tokens = models.PositiveBigIntegerField(_("tokens"), null=True, blank=True)
    money = models.DecimalField(
        _("dollars"),
        max_digits=12,
        decimal_places=2,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
    )

    objects = BudgetQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "period"],
                name="budget_of_workspace",
                condition=Q(workspace__isnull=False),
            ),
            models.UniqueConstraint(
                fields=["period"], name="budget_of_all", condition=Q(workspace__isnull=True)
            ),
        ]
        verbose_name = _("budget")
        verbose_name_plural = _("budgets")

    def __str__(self) -> str:
        return f"{self.workspace or _('the whole installation')}, {self.get_period_display()}"

    @property
    def limits(self) -> dict[str, Any]:
        """Tokens, and dollars as text, as the audit log has them."""
        money = None if self.money is None else f"{self.money:.2f}"
        return {"tokens": self.tokens, "money": money}

    @property
    def is_empty(self) -> bool:
        return self.tokens is None and self.money is None

    @property
    def micros(self) -> int | None:
        return None if self.money is None else int(self.money * MICROS)

    def first_day(self, today: date) -> date:
        return today if self.period == self.Period.DAY else today.replace(day=1)

    def ends_at(self, today: date) -> datetime:
        """Return the end of the current period."""
        if self.period == self.Period.DAY:
            following = today + timedelta(days=1)
        else:
            following = (today.replace(day=28) + timedelta(days=4)).replace(day=1)
        return datetime.combine(following, time(), UTC)


def _make_due(workspace: Workspace | None) -> None:
    """Make the jobs due that wait for a budget, of one workspace or of all."""
    waiting = Job.objects.over_budget()
    if workspace is not None:
        waiting = waiting.of_workspace(workspace)
    waiting.make_due()
