"""bundle → a new workspace, all of it or nothing (docs/bundle.md).

Every value is checked before it is stored, and every reference must lead to something in the
bundle itself.
"""

from pathlib import Path

from django.db import transaction

from memories.models import AuditEvent
from memories.pipeline.transfer.export.archive import BundleReader, Tell
from memories.pipeline.transfer.export.read_remembered import read_memories
from memories.pipeline.transfer.export.read_said import Imported, Taken


def import_workspace(
    path: Path, *, slug: str | None = None, tell: Tell = lambda where, seen: None
) -> Imported:
    """Make the workspace of a bundle, as ``slug`` or under its own; recorded in the audit.

    Raises ArchiveError, which names file and line, and leaves nothing behind.
    """
    with BundleReader(path) as bundle, transaction.atomic():
        taken = Taken(bundle, slug, tell)
        taken.read()
        read_memories(taken)
        taken.finish()
        done = taken.done
        AuditEvent.objects.record(
            "import", by=None, workspace=done.workspace, counts=dict(done.counts)
        )
    return done
