"""One pass: plan every channel that has something, then work until nothing is left to do.

All rows are read and written by the calling thread; other threads only wait for the summariser.
So there is one database connection, and never a transaction around a call.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from memories import llm
from memories.models import Generation, Workspace
from memories.pipeline import owe
from memories.pipeline.ask import Asker, Question
from memories.pipeline.close import Closed, close, close_without_call, fail, is_next, supersede
from memories.pipeline.plan import channels_to_plan, plan_channel
from memories.rules.slacktime import from_micros, to_micros
from memories.rules.summary import Reply, Summariser, SummariserError

logger = logging.getLogger(__name__)


@dataclass
class Report:
    """What a pass closed, made and skipped, with reasons; tokens and seconds of its calls."""

    workspace: str
    now: datetime
    closed: Counter[str] = field(default_factory=Counter)  # segments by trigger
    made: Counter[str] = field(default_factory=Counter)  # versions by scope and type
    skipped: Counter[str] = field(default_factory=Counter)  # outcomes without a version
    waiting: list[dict[str, Any]] = field(default_factory=list)  # channels, and why not yet
    errors: list[str] = field(default_factory=list)
    left: int = 0  # generations that will go on later
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "workspace": self.workspace,
            "now": self.now.isoformat(),
            "closed": dict(self.closed),
            "made": dict(self.made),
            "skipped": dict(self.skipped),
            "waiting": self.waiting,
            "errors": self.errors,
            "left": self.left,
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "seconds": round(self.seconds, 3),
        }


def configured_summariser() -> Summariser:
    """The model of the settings, else the offline extract."""
    return llm.configured(
        api_key=settings.OPENAI_API_KEY,
        base_url=settings.OPENAI_BASE_URL,
        model=settings.MEMORYHUB_MODEL,
        timeout=settings.MEMORYHUB_LLM_TIMEOUT,
    )


def run_pass(
    workspace: Workspace,
    now: datetime,
    summariser: Summariser | None = None,
    *,
    for_seconds: float | None = None,
) -> Report:
    """One complete pass as of ``now``, which moves the rules' clock only; leases use the real one.

    ``for_seconds`` ends it early: no new call begins after that, and ``left`` says what remains.
    """
    began = time.monotonic()
    report = Report(workspace.slug, now)
    worker = _Worker(workspace, summariser or configured_summariser(), report)
    for channel in channels_to_plan(workspace, to_micros(now)):
        try:
            planned = plan_channel(channel.pk, now)
        except Exception as error:  # one channel's failure stops no other
            logger.exception("channel %s could not be planned", channel.pk)
            report.errors.append(f"channel {channel.slack_id}: {type(error).__name__}")
            continue
        if planned is None:
            continue
        report.closed.update(segment.reason for segment in planned.segments)
        if planned.due.new_count and not planned.due.due:
            look_again = planned.due.look_again_us
            report.waiting.append(
                {
                    "channel": channel.slack_id,
                    "new": planned.due.new_count,
                    "of": workspace.memory_settings.message_threshold,
                    "quiet_s": planned.due.quiet_us // 1_000_000,
                    "look_again": from_micros(look_again).isoformat() if look_again else None,
                }
            )
    owe.everything(workspace, to_micros(now))
    worker.work(None if for_seconds is None else began + for_seconds)
    unfinished = Generation.objects.of_workspace(workspace).unfinished()
    report.left = unfinished.count()
    report.seconds = time.monotonic() - began
    logger.info(
        "pass over workspace %s: %s versions, %s calls, %s left",
        workspace.pk,
        report.made.total(),
        report.calls,
        report.left,
    )
    return report


@dataclass
class _Worker:
    """Claims, asks side by side, saves each reply before using it, and closes in order."""

    workspace: Workspace
    summariser: Summariser
    report: Report
    running: dict["Future[Reply]", tuple[Generation, Question]] = field(default_factory=dict)
    questions: dict[int, Question] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.asker = Asker(self.workspace)
        self.generations = Generation.objects.of_workspace(self.workspace)
        self.lease = timedelta(seconds=settings.MEMORYHUB_LEASE)
        self.renew_every = settings.MEMORYHUB_LEASE / 3
        self.renewed = time.monotonic()
        self.side_by_side = settings.MEMORYHUB_LLM_CONCURRENCY

    def work(self, until: float | None) -> None:
        with ThreadPoolExecutor(self.side_by_side) as pool:
            while True:
                claimed = 0
                if until is None or time.monotonic() < until:
                    for generation in self._claim(self.side_by_side - len(self.running)):
                        claimed += 1
                        with self._alone(generation):
                            self._ask(pool, generation)
                if self._close_replied() or (claimed and not self.running):
                    continue  # what follows from it may be claimed at once
                if not self.running:
                    return
                done, _ = wait(self.running, self.renew_every, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(future)
                self._renew()

    def _renew(self) -> None:
        """One call is shorter than a lease; the calls that a long input takes may not be."""
        if time.monotonic() - self.renewed < self.renew_every:
            return
        self.renewed = time.monotonic()
        for generation, _ in self.running.values():
            generation.renew(timezone.now(), self.lease)

    def _claim(self, slots: int) -> Iterator[Generation]:
        if slots <= 0:
            return
        for generation in self.generations.claimable(timezone.now()).with_memory()[:slots]:
            if generation.claim(timezone.now(), self.lease):
                yield generation

    @contextmanager
    def _alone(self, generation: Generation) -> Iterator[None]:
        """Whatever goes wrong with this generation is its own fault and stops no other."""
        try:
            yield
        except SummariserError as error:
            self._fail(generation, error)
        except Exception as error:
            logger.exception("generation %s", generation.pk)
            self._fail(generation, SummariserError("unexpected", type(error).__name__))

    def _ask(self, pool: ThreadPoolExecutor, generation: Generation) -> None:
        if generation.has_used_its_attempts:
            error = SummariserError(
                "gave_no_answer", "Its worker went away each time.", permanent=True
            )
            self._fail(generation, error)
            return
        if not owe.is_as_owed(generation):
            self._count(supersede(generation, timezone.now()), generation)
            return
        question = self.asker.question(generation)
        if question.request.is_empty:
            self._count(close_without_call(generation, timezone.now()), generation)
            return
        future = pool.submit(llm.summarise, question.request, self.summariser)
        self.running[future] = generation, question

    def _take(self, future: "Future[Reply]") -> None:
        generation, question = self.running.pop(future)
        with self._alone(generation):
            self._keep(generation, question, future.result())

    def _keep(self, generation: Generation, question: Question, reply: Reply) -> None:
        self.report.calls += reply.calls
        self.report.prompt_tokens += reply.prompt_tokens
        self.report.completion_tokens += reply.completion_tokens
        if generation.save_reply(reply, question.cites):
            self.questions[generation.pk] = question

    def _fail(self, generation: Generation, error: SummariserError) -> None:
        fail(generation, error, timezone.now())
        self.report.errors.append(f"generation {generation.pk}: {error.code}")
        logger.warning("generation %s failed: %s", generation.pk, error.code)

    def _close_replied(self) -> int:
        """Close every saved reply whose turn it is; also those of a worker that was killed."""
        closed = 0
        replied = self.generations.filter(state=Generation.State.REPLIED).with_memory()
        for generation in replied.order_by("memory", "segment__number", "pk"):
            if not is_next(generation):
                continue
            with self._alone(generation):
                question = self.questions.pop(generation.pk, None)
                question = question or self.asker.question(generation)
                try:
                    self._count(close(generation, question, timezone.now()), generation)
                except OperationalError as error:
                    # A deadlock, or no lock in time: what is paid for stays, the next pass saves it.
                    logger.warning("generation %s: %s", generation.pk, type(error).__name__)
                    self.report.errors.append(f"generation {generation.pk}: not saved yet")
                    continue
            closed += 1
        return closed

    def _count(self, closed: Closed, generation: Generation) -> None:
        memory = generation.memory
        if closed.version is not None:
            self.report.made[f"{memory.scope} {memory.memory_type}"] += 1
        else:
            self.report.skipped[closed.outcome] += 1
