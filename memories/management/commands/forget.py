"""Delete a message, a person's messages or a channel, and redact every text derived from them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from memories.management import arguments
from memories.management.progress import ProgressLine, index_saved_texts
from memories.models import Channel, Person, Workspace
from memories.pipeline.redaction.forget import (
    ForgetReport,
    forget_channel,
    forget_message,
    forget_person,
)


class Command(BaseCommand):
    help = (
        "Delete a message, all messages of a person, or a channel, and redact their words in every"
        " memory, note and saved reply. No import restores them. The next passes write the memories"
        " again. This cannot be undone, and older backups keep the text. The command asks for"
        " confirmation without --yes."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument(
            "--message",
            metavar="CHANNEL:TS",
            help="a message, by the Slack id of the channel and its ts: C0123ABC:1700000000.000100",
        )
        target.add_argument(
            "--person",
            metavar="ID",
            help="all messages and the name of a person, by the Slack id",
        )
        target.add_argument(
            "--channel",
            metavar="ID",
            help="all messages of a channel, by the Slack id; it is no longer followed",
        )
        arguments.add_workspace(parser)
        parser.add_argument(
            "--dry-run", action="store_true", help="count the affected rows and change nothing"
        )
        parser.add_argument("--yes", action="store_true", help="no confirmation")
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = arguments.workspace_from(options)
        if not (options["yes"] or options["dry_run"]):
            self._confirm()
        with arguments.refuse_busy(), _dry_run(enabled=options["dry_run"]):
            report = self._forget(workspace, options)
        if not options["dry_run"]:
            index_saved_texts(self.stderr)
        self._print(report, dry_run=options["dry_run"], as_json=options["json"])

    def _forget(self, workspace: Workspace, options: dict[str, Any]) -> ForgetReport:
        now = timezone.now()
        with ProgressLine(self.stderr, "Stopped. Run it again: it continues there.") as line:

            def progress(done: int) -> None:
                line.show_rows("messages forgotten", done)

            if options["message"]:
                channel_id, _, ts = options["message"].partition(":")
                channel = _channel(workspace, channel_id)
                try:
                    return forget_message(channel, ts, by=None)
                except ValueError as error:
                    raise CommandError(
                        f"{ts!r} is not the ts of a message. Use CHANNEL:TS."
                    ) from error
            if options["person"]:
                person = _person(workspace, options["person"])
                return forget_person(person, now, by=None, progress=progress)
            channel = _channel(workspace, options["channel"])
            return forget_channel(channel, now, by=None, progress=progress)

    def _confirm(self) -> None:
        self.stderr.write("This cannot be undone. Type yes to continue: ", ending="")
        self.stderr.flush()
        try:
            answer = input()
        except EOFError:
            answer = ""
        if answer.strip().lower() != "yes":
            raise CommandError("Nothing was changed.")

    def _print(self, report: ForgetReport, *, dry_run: bool, as_json: bool) -> None:
        counts = report.as_json()
        if as_json:
            self.stdout.write(arguments.document({**counts, "dry_run": dry_run}))
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
def _dry_run(*, enabled: bool) -> Iterator[None]:
    """Run the block in a transaction, and roll it back."""
    if not enabled:
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
