"""Import an exported workspace: all of it, or nothing (docs/export.md).

Every value is checked before it is stored. Every reference must lead to a row of the export.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.db import transaction

from memories.models import AuditEvent, Job, JobInput, Line, Memory, MemoryVersion, Segment
from memories.pipeline.generate.input_keys import PROMPTS, input_key
from memories.pipeline.transfer.archive import ArchiveError
from memories.pipeline.transfer.export import schemas
from memories.pipeline.transfer.export.files import ExportReader, Progress
from memories.pipeline.transfer.export.importer import Importer, ImportReport, create_with_times
from memories.pipeline.transfer.export.job_keys import current_input_key
from memories.rules.batches import in_batches
from memories.rules.transfer import export_format
from memories.rules.transfer.schema import SchemaError, parse_json

CHUNK = 100  # versions in memory at a time
Identity = tuple[str, str, str]  # scope, scope id, type


def import_workspace(
    path: Path, *, slug: str | None = None, on_progress: Progress = lambda name, rows: None
) -> ImportReport:
    """Create the workspace, as ``slug`` if given, and record it in the audit log.

    Raises `ArchiveError`, which names file and line. Then nothing is stored.
    """
    with ExportReader(path) as reader, transaction.atomic():
        importer = MemoryImporter(reader, slug, on_progress)
        importer.read()
        importer.finish()
        report = importer.report
        counts = dict(report.counts)
        AuditEvent.objects.record("import", by=None, workspace=report.workspace, counts=counts)
    return report


class MemoryImporter(Importer):
    """Also creates memories with their versions, and jobs."""

    def read(self) -> None:
        super().read()
        self.memories: dict[Identity, Memory] = {}
        # Row id and revision, by memory id and number.
        self.versions: dict[tuple[int, int], tuple[int, int]] = {}
        # File, row id, memory id, line of the job, and ``made_by`` of each version from a job.
        self.made_by: list[tuple[str, int, int, int, dict[str, Any]]] = []
        # The order of the files is the order of creation, in which merges read memories.
        for name in [name for name in self.unread_files if name.endswith("/memory.json")]:
            self._create_memory(name)
        self._create_jobs()

    # Memories and versions

    def _create_memory(self, name: str) -> None:
        with self.file(name):
            row = schemas.MEMORY(parse_json(self.reader.text(name)))
            if not export_format.has_consistent_scope(row):
                raise SchemaError("scope, id, type, channel and thread do not match")
            channel = self.find_channel(row["channel"])
            slack_id, channel_name = (channel.slack_id, channel.name) if channel else ("", "")
            folder = export_format.memory_folder(
                row["scope"], row["memory_type"], slack_id, channel_name, row["thread_ts"]
            )
            numbers, current = row["versions"], row["current"]
            if name != f"{folder}/memory.json":
                raise SchemaError(f"should stand in {folder}")
            if numbers != sorted(set(numbers)) or max(numbers, default=0) > row["head"]:
                raise SchemaError("versions: are not in order, or are newer than the head")
            if current is not None and current not in numbers:
                raise SchemaError("current: is not one of its versions")
            values = {key: row[key] for key in schemas.MEMORY.columns}
            memory = Memory.objects.create(workspace=self.workspace, channel=channel, **values)
        self.report.counts["memories"] += 1
        self.memories[row["scope"], row["scope_id"], row["memory_type"]] = memory
        relations: list[tuple[str, int, int | None, int | None]] = []
        for chunk in in_batches(numbers, CHUNK):
            relations += self._create_versions(folder, memory, chunk)
        self._relate_versions(memory, relations)
        if current is not None:
            memory.current_id = self.versions[memory.pk, current][0]
            memory.save(update_fields=["current"])

    def _create_versions(
        self, folder: str, memory: Memory, numbers: Sequence[int]
    ) -> list[tuple[str, int, int | None, int | None]]:
        """Create versions. Return file, row id, base and restored number of those with either."""
        fronts, rows = [], []
        for number in numbers:
            name = export_format.version_path(folder, number)
            with self.file(name):
                text = self.reader.text(name)
                front, content = export_format.parse_version(text, schemas.VERSION)
                if front["number"] != number:
                    raise SchemaError("number: differs from the name of its file")
                fronts.append((name, front))
                rows.append(self._version(memory, front, content))
            self.count("versions", name)
        relations = []
        for row, (name, front) in zip(MemoryVersion.objects.bulk_create(rows), fronts, strict=True):
            self.versions[memory.pk, row.number] = row.pk, row.revision
            if front["base"] or front["restored_from"]:
                relations.append((name, row.pk, front["base"], front["restored_from"]))
            line, made_by = front["job"], front["made_by"]
            if (line is None) is not (made_by is None):
                raise ArchiveError(f"{name}: has only one of job and made_by.")
            if line is not None:
                self.made_by.append((name, row.pk, memory.pk, line, made_by))
            self._create_lines(name, row, front["lines"])
        return relations

    def _version(self, memory: Memory, front: dict[str, Any], content: str) -> MemoryVersion:
        return MemoryVersion(
            memory=memory,
            content=content,
            author=self.find_account(front["author"]),
            segment_id=self.segment_id(front["segment"]),
            **{key: front[key] for key in schemas.VERSION.columns},
        )

    def _create_lines(
        self, name: str, version: MemoryVersion, lines: Sequence[dict[str, Any]]
    ) -> None:
        try:
            messages = self.message_ids(key for line in lines for key in line["sources"])
        except SchemaError as error:
            raise ArchiveError(f"{name}: {error}.") from error
        rows = Line.objects.bulk_create(
            Line(
                version=version,
                position=i,
                author=self.find_account(line["author"]),
                **{key: line[key] for key in schemas.LINE.columns},
            )
            for i, line in enumerate(lines)
        )
        through = Line.sources.through
        through.objects.bulk_create(
            through(line_id=row.pk, message_id=messages[key])
            for row, line in zip(rows, lines, strict=True)
            for key in dict.fromkeys(line["sources"])
        )

    def _relate_versions(
        self, memory: Memory, relations: Sequence[tuple[str, int, int | None, int | None]]
    ) -> None:
        """Set ``base`` and ``restored_from``, versions of the same memory."""
        rows = []
        for name, pk, *numbers in relations:
            ids = []
            for number in numbers:
                if number is not None and (memory.pk, number) not in self.versions:
                    raise ArchiveError(f"{name}: there is no version {number}.")
                ids.append(self.versions[memory.pk, number][0] if number else None)
            rows.append(MemoryVersion(pk=pk, base_id=ids[0], restored_from_id=ids[1]))
        MemoryVersion.objects.bulk_update(rows, ["base", "restored_from"], batch_size=100)

    # Jobs

    def _create_jobs(self) -> None:
        self.job_line = 0
        self.has_same_prompts = self.reader.manifest["prompts"] == PROMPTS
        jobs: list[tuple[int, int, tuple[Any, ...]]] = []  # id, memory id, MADE_BY; by line

        def save(chunk: list[tuple[Job, list[tuple[int, int]]]]) -> None:
            for job in create_with_times([job for job, _ in chunk], "created_at"):
                made_by = tuple(getattr(job, name) for name in schemas.MADE_BY)
                jobs.append((job.pk, job.memory_id, made_by))
            JobInput.objects.bulk_create(
                JobInput(job=job, version_id=version, revision=revision)
                for job, inputs in chunk
                for version, revision in inputs
            )

        self.import_rows("jobs", export_format.JOBS, schemas.JOB, self._job, save)
        versions = []
        for name, pk, memory_id, line, made_by in self.made_by:
            if line > len(jobs) or jobs[line - 1][1] != memory_id:
                raise ArchiveError(f"{name}: job: is a job of another memory.")
            if jobs[line - 1][2] != tuple(made_by.values()):
                raise ArchiveError(f"{name}: made_by: differs from its job.")
            versions.append(MemoryVersion(pk=pk, job_id=jobs[line - 1][0]))
        MemoryVersion.objects.bulk_update(versions, ["job"], batch_size=100)

    def _job(self, row: dict[str, Any]) -> tuple[Job, list[tuple[int, int]]]:
        """Return the job of a line, and id and revision of the versions that it read."""
        self.job_line += 1
        memory = self._memory(row.pop("memory"))
        number = row.pop("base")
        base_id, revision = self._version_key(memory, number) if number else (None, 0)
        segment_id = self.segment_id(row.pop("segment"))
        segment = Segment.objects.get(pk=segment_id) if segment_id else None
        inputs = [
            (self._version_key(self._memory(identity), number_read)[0], revision_read)
            for identity, number_read, revision_read in row.pop("inputs")
        ]
        backfill = row.pop("backfill")
        if backfill is not None and backfill > len(self.backfills):
            raise SchemaError(f"there is no backfill {backfill}")
        messages = self.message_ids(key for keys in row["reply_sources"] for key in keys)
        reply_sources = [[messages[key] for key in keys] for keys in row.pop("reply_sources")]
        key = ""
        if row.pop("inputs_hold") and self.has_same_prompts:
            key = current_input_key(
                memory,
                segment=segment,
                provisional=row["provisional"],
                base=(number, revision) if number else None,
                inputs=inputs,
            )
        job = Job(
            memory=memory,
            segment=segment,
            base_id=base_id,
            backfill=self.backfills[backfill - 1] if backfill else None,
            input_key=key or input_key(memory.pk, "imported", self.job_line),  # no pass creates it
            reply_sources=reply_sources,
            **row,
        )
        return job, inputs

    def _memory(self, identity: Identity) -> Memory:
        if identity not in self.memories:
            raise SchemaError(f"there is no memory {' '.join(identity)}")
        return self.memories[identity]

    def _version_key(self, memory: Memory, number: int) -> tuple[int, int]:
        """Return row id and revision of a version."""
        if (memory.pk, number) not in self.versions:
            raise SchemaError(f"there is no version {number} of {memory}")
        return self.versions[memory.pk, number]
