"""Reserve the upper bound of a model call within the budgets, and settle what it used.

A reservation is one transaction that locks the endpoint's row and the budgets' rows, so parallel
workers cannot exceed a budget. A call without a reply stays counted at its upper bound.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from memories.models import Backfill, Budget, Endpoint, Job, ModelCall, Price, Workspace
from memories.models.costs.model_calls import ModelCallQuerySet
from memories.rules.costs.money import Limit, find_limit_error
from memories.rules.generate.circuit_breaker import CircuitBreaker
from memories.rules.summariser import (
    PromptForm,
    Reply,
    Request,
    Summariser,
    SummariserError,
    Usage,
)

SAFETY = 1.3  # least factor on the estimate of input tokens
WORST = 10.0  # largest factor: one wrong count must not block all later calls
COPIED_JOBS = 2  # jobs in a row with a copied reply, after which no such job is repeated


@dataclass(frozen=True)
class Refused:
    """A refused call. With ``stops_pass`` no other call of the pass may begin either."""

    why: str
    text: str
    until: datetime | None = None
    stops_pass: bool = False


class CallRefused(Exception):
    """A budget or the endpoint's circuit breaker allows no call now."""


@dataclass
class CallLedger:
    """Reserves and settles the calls of one pass: one workspace, one summariser."""

    workspace: Workspace | None  # None for a probe of the endpoint
    summariser: Summariser

    def __post_init__(self) -> None:
        self.lease = timedelta(seconds=settings.MEMORYHUB_LEASE)
        self.pause = timedelta(seconds=settings.MEMORYHUB_BACK_OFF)
        self.endpoint = (
            Endpoint.objects.get_or_create_for(
                self.summariser.endpoint, self.summariser.endpoint_name
            )
            if self.summariser.endpoint
            else None  # the offline summariser costs nothing
        )

    def find_breaker_refusal(self, now: datetime) -> Refused | None:
        """Return why the endpoint's breaker refuses all calls now. `reserve` checks it again."""
        if self.endpoint is None:
            return None
        self.endpoint.refresh_from_db()
        return _refused_by(self.endpoint.breaker, now)

    def form_for(self, job: Job, request: Request) -> PromptForm:
        """Return the form of the prompt: the job's after a bad reply, else the endpoint's.

        A model that cannot write operations gets the simple form.
        """
        if job.form:
            return PromptForm(job.form)
        writes_operations = self.endpoint is None or self.endpoint.writes_operations is not False
        if request.uses_operations and not writes_operations:
            return PromptForm.SIMPLE
        return self.form

    @property
    def form(self) -> PromptForm:
        """The form of prompts that the probe found, or the full one."""
        return PromptForm((self.endpoint and self.endpoint.form) or PromptForm.FULL)

    @property
    def thinking_tokens(self) -> int:
        return self.endpoint.thinking_tokens if self.endpoint else 0

    @property
    def input_limit(self) -> int | None:
        return self.endpoint.input_limit if self.endpoint else None

    @property
    def answered_at(self) -> datetime | None:
        """The first reply of the endpoint after its last failure."""
        if self.endpoint is None:
            return None
        self.endpoint.refresh_from_db()
        return self.endpoint.answered_at

    @property
    def only_copies(self) -> bool:
        """Whether the model copied messages in both forms of the prompt for the last jobs."""
        if self.endpoint is None:
            return False
        self.endpoint.refresh_from_db()
        return self.endpoint.copied_jobs >= COPIED_JOBS

    def count_copied(self, *, copied: bool) -> None:
        if self.endpoint is not None:
            self.endpoint.count_copied(copied=copied)

    def raise_thinking_tokens(self, reply: Reply | None) -> None:
        if self.endpoint is not None and reply is not None:
            self.endpoint.raise_thinking_tokens(reply.thinking_tokens)
            self.endpoint.refresh_from_db()

    @transaction.atomic
    def reserve(self, job: Job, bound: Usage, now: datetime) -> ModelCall | Refused | None:
        """Reserve the upper bound of a job's call. Return None for the offline summariser.

        A refusal releases the job in the same transaction, so a raised budget finds it waiting.
        """
        if self.endpoint is None:
            return None
        call = self._reserve(self._locked(), job, bound, now)
        if isinstance(call, Refused):
            soon = now + self.pause
            # A breaker may close sooner than `until`: a trial call may get a reply.
            until = min(call.until or soon, soon) if call.stops_pass else call.until or soon
            # The backfill is paused, or has room when its open calls have ended.
            waits = call.why != "over_backfill_cap"
            job.release(call.why, call.text, until if waits else None)
        return call

    def call_without_job(self, bound: Usage, send: Callable[[], Reply]) -> Reply:
        """Make a call that belongs to no job, and settle it. Raises CallRefused and SummariserError."""
        with transaction.atomic():
            call = self._reserve(self._locked(), None, bound, timezone.now())
        if isinstance(call, Refused):
            raise CallRefused(call.text or call.why)
        try:
            reply = send()
        except SummariserError as error:
            self.record_failure(call, error, timezone.now())
            raise
        self.settle(call, reply.usage, bound, timezone.now())
        return reply

    def _reserve(
        self, endpoint: Endpoint, job: Job | None, bound: Usage, now: datetime
    ) -> ModelCall | Refused:
        breaker = endpoint.breaker
        if refused := _refused_by(breaker, now):
            return refused
        price = Price.objects.of_model(self.summariser.name)
        tokens_in = math.ceil(bound.prompt_tokens * max(SAFETY, endpoint.worst_ratio))
        tokens = tokens_in + bound.completion_tokens
        micros = price.micros(tokens_in, bound.completion_tokens) if price else None
        for why, limit, calls in self._limits(job, now):
            if text := find_limit_error(tokens, micros, limit):
                ended = limit.without(*calls.running(now, self.lease).committed())
                may_fit_soon = limit.until and not find_limit_error(tokens, micros, ended)
                return Refused(why, text, now + self.pause if may_fit_soon else limit.until)
        if job is not None and not job.renew(now, self.lease):
            return Refused("lost", "Another worker runs it.")
        began = breaker.after_start(now, self.lease)
        if began != breaker:
            endpoint.set_breaker(began)
        return ModelCall.objects.create(
            job=job,
            fence=job.fence if job else 0,
            workspace=self.workspace,
            backfill_id=job.backfill_id if job else None,
            model=self.summariser.name,
            day=_day(now),
            began_at=now,
            tokens=tokens,
            micros=micros,
        )

    def _limits(
        self, job: Job | None, now: datetime
    ) -> Iterator[tuple[str, Limit, ModelCallQuerySet]]:
        """Yield the code of a refusal, the limit, and the calls that count against it."""
        today = _day(now)
        for budget in Budget.objects.binding(self.workspace).select_for_update(of=("self",)):
            calls = ModelCall.objects.counting_against(budget, today)
            used = calls.committed()
            limit = Limit(str(budget), budget.tokens, budget.micros, *used, budget.ends_at(today))
            yield "over_budget", limit, calls
        if job is not None and job.backfill_id is not None:
            backfill = Backfill.objects.select_for_update().get(pk=job.backfill_id)
            calls = ModelCall.objects.filter(backfill=backfill)
            used = calls.committed()
            limit = Limit(str(backfill), backfill.cap_tokens, backfill.cap_micros, *used, None)
            yield "over_backfill_cap", limit, calls

    def settle(self, call: ModelCall | None, usage: Usage, bound: Usage, now: datetime) -> None:
        """Replace the reservation by what the call used, in the transaction of its reply."""
        if call is None:
            return
        self._settle(call, usage, now)
        self._record_reply(usage.prompt_tokens / max(bound.prompt_tokens, 1), now)

    @transaction.atomic
    def record_failure(self, call: ModelCall | None, error: SummariserError, now: datetime) -> None:
        """Record a call without a reply: settle it if its usage is certain, update the breaker."""
        if call is None:
            return
        endpoint = self._locked()  # locked first, as in `reserve`
        if error.may_be_charged:  # it may be charged: the whole bound stays counted
            call.settle(now, fault=error.code, requests=error.spent.calls + 1)
        else:
            self._settle(call, error.spent, now, error.code)
        if call.job is not None:
            call.job.add_usage(error.spent)
        breaker = endpoint.breaker.after_failure(
            error.code,
            str(error),
            now,
            retry_after=error.retry_after,
            pause=self.pause,
            jitter=random.random(),  # noqa: S311  # spreads retries, guards nothing
        )
        if breaker != endpoint.breaker:
            endpoint.set_breaker(breaker)

    def _settle(self, call: ModelCall, usage: Usage, now: datetime, fault: str = "") -> None:
        tokens = usage.prompt_tokens + usage.completion_tokens
        price = Price.objects.of_model(call.model)
        micros = price.micros(usage.prompt_tokens, usage.completion_tokens) if price else None
        if call.micros is not None and tokens <= call.tokens:
            # The price may have changed since: the reservation is the most that counts.
            micros = call.micros if micros is None else min(micros, call.micros)
        call.settle(
            now,
            tokens=tokens,
            micros=micros,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            requests=usage.calls,
            fault=fault,
        )

    def _record_reply(self, ratio: float, now: datetime) -> None:
        """Close the endpoint's breaker, and store its worst ratio of tokens to the estimate."""
        assert self.endpoint is not None
        current = Endpoint.objects.get(pk=self.endpoint.pk)
        if (
            current.breaker == current.breaker.after_answer()
            and min(ratio, WORST) <= current.worst_ratio
        ):
            return  # the usual case: no write, no lock
        endpoint = self._locked()
        worst = min(max(ratio, endpoint.worst_ratio), WORST)
        endpoint.set_breaker(endpoint.breaker.after_answer(), worst_ratio=worst, answered_at=now)

    def _locked(self) -> Endpoint:
        assert self.endpoint is not None
        return Endpoint.objects.select_for_update().get(pk=self.endpoint.pk)


def _refused_by(breaker: CircuitBreaker, now: datetime) -> Refused | None:
    refused = breaker.find_refusal(now)
    if refused is None:
        return None
    why, until = refused
    return Refused(why.value, breaker.fault_text, until, stops_pass=True)


def _day(now: datetime) -> date:
    return now.astimezone(UTC).date()
