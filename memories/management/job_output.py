"""Jobs as JSON and as lines of a terminal.

Everybody who runs commands sees the state of a job. Only readers of the memory see its name, the message
of the endpoint and the reply.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from memories.models import ModelCall
from memories.pipeline.costs.usage import BudgetUse
from memories.pipeline.generate.job_control import Health, find_wait
from memories.pipeline.memory import proposals
from memories.rules.costs.money import MICROS
from memories.rules.generate.faults import MAX_ATTEMPTS
from memories.rules.generate.job_status import WaitReason
from memories.rules.ingest.invisible import mark_invisible

PRIVATE = "private"


def job_row(job: Any, now: datetime, *, endpoint_closed: bool) -> dict[str, Any]:
    """Return a row of the list. ``job`` needs its memory, base, backfill and ``is_readable``."""
    memory = job.memory
    before, after = proposals.token_counts(job) or (None, None)
    return {
        "id": job.pk,
        "workspace": memory.workspace.slug,
        "place": place(job),
        "scope": memory.scope,
        "type": memory.memory_type,
        "state": job.state,
        "waits_for": find_wait(job, now, endpoint_closed=endpoint_closed),
        "retry_at": iso(job.retry_at),
        "fault": job.fault,
        "attempts": job.attempts,
        "workers_lost": job.workers_lost,
        "backfill": job.backfill_id,
        "tokens_before": before,
        "tokens_after": after,
        "created_at": iso(job.created_at),
        "finished_at": iso(job.finished_at),
    }


def place(job: Any) -> str | None:
    """Return the channel or workspace of the memory. None: private."""
    if not job.is_readable:
        return None
    memory = job.memory
    if memory.channel is None:
        return str(memory.workspace.slug)
    return f"#{memory.channel.name} {memory.thread_ts}".strip()


def job_details(job: Any, now: datetime, *, endpoint_closed: bool) -> dict[str, Any]:
    """Return the row of the list with the calls, the inputs and the reply."""
    reply, is_readable = job.saved_reply, job.is_readable
    reads = job.input_rows.select_related("version__memory").order_by("version")
    return job_row(job, now, endpoint_closed=endpoint_closed) | {
        "trigger": job.trigger,
        "what_happened": job.fault_text if is_readable else None,
        "provisional": job.provisional,
        "segment": job.segment_id,
        "base": job.base_id,
        "strategy": job.strategy,
        "fence": job.fence,
        "lease_until": iso(job.lease_until),
        "model": job.model,
        "prompt_version": job.prompt_version,
        "tokens_in": job.prompt_tokens,
        "tokens_out": job.completion_tokens,
        "requests": job.calls,
        "seconds": round(job.seconds, 3),
        "calls": [call_row(model_call) for model_call in job.model_calls.order_by("fence")],
        "inputs": [
            {"version": job_input.version_id, "revision": job_input.revision} for job_input in reads
        ],
        "reply": reply.text if reply and is_readable else None,
    }


def call_row(model_call: ModelCall) -> dict[str, Any]:
    """Return a call. Until it ends, its tokens and dollars are its reservation."""
    return {
        "claim": model_call.fence,
        "model": model_call.model,
        "began_at": iso(model_call.began_at),
        "ended_at": iso(model_call.ended_at),
        "tokens": model_call.tokens,
        "dollars": dollars(model_call.micros),
        "tokens_in": model_call.prompt_tokens,
        "tokens_out": model_call.completion_tokens,
        "requests": model_call.requests,
        "fault": model_call.fault,
    }


def health_as_json(health: Health) -> dict[str, Any]:
    reason, until = health.refusal or ("", None)
    return {
        "worker_at": iso(health.worker_at),
        "endpoint": str(health.endpoint) if health.endpoint else None,
        "refuses": str(reason),
        "until": iso(until),
        "fault": health.endpoint.fault if health.endpoint and health.refusal else "",
        "budgets_reached": [budget_row(use) for use in health.budgets_reached],
        "states": health.counts,
    }


def budget_row(use: BudgetUse) -> dict[str, Any]:
    budget = use.budget
    return {
        "workspace": budget.workspace.slug if budget.workspace else None,
        "period": budget.period,
        "since": use.first_day.isoformat(),
        "until": iso(use.until),
        "tokens": budget.tokens,
        "tokens_used": use.tokens,
        "dollars": dollars(budget.micros),
        "dollars_used": dollars(use.micros),
    }


def iso(at: datetime | None) -> str | None:
    return at.isoformat(timespec="seconds") if at else None


def dollars(micros: int | None) -> str | None:
    """Format millionths of a dollar exactly. None: no price, or no limit."""
    return None if micros is None else f"{micros // MICROS}.{micros % MICROS:06}"


# -- lines of a terminal


def health_line(health: Health, now: datetime) -> str:
    """Return one line about the worker, the endpoint, the budgets and the jobs."""
    health_json = health_as_json(health)
    beat = health.worker_at
    worker = f"last heartbeat {format_age(now - beat)} ago" if beat else "no heartbeat yet"
    endpoint = health_json["endpoint"] or "none called yet"
    if health.refusal:
        reason = f"{health_json['refuses']}: {health_json['fault']}".replace("_", " ").rstrip(": ")
        until = (
            f"until {health_json['until']}"
            if health_json["until"]
            else "until `jobs resume` or `jobs retry`"
        )
        endpoint += f" takes no calls ({reason}) {until}"
    parts = [f"worker: {worker}", f"model: {endpoint}"]
    if health_json["budgets_reached"]:
        budgets = health_json["budgets_reached"]
        names = (f"{budget['workspace'] or 'all'} {budget['period']}" for budget in budgets)
        parts.append(f"budgets reached: {', '.join(names)}")
    counts = ", ".join(f"{n} {state}" for state, n in sorted(health.counts.items()))
    return "; ".join([*parts, f"jobs: {counts or 'none open'}"])


def format_age(age: Any) -> str:
    seconds = max(int(age.total_seconds()), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def wait_text(row: dict[str, Any]) -> str:
    """Return what a job waits for, with its last fault and its attempts."""
    wait = {
        None: "",
        WaitReason.TURN: "its turn",
        WaitReason.RUNNING: "an answer",
        WaitReason.NO_WORKER: "another worker: the previous one is gone",
        WaitReason.LATER: f"next try at {row['retry_at']}",
        WaitReason.BUDGET: f"budget reached: next try at {row['retry_at']}",
        WaitReason.ENDPOINT: "no calls to the model now",
        WaitReason.BACKFILL: f"backfill {row['backfill']} does not run",
        WaitReason.PERSON: f"approve or reject: {row['tokens_before']} → {row['tokens_after']} tokens",
        WaitReason.RETRY: "failed: retry",
    }[row["waits_for"]]
    fault = row["fault"].replace("_", " ")
    attempts = f"attempt {row['attempts']} of {MAX_ATTEMPTS}" if row["attempts"] else ""
    return "; ".join(part for part in (wait, fault, attempts) if part)


def job_lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        where = mark_invisible(row["place"]) if row["place"] is not None else PRIVATE
        kind = f"{row['scope']} {row['type']}"
        yield f"{row['id']:>6}  {row['state']:<10}  {kind:<21}  {row['workspace']} {where}  {wait_text(row)}"


def detail_lines(row: dict[str, Any]) -> Iterator[str]:
    """Yield each value on a line of its own, then the calls, the inputs and the reply."""
    yield from job_lines([row])
    hidden = {"id", "place", "scope", "type", "state", "workspace", "calls", "inputs", "reply"}
    for key, value in row.items():
        if key not in hidden and value not in (None, "", {}):
            yield f"  {key}: {mark_invisible(str(value))}"
    for model_call in row["calls"]:
        cost = f"${model_call['dollars']}" if model_call["dollars"] else "unpriced"
        ended = model_call["ended_at"] or "no reply yet: this is the most it may use"
        yield (
            f"  call {model_call['claim']}: {model_call['began_at']} – {ended};"
            f" {model_call['tokens']} tokens, {cost}; {model_call['fault'] or 'ok'}"
        )
    for job_input in row["inputs"]:
        yield f"  reads version {job_input['version']} (revision {job_input['revision']})"
    if row["reply"] is not None:
        yield "  reply:"
        yield from (f"    {mark_invisible(line)}" for line in row["reply"].splitlines())
    elif row["place"] is None:
        yield "  reply: private"
