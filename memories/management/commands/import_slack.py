"""Import a Slack export. You may stop the command and run it again."""

import time
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from memories.management import arguments
from memories.management.progress import ProgressLine, index_saved_texts
from memories.models import Workspace
from memories.pipeline.ingest.importing import Backfill, ImportReport, WrongTeam, import_export
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.ingest.outcomes import ObjectType, Result
from memories.rules.ingest.permalinks import DOMAIN, normalize_domain
from memories.slack.export import Export, NotAnExport

PARTIAL = 2  # exit status: done, but an object is quarantined


def backfill(text: str) -> Backfill:
    if text == "none":
        return None
    if text == "all":
        return "all"
    if text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 36_500:
        return int(text[:6])
    raise ArgumentTypeError(f"{text!r} is neither none, all nor a number of days")


def slack_domain(text: str) -> str:
    name = normalize_domain(text)
    if not DOMAIN.fullmatch(name):
        raise ArgumentTypeError(f"{text!r} is not a Slack domain, such as acme.slack.com")
    return name


class Command(BaseCommand):
    help = (
        "Import an export of Slack or slackdump, as a zip file or a folder. You may stop the command"
        " and run it again. Exit status 2: done, but an object is quarantined."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", metavar="FILE_OR_FOLDER", type=Path, help="the export")
        arguments.add_workspace(parser)
        parser.add_argument(
            "--backfill",
            type=backfill,
            default="none",
            metavar="none|all|DAYS",
            help="the start of memory of the imported channels. none (the default): the usual window."
            " all: the first message. A number: this number of days ago. It only moves back.",
        )
        parser.add_argument(
            "--direct-messages",
            action="store_true",
            help="also store direct and group messages, for their participants; default: skip them",
        )
        parser.add_argument(
            "--slack-domain",
            type=slack_domain,
            metavar="NAME",
            help="the part before .slack.com, for links to messages in Slack; default: from the"
            " addresses of files in the export",
        )
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["path"]
        began = time.monotonic()
        stopped = "Stopped. What was read is kept. Run the same command again to continue."
        try:
            with (
                arguments.refuse_busy(),
                ProgressLine(self.stderr, stopped) as progress,
                Export(path) as export,
            ):
                workspace = arguments.workspace_from(options)
                report = import_export(
                    workspace,
                    export,
                    timezone.now(),
                    backfill=options["backfill"],
                    direct_messages=options["direct_messages"],
                    domain=options["slack_domain"] or "",
                    progress=lambda name, count: progress.show(
                        lambda: f"{count:,} read, {mark_invisible(name)}"
                    ),
                )
        except NotAnExport as error:
            raise CommandError(str(error)) from error
        except WrongTeam as error:
            raise CommandError(
                f"None of the people in {path.name} belongs to the team of workspace"
                f" {workspace.slug}. Import another team into a workspace of its own: --workspace."
            ) from error
        seconds = time.monotonic() - began
        index_saved_texts(self.stderr)
        if options["json"]:
            run = {"workspace": workspace.slug, "seconds": round(seconds, 3)}
            self.stdout.write(arguments.document({**run, **report.as_json()}))
        else:
            self._print(workspace, report, f"{path.name} into {workspace.slug}, {seconds:.1f} s")
        if report.is_partial:
            left_out = report.tally.count(result=Result.QUARANTINED)
            raise CommandError(
                f"{left_out:,} not understood and left out. Everything else is stored.",
                returncode=PARTIAL,
            )

    def _print(self, workspace: Workspace, report: ImportReport, title: str) -> None:
        write = self.stdout.write
        write(title)
        write("".join(f"{head:>12}" for head in ("", "seen", *Result)))
        for object_type in ObjectType:
            counts = [report.tally.seen[object_type]]
            counts += [report.tally.count(object_type, result) for result in Result]
            write(f"{object_type.value:>12}" + "".join(f"{count:>12,}" for count in counts))
        for object_type, outcome, count in report.tally.sorted_outcomes():
            if outcome.reason:
                write(f"  {object_type}, {outcome.result}: {outcome.reason}: {count:,}")
        if not workspace.domain:
            write(
                "  Messages have no links to Slack: the export names no address. To have them, run it"
                " again with --slack-domain."
            )
        for name, reason in report.files:
            write(f"  damaged, read up to the damage: {mark_invisible(name)} ({reason})")
        for name, count in report.unlisted:
            write(
                f"  left out, because no list contains this channel: {mark_invisible(name)} ({count:,})"
            )
        if report.earlier:
            count = sum(channel_start.count for channel_start in report.earlier)
            write(
                f"{count:,} messages lie before the start of memory of their channels and will not"
                " be remembered. To include them: --backfill all, or --backfill DAYS."
            )
            for channel_start in report.earlier:
                name = channel_start.name
                label = f"#{name}" if name else channel_start.channel.slack_id
                write(f"  {label}: {channel_start.count:,}")
