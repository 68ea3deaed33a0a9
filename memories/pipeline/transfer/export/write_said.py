"""The first half of a bundle: the workspace, its people and channels, and what was said there."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memories.models import (
    BackfillChannel,
    Cap,
    ChannelMember,
    Message,
    NoteVersion,
    Reader,
    Segment,
    Workspace,
)
from memories.models.sync.channel_sync import sync_of
from memories.pipeline.transfer.export import records
from memories.pipeline.transfer.export.archive import BundleWriter, Tell, chunks
from memories.rules.ingest.markup import strip_channel_labels
from memories.rules.transfer import export as rules
from memories.rules.transfer import export_text

CHUNK = 2000  # rows held at a time
TELL_EVERY = 500
SAID_IN_PRIVATE = {
    **{"state": Message.State.EXPIRED, "author": None, "username": "", "text": "", "raw": ""},
    **{"subtype": "", "edited_ts": "", "is_bot": False, "broadcast": False},
}
# What a note's row refers to, by the name that the bundle has for it.
_NAMED = {
    "channel": "channel__slack_id",
    **{name: f"{name}__username" for name in ("author", "worded_by", "deleted_by", "written_by")},
}
_T = TypeVar("_T")


@dataclass
class Exported:
    """What went into the file, and what the reader may not read and so stayed out of it."""

    counts: Counter[str] = field(default_factory=Counter)
    hidden_channels: int = 0
    references: int = 0  # to messages or texts of those channels
    size: int = 0

    @property
    def left_out(self) -> dict[str, int]:
        return {"channels": self.hidden_channels, "references": self.references}


class Given:
    """The rows of a workspace that one reader may read, and the bundle they go to."""

    def __init__(
        self, workspace: Workspace, reader: Reader, bundle: BundleWriter, tell: Tell
    ) -> None:
        self.workspace, self.reader, self.bundle, self.tell = workspace, reader, bundle, tell
        self.done = Exported()
        self.channels = list(
            workspace.channels.visible_to(reader).select_related("sync").order_by("pk")
        )
        self.ids = {channel.pk: channel.slack_id for channel in self.channels}
        self.done.hidden_channels = workspace.channels.count() - len(self.channels)
        self.backfills: dict[int, int] = {}  # line by row id
        self.opened: list[Any] = []
        self.seen = 0

    def write(self) -> None:
        self.bundle.text(rules.WORKSPACE, export_text.as_json(self._workspace()) + "\n")
        self.objects("people", rules.PEOPLE, self._people())
        self.objects("channels", rules.CHANNELS, self._channels())
        self.objects("segments", rules.SEGMENTS, self._segments())
        for pk, slack_id in self.ids.items():
            self.objects("messages", rules.messages_file(slack_id), self._messages(pk))
        self.objects("backfills", rules.BACKFILLS, self._backfills())
        self.objects("notes", rules.NOTES, self._notes())

    def objects(self, what: str, name: str, rows: Iterable[dict[str, Any]]) -> None:
        self.done.counts[what] += self.bundle.objects(name, self.told(name, rows))

    def each(self, found: Any, size: int = CHUNK) -> Iterator[Any]:
        """The rows of a query, some at a time."""
        rows = found.iterator(size)
        self.opened.append(rows)
        return iter(rows)

    def stop(self) -> None:
        """Let go of the queries that were not read to their end, while their transaction lasts."""
        for rows in self.opened:
            rows.close()

    def told(self, name: str, rows: Iterable[_T]) -> Iterator[_T]:
        for row in rows:
            self.seen += 1
            if self.seen % TELL_EVERY == 0:
                self.tell(name, self.seen)
            yield row

    # -- the workspace, its people and channels

    def _workspace(self) -> dict[str, Any]:
        own = self.workspace
        members = own.members.order_by("pk").values_list("user__username", "role")
        caps = Cap.objects.filter(workspace=own).order_by("pk")
        return {
            **{name: getattr(own, name) for name in records.WORKSPACE.plain},
            "members": [{"user": user, "role": role} for user, role in members],
            "caps": list(caps.values("period", "tokens", "money")),
        }

    def _people(self) -> Iterator[dict[str, Any]]:
        rows = self.workspace.people.visible_to(self.reader).order_by("pk")
        for row in self.each(rows.values(*records.PERSON.plain, "user__username")):
            row["user"] = row.pop("user__username")
            if not self.reader.is_operator:
                row["email"] = ""  # no page shows it either
            yield row

    def _channels(self) -> Iterator[dict[str, Any]]:
        for channel in self.channels:
            members = ChannelMember.objects.filter(channel=channel).order_by("pk")
            row = {name: getattr(channel, name) for name in records.CHANNEL.plain}
            row |= {name: strip_channel_labels(row[name]) for name in ("topic", "purpose")}
            row["synced_ts"] = sync_of(channel).synced_ts
            yield row | {"members": list(members.values_list("person__slack_id", flat=True))}

    def _segments(self) -> Iterator[dict[str, Any]]:
        rows = Segment.objects.filter(channel__in=self.ids).order_by("channel_id", "pk")
        for row in self.each(rows.values(*records.SEGMENT.plain, "channel_id")):
            yield {"channel": self.ids[row.pop("channel_id")], **row}

    def _messages(self, channel: int) -> Iterator[dict[str, Any]]:
        joined = {
            "author": "author__slack_id",
            "segment": "segment__number",
            "thread": "thread_segment__thread_ts",
            "thread_segment": "thread_segment__number",
        }
        names = records.MESSAGE.plain
        rows = Message.objects.filter(channel=channel).in_order()
        hidden = set(
            rows.filter(was_private=True)
            .exclude(pk__in=rows.visible_to(self.reader).values("pk"))
            .values_list("ts", flat=True)
        )
        columns = [*names, *joined.values()]
        for values in self.each(rows.values_list(*columns)):
            row = dict(zip([*names, *joined], values, strict=True))
            thread, number = row.pop("thread"), row["thread_segment"]
            row["thread_segment"] = None if number is None else (thread, number)
            if row["ts"] in hidden:  # said before the channel was public: only its place
                row |= SAID_IN_PRIVATE
                self.done.references += 1
            yield row | {name: strip_channel_labels(row[name]) for name in ("text", "raw")}

    def _backfills(self) -> Iterator[dict[str, Any]]:
        """Of each its readable channels. An unfinished one is written as paused: who takes the
        bundle over decides whether to pay for the rest."""
        parts: dict[int, list[BackfillChannel]] = defaultdict(list)
        for part in BackfillChannel.objects.filter(channel__in=self.ids).order_by("pk"):
            parts[part.backfill_id].append(part)
        own = self.workspace.backfills.order_by("pk").select_related("author")
        for backfill in own.filter(pk__in=parts):
            self.backfills[backfill.pk] = len(self.backfills) + 1
            mine = parts[backfill.pk]
            is_whole = backfill.parts.count() == len(mine)
            yield {
                **{name: getattr(backfill, name) for name in records.BACKFILL.plain},
                "channels": [(self.ids[part.channel_id], part.start_us_before) for part in mine],
                "author": backfill.author.get_username() if backfill.author else None,
                "state": "paused" if backfill.state in backfill.UNFINISHED else backfill.state,
                "quote": backfill.quote_with_current_names() if is_whole else {},
            }

    def _notes(self) -> Iterator[dict[str, Any]]:
        """Those in the trash as well, and also while notes are switched off: they are kept, and stay
        so."""
        named = {name: path for name, path in _NAMED.items() if name in records.NOTE.checks}
        names = records.NOTE.plain
        rows = self.workspace.notes.kept_for(self.reader).order_by("pk")
        for some in chunks(self.each(rows.values(*names, "pk", *named.values())), CHUNK):
            versions = self._note_versions([row["pk"] for row in some])
            for row in some:
                row["versions"] = versions[row.pop("pk")]
                yield _renamed(row, named)

    def _note_versions(self, notes: list[int]) -> dict[int, list[dict[str, Any]]]:
        found = NoteVersion.objects.filter(note__in=notes).order_by("note", "number")
        named = {name: path for name, path in _NAMED.items() if name in records.NOTE_VERSION.checks}
        names = records.NOTE_VERSION.plain
        versions: dict[int, list[dict[str, Any]]] = defaultdict(list)
        readable = found.visible_to(self.reader).values("note_id", *names, *named.values())
        for row in readable:
            versions[row.pop("note_id")].append(_renamed(row, named))
        self.done.references += found.count() - sum(map(len, versions.values()))
        return versions


def _renamed(row: dict[str, Any], named: dict[str, str]) -> dict[str, Any]:
    return row | {name: row.pop(path) for name, path in named.items()}
