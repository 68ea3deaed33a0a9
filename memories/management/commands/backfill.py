"""Remember older messages, with an estimate of the cost first."""

import argparse
import sys
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.management import arguments
from memories.management.backfill_output import estimate_lines, progress_line, state_lines
from memories.management.progress import ProgressLine
from memories.models import AnotherBackfill, Backfill, Channel, Member
from memories.pipeline.costs.estimate import estimate_backfill
from memories.pipeline.generate.backfill import (
    NeedsPrice,
    build_document,
    check_cap,
    progress_of,
    run_backfill,
)
from memories.rules.backfill_input import InvalidInput, parse_cap, parse_since
from memories.rules.ingest.timestamps import to_micros
from memoryhub.env import PROGRAM

NEEDS_PRICE = (
    f"A limit in dollars needs a price of the model. Set one with {PROGRAM} costs, or give tokens."
)
NOT_FINISHED = 2  # exit status: the backfill is paused or cancelled, or it waits


def cap(text: str) -> tuple[int | None, int | None]:
    try:
        return parse_cap(text)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither tokens, such as 200000, nor money, such as $2.50"
        ) from error


class Command(BaseCommand):
    help = (
        "Remember older messages. The command shows the estimated cost, asks for confirmation,"
        " and works until it is done. After Ctrl-C the worker continues. Exit status 2: it was"
        " paused or cancelled, or it waits."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_workspace(parser)
        arguments.add_reader(parser)
        parser.add_argument(
            "--channel",
            action="append",
            metavar="ID_OR_NAME",
            help="only this channel; may be repeated; default: all channels of the reader",
        )
        parser.add_argument(
            "--since",
            default="all",
            metavar="all|DATE|DAYS",
            help="the start: a day (2026-01-31), a number of days ago, or all (the default): the first"
            " message",
        )
        parser.add_argument(
            "--cap",
            type=cap,
            default=(None, None),
            metavar="TOKENS|$MONEY",
            help="the limit, such as 200000 or '$2.50'; there is no confirmation then",
        )
        parser.add_argument("--yes", action="store_true", help="no confirmation")
        action = parser.add_mutually_exclusive_group()
        for name, summary in (
            ("estimate", "only show the estimate"),
            ("status", "show the progress of the last backfill"),
            ("pause", "start no more calls"),
            ("resume", "continue in the worker; --cap sets a new limit for the whole backfill"),
            ("cancel", "cancel it; finished memories stay"),
        ):
            action.add_argument(f"--{name}", action="store_true", help=summary)
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self.options = options
        self.workspace = arguments.workspace_from(options)
        self.reader = arguments.reader_from(options)
        self.by = arguments.user_of(self.reader)
        if self.by and self.workspace.role_of(self.reader) != Member.Role.ADMIN:
            raise CommandError(f"{self.by} is no admin of this workspace.")
        for verb in ("pause", "resume", "cancel"):
            if options[verb]:
                self._change(verb)
                return
        if options["status"]:
            self._show(backfill=self._backfills().first())
            return
        self._start()

    def _backfills(self) -> Any:
        return Backfill.objects.visible_to(self.reader).filter(workspace=self.workspace)

    def _change(self, verb: str) -> None:
        backfill = self._backfills().unfinished().first()
        if backfill is None:
            raise CommandError("No backfill that this reader may see is running or paused.")
        if verb == "resume":
            tokens, micros = self.options["cap"]
            try:
                check_cap(micros)
            except NeedsPrice as error:
                raise CommandError(NEEDS_PRICE) from error
            caps = {"cap_tokens": tokens, "cap_micros": micros}
            is_changed = backfill.resume(self.by, **(caps if tokens or micros else {}))
        else:
            is_changed = getattr(backfill, verb)(self.by)
        if not is_changed:
            raise CommandError(
                f"{backfill} is already {backfill.get_state_display()}.".capitalize()
            )
        self._show(backfill=backfill)

    def _start(self) -> None:
        channels = self._channels()
        now = arguments.complete_until(self.workspace)
        since_us = self._since(now)
        estimate = estimate_backfill(self.workspace, channels, since_us, now).as_json()
        if self.options["estimate"]:
            self._show(estimate=estimate)
            return
        (self.stderr if self.options["json"] else self.stdout).write(estimate_lines(estimate))
        tokens, micros = self.options["cap"]
        self._confirm(estimate)
        try:
            check_cap(micros)
            backfill = Backfill.objects.start(
                self.workspace,
                channels,
                since_us=since_us,
                until_us=to_micros(now),
                estimate=estimate,
                cap_tokens=tokens,
                cap_micros=micros,
                by=self.by,
            )
        except NeedsPrice as error:
            raise CommandError(NEEDS_PRICE) from error
        except AnotherBackfill as error:
            raise CommandError(
                "Another backfill of this workspace runs or is paused: see --status; --resume or"
                " --cancel it first."
            ) from error
        self._run(backfill)

    def _run(self, backfill: Backfill) -> None:
        stopped = (
            f"Stopped here; {backfill} goes on in the worker. To stop it: --pause or --cancel."
        )
        with ProgressLine(self.stderr, on_interrupt=stopped) as progress:
            reason = run_backfill(backfill, lambda: progress.show(lambda: self._progress(backfill)))
        self._show(backfill=backfill)
        if backfill.state != Backfill.State.DONE:
            reason = reason or backfill.pause_reason or backfill.get_state_display()
            raise CommandError(
                f"Not finished: {reason}. Finished memories stay.", returncode=NOT_FINISHED
            )

    def _channels(self) -> list[Channel]:
        channels = self.workspace.channels.visible_to(self.reader)
        if names := self.options["channel"]:
            requested = [arguments.get_channel(self.workspace, self.reader, name) for name in names]
            channels = channels.filter(pk__in=[channel.pk for channel in requested])
        if not channels:
            raise CommandError("There is no channel that this reader may read.")
        return list(channels)

    def _since(self, now: datetime) -> int:
        try:
            return parse_since(self.options["since"], now, self.workspace.memory_settings.zone)
        except InvalidInput as error:
            raise CommandError(
                f"--since must be a day, such as 2026-01-31, a number of days or all, not"
                f" {self.options['since']!r}."
            ) from error

    def _confirm(self, estimate: dict[str, Any]) -> None:
        if self.options["yes"] or estimate["free"] or self.options["cap"] != (None, None):
            return
        if not sys.stdin.isatty():
            raise CommandError("Give --cap or --yes. There is no terminal to ask for confirmation.")
        self.stderr.write("Start? [y/N] ", ending="")
        self.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise CommandError("Nothing was started.")

    def _progress(self, backfill: Backfill) -> str:
        return progress_line(progress_of(backfill, timezone.now()).as_json(), backfill.estimate)

    def _show(
        self, *, estimate: dict[str, Any] | None = None, backfill: Backfill | None = None
    ) -> None:
        state = build_document(self.workspace.slug, estimate, backfill, timezone.now())
        if self.options["json"]:
            self.stdout.write(arguments.document(state))
        elif backfill is not None:
            self.stdout.write(state_lines(state))
        elif estimate is not None:
            self.stdout.write(estimate_lines(estimate))
        else:
            self.stdout.write("There is no backfill that this reader may see.")
