"""Forget a message, a person or a channel for good: out of every text here, and kept out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from memories.management.arguments import (
    add_json_argument,
    add_workspace_argument,
    document,
    workspace_from,
)
from memories.management.progress import STOPPED, ProgressLine
from memories.models import Channel, Person, Workspace
from memories.pipeline.locks import Busy
from memories.pipeline.redaction import forget
from memories.pipeline.redaction.forget import ForgetReport
from memories.pipeline.search import indexing


class Command(BaseCommand):
    help = (
        "Remove a message, all that a person said, or a channel, and mask its words in every"
        " memory, note and saved answer; no import brings it back. Memories are made again by"
        " the next passes. There is no way back: --dry-run counts and changes nothing, and"
        " without --yes the command asks first. Backups made before keep what they hold."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument(
            "--message",
            metavar="CHANNEL:TS",
            help="one message, by the channel's Slack id and its ts: C0123ABC:1700000000.000100",
        )
        what.add_argument(
            "--person",
            metavar="ID",
            help="all that this person said until now, and their name, by their Slack id",
        )
        what.add_argument(
            "--channel",
            metavar="ID",
            help="all of a channel until now, by its Slack id; it is followed no more",
        )
        add_workspace_argument(parser)
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be touched, and change nothing"
        )
        parser.add_argument("--yes", action="store_true", help="do not ask")
        add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = workspace_from(options)
        if not (options["yes"] or options["dry_run"]):
            self._ask(options)
        try:
            with _undone(undo=options["dry_run"]):
                report = self._forget(workspace, options)
        except Busy as error:
            raise CommandError(
                "An import or a sync of this workspace is running; try again when it is done."
            ) from error
        except KeyboardInterrupt as error:
            raise CommandError(
                "Stopped. Run it again: it goes on from there.", returncode=STOPPED
            ) from error
        if not options["dry_run"]:
            indexing.catch_up()
        self._tell(report, dry_run=options["dry_run"], as_json=options["json"])

    def _forget(self, workspace: Workspace, options: dict[str, Any]) -> ForgetReport:
        now = timezone.now()
        line = ProgressLine(self.stderr)

        def progress(done: int) -> None:
            line.rows("messages forgotten", done)

        try:
            if given := options["message"]:
                channel_id, _, ts = given.partition(":")
                channel = _channel(workspace, channel_id)
                return forget.message(channel, ts, by=None)
            if given := options["person"]:
                return forget.person(_person(workspace, given), now, by=None, progress=progress)
            channel = _channel(workspace, options["channel"])
            return forget.channel(channel, now, by=None, progress=progress)
        except ValueError as error:
            raise CommandError(f"{ts!r} is no ts of a message: CHANNEL:TS is wanted.") from error
        finally:
            line.end()

    def _ask(self, options: dict[str, Any]) -> None:
        self.stderr.write("This cannot be undone. Type yes to go on: ", ending="")
        self.stderr.flush()
        try:
            answer = input()
        except EOFError:
            answer = ""
        if answer.strip().lower() != "yes":
            raise CommandError("Nothing was changed.")

    def _tell(self, report: ForgetReport, *, dry_run: bool, as_json: bool) -> None:
        counts = report.as_json()
        if as_json:
            self.stdout.write(document({**counts, "dry_run": dry_run}))
            return
        self.stdout.write(f"{report.subject} {report.pk}:")
        for name, count in counts.items():
            if name in ("forgotten", "id"):
                continue
            if isinstance(count, list):
                count = len(count)
            if count:
                self.stdout.write(f"  {name.replace('_', ' ')}: {count:,}")
        if dry_run:
            self.stdout.write("Nothing was changed.")


@contextmanager
def _undone(*, undo: bool) -> Iterator[None]:
    """All of it in one transaction that is taken back."""
    if not undo:
        yield
        return
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def _channel(workspace: Workspace, slack_id: str) -> Channel:
    channel = workspace.channels.select_related("workspace").filter(slack_id=slack_id).first()
    if channel is None:
        raise CommandError(f"There is no channel with the Slack id {slack_id!r} in {workspace}.")
    return channel


def _person(workspace: Workspace, slack_id: str) -> Person:
    person = workspace.people.select_related("workspace").filter(slack_id=slack_id).first()
    if person is None:
        raise CommandError(f"There is no person with the Slack id {slack_id!r} in {workspace}.")
    return person
