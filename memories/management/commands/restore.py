"""Restore a backup, or check that it can be restored."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from memories.management import arguments
from memories.management.progress import ProgressLine, index_saved_texts
from memories.pipeline.transfer.archive import ArchiveError
from memories.pipeline.transfer.backup import (
    VENDORS,
    BackupReport,
    DatabaseNotEmpty,
    WorkerRunning,
    check,
    restore,
)
from memoryhub.logs import head_of


class Command(BaseCommand):
    help = (
        "Restore a backup into an empty database, or with --replace instead of the current data. The"
        " restore is complete or changes nothing. Stop `serve` and all workers first."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="FILE", type=Path, help="the backup")
        parser.add_argument(
            "--check", action="store_true", help="run a whole restore, and keep nothing"
        )
        parser.add_argument(
            "--replace", action="store_true", help="delete the current data of the database"
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="continue although a worker seems to run, or memories in the backup are inconsistent",
        )
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["path"]
        try:
            with ProgressLine(self.stderr, "Stopped. Nothing was changed.") as progress:
                if options["check"]:
                    report = check(path, on_progress=progress.show_share)
                else:
                    report = restore(
                        path,
                        timezone.now(),
                        replace=options["replace"],
                        force=options["force"],
                        on_progress=progress.show_share,
                    )
        except ArchiveError as error:
            raise CommandError(f"{path}: {error} Nothing was changed.") from error
        except DatabaseNotEmpty as error:
            raise CommandError(
                "The database is not empty. --replace deletes its data. Make a backup first."
                " Nothing was changed."
            ) from error
        except WorkerRunning as error:
            raise CommandError(
                "A worker had a heartbeat in the last two minutes. Stop `serve` and all"
                " workers and wait that long, or --force. Nothing was changed."
            ) from error
        except DatabaseError as error:
            reason = head_of(error) or type(error).__name__
            raise CommandError(f"The database refused: {reason} Nothing was changed.") from error
        except OSError as error:  # the disk is full, or another process keeps the database busy
            raise CommandError(f"{error.strerror or error} Nothing was changed.") from error
        if not options["check"]:
            index_saved_texts(self.stderr)
        for warning in report.warnings:
            self.stderr.write(warning)
        if options["json"]:
            result = {
                "restored": not options["check"],
                "migrated": report.migrated,
                "warnings": report.warnings,
            }
            self.stdout.write(arguments.document({**report.as_json(), **result}))
        else:
            self.stdout.write(_summary(report, is_check=options["check"]))


def _summary(report: BackupReport, *, is_check: bool) -> str:
    manifest = report.manifest
    text = (
        f"{report.file} of {manifest.created_at} (Memory Hub {manifest.version or 'unknown'},"
        f" {VENDORS[manifest.vendor]}): {manifest.rows:,} rows of {len(manifest.tables)} tables,"
        f" {report.migrated} migrations since, {report.seconds:.1f} s."
    )
    if is_check:
        return f"{text}\nIt is complete and can be restored."
    return f"{text}\nRestored. Everybody must sign in again."
