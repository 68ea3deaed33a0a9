"""Import a workspace that `export` wrote, completely or not at all (docs/export.md)."""

import argparse
import re
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from memories.management import arguments
from memories.management.progress import ProgressLine, index_saved_texts
from memories.pipeline.transfer.archive import ArchiveError
from memories.pipeline.transfer.export.import_workspace import import_workspace
from memoryhub.env import PROGRAM


def slug(text: str) -> str:
    """Check the name of a workspace in URLs."""
    if not re.fullmatch(r"[-a-zA-Z0-9_]{1,50}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not made of letters, digits, - and _")
    return text


class Command(BaseCommand):
    help = (
        "Create a workspace from a file that `export` wrote, with all versions, completely or not"
        " at all. `import_slack` reads an export of Slack."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="the file that `export` wrote")
        parser.add_argument(
            "--workspace", metavar="SLUG", type=slug, help="the new slug; default: the exported one"
        )
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with ProgressLine(self.stderr, "Stopped. Nothing was imported.") as progress:
                done = import_workspace(
                    options["file"], slug=options["workspace"], on_progress=progress.show_rows
                )
        except ArchiveError as error:
            raise CommandError(f"{options['file']}: {error} Nothing was imported.") from error
        except DatabaseError as error:
            raise CommandError(
                f"The database refused it ({type(error).__name__}); nothing was imported. Run"
                f" `{PROGRAM} migrate` first, or see DATABASE_URL."
            ) from error
        index_saved_texts(self.stderr)
        report = {
            "workspace": done.workspace.slug,
            "counts": dict(done.counts),
            "accounts_known": done.accounts_known,
            "accounts_made": done.accounts_made,
            "left_out": done.left_out,
        }
        if options["json"]:
            self.stdout.write(arguments.document(report))
            return
        self.stdout.write(f"{options['file'].name} is now workspace {done.workspace.slug}:")
        for name, count in done.counts.items():
            self.stdout.write(f"{name:>12}{count:>12,}")
        self.stdout.write(
            f"{done.accounts_known:,} logins of these names were here;"
            f" {done.accounts_made:,} were made, inactive and without a password."
        )
        if done.left_out["channels"]:
            self.stdout.write(
                f"The export had left out {done.left_out['channels']:,} channels that its reader"
                " may not read."
            )
