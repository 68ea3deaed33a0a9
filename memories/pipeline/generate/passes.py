"""One pass: plan every channel that has something, then work until nothing is left to do."""

import logging
import time
from collections.abc import Callable
from datetime import datetime

from django.conf import settings

from memories import llm
from memories.models import Job, Workspace
from memories.pipeline.generate import followups
from memories.pipeline.generate.plan import channels_to_plan, plan_channel
from memories.pipeline.generate.report import Report
from memories.pipeline.generate.work import Worker
from memories.rules.generate.summariser import Summariser
from memories.rules.ingest.timestamps import from_micros, to_micros

logger = logging.getLogger(__name__)


def configured_summariser() -> Summariser:
    """The model of the settings, else the offline highlights."""
    return llm.get_summariser(
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
    alive: Callable[[], None] = lambda: None,
) -> Report:
    """One complete pass as of ``now``, which moves the rules' clock only; leases use the real one.

    ``for_seconds`` ends it early: no new call begins after that, and ``left`` says what remains.
    ``alive`` is called now and then while there is something to wait for.
    """
    began = time.monotonic()
    report = Report(workspace.slug, now)
    worker = Worker(workspace, summariser or configured_summariser(), report, alive)
    for channel in channels_to_plan(workspace, to_micros(now)):
        alive()
        try:
            planned = plan_channel(channel.pk, now)
        except Exception as error:  # one channel's failure stops no other
            logger.exception("channel %s could not be planned", channel.pk)
            report.errors.append(f"channel {channel.slack_id}: {type(error).__name__}")
            continue
        if planned is None:
            continue
        report.closed.update(segment.reason for segment in planned.segments)
        if planned.due.new_count and not planned.due.is_due:
            look_again = planned.due.recheck_us
            report.waiting.append(
                {
                    "channel": channel.slack_id,
                    "new": planned.due.new_count,
                    "of": workspace.memory_settings.message_threshold,
                    "quiet_s": planned.due.quiet_us // 1_000_000,
                    "look_again": from_micros(look_again).isoformat() if look_again else None,
                }
            )
    followups.schedule_pending(workspace, to_micros(now))
    worker.work(None if for_seconds is None else began + for_seconds)
    unfinished = Job.objects.of_workspace(workspace).unfinished()
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
