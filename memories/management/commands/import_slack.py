"""Read a Slack export into the database. Safe to stop and to run again."""

import time
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from memories.management.arguments import (
    add_json_argument,
    add_workspace_argument,
    document,
    workspace_from,
)
from memories.management.progress import STOPPED, ProgressLine
from memories.models import Workspace
from memories.pipeline.ingest.importing import Backfill, ImportReport, WrongTeam, import_export
from memories.pipeline.locks import Busy
from memories.pipeline.search import indexing
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.ingest.outcomes import ObjectType, Result
from memories.rules.ingest.permalinks import DOMAIN
from memories.slack.export import Export, NotAnExport

PARTIAL = 2  # exit status: done, but something was not understood and left out


def backfill(text: str) -> Backfill:
    """``none``, ``all`` or a whole number of days."""
    if text == "none":
        return None
    if text == "all":
        return "all"
    if text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 36_500:
        return int(text[:6])
    raise ArgumentTypeError(f"{text!r} is neither none, all nor a number of days")


def slack_domain(text: str) -> str:
    """Return ``acme`` of ``acme``, ``acme.slack.com`` or ``https://acme.slack.com/``."""
    name = text.strip().lower().removeprefix("https://").rstrip("/").removesuffix(".slack.com")
    if not DOMAIN.fullmatch(name):
        raise ArgumentTypeError(f"{text!r} is not a Slack domain, such as acme.slack.com")
    return name


class Command(BaseCommand):
    help = (
        "Read a Slack export (a zip file or its folder; slackdump's export too) into the database."
        " May be stopped and run again. Exit status 2: done, but something was left out."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", metavar="FILE_OR_FOLDER", type=Path, help="the export")
        add_workspace_argument(parser)
        parser.add_argument(
            "--backfill",
            type=backfill,
            default="none",
            metavar="none|all|DAYS",
            help="how far back the imported channels are to be remembered: from the usual window"
            " on (none, the default), from the first message, or so many days back; a wider one"
            " moves the start back, none ever moves it forward",
        )
        parser.add_argument(
            "--direct-messages",
            action="store_true",
            help="store direct and group messages too, for the people who are in them; without it"
            " they are counted and left out",
        )
        parser.add_argument(
            "--slack-domain",
            type=slack_domain,
            metavar="NAME",
            help="the part before .slack.com, for links to the messages in Slack; without it, it is"
            " read from the addresses of files in the export",
        )
        add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["path"]
        began = time.monotonic()
        progress = ProgressLine(self.stderr)
        try:
            with Export(path) as export:
                workspace = workspace_from(options)
                report = import_export(
                    workspace,
                    export,
                    timezone.now(),
                    backfill=options["backfill"],
                    direct_messages=options["direct_messages"],
                    domain=options["slack_domain"] or "",
                    progress=lambda where, seen: progress.say(
                        lambda: f"{seen:,} read, {mark_invisible(where)}"
                    ),
                )
        except NotAnExport as error:
            raise CommandError(str(error)) from error
        except Busy as error:
            raise CommandError(
                "Another import or sync of this workspace is running; try again when it is done."
            ) from error
        except WrongTeam as error:
            raise CommandError(
                f"None of the people in {path.name} belongs to the team of workspace"
                f" {workspace.slug}. Import another team into a workspace of its own: --workspace."
            ) from error
        except KeyboardInterrupt as error:
            raise CommandError(
                "Stopped. What was read is kept; run the same command again to go on.",
                returncode=STOPPED,
            ) from error
        finally:
            progress.end()
        seconds = time.monotonic() - began
        indexing.catch_up()
        if options["json"]:
            facts = {"workspace": workspace.slug, "seconds": round(seconds, 3)}
            self.stdout.write(document({**facts, **report.as_json()}))
        else:
            self._tell(workspace, report, f"{path.name} into {workspace.slug}, {seconds:.1f} s")
        if report.is_partial:
            left_out = report.tally.count(result=Result.QUARANTINED)
            raise CommandError(
                f"{left_out:,} not understood and left out; the rest is stored.", returncode=PARTIAL
            )

    def _tell(self, workspace: Workspace, report: ImportReport, title: str) -> None:
        write = self.stdout.write
        write(title)
        write("".join(f"{head:>12}" for head in ("", "seen", *Result)))
        for thing in ObjectType:
            counts = [report.tally.seen[thing]]
            counts += [report.tally.count(thing, result) for result in Result]
            write(f"{thing.value:>12}" + "".join(f"{count:>12,}" for count in counts))
        for thing, outcome, count in report.tally.sorted_outcomes():
            if outcome.reason:
                write(f"  {thing}, {outcome.result}: {outcome.reason}: {count:,}")
        if not workspace.domain:
            write(
                "  Messages have no links to Slack: the export names no address. To have them, run it"
                " again with --slack-domain."
            )
        for name, reason in report.files:
            write(f"  left out from where it breaks: {mark_invisible(name)} ({reason})")
        for name, count in report.unlisted:
            write(
                f"  left out, since no list names this channel: {mark_invisible(name)} ({count:,})"
            )
        if report.earlier:
            count = sum(channel_start.count for channel_start in report.earlier)
            write(
                f"{count:,} messages lie before the start of memory of their channels and will not"
                " be remembered. To include them: --backfill all, or --backfill DAYS."
            )
            for channel_start in report.earlier:
                write(
                    f"  {f'#{channel_start.name}' if channel_start.name else channel_start.channel.slack_id}: {channel_start.count:,}"
                )
