"""Bring a backup back, or only look whether it could be."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from memories.management.arguments import add_json_argument, document
from memories.management.progress import STOPPED, ProgressLine
from memories.pipeline.search import indexing
from memories.pipeline.transfer.archive import ArchiveError
from memories.pipeline.transfer.backup import (
    VENDORS,
    BackupReport,
    DatabaseNotEmpty,
    WorkerRunning,
    check,
    restore,
)


class Command(BaseCommand):
    help = (
        "Bring a backup back into an empty database, or with --replace instead of what is there:"
        " all of it, or nothing is changed. Stop `serve` and all workers before."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="FILE", type=Path, help="the backup")
        parser.add_argument(
            "--check", action="store_true", help="do all of it but the last step, and keep nothing"
        )
        parser.add_argument(
            "--replace", action="store_true", help="throw away what the database holds now"
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="although a worker seems to run, or memories in it do not add up",
        )
        add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["path"]
        progress = ProgressLine(self.stderr)
        try:
            if options["check"]:
                report = check(path, on_progress=progress.share)
            else:
                report = restore(
                    path,
                    timezone.now(),
                    replace=options["replace"],
                    force=options["force"],
                    on_progress=progress.share,
                )
        except ArchiveError as error:
            raise CommandError(f"{path}: {error} Nothing was changed.") from error
        except DatabaseNotEmpty as error:
            raise CommandError(
                "The database is not empty. --replace throws away what it holds; make a backup of"
                " that first. Nothing was changed."
            ) from error
        except WorkerRunning as error:
            raise CommandError(
                "A worker has been at work within the last two minutes. Stop `serve` and all"
                " workers and wait that long, or --force. Nothing was changed."
            ) from error
        except DatabaseError as error:
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise CommandError(f"The database refused: {line} Nothing was changed.") from error
        except OSError as error:  # the disk is full, or somebody keeps the database busy
            raise CommandError(f"{error.strerror or error} Nothing was changed.") from error
        except KeyboardInterrupt as error:
            raise CommandError("Stopped. Nothing was changed.", returncode=STOPPED) from error
        finally:
            progress.end()
        if not options["check"]:
            indexing.catch_up()
        for warning in report.warnings:
            self.stderr.write(warning)
        if options["json"]:
            done = {"restored": not options["check"], "migrated": report.migrated}
            self.stdout.write(document({**report.as_json(), **done, "warnings": report.warnings}))
        else:
            self.stdout.write(_in_words(report, is_check=options["check"]))


def _in_words(report: BackupReport, *, is_check: bool) -> str:
    manifest = report.manifest
    summary = (
        f"{report.file} of {manifest.created_at} (Memory Hub {manifest.version or 'unknown'},"
        f" {VENDORS[manifest.vendor]}): {manifest.rows:,} rows of {len(manifest.tables)} tables,"
        f" {report.migrated} migrations since, {report.seconds:.1f} s."
    )
    if is_check:
        return f"{summary}\nIt is whole and can be restored."
    return f"{summary}\nRestored. Everybody has to log in again."
