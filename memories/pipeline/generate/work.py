"""Run the jobs of one pass: claim → reserve → call → save the reply → close.

The calling thread reads and writes all rows. Other threads only wait for the summariser. So there
is one database connection, and no transaction spans a call.
"""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from memories import llm
from memories.models import Job, ModelCall, Workspace
from memories.pipeline.costs.spending import CallLedger, Refused
from memories.pipeline.generate import followups
from memories.pipeline.generate.close import close, close_without_call, supersede
from memories.pipeline.generate.failures import dead_letter, handle_closing_error, handle_failure
from memories.pipeline.generate.report import Report
from memories.pipeline.generate.requests import JobRequest, RequestBuilder
from memories.pipeline.generate.write_version import Closed
from memories.rules.generate.faults import Fault
from memories.rules.summariser import (
    Reply,
    RequestStrategy,
    Summariser,
    SummariserError,
    Usage,
)
from memoryhub.failpoints import fail_point

logger = logging.getLogger(__name__)

SAVE_PAUSES = (0.1, 1.0, 5.0)  # seconds between attempts to save a paid reply
MAX_WAIT_SECONDS = 5.0  # for a longer pause the pass ends


@dataclass(frozen=True)
class RunningCall:
    """A call that a thread waits for."""

    job: Job
    job_request: JobRequest
    upper_bound: Usage
    reservation: ModelCall | None


@dataclass
class JobRunner:
    """Runs the jobs of a workspace: calls side by side, closing in the order of the segments."""

    workspace: Workspace
    summariser: Summariser
    report: Report
    on_progress: Callable[[], None]
    running: dict["Future[Reply]", RunningCall] = field(default_factory=dict)
    job_requests: dict[int, JobRequest] = field(default_factory=dict)  # of saved replies
    stops_claiming: bool = False  # after a refusal, until the next reply

    def __post_init__(self) -> None:
        self.builder = RequestBuilder(self.workspace)
        self.ledger = CallLedger(self.workspace, self.summariser)
        self.jobs = Job.objects.of_workspace(self.workspace)
        self.lease = timedelta(seconds=settings.MEMORYHUB_LEASE)
        self.renew_seconds = settings.MEMORYHUB_LEASE / 3
        self.renewed_at = time.monotonic()

    def run(self, until: float | None) -> None:
        """Work until no job is due soon. No call begins after ``until`` (of time.monotonic)."""
        with ThreadPoolExecutor(settings.MEMORYHUB_LLM_CONCURRENCY) as pool:
            try:
                self._run(pool, until)
            except KeyboardInterrupt:
                # Ctrl-C may come after BEGIN, before Django records the transaction. Nothing would
                # end it then, and no reply could be saved.
                if not connection.in_atomic_block:
                    connection.close()
                raise
            finally:
                self._receive_all()

    def _run(self, pool: ThreadPoolExecutor, until: float | None) -> None:
        while True:
            self.on_progress()
            claimed = 0
            if until is None or time.monotonic() < until:
                for job in self._claim(settings.MEMORYHUB_LLM_CONCURRENCY - len(self.running)):
                    claimed += 1
                    with self._recording_fault(job):
                        self._begin_call(pool, job)
            if self._close_replies() or (claimed and not self.running):
                continue  # this may have scheduled jobs that can be claimed now
            if self.running:
                self._receive_next()
            elif not self._wait_until_due(until):
                return

    # Claim

    def _claim(self, slots: int) -> Iterator[Job]:
        """Claim up to ``slots`` jobs, after giving up those without attempts left.

        Yield nothing while the endpoint refuses calls. A job that lost a worker runs alone.
        """
        now = timezone.now()
        self.stops_claiming = False
        if slots <= 0:
            return
        for job in self.jobs.exhausted(now).with_memory():
            self._count_error(job, "gave_no_answer")
            dead_letter(job, now)
        if any(call.job.workers_lost for call in self.running.values()):
            return
        if refused := self.ledger.find_breaker_refusal(now):
            self._report_refusal(refused)
            return
        for job in self.jobs.claimable(now).with_memory()[:slots]:
            must_run_alone = job.workers_lost or job.state == Job.State.CLAIMED
            if (must_run_alone and self.running) or self.stops_claiming:
                return
            fail_point("before_claim", job.pk)
            if job.claim(timezone.now(), self.lease):
                yield job
                if must_run_alone:
                    return

    def _wait_until_due(self, until: float | None) -> bool:
        """Sleep until the next job is due and return True. Return False at once if that is not soon."""
        now = timezone.now()
        refused = self.ledger.find_breaker_refusal(now)
        due = now if self.jobs.claimable(now).exists() else self.jobs.next_due_at(now)
        if refused is not None and due is not None:
            due = max(due, refused.until) if refused.until else None
        if due is None:
            return False
        pause = (due - now).total_seconds() + 0.001
        if pause > MAX_WAIT_SECONDS or (until is not None and time.monotonic() + pause >= until):
            return False
        time.sleep(pause)
        return True

    # Reserve and call

    def _begin_call(self, pool: ThreadPoolExecutor, job: Job) -> None:
        if not followups.is_current(job):
            self._count(supersede(job, timezone.now()), job)
            return
        job_request = self.builder.build(job)
        if job_request.request.is_empty:
            self._count(close_without_call(job, timezone.now()), job)
            return
        strategy = RequestStrategy(job.strategy)
        request = replace(
            job_request.request,
            form=self.ledger.form_for(job, job_request.request),
            thinking_tokens=self.ledger.thinking_tokens,
            input_limit=self.ledger.input_limit,
        )
        bound = self.summariser.upper_bound(request, strategy)
        reservation = self.ledger.reserve(job, bound, timezone.now())
        if isinstance(reservation, Refused):
            self._handle_refusal(job, reservation)
            return
        future = pool.submit(llm.summarise, request, self.summariser, strategy)
        self.running[future] = RunningCall(job, job_request, bound, reservation)

    def _handle_refusal(self, job: Job, refused: Refused) -> None:
        self._report_refusal(refused)
        self.stops_claiming = refused.stops_pass  # a smaller call may still fit in the budget
        if refused.why == "over_backfill_cap" and job.backfill is not None:
            if self.running:  # these may use less than they reserved
                self.stops_claiming = True
            else:
                job.backfill.pause(reason="over_cap")

    # Receive and save the reply

    def _receive_next(self) -> None:
        """Wait for a reply, no longer than the leases and the heartbeat allow."""
        for call in self.running.values():
            fail_point("in_call", call.job.pk)
        seconds = min(self.renew_seconds, settings.MEMORYHUB_HEARTBEAT / 2)
        done, _ = wait(self.running, seconds, return_when=FIRST_COMPLETED)
        for future in done:
            self._receive(future)
        self._renew_leases()

    def _receive_all(self) -> None:
        """Save the replies of all running calls, also when an error ends the pass."""
        wait(self.running)
        for future in list(self.running):
            try:
                self._receive(future)
            except Exception:  # the error that ended the pass is the one to raise
                logger.warning("a reply could not be kept")

    def _renew_leases(self) -> None:
        """Renew all leases now and then. The calls of a long input may take longer than a lease."""
        if time.monotonic() - self.renewed_at < self.renew_seconds:
            return
        self.renewed_at = time.monotonic()
        for call in self.running.values():
            call.job.renew(timezone.now(), self.lease)

    def _receive(self, future: "Future[Reply]") -> None:
        call = self.running.pop(future)
        with self._recording_fault(call.job):
            try:
                reply = future.result()
            except SummariserError as error:
                self.ledger.record_failure(call.reservation, error, timezone.now())
                self._count_usage(error.spent)
                raise
            self._keep_reply(call, reply)

    def _keep_reply(self, call: RunningCall, reply: Reply) -> None:
        usage = reply.usage
        self._count_usage(usage)
        for seconds in SAVE_PAUSES:
            try:
                is_saved = self._save_reply(call, reply, usage)
                break
            except DatabaseError:  # a deadlock, a lock timeout, a server that restarts
                if not connection.in_atomic_block:
                    connection.close_if_unusable_or_obsolete()
                time.sleep(seconds)
        else:
            is_saved = self._save_reply(call, reply, usage)
        if is_saved:
            self.job_requests[call.job.pk] = call.job_request
        fail_point("reply_saved", call.job.pk)

    @transaction.atomic
    def _save_reply(self, call: RunningCall, reply: Reply, usage: Usage) -> bool:
        self.ledger.settle(call.reservation, usage, call.upper_bound, timezone.now())
        is_saved = call.job.save_reply(reply, call.job_request.sources)
        if not is_saved:  # another worker has the job, but this call is paid too
            call.job.add_usage(usage)
        return is_saved

    # Close

    def _close_replies(self) -> int:
        """Close every saved reply whose turn it is, also those of a worker that died."""
        closed = 0
        while jobs := self._closable_jobs():
            for job in jobs:
                self._close(job)
                self._renew_leases()
                closed += 1
        return closed

    def _closable_jobs(self) -> list[Job]:
        now = timezone.now()
        rows = self.jobs.filter(state=Job.State.REPLIED).due(now)
        if not rows.exists():  # `closable` takes thirty times as long
            return []
        return list(rows.closable(now).with_memory().order_by("memory", "pk"))

    def _close(self, job: Job) -> None:
        now = timezone.now()
        if not job.start_closing():
            self._count_error(job, "not_closed")
            dead_letter(job, now)
            return
        try:
            job_request = self.job_requests.pop(job.pk, None) or self.builder.build(job)
            reply = job.saved_reply
            closed = close(job, job_request, now, only_copies=self.ledger.only_copies)
            if job.form and closed.version is not None:
                self.ledger.count_copied(copied=closed.is_copied)
            if closed.outcome == f"fault: {Fault.NO_ROOM}":
                self.ledger.raise_thinking_tokens(reply)
            self._count(closed, job)
        except Exception as error:
            # The paid reply stays on its row, and other replies are still closed.
            if not isinstance(error, DatabaseError):  # a deadlock or lock timeout needs no log
                logger.exception("job %s could not be saved", job.pk)
            handle_closing_error(job, error, now)
            self._count_error(job, f"not saved yet ({type(error).__name__})")

    # Failures and counts

    @contextmanager
    def _recording_fault(self, job: Job) -> Iterator[None]:
        """Turn an error into the job's fault, so that it stops no other job."""
        try:
            yield
        except SummariserError as error:
            self._fail(job, error)
        except Exception as error:
            logger.exception("job %s failed with an internal error", job.pk)
            self._fail(job, SummariserError("unexpected", type(error).__name__))

    def _fail(self, job: Job, error: SummariserError) -> None:
        handle_failure(job, error, timezone.now(), others_answered_at=self.ledger.answered_at)
        self._count_error(job, error.code)

    def _report_refusal(self, refused: Refused) -> None:
        refusal = {
            "why": refused.why,
            "text": refused.text,
            "until": refused.until.isoformat() if refused.until else None,
        }
        if refusal not in self.report.refusals:
            self.report.refusals.append(refusal)
            logger.warning("workspace %s: no call now: %s", self.workspace.pk, refused.why)

    def _count_usage(self, usage: Usage) -> None:
        self.report.calls += usage.calls
        self.report.prompt_tokens += usage.prompt_tokens
        self.report.completion_tokens += usage.completion_tokens

    def _count_error(self, job: Job, code: str) -> None:
        self.report.errors.append(f"job {job.pk}: {code}")
        logger.warning("job %s failed: %s", job.pk, code)

    def _count(self, closed: Closed, job: Job) -> None:
        memory = job.memory
        if closed.version is not None:
            self.report.made[f"{memory.scope} {memory.memory_type}"] += 1
        else:
            self.report.skipped[closed.outcome] += 1
            if closed.outcome.startswith("fault: "):
                self._count_error(job, closed.outcome.removeprefix("fault: "))
