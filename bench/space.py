"""Measure the bytes that messages, versions and jobs take, with their indexes.

    python -m bench.space [--rows 20000]

It uses a temporary database on the server of DATABASE_URL, or in a SQLite file. The demo gives the bytes
of versions and jobs. An import of an export with as many messages gives those of messages and of the
search. It prints a JSON line.
"""

import argparse
import json
import random
import sys
from pathlib import Path

from bench.database import empty_database
from bench.import_rows import write_export

# Tables whose names begin so, and the rows that they grow with.
PARTS = {
    "message": ("memories_message",),
    "message, search": ("memories_search",),
    "version": ("memories_memoryversion", "memories_line"),
    "job": ("memories_job", "memories_modelcall"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args()
    with empty_database() as folder:
        write_export(folder / "export.zip", options.rows, chance=random.Random(1))
        print(json.dumps(measure(folder / "export.zip", options.rows)))
    return 0


def measure(path: Path, rows: int) -> dict[str, object]:
    from django.db import connection
    from django.utils import timezone

    from memories.demo.create import create_demo
    from memories.models import Job, MemoryVersion, Message, Workspace
    from memories.pipeline.ingest.importing import import_export
    from memories.pipeline.search import indexing
    from memories.slack.export import Export

    empty = table_bytes()
    create_demo(timezone.now(), password=None)
    demo = table_bytes()
    messages, versions = Message.objects.count(), MemoryVersion.objects.count()
    jobs = Job.objects.count()
    workspace = Workspace.objects.create(slug="bench", name="bench")
    with Export(path) as export:
        import_export(workspace, export, timezone.now())
    indexing.index_pending()
    imported = table_bytes()
    result: dict[str, object] = {"database": connection.vendor, "messages": rows}
    for part, prefixes in PARTS.items():
        before, after = (demo, imported) if part.startswith("message") else (empty, demo)
        number = {"message": rows, "version": versions, "job": jobs}[part.split(",")[0]]
        grown = sum(
            after[name] - before.get(name, 0) for name in after if name.startswith(prefixes)
        )
        result[f"bytes of a {part}"] = round(grown / number)
    result["of the demo"] = {"messages": messages, "versions": versions, "jobs": jobs}
    growth = {name: (size - empty.get(name, 0)) for name, size in imported.items()}
    result["largest tables"] = dict(sorted(growth.items(), key=lambda item: -item[1])[:8])
    return result


def table_bytes() -> dict[str, int]:
    """Return the bytes of each table with its indexes."""
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(
                "SELECT m.tbl_name, SUM(s.pgsize) FROM dbstat s JOIN sqlite_master m USING (name)"
                " GROUP BY 1"
            )
        else:
            cursor.execute("SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables")
        return {str(name): int(size) for name, size in cursor.fetchall()}


if __name__ == "__main__":
    sys.exit(main())
