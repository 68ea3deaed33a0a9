"""Write the whole database to one file, while everything goes on."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from memories.management.arguments import add_json_argument, document
from memories.management.progress import STOPPED, ProgressLine
from memories.pipeline.transfer.archive import ArchiveError
from memories.pipeline.transfer.backup import VENDORS, BackupReport, back_up


class Command(BaseCommand):
    help = (
        "Write the whole database to one file, of one moment, while web and workers go on."
        " The file holds everything that people wrote, and neither SECRET_KEY nor .env."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="FILE", type=Path, help="the file to write")
        parser.add_argument("--force", action="store_true", help="overwrite FILE")
        add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["path"]
        progress = ProgressLine(self.stderr)
        try:
            report = back_up(
                path, timezone.now(), force=options["force"], on_progress=progress.share
            )
        except FileExistsError as error:
            raise CommandError(f"{path} is there already; --force overwrites it.") from error
        except ArchiveError as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            raise CommandError(f"The database cannot be read: {_first_line(error)}") from error
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror or error}.") from error
        except KeyboardInterrupt as error:
            raise CommandError("Stopped. Nothing was written.", returncode=STOPPED) from error
        finally:
            progress.end()
        if options["json"]:
            self.stdout.write(document(report.as_json()))
        else:
            self.stdout.write(_in_words(path, report))


def _in_words(path: Path, report: BackupReport) -> str:
    manifest = report.manifest
    return (
        f"{path}: {manifest.rows:,} rows of {len(manifest.tables)} tables"
        f" ({VENDORS[manifest.vendor]}), {report.size:,} bytes, {report.seconds:.1f} s.\n"
        "It holds everything that people wrote: keep it as safe as the database. SECRET_KEY and"
        " .env are not in it; keep them too, elsewhere."
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
