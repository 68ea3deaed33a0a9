"""Read what is new in Slack. Scheduled too; safe to stop and to run again."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from memories.management.arguments import (
    add_json_argument,
    add_workspace_argument,
    document,
    workspace_from,
)
from memories.management.progress import STOPPED
from memories.pipeline.locks import Busy
from memories.pipeline.sync import (
    ChannelReport,
    State,
    SyncReport,
    configured_client,
    sync_workspace,
)
from memories.rules.slacktime import from_micros, micros
from memories.slack.web import SlackError

PARTIAL = 2  # exit status: done, but some channels failed


class Command(BaseCommand):
    help = (
        "Read people, channels, members and messages from Slack with SLACK_BOT_TOKEN."
        " Exit status 1: nothing could be read; 2: done, but some channels failed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_workspace_argument(parser)
        parser.add_argument(
            "--channel",
            action="append",
            metavar="ID_OR_NAME",
            help="only this channel; may be given several times",
        )
        add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            client = configured_client()
            report = sync_workspace(
                workspace_from(options), client, timezone.now(), options["channel"]
            )
        except SlackError as error:
            raise CommandError(error.message) from error
        except Busy as error:
            raise CommandError(
                "An import or another sync of this workspace is running; try again when it is done."
            ) from error
        except KeyboardInterrupt as error:
            raise CommandError(
                "Stopped. What was read is kept; the next sync goes on from there.",
                returncode=STOPPED,
            ) from error
        if options["json"]:
            self.stdout.write(document(report.as_json()))
        else:
            self._tell(report)
        if report.error:
            raise CommandError(report.error)
        if failed := report.of(State.FAILED):
            raise CommandError(
                f"{len(failed)} channels failed: what they held stays as it was, and the next"
                " sync tries again.",
                returncode=PARTIAL,
            )

    def _tell(self, report: SyncReport) -> None:
        write = self.stdout.write
        for thing, outcome, count in report.tally.lines():
            reason = f" ({outcome.reason})" if outcome.reason else ""
            write(f"{thing} {outcome.result}{reason}: {count:,}")
        for channel in report.channels:
            write(f"#{channel.channel_name}: {_sentence(channel)}")
        write(f"{report.calls.total():,} calls of Slack's API")


def _sentence(channel: ChannelReport) -> str:
    walked = channel.walked
    if channel.state is State.NOT_MEMBER:
        return "the bot is not in it: /invite it there to have it remembered"
    if channel.state is State.HIDDEN:
        return "Slack lists it no longer: hidden from all but its known members"
    parts = [f"{walked.new:,} new, {walked.updated:,} updated, {walked.deleted:,} deleted"]
    if walked.mark:
        parts.append(f"up to {from_micros(micros(walked.mark)):%Y-%m-%d %H:%M} UTC")
    if channel.state is State.UNFINISHED:
        parts.append("not finished, the next sync goes on")
    parts += channel.failures
    if channel.not_before:
        parts.append(f"not before {channel.not_before:%Y-%m-%d %H:%M:%S %Z}")
    return "; ".join(parts)
