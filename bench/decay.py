"""Measure a memory after many merges by a model: `python -m bench.decay EXPORT CHANNEL [MERGES]`.

EXPORT is the zip file of a Slack export. Six messages of the channel a day are remembered, on MERGES days (50)
after the first. The long-term memory has a pinned line and a line of a person. MODE=rewrite rewrites the
memory at each merge. The model is probed first. Prints a JSON line to stderr after each merge, and the last one
to stdout: ``changed`` lines became different or left the text, but not for the archive. ``lost`` ones of them
were pinned or by a person. ``unverified`` lines have figures that no source has.
"""

import json
import os
import sys
import time
import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.quality import NOW, temporary_hub, write_channel

DAILY = 6  # messages
PERSON = "Ask Ben first."


def main() -> None:
    path, channel = sys.argv[1:3]
    merges = int(sys.argv[3]) if sys.argv[3:] else 50
    with temporary_hub():
        print(
            json.dumps(measure(Path(path), channel, merges, os.environ.get("MODE", "operations")))
        )


def measure(path: Path, channel: str, merges: int, mode: str) -> dict[str, Any]:
    from memories.models import Endpoint, Memory
    from memories.pipeline.generate.passes import run_pass
    from memories.pipeline.generate.probing import configured_model, probe_model
    from memories.rules.memory.identity import MemoryType
    from memories.rules.summariser import PromptForm

    model = configured_model()
    if model is None:
        raise SystemExit("No model is configured: set MEMORYHUB_MODEL and OPENAI_API_KEY.")
    probe_model(model)
    if mode == "rewrite":  # a model with the simple form only adds lines
        Endpoint.objects.update(form=PromptForm.FULL)
    begin = NOW - timedelta(days=merges + 2)
    row = private_channel(path, channel, begin, DAILY * (merges + 1), mode)
    counts: dict[str, Any] = {"bench": "decay", "mode": mode, "changed": 0, "lost": 0}
    before: dict[str, Any] = {}
    began = time.monotonic()
    for day in range(merges + 1):
        run_pass(row.workspace, begin + timedelta(days=day, hours=3), model)
        memory = Memory.objects.of_channel(row, MemoryType.LONG_TERM)
        if memory.current is None:
            continue
        if not before:
            text = f"{memory.current.content}\n- {PERSON}"
            version = memory.revise(text, by=None, based_on=memory.head)
            memory.pin(0, by=None, based_on=version.number)
            memory.refresh_from_db()
        lines = {line.text: line for line in memory.current.line_values()}
        archived = {line.text for line in memory.archived_lines()}
        changed = {x for x, line in before.items() if x not in archived and lines.get(x) != line}
        counts["changed"] += len(changed)
        counts["lost"] += sum(before[text].is_protected for text in changed if text not in lines)
        counts |= {"merges": day, "version": memory.head, "lines": len(lines)}
        counts |= {"archived": len(archived), "unverified": unverified(lines.values())}
        counts["seconds"] = round(time.monotonic() - began)
        print(json.dumps(counts), file=sys.stderr, flush=True)
        before = lines
    return counts


def private_channel(path: Path, name: str, begin: datetime, count: int, mode: str) -> Any:
    """Import messages of a channel, DAILY a day. A private one is not merged into other memories."""
    from memories.models import Channel, Workspace
    from memories.pipeline.ingest.importing import import_export
    from memories.slack.export import Export

    with zipfile.ZipFile(path) as archive:
        users = json.loads(archive.read("users.json"))
        days = sorted(x for x in archive.namelist() if x.startswith(f"{name}/") and x[-1] != "/")
        rows = [row for day in days for row in json.loads(archive.read(day))]
    rows = [row for row in rows if row.get("text") and not row.get("subtype")][:count]
    if len(rows) < count:
        raise SystemExit(f"#{name} has {len(rows)} messages, not {count}.")
    workspace = Workspace.objects.create(slug="decay", name="decay")
    workspace.change_settings({"merge_mode": mode, "thread_memories": False})
    with TemporaryDirectory() as folder:
        turns = [
            (begin + timedelta(days=i // DAILY, minutes=i % DAILY), row["user"], row["text"])
            for i, row in enumerate(rows)
        ]
        write_channel(Path(folder), name, users, turns)
        with Export(Path(folder)) as export:
            import_export(workspace, export, NOW, backfill="all")
    Channel.objects.update(kind=Channel.Kind.PRIVATE)
    return workspace.channels.get()


def unverified(lines: Any) -> int:
    """Return the number of lines with figures that none of their sources has."""
    from memories.models import Message
    from memories.rules.ingest.timestamps import from_micros
    from memories.rules.memory.figures import SourceFigures, find_unverified

    count = 0
    for line in lines:
        sources = Message.objects.filter(pk__in=line.sources).select_related("author")
        figures = [
            SourceFigures(f"{m.author_name} {m.text}", from_micros(m.micros)) for m in sources
        ]
        count += bool(find_unverified(line.text, figures))
    return count


if __name__ == "__main__":
    main()
