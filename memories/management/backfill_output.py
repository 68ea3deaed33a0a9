"""The estimate and the progress of a backfill, as lines of a terminal."""

from typing import Any

from memories.management.arguments import table

Numbers = dict[str, Any]


def estimate_lines(estimate: Numbers) -> str:
    """Return a table with a row for each channel and a total."""
    rows: list[tuple[str, ...]] = [
        ("", "messages", "segments", "threads", "calls", "tokens", "cost", "minutes")
    ]
    rows += [
        (f"#{channel['channel_name']}", *_cells(channel, estimate))
        for channel in estimate["channels"]
    ]
    if estimate["workspace"]["calls"]["high"]:
        rows.append(("the workspace's memory", *_cells(estimate["workspace"], estimate)))
    rows.append(("total", *_cells(estimate["total"], estimate)))
    return f"{table(rows, right=True)}\n{_basis(estimate)}"


def _cells(row: Numbers, estimate: Numbers) -> tuple[str, ...]:
    return (
        f"{row['messages']:,}",
        f"{row['segments']:,}",
        f"{row['threads']:,}",
        span(row["calls"]),
        span(row["tokens"]),
        "nothing" if estimate["free"] else dollars(row["dollars"]),
        span(row["minutes"], 1),
    )


def _basis(estimate: Numbers) -> str:
    if estimate["free"]:
        return "No model is configured. The offline summariser makes no calls and costs nothing."
    if estimate["measured"]:
        return f"By the newest {estimate['measured']} calls of this model."
    return "No call of this model is measured yet. Tokens and times are estimates."


def span(numbers: Numbers, digits: int = 0) -> str:
    low, high = (f"{numbers[name]:,.{digits}f}" for name in ("low", "high"))
    return low if low == high else f"{low} – {high}"


def dollars(numbers: Numbers | None) -> str:
    if numbers is None:
        return "unpriced tokens"
    return f"{money(numbers['low'])} – {money(numbers['high'])}"


def money(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:,.4f}"


def progress_line(progress: Numbers, estimate: Numbers) -> str:
    """Return one line: finished summaries, cost of the estimate, and the remaining time."""
    parts = [f"{progress['finished']:,} of {progress['total']:,} summaries"]
    if progress["failed"]:
        parts.append(f"{progress['failed']:,} failed")
    total = estimate.get("total")  # None: an export excluded a channel of the estimate
    if total and not estimate["free"]:
        parts.append(f"{progress['tokens']:,} tokens of {span(total['tokens'])}")
        if total["dollars"] is None or progress["dollars"] is None:
            parts.append("unpriced tokens")
        else:
            parts.append(f"{money(progress['dollars'])} of {dollars(total['dollars'])}")
    if left := progress["minutes_left"]:
        parts.append(f"about {span(left, 1)} minutes left")
    return ", ".join(parts)


def state_lines(state: Numbers) -> str:
    """Return the state, the limits, and the progress of each channel."""
    reason = f" ({state['pause_reason'].replace('_', ' ')})" if state["pause_reason"] else ""
    lines = [f"Backfill {state['id']} is {state['state']}{reason}."]
    if state["cap_tokens"] is not None:
        lines.append(f"  cap: {state['cap_tokens']:,} tokens")
    if state["cap_dollars"] is not None:
        lines.append(f"  cap: {money(state['cap_dollars'])}")
    lines.append(f"  {progress_line(state['progress'], state['estimate'])}")
    lines += [
        f"  #{channel['channel_name']}: {channel['finished']:,} of {channel['total']:,}"
        for channel in state["progress"]["channels"]
    ]
    return "\n".join(lines)
