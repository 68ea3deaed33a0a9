"""workspace → bundle: all that one reader may read of a workspace, as one file (docs/bundle.md)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection, transaction

from memories.models import AuditEvent, Reader, User, Workspace
from memories.models.access.audience import readable_workspaces
from memories.pipeline.generate.input_keys import PROMPTS
from memories.pipeline.transfer.export.archive import BundleWriter, Tell
from memories.pipeline.transfer.export.write_remembered import write_memories
from memories.pipeline.transfer.export.write_said import Exported, Given
from memories.pipeline.transfer.new_file import new_file
from memories.rules.transfer import export as rules


class NotAReader(Exception):
    """This reader does not read the workspace."""


def export_workspace(
    workspace: Workspace,
    reader: Reader,
    path: Path,
    *,
    by: User | None,
    force: bool = False,
    tell: Tell = lambda where, seen: None,
) -> Exported:
    """Write the bundle as of one moment, while everything else goes on; recorded in the audit.

    ``tell`` hears where it is and how many rows it has written. Raises NotAReader, FileExistsError
    without ``force``, and OSError; the file is whole or not there.
    """
    readable = readable_workspaces(reader)
    if not readable.filter(pk=workspace.pk).exists():
        raise NotAReader
    with new_file(path, force=force) as file:
        with _one_moment():
            workspace.refresh_from_db()
            bundle = BundleWriter(file)
            try:
                done = _write(workspace, reader, bundle, tell)
            except BaseException:
                bundle.abandon()
                raise
        done.size = file.tell()
        AuditEvent.objects.record(
            "export",
            by=by,
            workspace=workspace,
            counts=dict(done.counts),
            left_out=done.left_out,
        )
    return done


@contextmanager
def _one_moment() -> Iterator[None]:
    """A transaction that sees one state of the database throughout and keeps nobody from writing."""
    outermost = not connection.in_atomic_block
    is_sqlite = connection.vendor == "sqlite"
    mode = getattr(connection, "transaction_mode", None)
    if is_sqlite and outermost:
        connection.transaction_mode = "DEFERRED"  # type: ignore[attr-defined]
    try:
        with transaction.atomic():
            if is_sqlite and outermost:
                connection.transaction_mode = mode  # type: ignore[attr-defined]
            if connection.vendor == "postgresql" and outermost:
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield
    finally:
        if is_sqlite and outermost:
            connection.transaction_mode = mode  # type: ignore[attr-defined]


def _write(workspace: Workspace, reader: Reader, bundle: BundleWriter, tell: Tell) -> Exported:
    given = Given(workspace, reader, bundle, tell)
    try:
        given.write()
        write_memories(given)
    finally:
        given.stop()
    bundle.close(
        rules.FORMAT,
        {
            "prompts": PROMPTS,
            "left_out": given.done.left_out,
            "counts": dict(given.done.counts),
        },
    )
    return given.done
