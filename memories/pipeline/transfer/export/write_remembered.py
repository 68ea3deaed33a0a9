"""The second half of a bundle: what is remembered, in versions and lines, and by which jobs."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from memories.models import (
    Job,
    JobInput,
    Line,
    Memory,
    MemoryVersion,
    Message,
    Segment,
)
from memories.models.memory.versions import MemoryVersionQuerySet
from memories.pipeline.transfer.export import records
from memories.pipeline.transfer.export.archive import chunks
from memories.pipeline.transfer.export.keys import key_today
from memories.pipeline.transfer.export.write_said import Given
from memories.rules.redaction.shingles import MARK
from memories.rules.transfer import export as rules
from memories.rules.transfer import export_text

VERSIONS = 100  # held at a time
State = Job.State
ENDED = (State.DONE, State.SUPERSEDED, State.REJECTED)  # nothing is made of their replies any more


def write_memories(given: Given) -> None:
    _Memories(given).write()


class _Memories:
    def __init__(self, given: Given) -> None:
        self.given, self.ids = given, given.ids
        self.wanted = Job.objects.visible_to(given.reader).of_workspace(given.workspace)
        keys = self.wanted.order_by("pk").values_list("pk", flat=True)
        self.lines_of = {pk: line for line, pk in enumerate(keys, 1)}

    def write(self) -> None:
        memories = self.given.workspace.memories.visible_to(self.given.reader)
        for memory in memories.with_current().order_by("pk"):
            self._memory(memory)
        self.given.objects("jobs", rules.GENERATIONS, self._jobs())

    def _memory(self, memory: Memory) -> None:
        channel = memory.channel
        folder = rules.memory_folder(
            memory.scope,
            memory.memory_type,
            channel.slack_id if channel else "",
            channel.name if channel else "",
            memory.thread_ts,
        )
        numbers = list(memory.versions.order_by("number").values_list("number", flat=True))
        row = {
            **{name: getattr(memory, name) for name in records.MEMORY.plain},
            "channel": channel.slack_id if channel else None,
            "current": memory.current.number if memory.current else None,
            "versions": numbers,
        }
        self.given.bundle.text(f"{folder}/memory.json", export_text.as_json(row) + "\n")
        self.given.done.counts["memories"] += 1
        for some in chunks(numbers, VERSIONS):
            self._versions(
                folder, memory.versions.filter(number__gte=some[0], number__lte=some[-1])
            )

    def _versions(self, folder: str, found: MemoryVersionQuerySet) -> None:
        rows = list(
            found.select_related("author", "base", "restored_from", "segment", "job").order_by(
                "number"
            )
        )
        readable = set(found.visible_to(self.given.reader).values_list("pk", flat=True))
        lines = self._lines([version.pk for version in rows if version.pk in readable])
        for version in self.given.told(folder, rows):
            if version.pk not in readable:
                withhold(version)
                self.given.done.references += 1
            made_by = version.job if version.job_id in self.lines_of else None
            front = {
                **{name: getattr(version, name) for name in records.VERSION.plain},
                "author": version.author.get_username() if version.author else None,
                "base": version.base.number if version.base else None,
                "restored_from": version.restored_from.number if version.restored_from else None,
                "segment": self._segment(version.segment),
                "job": self.lines_of[made_by.pk] if made_by else None,
                "made_by": {name: getattr(made_by, name) for name in records.FACTS}
                if made_by
                else None,
                "lines": lines[version.pk],
            }
            text = export_text.version_text(front, version.content)
            self.given.bundle.text(rules.version_file(folder, version.number), text)
            self.given.done.counts["versions"] += 1

    def _lines(self, versions: list[int]) -> dict[int, list[dict[str, Any]]]:
        through = Line.sources.through.objects.filter(line__version__in=versions).order_by("pk")
        sources: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for line_id, channel, ts in through.values_list(
            "line_id", "message__channel_id", "message__ts"
        ):
            if channel in self.ids:
                sources[line_id].append((self.ids[channel], ts))
            else:
                self.given.done.references += 1
        lines: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in Line.objects.filter(version__in=versions).order_by("version", "position"):
            line = {name: getattr(row, name) for name in records.LINE.plain} | {
                "sources": sources[row.pk]
            }
            lines[row.version_id].append(line)
        return lines

    def _segment(self, segment: Segment | None) -> tuple[str, str, int] | None:
        if segment is None or segment.channel_id not in self.ids:
            return None
        return self.ids[segment.channel_id], segment.thread_ts, segment.number

    # -- jobs

    def _jobs(self) -> Iterator[dict[str, Any]]:
        rows = self.wanted.select_related("memory", "segment", "base").order_by("pk")
        for some in chunks(self.given.each(rows, VERSIONS), VERSIONS):
            read: dict[int, list[JobInput]] = defaultdict(list)
            inputs = JobInput.objects.filter(job__in=some).order_by("pk")
            for one in inputs.select_related("version__memory"):
                read[one.job_id].append(one)
            for job in some:
                yield self._job(job, read[job.pk])

    def _job(self, job: Job, read: list[JobInput]) -> dict[str, Any]:
        memory, base = job.memory, job.base
        readable = [
            one
            for one in read
            if one.version.memory.channel_id is None or one.version.memory.channel_id in self.ids
        ]
        self.given.done.references += len(read) - len(readable)
        holds = len(read) == len(readable) and job.input_key == key_today(
            memory,
            segment=job.segment,
            provisional=job.provisional,
            base=(base.number, base.revision) if base else None,
            read=[(one.version_id, one.revision) for one in read],
        )
        is_claimed = job.state == State.CLAIMED
        has_reply = job.reply is not None and job.state not in ENDED
        return {
            **{name: getattr(job, name) for name in records.GENERATION.plain},
            "memory": _identity(memory),
            "segment": self._segment(job.segment),
            "base": base.number if base else None,
            "inputs": [
                (_identity(one.version.memory), one.version.number, one.revision)
                for one in readable
            ],
            "backfill": self.given.backfills.get(job.backfill_id or 0),
            "inputs_hold": holds,
            # Nobody works on it where the bundle is taken in.
            "state": State.WAITING if is_claimed else job.state,
            "reply": job.reply if has_reply else None,
            "cites": self._cites(job.cites) if has_reply else [],
        }

    def _cites(self, cites: list[list[int]]) -> list[list[tuple[str, str]]]:
        keys = {key for some in cites for key in some}
        found = Message.objects.filter(pk__in=keys, channel__in=self.ids)
        known = {
            pk: (self.ids[channel], ts)
            for pk, channel, ts in found.values_list("pk", "channel_id", "ts")
        }
        return [[known[key] for key in some if key in known] for some in cites]


def withhold(version: MemoryVersion) -> None:
    """Its number stays, for none may be missing; what it says is not the reader's to take along.
    Unsaved."""
    version.name, version.content = "", MARK
    version.trigger, version.put_back, version.kept, version.dropped = {}, [], [], []


def _identity(memory: Memory) -> tuple[str, str, str]:
    return memory.scope, memory.scope_id, memory.memory_type
