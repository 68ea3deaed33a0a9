"""Decide what becomes of a job whose call or closing failed (docs/rules.md, Faults)."""

import random
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from memories.models import Job
from memories.pipeline.generate import followups
from memories.rules.generate.circuit_breaker import backoff_delay
from memories.rules.generate.faults import MAX_ATTEMPTS, Action, choose_next_step
from memories.rules.summariser import PromptForm, RequestStrategy, SummariserError


def handle_failure(
    job: Job,
    error: SummariserError,
    now: datetime,
    *,
    others_answered_at: datetime | None = None,
) -> None:
    """Save the fault, and retry the job later or give it up, as the policy says.

    ``others_answered_at``: when the endpoint answered another job after a failure. If that was
    since this job's last failure, the fault is in its request.
    """
    pause = timedelta(seconds=settings.MEMORYHUB_BACK_OFF)
    wait = backoff_delay(pause, job.attempts, random.random())  # noqa: S311  # spreads retries
    retry_after = timedelta(seconds=error.retry_after or 0)
    step = choose_next_step(
        error.code,
        job.attempts,
        RequestStrategy(job.strategy),
        is_partly_paid=error.is_partly_paid,
        others_succeed=bool(
            job.failed_at and others_answered_at and others_answered_at > job.failed_at
        ),
    )
    with transaction.atomic():
        if step.action is Action.GIVE_UP:
            job.dead_letter(error, now)
        elif step.action is Action.WAIT:
            job.release(error.code, str(error), now + (retry_after or wait), failed_at=now)
        else:
            at = now if step.action is Action.RETRY_NOW else now + max(wait, retry_after)
            reply = job.saved_reply if step.changes_form else None
            job.retry_later(
                error, at, step.strategy, PromptForm(reply.form).opposite if reply else None
            )
        followups.schedule_followups(job)


def handle_closing_error(job: Job, error: Exception, now: datetime) -> None:
    """Keep a paid reply after an error of the hub, and close it later, for a few attempts."""
    fault = SummariserError("unexpected", type(error).__name__)
    pause = timedelta(seconds=settings.MEMORYHUB_BACK_OFF)
    with transaction.atomic():
        if job.workers_lost >= MAX_ATTEMPTS:
            job.dead_letter(fault, now)
        else:
            job.delay_closing(fault, now + backoff_delay(pause, job.workers_lost, 0.5))
        followups.schedule_followups(job)


def dead_letter(job: Job, now: datetime) -> None:
    """Give up a job whose workers ended too often, unless a worker has taken it again."""
    if job.state == Job.State.REPLIED:
        code = "not_closed"
        among = Job.objects.filter(state=job.state, workers_lost=job.workers_lost)
    else:
        code, among = "gave_no_answer", Job.objects.exhausted(now)
    error = SummariserError(code, "Its worker disappeared each time.")
    with transaction.atomic():
        if job.dead_letter(error, now, among):
            followups.schedule_followups(job)
