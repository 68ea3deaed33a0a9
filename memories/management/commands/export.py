"""A whole workspace, with all versions of its memories, as one open file (docs/export.md)."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memories.management.arguments import (
    add_json_argument,
    add_reader_argument,
    add_workspace_argument,
    document,
    person_of,
    reader_from,
    workspace_from,
)
from memories.management.progress import STOPPED, ProgressLine
from memories.pipeline.transfer.export.export_workspace import NotAReader, export_workspace


class Command(BaseCommand):
    help = (
        "Write a workspace into one zip of JSON and Markdown that people and other programs can"
        " read, and that `import` takes in again. It holds what the reader may read, no more."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="where to write, mode 0600")
        add_workspace_argument(parser)
        add_reader_argument(parser)
        parser.add_argument("--force", action="store_true", help="replace a file that is there")
        add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        reader, workspace = reader_from(options), workspace_from(options)
        by = person_of(reader)
        progress = ProgressLine(self.stderr)
        try:
            done = export_workspace(
                workspace,
                reader,
                path,
                by=by,
                force=options["force"],
                on_progress=progress.rows,
            )
        except KeyboardInterrupt as error:
            raise CommandError("Stopped. Nothing was written.", returncode=STOPPED) from error
        except NotAReader as error:
            raise CommandError("This user may not read the workspace.") from error
        except FileExistsError as error:
            raise CommandError(f"{path} is there already; --force replaces it.") from error
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
        finally:
            progress.end()
        if options["json"]:
            report = {"file": str(path), "workspace": workspace.slug, "bytes": done.size}
            report |= {"counts": dict(done.counts), "left_out": done.left_out}
            self.stdout.write(document(report))
            return
        self.stdout.write(f"{workspace.slug} written to {path}, {done.size:,} bytes:")
        for what, count in done.counts.items():
            self.stdout.write(f"{what:>12}{count:>12,}")
        if done.hidden_channels:
            self.stdout.write(
                f"Left out: {done.hidden_channels:,} channels that the reader may not read, with"
                f" all that was said there, and {done.references:,} references to them."
                " --as USER writes what that login reads."
            )
