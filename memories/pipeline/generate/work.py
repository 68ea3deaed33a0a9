"""job → reply → version: the worker of one pass.

All rows are read and written by the calling thread; other threads only wait for the summariser.
So there is one database connection, and never a transaction around a call.
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
from memories.pipeline.costs.spending import CallBudget, Refused
from memories.pipeline.generate import followups
from memories.pipeline.generate.ask import Asker, Question
from memories.pipeline.generate.close import (
    Closed,
    close,
    close_without_call,
    dead_letter,
    fail,
    fail_closing,
    supersede,
)
from memories.pipeline.generate.report import Report
from memories.rules.generate.faults import Fault
from memories.rules.generate.summariser import (
    Bound,
    Reply,
    RequestStrategy,
    Summariser,
    SummariserError,
    Usage,
)
from memoryhub.failpoints import fail_point

logger = logging.getLogger(__name__)

PATIENCE = (0.1, 1.0, 5.0)  # seconds between tries to save what was paid for
WORTH_WAITING = 5.0  # seconds: for a shorter pause a pass does not end


@dataclass(frozen=True)
class _Asked:
    """A job that a thread waits for."""

    job: Job
    question: Question
    bound: Bound
    call: ModelCall | None


@dataclass
class Worker:
    """Claims, asks side by side, saves each reply before using it, and closes in order."""

    workspace: Workspace
    summariser: Summariser
    report: Report
    alive: Callable[[], None]
    running: dict["Future[Reply]", _Asked] = field(default_factory=dict)
    questions: dict[int, Question] = field(default_factory=dict)
    is_closed: bool = False  # the endpoint refused: no other call of this round

    def __post_init__(self) -> None:
        self.asker = Asker(self.workspace)
        self.till = CallBudget(self.workspace, self.summariser)
        self.jobs = Job.objects.of_workspace(self.workspace)
        self.lease = timedelta(seconds=settings.MEMORYHUB_LEASE)
        self.renew_every = settings.MEMORYHUB_LEASE / 3
        self.renewed = time.monotonic()
        self.side_by_side = settings.MEMORYHUB_LLM_CONCURRENCY

    def work(self, until: float | None) -> None:
        """Until nothing is left to do now."""
        with ThreadPoolExecutor(self.side_by_side) as pool:
            try:
                self._work(pool, until)
            finally:
                self._bring_home()

    def _work(self, pool: ThreadPoolExecutor, until: float | None) -> None:
        while True:
            self.alive()
            claimed = 0
            if until is None or time.monotonic() < until:
                for job in self._claim(self.side_by_side - len(self.running)):
                    claimed += 1
                    with self._alone(job):
                        self._ask(pool, job)
            if self._close_replied() or (claimed and not self.running):
                continue  # what follows from it may be claimed at once
            if not self.running:
                if not self._waited_for_the_next(until):
                    return
                continue
            for asked in self.running.values():
                fail_point("in_call", asked.job.pk)
            patience = min(self.renew_every, settings.MEMORYHUB_HEARTBEAT / 2)
            done, _ = wait(self.running, patience, return_when=FIRST_COMPLETED)
            for future in done:
                self._take(future)
            self._renew()

    def _bring_home(self) -> None:
        """The pass breaks off, but these calls are made: what they answer is kept."""
        wait(self.running)
        for future in list(self.running):
            try:
                self._take(future)
            except Exception:  # the one that ended the pass says more
                logger.warning("a reply could not be kept")

    def _renew(self) -> None:
        """One call is shorter than a lease; the calls that a long input takes may not be."""
        if time.monotonic() - self.renewed < self.renew_every:
            return
        self.renewed = time.monotonic()
        for asked in self.running.values():
            asked.job.renew(timezone.now(), self.lease)

    def _claim(self, slots: int) -> Iterator[Job]:
        """What may be asked now. One that lost a worker before is asked with nothing beside it, so
        that it takes nobody with it."""
        now = timezone.now()
        self.is_closed = False
        if slots <= 0:
            return
        for job in self.jobs.exhausted(now).with_memory():
            self._count_error(job, "gave_no_answer")
            dead_letter(job, now)
        if any(asked.job.lost for asked in self.running.values()):
            return
        if refused := self.till.closed(now):
            self._hold(refused)
            return
        for job in self.jobs.claimable(now).with_memory()[:slots]:
            is_suspect = job.lost or job.state == Job.State.CLAIMED
            if (is_suspect and self.running) or self.is_closed:
                return
            fail_point("before_claim", job.pk)
            if job.claim(timezone.now(), self.lease):
                yield job
                if is_suspect:
                    return

    def _hold(self, refused: Refused) -> None:
        held = {
            "why": refused.why,
            "text": refused.text,
            "until": refused.until.isoformat() if refused.until else None,
        }
        if held not in self.report.held:
            self.report.held.append(held)
            logger.warning("workspace %s: no call now: %s", self.workspace.pk, refused.why)

    def _waited_for_the_next(self, until: float | None) -> bool:
        """Whether something will be due within a moment, and the moment is over."""
        now = timezone.now()
        refused = self.till.closed(now)
        due = now if self.jobs.claimable(now).exists() else self.jobs.soonest(now)
        if refused is not None and due is not None:
            due = max(due, refused.until) if refused.until else None
        if due is None:
            return False
        pause = (due - now).total_seconds() + 0.001
        if pause > WORTH_WAITING or (until is not None and time.monotonic() + pause >= until):
            return False
        time.sleep(pause)
        return True

    @contextmanager
    def _alone(self, job: Job) -> Iterator[None]:
        """Whatever goes wrong with this job is its own fault and stops no other."""
        try:
            yield
        except SummariserError as error:
            self._fail(job, error)
        except Exception as error:
            logger.exception("job %s", job.pk)
            self._fail(job, SummariserError("unexpected", type(error).__name__))

    def _ask(self, pool: ThreadPoolExecutor, job: Job) -> None:
        if not followups.is_as_owed(job):
            self._count(supersede(job, timezone.now()), job)
            return
        question = self.asker.question(job)
        if question.request.is_empty:
            self._count(close_without_call(job, timezone.now()), job)
            return
        way = RequestStrategy(job.way)
        request = replace(
            question.request,
            form=self.till.form_for(job, question.request),
            thinking_tokens=self.till.thinking_tokens,
            input_limit=self.till.input_limit,
        )
        bound = self.summariser.bound(request, way)
        call = self.till.reserve(job, bound, timezone.now())
        if isinstance(call, Refused):
            self._refuse(job, call)
            return
        future = pool.submit(llm.summarise, request, self.summariser, way)
        self.running[future] = _Asked(job, question, bound, call)

    def _refuse(self, job: Job, refused: Refused) -> None:
        """A cap holds back this one; a smaller one may still fit."""
        self._hold(refused)
        self.is_closed = refused.of_all
        if refused.why == "over_backfill_cap" and job.backfill is not None:
            if self.running:  # these may use less than was promised, and leave room
                self.is_closed = True
            else:
                job.backfill.pause_for("over_cap")

    def _take(self, future: "Future[Reply]") -> None:
        asked = self.running.pop(future)
        with self._alone(asked.job):
            try:
                self._keep(asked, future.result())
            except SummariserError as error:
                self.till.failed(asked.call, error, timezone.now())
                self._count_usage(error.spent)
                raise

    def _keep(self, asked: _Asked, reply: Reply) -> None:
        usage = Usage(reply.prompt_tokens, reply.completion_tokens, reply.calls)
        self._count_usage(usage)
        for patience in PATIENCE:
            try:
                if self._save(asked, reply, usage):
                    self.questions[asked.job.pk] = asked.question
                break
            except DatabaseError:  # a deadlock, no lock in time, a server that restarts
                if not connection.in_atomic_block:
                    connection.close_if_unusable_or_obsolete()
                time.sleep(patience)
        else:
            self._save(asked, reply, usage)
        fail_point("reply_saved", asked.job.pk)

    @transaction.atomic
    def _save(self, asked: _Asked, reply: Reply, usage: Usage) -> bool:
        self.till.settle(asked.call, usage, asked.bound, timezone.now())
        saved = asked.job.save_reply(reply, asked.question.cites)
        if not saved:  # another worker has it by now: what this one paid is still told
            asked.job.spent(usage)
        return saved

    def _count_usage(self, usage: Usage) -> None:
        self.report.calls += usage.calls
        self.report.prompt_tokens += usage.prompt_tokens
        self.report.completion_tokens += usage.completion_tokens

    def _count_error(self, job: Job, code: str) -> None:
        self.report.errors.append(f"job {job.pk}: {code}")
        logger.warning("job %s failed: %s", job.pk, code)

    def _fail(self, job: Job, error: SummariserError) -> None:
        fail(job, error, timezone.now(), others_answered_at=self.till.answered_at)
        self._count_error(job, error.code)

    def _close_replied(self) -> int:
        """Close every saved reply whose turn it is; also those of a worker that was killed."""
        closed = 0
        while replied := self._replied():
            for job in replied:
                self._close(job)
                self._renew()
                closed += 1
        return closed

    def _replied(self) -> list[Job]:
        now = timezone.now()
        rows = self.jobs.filter(state=Job.State.REPLIED).not_held(now)
        if not rows.exists():  # whose turn it is takes thirty times as long to tell
            return []
        return list(rows.in_turn(now).with_memory().order_by("memory", "pk"))

    def _close(self, job: Job) -> None:
        now = timezone.now()
        if not job.begin_closing():
            self._count_error(job, "not_closed")
            dead_letter(job, now)
            return
        try:
            question = self.questions.pop(job.pk, None) or self.asker.question(job)
            reply = job.saved_reply
            closed = close(job, question, now, only_copies=self.till.only_copies)
            if job.form and closed.version is not None:
                self.till.count_copied(copied=closed.is_copied)
            if closed.outcome == f"fault: {Fault.NO_ROOM}":
                self.till.give_room(reply)
            self._count(closed, job)
        except Exception as error:  # one reply's failure stops no other; it is paid, and stays
            if not isinstance(error, DatabaseError):  # a deadlock, or no lock in time: no news
                logger.exception("job %s could not be saved", job.pk)
            fail_closing(job, error, now)
            self._count_error(job, f"not saved yet ({type(error).__name__})")

    def _count(self, closed: Closed, job: Job) -> None:
        memory = job.memory
        if closed.version is not None:
            self.report.made[f"{memory.scope} {memory.memory_type}"] += 1
        else:
            self.report.skipped[closed.outcome] += 1
            if closed.outcome.startswith("fault: "):
                self._count_error(job, closed.outcome.removeprefix("fault: "))
