"""Export a workspace: everything that one reader may read of it, as one file (docs/export.md)."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from memories.models import (
    AuditEvent,
    Job,
    JobInput,
    Line,
    Memory,
    MemoryVersion,
    Message,
    Reader,
    Segment,
    User,
    Workspace,
)
from memories.models.access.audience import readable_workspaces
from memories.models.memory.version_queries import MemoryVersionQuerySet
from memories.pipeline.generate.input_keys import PROMPTS
from memories.pipeline.transfer.export import schemas
from memories.pipeline.transfer.export.exporter import Exporter, ExportReport
from memories.pipeline.transfer.export.files import ExportWriter, Progress
from memories.pipeline.transfer.export.job_keys import current_input_key
from memories.pipeline.transfer.new_file import new_file
from memories.rules.batches import in_batches
from memories.rules.redaction.shingles import REDACTED
from memories.rules.transfer import export_format
from memories.rules.transfer.schema import to_json

CHUNK = 100  # versions in memory at a time
State = Job.State
USED = (State.DONE, State.SUPERSEDED, State.REJECTED)  # their replies lead to no version any more


class NotAReader(Exception):
    """This reader may not read the workspace."""


def export_workspace(
    workspace: Workspace,
    reader: Reader,
    path: Path,
    *,
    by: User | None,
    force: bool = False,
    on_progress: Progress = lambda name, rows: None,
) -> ExportReport:
    """Write the workspace as of one moment and record it in the audit log. Nobody has to wait.

    Raises NotAReader, FileExistsError without ``force``, and OSError. The file is complete, or it
    does not exist.
    """
    if not readable_workspaces(reader).filter(pk=workspace.pk).exists():
        raise NotAReader
    with new_file(path, force=force) as file:
        with _snapshot():
            workspace.refresh_from_db()
            writer = ExportWriter(file)
            exporter = MemoryExporter(workspace, reader, writer, on_progress)
            try:
                with exporter.cursors:
                    exporter.write()
                counts, left_out = dict(exporter.report.counts), exporter.report.left_out
                facts = {"prompts": PROMPTS, "left_out": left_out, "counts": counts}
                writer.close(export_format.FORMAT, export_format.FORMAT_VERSION, facts)
            except BaseException:
                writer.abandon()
                raise
        exporter.report.size = file.tell()
        AuditEvent.objects.record(
            "export", by=by, workspace=workspace, counts=counts, left_out=left_out
        )
    return exporter.report


@contextmanager
def _snapshot() -> Iterator[None]:
    """Open a transaction that reads one state of the database and blocks no writer."""
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


class MemoryExporter(Exporter):
    """Also writes memories with their versions, and jobs."""

    def write(self) -> None:
        super().write()
        self.jobs = Job.objects.visible_to(self.reader).of_workspace(self.workspace)
        keys = self.jobs.order_by("pk").values_list("pk", flat=True)
        self.job_lines = {pk: line for line, pk in enumerate(keys, 1)}
        memories = self.workspace.memories.visible_to(self.reader)
        for memory in memories.with_current().order_by("pk"):
            self._write_memory(memory)
        self.write_objects("jobs", export_format.JOBS, self._jobs())

    def _write_memory(self, memory: Memory) -> None:
        channel = memory.channel
        slack_id, name = (channel.slack_id, channel.name) if channel else ("", "")
        folder = export_format.memory_folder(
            memory.scope, memory.memory_type, slack_id, name, memory.thread_ts
        )
        numbers = list(memory.versions.order_by("number").values_list("number", flat=True))
        row = {
            **{name: getattr(memory, name) for name in schemas.MEMORY.columns},
            "channel": slack_id or None,
            "current": memory.current.number if memory.current else None,
            "versions": numbers,
        }
        self.writer.text(f"{folder}/memory.json", to_json(row) + "\n")
        self.report.counts["memories"] += 1
        for chunk in in_batches(numbers, CHUNK):
            versions = memory.versions.filter(number__gte=chunk[0], number__lte=chunk[-1])
            self._write_versions(folder, versions)

    def _write_versions(self, folder: str, queryset: MemoryVersionQuerySet) -> None:
        related = queryset.select_related("author", "base", "restored_from", "segment", "job")
        readable = set(queryset.visible_to(self.reader).values_list("pk", flat=True))
        lines = self._lines(readable)
        for version in self.with_progress(folder, list(related.order_by("number"))):
            if version.pk not in readable:
                withhold(version)
                self.report.references += 1
            job = version.job if version.job_id in self.job_lines else None
            front = {
                **{name: getattr(version, name) for name in schemas.VERSION.columns},
                "author": version.author.get_username() if version.author else None,
                "base": version.base.number if version.base else None,
                "restored_from": version.restored_from.number if version.restored_from else None,
                "segment": self._segment_key(version.segment),
                "job": self.job_lines[job.pk] if job else None,
                "made_by": {name: getattr(job, name) for name in schemas.MADE_BY} if job else None,
                "lines": lines[version.pk],
            }
            path = export_format.version_path(folder, version.number)
            self.writer.text(path, export_format.format_version(front, version.content))
            self.report.counts["versions"] += 1

    def _lines(self, version_ids: set[int]) -> dict[int, list[dict[str, Any]]]:
        """Return the lines of these versions with their readable sources, by version id."""
        through = Line.sources.through.objects.filter(line__version__in=version_ids).order_by("pk")
        sources: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for line_id, channel, ts in through.values_list(
            "line_id", "message__channel_id", "message__ts"
        ):
            if channel in self.slack_ids:
                sources[line_id].append((self.slack_ids[channel], ts))
            else:
                self.report.references += 1
        lines: dict[int, list[dict[str, Any]]] = defaultdict(list)
        rows = Line.objects.filter(version__in=version_ids).select_related("author")
        for line in rows.order_by("version", "position"):
            row = {name: getattr(line, name) for name in schemas.LINE.columns}
            author = line.author.get_username() if line.author else None
            lines[line.version_id].append(row | {"author": author, "sources": sources[line.pk]})
        return lines

    def _segment_key(self, segment: Segment | None) -> tuple[str, str, int] | None:
        if segment is None or segment.channel_id not in self.slack_ids:
            return None
        return self.slack_ids[segment.channel_id], segment.thread_ts, segment.number

    def _jobs(self) -> Iterator[dict[str, Any]]:
        rows = self.jobs.select_related("memory", "segment", "base").order_by("pk")
        for chunk in in_batches(self.iterate(rows, CHUNK), CHUNK):
            inputs: dict[int, list[JobInput]] = defaultdict(list)
            all_inputs = JobInput.objects.filter(job__in=chunk).order_by("pk")
            for job_input in all_inputs.select_related("version__memory"):
                inputs[job_input.job_id].append(job_input)
            for job in chunk:
                yield self._job(job, inputs[job.pk])

    def _job(self, job: Job, inputs: list[JobInput]) -> dict[str, Any]:
        memory, base = job.memory, job.base
        readable = [
            each
            for each in inputs
            if (channel := each.version.memory.channel_id) is None or channel in self.slack_ids
        ]
        self.report.references += len(inputs) - len(readable)
        inputs_hold = len(inputs) == len(readable) and job.input_key == current_input_key(
            memory,
            segment=job.segment,
            provisional=job.provisional,
            base=(base.number, base.revision) if base else None,
            inputs=[(each.version_id, each.revision) for each in inputs],
        )
        has_reply = job.reply is not None and job.state not in USED
        return {
            **{name: getattr(job, name) for name in schemas.JOB.columns},
            "memory": _identity(memory),
            "segment": self._segment_key(job.segment),
            "base": base.number if base else None,
            "inputs": [
                (_identity(each.version.memory), each.version.number, each.revision)
                for each in readable
            ],
            "backfill": self.backfill_lines.get(job.backfill_id or 0),
            "inputs_hold": inputs_hold,
            # No worker of the importing side has claimed it.
            "state": State.WAITING if job.state == State.CLAIMED else job.state,
            "reply": job.reply if has_reply else None,
            "reply_sources": self._source_keys(job.reply_sources) if has_reply else [],
        }

    def _source_keys(self, reply_sources: list[list[int]]) -> list[list[tuple[str, str]]]:
        """Return channel and ts of the readable messages among these row ids."""
        ids = {pk for pks in reply_sources for pk in pks}
        messages = Message.objects.filter(pk__in=ids, channel__in=self.slack_ids)
        keys = {
            pk: (self.slack_ids[channel], ts)
            for pk, channel, ts in messages.values_list("pk", "channel_id", "ts")
        }
        return [[keys[pk] for pk in pks if pk in keys] for pks in reply_sources]


def withhold(version: MemoryVersion) -> None:
    """Remove the text of a version that the reader may not read. Unsaved.

    The version stays, because numbers have no gaps.
    """
    version.name, version.content = "", REDACTED
    version.trigger, version.put_back, version.kept, version.dropped = {}, [], [], []


def _identity(memory: Memory) -> tuple[str, str, str]:
    return memory.scope, memory.scope_id, memory.memory_type
