"""Numbers, ranges and amounts of money in templates."""

from typing import Any

from django import template
from django.utils.formats import number_format

from memories.rules.costs.money import MICROS

register = template.Library()

Numbers = dict[str, float]


@register.filter
def grouped(number: int) -> str:
    """Return ``37607`` as "37,607"."""
    return number_format(number, force_grouping=True)


@register.filter
def between(numbers: Numbers | None, digits: int = 0) -> str:
    """Return ``{"low": 8, "high": 9, …}`` as "8 – 9"."""
    if not numbers:
        return ""
    return _span(
        *(number_format(numbers[end], digits, force_grouping=True) for end in ("low", "high"))
    )


@register.filter
def dollars(numbers: Numbers) -> str:
    return _span(*(_money(numbers[end]) for end in ("low", "high")))


@register.filter
def micros(amount: int) -> str:
    return _money(amount / MICROS)


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} – {high}"


def _money(amount: Any) -> str:
    if not amount:
        return "$0"
    if amount < 0.0001:
        return f"< ${number_format(0.0001, 4)}"  # it is not "$0"
    return f"${number_format(amount, 2 if amount >= 1 else 4, force_grouping=True)}"
