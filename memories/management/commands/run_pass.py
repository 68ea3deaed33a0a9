"""One complete pass over a workspace, now or as of another moment."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.management.arguments import (
    add_json_argument,
    add_workspace_argument,
    document,
    moment,
    workspace_from,
)
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.report import Report


class Command(BaseCommand):
    help = (
        "Close the segments that are due, make and merge their memories, and say what was done. "
        "--now moves the clock of the rules only: messages after it are not seen; leases and "
        "back-off go by the real clock."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_workspace_argument(parser)
        add_json_argument(parser)
        parser.add_argument("--now", metavar="ISO-8601", help="as of this moment (UTC if unsaid)")
        parser.add_argument(
            "--force",
            action="store_true",
            help="also as of a moment in the future, which closes segments that are still going on",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = workspace_from(options)
        now = (
            moment(options["now"], "--now")
            if options["now"]
            else workspace.known_until(timezone.now())
        )
        if now is None:
            raise CommandError("The workspace is connected to Slack but was never read to the end.")
        if now > timezone.now() and not options["force"]:
            raise CommandError(
                f"{options['now']} is in the future: conversations that go on would be closed too "
                "early. Nothing was done. To do it all the same: --force."
            )
        report = run_pass(workspace, now)
        if options["json"]:
            self.stdout.write(document(report.as_json()))
        else:
            self.stdout.write(in_words(report))


def in_words(report: Report) -> str:
    def counted(counts: dict[str, int]) -> str:
        return ", ".join(f"{n} {what}" for what, n in sorted(counts.items())) or "none"

    lines = [
        f"Workspace {report.workspace}, as of {report.now.isoformat(timespec='seconds')}",
        f"  segments closed: {counted(report.closed)}",
        f"  versions made:   {counted(report.made)}",
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
        lines.append(f"  left for later:  {report.left} jobs")
    return "\n".join(lines)
