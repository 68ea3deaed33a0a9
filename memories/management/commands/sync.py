"""Read new and changed messages from Slack. You may stop the command and run it again."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from memories.management import arguments
from memories.management.progress import STOPPED
from memories.models import Channel
from memories.pipeline.sync.connecting import client_for
from memories.pipeline.sync.sync import sync_workspace
from memories.pipeline.sync.sync_report import ChannelReport, SyncReport, SyncState
from memories.rules.ingest.timestamps import from_micros, micros
from memories.slack.web import SlackError

PARTIAL = 2  # exit status: some channels failed or wait for Slack


class Command(BaseCommand):
    help = (
        "Read people, channels, members and messages from Slack, in the channels that are followed."
        " Exit status 1: nothing could be read. 2: some channels failed or wait for Slack."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_workspace(parser)
        parser.add_argument(
            "--channel",
            action="append",
            metavar="ID_OR_NAME",
            help="read only this channel, and follow it from now on; may be repeated",
        )
        parser.add_argument(
            "--full",
            action="store_true",
            help="compare every message and every thread with Slack, regardless of age",
        )
        arguments.add_reader(parser)
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with transaction.atomic():  # without a token no workspace is created
                workspace = arguments.workspace_from(options)
                arguments.reader_from(options)
                client = client_for(workspace)
            with arguments.refuse_busy():
                report = sync_workspace(
                    workspace, client, timezone.now(), options["channel"], full=options["full"]
                )
        except SlackError as error:
            raise CommandError(error.message) from error
        except KeyboardInterrupt as error:
            raise CommandError(
                "Stopped. What was read is kept; the next sync continues there.",
                returncode=STOPPED,
            ) from error
        rows = Channel.objects.visible_to(arguments.reader_from(options)).filter(
            workspace=workspace
        )
        report.set_channel_names(rows.names())
        if options["json"]:
            self.stdout.write(arguments.document(report.as_json()))
        else:
            self._print(report)
        if report.error:
            raise CommandError(report.error)
        if problem := _problem(report):
            raise CommandError(problem, returncode=PARTIAL)

    def _print(self, report: SyncReport) -> None:
        write = self.stdout.write
        for object_type, outcome, count in report.tally.sorted_outcomes():
            reason = f" ({outcome.reason})" if outcome.reason else ""
            write(f"{object_type} {outcome.result}{reason}: {count:,}")
        for channel in report.channels:
            name = f"#{channel.channel_name}" if channel.channel_name else channel.channel_id
            write(f"{name}: {_sentence(channel)}")
        if report.not_followed:
            write(
                f"{report.not_followed:,} channels are not followed: choose those to be read on the"
                " workspace's Slack page, or with --channel"
            )
        if report.slow_plan:
            write(
                "Slack limits this app to one page of 15 messages a minute. The sync continues at"
                " that rate. An app that you create from the manifest has no such limit."
            )
        write(f"{report.calls.total():,} calls of Slack's API")


def _problem(report: SyncReport) -> str:
    if failed := report.in_state(SyncState.FAILED):
        return (
            f"{len(failed)} channels failed. What was read is kept, and the next sync tries again."
        )
    if limited := report.in_state(SyncState.LIMITED):
        return (
            f"{len(limited)} channels wait, because Slack accepts no more calls for now. What was"
            " read is kept. The next sync of the worker continues automatically."
        )
    return ""


def _sentence(channel: ChannelReport) -> str:
    stats = channel.stats
    if channel.state is SyncState.NOT_MEMBER:
        return "the bot is not in it: /invite it there"
    if channel.state is SyncState.HIDDEN:
        return "Slack no longer lists it: only its known members can see it"
    if channel.state is SyncState.SWITCHED_OFF:
        return "not read: private channels are turned off in the settings of the workspace"
    parts = [f"{stats.new:,} new, {stats.updated:,} updated, {stats.deleted:,} deleted"]
    if stats.end_ts:
        parts.append(f"up to {from_micros(micros(stats.end_ts)):%Y-%m-%d %H:%M} UTC")
    if channel.state in (SyncState.UNFINISHED, SyncState.LIMITED):
        parts.append("not finished, the next sync continues")
    parts += channel.failures
    if channel.retry_at:
        parts.append(f"next try at {channel.retry_at:%Y-%m-%d %H:%M:%S %Z}")
    return "; ".join(parts)
