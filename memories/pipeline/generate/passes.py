"""One pass: close the segments that are due, schedule jobs, and run them."""

import logging
import time
from collections.abc import Callable
from datetime import datetime

from django.conf import settings

from memories import llm
from memories.models import Job, ModelServer, Workspace
from memories.pipeline.generate import followups
from memories.pipeline.generate.plan import channels_to_plan, plan_channel
from memories.pipeline.generate.report import Report
from memories.pipeline.generate.work import JobRunner
from memories.rules.ingest.timestamps import from_micros, to_micros
from memories.rules.summariser import Summariser

logger = logging.getLogger(__name__)


def configured_summariser() -> Summariser:
    """Return the model in use, or the offline highlights without one."""
    server = ModelServer.objects.in_use()
    return llm.get_summariser(
        api_key=server.api_key,
        base_url=server.base_url,
        model=server.model,
        timeout=settings.MEMORYHUB_LLM_TIMEOUT,
    )


def run_pass(
    workspace: Workspace,
    now: datetime,
    summariser: Summariser | None = None,
    *,
    for_seconds: float | None = None,
    on_progress: Callable[[], None] = lambda: None,
) -> Report:
    """Run one pass as of ``now``. Rules use this time; leases and limits use the real clock.

    No call begins after ``for_seconds``; the report's ``left`` counts the jobs that remain.
    ``on_progress`` is called often while the pass runs.
    """
    began = time.monotonic()
    report = Report(workspace.slug, now)
    runner = JobRunner(workspace, summariser or configured_summariser(), report, on_progress)
    for channel, decision in channels_to_plan(workspace, to_micros(now)):
        on_progress()
        if decision is None:
            try:
                plan = plan_channel(channel.pk, now)
            except Exception as error:  # the other channels are planned
                logger.exception("channel %s could not be planned", channel.pk)
                report.errors.append(f"channel {channel.slack_id}: {type(error).__name__}")
                continue
            if plan is None:
                continue
            segments, decision = plan
            report.closed.update(segment.reason for segment in segments)
        if decision.new_count and not decision.is_due:
            look_again = decision.recheck_us
            report.waiting.append(
                {
                    "channel": channel.slack_id,
                    "new": decision.new_count,
                    "of": workspace.memory_settings.message_threshold,
                    "quiet_s": decision.quiet_us // 1_000_000,
                    "look_again": from_micros(look_again).isoformat() if look_again else None,
                }
            )
    followups.schedule_pending(workspace, to_micros(now))
    runner.run(None if for_seconds is None else began + for_seconds)
    report.left = Job.objects.of_workspace(workspace).unfinished().count()
    report.seconds = time.monotonic() - began
    logger.info(
        "pass over workspace %s: %s versions, %s calls, %s left",
        workspace.pk,
        report.made.total(),
        report.calls,
        report.left,
    )
    return report
