"""Back up the whole database into one file, while web and workers run."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from memories.management import arguments
from memories.management.progress import ProgressLine
from memories.pipeline.transfer.archive import ArchiveError
from memories.pipeline.transfer.backup import VENDORS, BackupReport, back_up
from memoryhub.logs import head_of


class Command(BaseCommand):
    help = (
        "Back up the whole database into one file, from one moment, while web and workers run."
        " The file contains all texts of people, but neither SECRET_KEY nor .env."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="FILE", type=Path, help="the file to write")
        parser.add_argument("--force", action="store_true", help="overwrite FILE")
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["path"]
        try:
            with ProgressLine(self.stderr, "Stopped. Nothing was written.") as progress:
                report = back_up(
                    path, timezone.now(), force=options["force"], on_progress=progress.show_share
                )
        except FileExistsError as error:
            raise CommandError(f"{path} already exists. --force overwrites it.") from error
        except ArchiveError as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            raise CommandError(
                f"The database cannot be read: {head_of(error) or type(error).__name__}"
            ) from error
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror or error}.") from error
        self.stdout.write(
            arguments.document(report.as_json()) if options["json"] else _summary(path, report)
        )


def _summary(path: Path, report: BackupReport) -> str:
    manifest = report.manifest
    return (
        f"{path}: {manifest.rows:,} rows of {len(manifest.tables)} tables"
        f" ({VENDORS[manifest.vendor]}), {report.size:,} bytes, {report.seconds:.1f} s.\n"
        "It contains everything that people wrote. Protect it like the database. SECRET_KEY and"
        " .env are not in it. Back them up elsewhere."
    )
