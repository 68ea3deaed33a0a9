"""Percentiles of measured values."""

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that so many percent of the values do not exceed, 0 without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)] if ordered else 0.0


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return p50, p95, the maximum and the number of values."""
    named = {"p50": percentile(values, 50), "p95": percentile(values, 95)}
    named["max"] = max(values, default=0.0)
    return {name: round(value, 1) for name, value in named.items()} | {"n": len(values)}
