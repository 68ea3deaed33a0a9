"""Run one pass over a workspace."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.management import arguments
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.report import Report


class Command(BaseCommand):
    help = (
        "Run one pass: close the segments that are due, and write and merge their memories. With"
        " --now, later messages are ignored. Leases and backoff use the real clock."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_workspace(parser)
        arguments.add_json(parser)
        parser.add_argument(
            "--now", metavar="ISO-8601", help="the time of the pass (UTC without an offset)"
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="allow a time in the future, which closes open segments",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = arguments.workspace_from(options)
        now = (
            arguments.parse_time(options["now"], "--now")
            if options["now"]
            else arguments.complete_until(workspace)
        )
        if now > timezone.now() and not options["force"]:
            raise CommandError(
                f"{options['now']} is in the future: open conversations would be closed too early."
                " Nothing was done. --force runs it anyway."
            )
        report = run_pass(workspace, now)
        self.stdout.write(
            arguments.document(report.as_json()) if options["json"] else _summary(report)
        )


def _summary(report: Report) -> str:
    def counted(counts: dict[str, int]) -> str:
        return ", ".join(f"{n} {what}" for what, n in sorted(counts.items())) or "none"

    lines = [
        f"Workspace {report.workspace}, as of {report.now.isoformat(timespec='seconds')}",
        f"  segments closed: {counted(report.closed)}",
        f"  new versions:     {counted(report.made)}",
        f"  skipped:         {counted(report.skipped)}",
        f"  model:           {report.calls} calls, {report.prompt_tokens} tokens in, "
        f"{report.completion_tokens} out, {report.seconds:.1f} s",
    ]
    lines += [
        f"  waiting:         {w['channel']}: {w['new']} of {w['of']} new, "
        f"quiet for {w['quiet_s'] // 60} min"
        for w in report.waiting
    ]
    lines += [f"  failed:          {error}" for error in report.errors]
    if report.left:
        lines.append(f"  not done yet:     {report.left} jobs")
    return "\n".join(lines)
