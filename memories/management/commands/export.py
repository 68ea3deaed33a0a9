"""Export a workspace with all versions of its memories into one file (docs/export.md)."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memories.management import arguments
from memories.management.progress import ProgressLine
from memories.pipeline.transfer.export.export_workspace import NotAReader, export_workspace


class Command(BaseCommand):
    help = (
        "Export a workspace into a zip file of JSON and Markdown, for people and other programs,"
        " and for `import`. The file contains only what the reader may read."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", metavar="FILE", type=Path, help="the file to write, with mode 0600"
        )
        arguments.add_workspace(parser)
        arguments.add_reader(parser)
        parser.add_argument("--force", action="store_true", help="overwrite FILE")
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        reader, workspace = arguments.reader_from(options), arguments.workspace_from(options)
        try:
            with ProgressLine(self.stderr, "Stopped. Nothing was written.") as progress:
                done = export_workspace(
                    workspace,
                    reader,
                    path,
                    by=arguments.user_of(reader),
                    force=options["force"],
                    on_progress=progress.show_rows,
                )
        except NotAReader as error:
            raise CommandError("This user may not read the workspace.") from error
        except FileExistsError as error:
            raise CommandError(f"{path} already exists. --force overwrites it.") from error
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
        if options["json"]:
            report = {"file": str(path), "workspace": workspace.slug, "bytes": done.size}
            report |= {"counts": dict(done.counts), "left_out": done.left_out}
            self.stdout.write(arguments.document(report))
            return
        self.stdout.write(f"{workspace.slug} written to {path}, {done.size:,} bytes:")
        for name, count in done.counts.items():
            self.stdout.write(f"{name:>12}{count:>12,}")
        if done.hidden_channels:
            self.stdout.write(
                f"Left out: {done.hidden_channels:,} channels that the reader may not read, with"
                f" all that was said there, and {done.references:,} references to them."
                " --as USER writes what that login reads."
            )
