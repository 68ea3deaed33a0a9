"""Export of a workspace's people, channels, messages and notes."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memories.models import (
    BackfillChannel,
    Budget,
    ChannelMember,
    Message,
    NoteVersion,
    Reader,
    Segment,
    Workspace,
)
from memories.models.access.audience import notes_with_trash
from memories.models.sync.channel_sync import sync_of
from memories.pipeline.transfer.export import schemas
from memories.pipeline.transfer.export.files import PROGRESS_ROWS, ExportWriter, Progress
from memories.rules.batches import in_batches
from memories.rules.ingest import references
from memories.rules.ingest.markup import strip_channel_labels
from memories.rules.transfer import export_format
from memories.rules.transfer.schema import to_json

CHUNK = 2000  # rows in memory at a time
# Instead of the columns of a message from the time when its channel was private.
WITHHELD_MESSAGE = {
    **{"state": Message.State.EXPIRED, "author": None, "username": "", "text": "", "raw": ""},
    **{"subtype": "", "edited_ts": "", "is_bot": False, "broadcast": False},
}
# Relations of notes and their versions: key in the export, and path of its value.
NOTE_RELATIONS = {
    "channel": "channel__slack_id",
    **{name: f"{name}__username" for name in ("author", "written_by", "deleted_by")},
}
NOTE_VERSION_RELATIONS = {"channel": "channel__slack_id", "written_by": "written_by__username"}
_T = TypeVar("_T")


@dataclass
class ExportReport:
    """How many rows of each kind the file contains, and what its reader may not read."""

    counts: Counter[str] = field(default_factory=Counter)
    hidden_channels: int = 0
    references: int = 0  # to messages or texts of these channels
    size: int = 0

    @property
    def left_out(self) -> dict[str, int]:
        return {"channels": self.hidden_channels, "references": self.references}


class Exporter:
    """Writes the rows of a workspace that one reader may read."""

    def __init__(
        self, workspace: Workspace, reader: Reader, writer: ExportWriter, on_progress: Progress
    ) -> None:
        self.workspace, self.reader, self.writer = workspace, reader, writer
        self.on_progress = on_progress
        self.report = ExportReport()
        channels = workspace.channels.visible_to(reader).select_related("sync")
        self.channels = list(channels.order_by("pk"))
        self.slack_ids = {channel.pk: channel.slack_id for channel in self.channels}
        self.report.hidden_channels = workspace.channels.count() - len(self.channels)
        self.backfill_lines: dict[int, int] = {}  # line in the file by row id
        self.cursors = ExitStack()
        self.row_count = 0

    def write(self) -> None:
        self.writer.text(export_format.WORKSPACE, to_json(self._workspace()) + "\n")
        self.write_objects("people", export_format.PEOPLE, self._people())
        self.write_objects("channels", export_format.CHANNELS, self._channels())
        self.write_objects("segments", export_format.SEGMENTS, self._segments())
        for pk, slack_id in self.slack_ids.items():
            path = export_format.messages_path(slack_id)
            self.write_objects("messages", path, self._messages(pk))
        self.write_objects("backfills", export_format.BACKFILLS, self._backfills())
        self.write_objects("notes", export_format.NOTES, self._notes())

    def write_objects(self, kind: str, name: str, rows: Iterable[dict[str, Any]]) -> None:
        self.report.counts[kind] += self.writer.objects(name, self.with_progress(name, rows))

    def iterate(self, queryset: Any, size: int = CHUNK) -> Iterator[Any]:
        """Return an iterator over the rows. ``cursors`` closes it if the export stops early."""
        return iter(self.cursors.enter_context(closing(queryset.iterator(size))))

    def with_progress(self, name: str, rows: Iterable[_T]) -> Iterator[_T]:
        for row in rows:
            self.row_count += 1
            if self.row_count % PROGRESS_ROWS == 0:
                self.on_progress(name, self.row_count)
            yield row

    def _workspace(self) -> dict[str, Any]:
        workspace = self.workspace
        members = workspace.members.order_by("pk").values_list("user__username", "role")
        budgets = Budget.objects.filter(workspace=workspace).order_by("pk")
        return {
            **{name: getattr(workspace, name) for name in schemas.WORKSPACE.columns},
            "members": [{"user": user, "role": role} for user, role in members],
            "budgets": list(budgets.values("period", "tokens", "money")),
        }

    def _people(self) -> Iterator[dict[str, Any]]:
        rows = self.workspace.people.visible_to(self.reader).order_by("pk")
        for row in self.iterate(rows.values(*schemas.PERSON.columns, "user__username")):
            row["user"] = row.pop("user__username")
            if not self.reader.is_operator:
                row["email"] = ""  # no page shows it either
            yield row

    def _channels(self) -> Iterator[dict[str, Any]]:
        for channel in self.channels:
            members = ChannelMember.objects.filter(channel=channel).order_by("pk")
            row = {name: getattr(channel, name) for name in schemas.CHANNEL.columns}
            row |= {name: strip_channel_labels(row[name]) for name in ("topic", "purpose")}
            row["synced_ts"] = sync_of(channel).synced_ts
            yield row | {"members": list(members.values_list("person__slack_id", flat=True))}

    def _segments(self) -> Iterator[dict[str, Any]]:
        rows = Segment.objects.filter(channel__in=self.slack_ids).order_by("channel_id", "pk")
        for row in self.iterate(rows.values(*schemas.SEGMENT.columns, "channel_id")):
            yield {"channel": self.slack_ids[row.pop("channel_id")], **row}

    def _messages(self, channel: int) -> Iterator[dict[str, Any]]:
        joined = {
            "author": "author__slack_id",
            "segment": "segment__number",
            "thread": "thread_segment__thread_ts",
            "thread_segment": "thread_segment__number",
        }
        names = schemas.MESSAGE.columns
        rows = Message.objects.filter(channel=channel).in_order()
        withheld = set(
            rows.filter(was_private=True)
            .exclude(pk__in=rows.visible_to(self.reader).values("pk"))
            .values_list("ts", flat=True)
        )
        slack_id = self.slack_ids[channel]
        withheld_links = {references.permalink_path(slack_id, ts) for ts in withheld}
        for values in self.iterate(rows.values_list(*names, *joined.values())):
            row = dict(zip([*names, *joined], values, strict=True))
            thread, number = row.pop("thread"), row["thread_segment"]
            row["thread_segment"] = None if number is None else (thread, number)
            if row["ts"] in withheld:
                row |= WITHHELD_MESSAGE
                self.report.references += 1
            elif withheld_links and references.may_embed(row["raw"]):
                raw = references.load_object(row["raw"])
                kept = references.remove_embedded(raw, slack_id, withheld_links)
                if kept != raw:
                    row["raw"] = json.dumps(kept)
                    self.report.references += 1
            yield row | {name: strip_channel_labels(row[name]) for name in ("text", "raw")}

    def _backfills(self) -> Iterator[dict[str, Any]]:
        """Yield each backfill with its readable channels.

        An unfinished one is written as paused: the importing side decides if it pays for the rest.
        """
        parts: dict[int, list[BackfillChannel]] = defaultdict(list)
        for part in BackfillChannel.objects.filter(channel__in=self.slack_ids).order_by("pk"):
            parts[part.backfill_id].append(part)
        backfills = self.workspace.backfills.order_by("pk").select_related("author")
        for backfill in backfills.filter(pk__in=parts):
            self.backfill_lines[backfill.pk] = len(self.backfill_lines) + 1
            readable = parts[backfill.pk]
            is_complete = backfill.parts.count() == len(readable)
            yield {
                **{name: getattr(backfill, name) for name in schemas.BACKFILL.columns},
                "channels": [
                    (self.slack_ids[part.channel_id], part.start_us_before) for part in readable
                ],
                "author": backfill.author.get_username() if backfill.author else None,
                "state": "paused" if backfill.state in backfill.UNFINISHED else backfill.state,
                "estimate": backfill.estimate_with_current_names() if is_complete else {},
            }

    def _notes(self) -> Iterator[dict[str, Any]]:
        """Yield all notes, also those in the trash, and while notes are switched off."""
        notes = notes_with_trash(self.reader).filter(workspace=self.workspace).order_by("pk")
        source = ("source__channel", "source__ts")
        rows = notes.values(*schemas.NOTE.columns, "pk", *source, *NOTE_RELATIONS.values())
        for chunk in in_batches(self.iterate(rows), CHUNK):
            versions = self._note_versions([row["pk"] for row in chunk])
            for row in chunk:
                row["versions"] = versions[row.pop("pk")]
                channel, ts = row.pop("source__channel"), row.pop("source__ts")
                row["source"] = (self.slack_ids[channel], ts) if channel in self.slack_ids else None
                self.report.references += channel is not None and row["source"] is None
                yield _rename_paths(row, NOTE_RELATIONS)

    def _note_versions(self, note_ids: list[int]) -> dict[int, list[dict[str, Any]]]:
        rows = NoteVersion.objects.filter(note__in=note_ids).order_by("note", "number")
        readable = rows.visible_to(self.reader).values(
            "note_id", *schemas.NOTE_VERSION.columns, *NOTE_VERSION_RELATIONS.values()
        )
        versions: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in readable:
            versions[row.pop("note_id")].append(_rename_paths(row, NOTE_VERSION_RELATIONS))
        self.report.references += rows.count() - sum(map(len, versions.values()))
        return versions


def _rename_paths(row: dict[str, Any], relations: dict[str, str]) -> dict[str, Any]:
    return row | {name: row.pop(path) for name, path in relations.items()}
