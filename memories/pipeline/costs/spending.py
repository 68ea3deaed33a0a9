"""question → call: whether it may be asked now, what it may cost, and what it did cost.

Everything is counted before it is spent. A reservation is one transaction that holds the endpoint's
row and the caps' rows, so parallel workers cannot overshoot; what never comes back stays counted.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.conf import settings
from django.db import transaction

from memories.models import Backfill, Cap, Endpoint, Job, ModelCall, Price, Workspace
from memories.rules.costs.money import Asked, Limit, refusal
from memories.rules.generate.circuit_breaker import CircuitBreaker
from memories.rules.generate.summariser import (
    PromptForm,
    Reply,
    Request,
    Summariser,
    SummariserError,
    Usage,
)

SAFETY = 1.3  # at least so many times our estimate of the tokens that go in
WORST = 10.0  # at most: one absurd count must not make every later call look too dear
COPIED_JOBS = 2  # in a row, after which a copied reply is not asked for again


@dataclass(frozen=True)
class Refused:
    """No call now. ``of_all``: no other call of this pass may begin either."""

    why: str
    text: str
    until: datetime | None = None
    of_all: bool = False


@dataclass
class CallBudget:
    """The calls of one pass: one workspace, one summariser."""

    workspace: Workspace | None  # None: a probe, which is for all of them
    summariser: Summariser

    def __post_init__(self) -> None:
        self.lease = timedelta(seconds=settings.MEMORYHUB_LEASE)
        self.pause = timedelta(seconds=settings.MEMORYHUB_BACK_OFF)
        self.endpoint = (
            Endpoint.objects.get_or_create_for(
                self.summariser.endpoint, self.summariser.endpoint_name
            )
            if self.summariser.endpoint
            else None  # the offline summariser: no call, no money
        )

    def closed(self, now: datetime) -> Refused | None:
        """Whether the endpoint takes no call at all now. Only a look: `reserve` decides."""
        if self.endpoint is None:
            return None
        self.endpoint.refresh_from_db()
        return _refused_by(self.endpoint.breaker, now)

    def form_for(self, job: Job, request: Request) -> PromptForm:
        """In which form of the prompt it is asked: its own after a bad answer, else the endpoint's. A
        model that cannot write operations only adds."""
        if job.form or self.endpoint is None:
            return PromptForm(job.form or PromptForm.FULL)
        if request.uses_operations and self.endpoint.writes_operations is False:
            return PromptForm.SIMPLE
        return PromptForm(self.endpoint.form or PromptForm.FULL)

    @property
    def thinking_tokens(self) -> int:
        return self.endpoint.thinking_tokens if self.endpoint else 0

    @property
    def input_limit(self) -> int | None:
        return self.endpoint.input_limit if self.endpoint else None

    @property
    def answered_at(self) -> datetime | None:
        """When the endpoint first answered after it had failed."""
        if self.endpoint is None:
            return None
        self.endpoint.refresh_from_db()
        return self.endpoint.answered_at

    @property
    def only_copies(self) -> bool:
        """Whether the model copied messages in both forms of the prompt, for the last few jobs."""
        if self.endpoint is None:
            return False
        self.endpoint.refresh_from_db()
        return self.endpoint.copied_jobs >= COPIED_JOBS

    def count_copied(self, *, copied: bool) -> None:
        if self.endpoint is not None:
            self.endpoint.count_copied(copied=copied)

    def give_room(self, reply: Reply | None) -> None:
        if self.endpoint is not None and reply is not None:
            self.endpoint.raise_thinking_tokens(reply.thinking_tokens)
            self.endpoint.refresh_from_db()

    @transaction.atomic
    def reserve(self, job: Job, bound: Usage, now: datetime) -> ModelCall | Refused | None:
        """Count the most it can cost and let it begin, or say why not and put it back, in the same
        transaction: a cap that is raised meanwhile finds it. None: nothing to count."""
        if self.endpoint is None:
            return None
        call = self._reserve(self._locked(), job, bound, now)
        if isinstance(call, Refused):
            soon = now + self.pause
            # What holds back all calls may end sooner than it says: a probe may be answered.
            until = min(call.until or soon, soon) if call.of_all else call.until or soon
            # That backfill is paused now, or has room when what is under way has ended.
            waits = call.why != "over_backfill_cap"
            job.release(call.why, call.text, until if waits else None)
        return call

    @transaction.atomic
    def reserve_probe(self, bound: Usage, now: datetime) -> ModelCall | Refused:
        """Count the most that a call for no job can cost, under the caps of the installation."""
        return self._reserve(self._locked(), None, bound, now)

    def _reserve(
        self, endpoint: Endpoint, job: Job | None, bound: Usage, now: datetime
    ) -> ModelCall | Refused:
        breaker = endpoint.breaker
        if refused := _refused_by(breaker, now):
            return refused
        price = Price.objects.of_model(self.summariser.name)
        tokens_in = math.ceil(bound.prompt_tokens * max(SAFETY, endpoint.worst_ratio))
        request = Asked(
            tokens_in + bound.completion_tokens,
            price.micros(tokens_in, bound.completion_tokens) if price else None,
        )
        for why, limit in self._limits(job, now):
            if text := refusal(request, limit):
                return Refused(why, text, limit.until)
        if job is not None and not job.renew(now, self.lease):
            return Refused("lost", "Another worker has it.")
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
            tokens=request.tokens,
            micros=request.micros,
        )

    def _limits(self, job: Job | None, now: datetime) -> Iterator[tuple[str, Limit]]:
        today = _day(now)
        for cap in Cap.objects.that_bind(self.workspace).select_for_update(of=("self",)):
            used = ModelCall.objects.under(cap, today).committed()
            yield "over_cap", Limit(str(cap), cap.tokens, cap.micros, *used, cap.ends(today))
        if job is not None and job.backfill_id is not None:
            backfill = Backfill.objects.select_for_update().get(pk=job.backfill_id)
            used = backfill.calls.all().committed()
            limit = Limit(str(backfill), backfill.cap_tokens, backfill.cap_micros, *used, None)
            yield "over_backfill_cap", limit

    def settle(self, call: ModelCall | None, usage: Usage, bound: Usage, now: datetime) -> None:
        """What it used, in place of what it was allowed to. Call it in the reply's transaction."""
        if call is None:
            return
        self._settle(call, usage, now)
        self._heard(usage.prompt_tokens / max(bound.prompt_tokens, 1), now)

    @transaction.atomic
    def failed(self, call: ModelCall | None, error: SummariserError, now: datetime) -> None:
        """It ended without an answer: what it surely did not use is given back, and the endpoint's
        breaker hears of it."""
        if call is None:
            return
        endpoint = self._locked()  # first, as in `reserve`
        if error.may_be_charged:  # perhaps paid: the whole bound stays counted
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
            # Its price went or rose since: what was promised then is the most it counts.
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

    def _heard(self, ratio: float, now: datetime) -> None:
        """The endpoint answered: it is well, and told how it counts tokens."""
        current = Endpoint.objects.get(pk=self._pk)
        if (
            current.breaker == current.breaker.after_answer()
            and min(ratio, WORST) <= current.worst_ratio
        ):
            return  # as always: nothing to write, nobody to wait for
        endpoint = self._locked()
        worst = min(max(ratio, endpoint.worst_ratio), WORST)
        endpoint.set_breaker(endpoint.breaker.after_answer(), worst_ratio=worst, answered_at=now)

    def _locked(self) -> Endpoint:
        return Endpoint.objects.select_for_update().get(pk=self._pk)

    @property
    def _pk(self) -> int:
        if self.endpoint is None:
            raise ValueError("no endpoint was called")
        return self.endpoint.pk


def _refused_by(breaker: CircuitBreaker, now: datetime) -> Refused | None:
    refused = breaker.find_refusal(now)
    if refused is None:
        return None
    why, until = refused
    return Refused(why.value, breaker.fault_text, until, of_all=True)


def _day(now: datetime) -> date:
    return now.astimezone(UTC).date()
