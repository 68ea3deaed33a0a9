"""The second half of a bundle: what is remembered, in versions and lines, and by which jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memories.models import Job, JobInput, Line, Memory, MemoryVersion, Segment
from memories.pipeline.generate.input_keys import PROMPTS
from memories.pipeline.transfer.archive import ArchiveError
from memories.pipeline.transfer.export import records
from memories.pipeline.transfer.export.archive import chunks
from memories.pipeline.transfer.export.keys import key_of_import, key_today
from memories.pipeline.transfer.export.read_said import Taken, timed
from memories.rules.transfer import export as rules
from memories.rules.transfer import export_text
from memories.rules.transfer.schema import SchemaError

VERSIONS = 100  # held at a time
Identity = tuple[str, str, str]  # scope, scope id, type


@dataclass(frozen=True)
class MadeBy:
    """What a version says of the job that made it, to be compared with that."""

    name: str
    version: int
    memory: int
    line: int
    facts: dict[str, Any]


def read_memories(taken: Taken) -> None:
    _Memories(taken).read()


class _Memories:
    def __init__(self, taken: Taken) -> None:
        self.taken = taken
        self.memories: dict[Identity, Memory] = {}
        self.versions: dict[tuple[int, int], tuple[int, int]] = {}  # memory, number: pk, revision
        self.made_by: list[MadeBy] = []

    def read(self) -> None:
        # The order of files is the order in which memories came to be: merges read them in it.
        for name in [name for name in self.taken.left if name.endswith("/memory.json")]:
            self._memory(name)
        self._jobs()

    # -- a memory's folder

    def _memory(self, name: str) -> None:
        taken = self.taken
        with taken.file(name):
            row = records.MEMORY(export_text.from_json(taken.text(name)))
            if not rules.valid_place(row):
                raise SchemaError("scope, id, type, channel and thread do not belong together")
            channel = taken.channel(row["channel"]) if row["channel"] else None
            folder = rules.memory_folder(
                row["scope"],
                row["memory_type"],
                channel.slack_id if channel else "",
                channel.name if channel else "",
                row["thread_ts"],
            )
            numbers = row["versions"]
            if name != f"{folder}/memory.json":
                raise SchemaError(f"should stand in {folder}")
            if numbers != sorted(set(numbers)) or max(numbers, default=0) > row["head"]:
                raise SchemaError("versions: are not in order, or beyond the head")
            if row["current"] is not None and row["current"] not in numbers:
                raise SchemaError("current: is none of its versions")
            memory = Memory.objects.create(
                workspace=taken.done.workspace,
                channel=channel,
                **{name: row[name] for name in records.MEMORY.plain},
            )
        taken.done.counts["memories"] += 1
        self.memories[row["scope"], row["scope_id"], row["memory_type"]] = memory
        bases: list[tuple[str, int, int | None, int | None]] = []
        for some in chunks(numbers, VERSIONS):
            bases += self._versions(folder, memory, some)
        self._join(memory, bases)
        if row["current"] is not None:
            memory.current_id = self.versions[memory.pk, row["current"]][0]
            memory.save(update_fields=["current"])

    def _versions(
        self, folder: str, memory: Memory, numbers: Sequence[int]
    ) -> list[tuple[str, int, int | None, int | None]]:
        """Add some versions; (file, row id, base, restored from) of each that has one."""
        fronts = []
        rows = []
        for number in numbers:
            name = rules.version_file(folder, number)
            with self.taken.file(name):
                front, content = export_text.read_version(self.taken.text(name), records.VERSION)
                if front["number"] != number:
                    raise SchemaError("number: is not that of its file")
                fronts.append((name, front))
                rows.append(self._version(memory, front, content))
            self.taken.count("versions", name)
        bases = []
        for row, (name, front) in zip(MemoryVersion.objects.bulk_create(rows), fronts, strict=True):
            self.versions[memory.pk, row.number] = row.pk, row.revision
            if front["base"] or front["restored_from"]:
                bases.append((name, row.pk, front["base"], front["restored_from"]))
            if (front["job"] is None) is not (front["made_by"] is None):
                raise ArchiveError(f"{name}: has one of job and made_by only.")
            if front["job"] is not None:
                line, facts = front["job"], front["made_by"]
                self.made_by.append(MadeBy(name, row.pk, memory.pk, line, facts))
            self._lines(name, row, front["lines"])
        return bases

    def _version(self, memory: Memory, front: dict[str, Any], content: str) -> MemoryVersion:
        elsewhere = ("author", "base", "restored_from", "segment", "job", "made_by", "lines")
        return MemoryVersion(
            memory=memory,
            content=content,
            author=self.taken.account(front["author"]),
            segment_id=self.taken.segment(front["segment"]),
            **{key: value for key, value in front.items() if key not in elsewhere},
        )

    def _lines(self, name: str, version: MemoryVersion, lines: Sequence[dict[str, Any]]) -> None:
        try:
            messages = self.taken.messages(key for line in lines for key in line["sources"])
        except SchemaError as error:
            raise ArchiveError(f"{name}: {error}.") from error
        rows = Line.objects.bulk_create(
            Line(version=version, position=i, **{k: v for k, v in line.items() if k != "sources"})
            for i, line in enumerate(lines)
        )
        through = Line.sources.through
        through.objects.bulk_create(
            through(line_id=row.pk, message_id=messages[key])
            for row, line in zip(rows, lines, strict=True)
            for key in dict.fromkeys(line["sources"])
        )

    def _join(
        self, memory: Memory, bases: Sequence[tuple[str, int, int | None, int | None]]
    ) -> None:
        """Versions grow from others of the same memory."""
        rows = []
        for name, pk, *numbers in bases:
            ids = []
            for number in numbers:
                if number is not None and (memory.pk, number) not in self.versions:
                    raise ArchiveError(f"{name}: there is no version {number}.")
                ids.append(self.versions[memory.pk, number][0] if number else None)
            rows.append(MemoryVersion(pk=pk, base_id=ids[0], restored_from_id=ids[1]))
        MemoryVersion.objects.bulk_update(rows, ["base", "restored_from"], batch_size=100)

    # -- jobs

    def _jobs(self) -> None:
        self.line = 0
        self.holds = self.taken.bundle.manifest["prompts"] == PROMPTS
        made: list[tuple[int, int]] = []  # row id and memory, by line
        facts: list[tuple[Any, ...]] = []
        with self.taken.file(rules.GENERATIONS):
            for some in self.taken.rows("jobs", rules.GENERATIONS, records.GENERATION, self._job):
                rows = timed([job for job, _ in some], "created_at")
                made += [(row.pk, row.memory_id) for row in rows]
                facts += [tuple(getattr(row, name) for name in records.FACTS) for row in rows]
                JobInput.objects.bulk_create(
                    JobInput(job=job, version_id=version, revision=revision)
                    for job, read in some
                    for version, revision in read
                )
        rows_of_versions = []
        for one in self.made_by:
            if one.line > len(made) or made[one.line - 1][1] != one.memory:
                raise ArchiveError(f"{one.name}: job: is none of its memory's.")
            if facts[one.line - 1] != tuple(one.facts.values()):
                raise ArchiveError(f"{one.name}: made_by: is not what its job says.")
            rows_of_versions.append(MemoryVersion(pk=one.version, job_id=made[one.line - 1][0]))
        MemoryVersion.objects.bulk_update(rows_of_versions, ["job"], batch_size=100)

    def _job(self, row: dict[str, Any]) -> tuple[Job, list[tuple[int, int]]]:
        self.line += 1
        taken = self.taken
        memory = self._of(row.pop("memory"))
        number = row.pop("base")
        base, revision_now = self._numbered(memory, number) if number else (None, 0)
        segment_id = taken.segment(row.pop("segment"))
        segment = Segment.objects.get(pk=segment_id) if segment_id else None
        read = [
            (self._numbered(self._of(identity), number)[0], revision)
            for identity, number, revision in row.pop("inputs")
        ]
        backfill = row.pop("backfill")
        if backfill is not None and backfill > len(taken.backfills):
            raise SchemaError(f"there is no backfill {backfill}")
        messages = taken.messages(key for keys in row["cites"] for key in keys)
        cites = [[messages[key] for key in keys] for keys in row.pop("cites")]
        key = ""
        if row.pop("inputs_hold") and self.holds:
            key = key_today(
                memory,
                segment=segment,
                provisional=row["provisional"],
                base=(number, revision_now) if number else None,
                read=read,
            )
        job = Job(
            memory=memory,
            segment=segment,
            base_id=base,
            backfill=taken.backfills[backfill - 1] if backfill else None,
            input_key=key or key_of_import(memory, self.line),
            cites=cites,
            **row,
        )
        return job, read

    def _of(self, identity: Identity) -> Memory:
        if identity not in self.memories:
            raise SchemaError(f"there is no memory {' '.join(identity)}")
        return self.memories[identity]

    def _numbered(self, memory: Memory, number: int) -> tuple[int, int]:
        """(row id, revision) of a version."""
        if (memory.pk, number) not in self.versions:
            raise SchemaError(f"there is no version {number} of {memory}")
        return self.versions[memory.pk, number]
