"""Import of a workspace's people, channels, messages and notes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db import DataError, IntegrityError, models
from django.utils import timezone

from memories.models import (
    Backfill,
    BackfillChannel,
    Budget,
    Channel,
    ChannelMember,
    ChannelSync,
    Member,
    Message,
    Note,
    NoteVersion,
    Person,
    Segment,
    User,
    Workspace,
)
from memories.models.access.users import find_by_username
from memories.pipeline.transfer.archive import MANIFEST, ArchiveError
from memories.pipeline.transfer.export import schemas
from memories.pipeline.transfer.export.files import PROGRESS_ROWS, ExportReader, Progress
from memories.rules.batches import in_batches
from memories.rules.ingest.timestamps import micros
from memories.rules.settings import InvalidSetting, parse_settings
from memories.rules.transfer import export_format
from memories.rules.transfer.schema import Schema, SchemaError, parse_json

CHUNK = 1000  # rows in memory at a time
_T = TypeVar("_T")
_Model = TypeVar("_Model", bound=models.Model)


@dataclass
class ImportReport:
    """The new workspace, and how many rows of each kind it has."""

    workspace: Workspace
    counts: Counter[str] = field(default_factory=Counter)
    accounts_known: int = 0  # accounts of this installation with the same name
    accounts_made: int = 0  # new inactive accounts without a password
    left_out: dict[str, int] = field(default_factory=dict)  # by the export


def create_with_times(rows: list[_Model], *names: str) -> list[_Model]:
    """Create rows and keep these times, which the fields set to now on creation."""
    times = [[getattr(row, name) for name in names] for row in rows]
    if rows:
        manager = type(rows[0])._default_manager
        manager.bulk_create(rows)
        for row, values in zip(rows, times, strict=True):
            for name, value in zip(names, values, strict=True):
                setattr(row, name, value)
        manager.bulk_update(rows, names, batch_size=100)
    return rows


class Importer:
    """Creates the rows of an exported workspace and finds them by their keys in the export."""

    def __init__(self, reader: ExportReader, slug: str | None, on_progress: Progress) -> None:
        self.reader, self.on_progress = reader, on_progress
        self.unread_files = dict.fromkeys(reader.files)
        self.row_count = 0
        self.accounts: dict[str, User] = {}
        self.people: dict[str, int] = {}
        self.channels: dict[str, Channel] = {}
        self.segments: dict[tuple[str, str, int], int] = {}
        self.backfills: list[Backfill] = []
        self.workspace = self._create_workspace(slug)
        self.report = ImportReport(self.workspace, left_out=reader.manifest["left_out"])

    def read(self) -> None:
        self._create_members()
        self._create_people()
        self._create_channels()
        self._create_segments()
        for slack_id, channel in self.channels.items():
            self._create_messages(slack_id, channel)
        self._create_backfills()
        self._create_notes()

    def finish(self) -> None:
        """Check that every file was read and that the counts are those of the manifest."""
        for name in self.unread_files:
            raise ArchiveError(f"{name}: does not belong to this export.")
        counts = {kind: count for kind, count in self.reader.manifest["counts"].items() if count}
        if dict(self.report.counts) != counts:
            raise ArchiveError(f"{MANIFEST}: counts: differ from the files.")

    # Files

    @contextmanager
    def file(self, name: str) -> Iterator[None]:
        """Mark the file as read. Errors inside name the file."""
        if name not in self.unread_files:
            raise ArchiveError(f"{name}: is missing.")
        del self.unread_files[name]
        try:
            yield
        except SchemaError as error:
            raise ArchiveError(f"{name}: {error}.") from error
        except (IntegrityError, DataError) as error:
            raise ArchiveError(
                f"{name}: two of its rows are equal or contradict each other."
            ) from error

    def import_rows(
        self,
        kind: str,
        name: str,
        schema: Schema,
        make: Callable[[dict[str, Any]], _T],
        save: Callable[[list[_T]], object],
    ) -> None:
        """Make a value of each line of a file and save the values, some at a time.

        An error of ``make`` names the line.
        """

        def make_each() -> Iterator[_T]:
            for line, row in self.reader.objects(name, schema):
                try:
                    made = make(row)
                except SchemaError as error:
                    raise ArchiveError(f"{name}, line {line}: {error}.") from error
                self.count(kind, name)
                yield made

        with self.file(name):
            for chunk in in_batches(make_each(), CHUNK):
                save(chunk)

    def count(self, kind: str, name: str) -> None:
        self.report.counts[kind] += 1
        self.row_count += 1
        if self.row_count % PROGRESS_ROWS == 0:
            self.on_progress(name, self.row_count)

    # References

    def account(self, username: str) -> User:
        """Return the account of that name. Create it inactive and without a password if missing."""
        if username not in self.accounts:
            user = find_by_username(username)
            if user is None:
                user = User(username=username, is_active=False)
                user.set_unusable_password()
                user.save()
                self.report.accounts_made += 1
            else:
                self.report.accounts_known += 1
            self.accounts[username] = user
        return self.accounts[username]

    def find_account(self, username: str | None) -> User | None:
        return None if username is None else self.account(username)

    def channel(self, slack_id: str) -> Channel:
        if slack_id not in self.channels:
            raise SchemaError(f"there is no channel {slack_id}")
        return self.channels[slack_id]

    def find_channel(self, slack_id: str | None) -> Channel | None:
        return self.channel(slack_id) if slack_id else None

    def person_id(self, slack_id: str | None) -> int | None:
        if slack_id is not None and slack_id not in self.people:
            raise SchemaError(f"there is no person {slack_id}")
        return None if slack_id is None else self.people[slack_id]

    def segment_id(self, key: tuple[str, str, int] | None) -> int | None:
        if key is not None and key not in self.segments:
            raise SchemaError(f"there is no segment {' '.join(map(str, key))}")
        return None if key is None else self.segments[key]

    def message_ids(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return row ids by (channel, ts). Raises `SchemaError` if a message is missing."""
        ids: dict[tuple[str, str], int] = {}
        by_channel: dict[str, dict[str, None]] = {}
        for slack_id, ts in keys:
            by_channel.setdefault(slack_id, {})[ts] = None
        for slack_id, all_ts in by_channel.items():
            rows = Message.objects.filter(channel=self.channel(slack_id))
            for chunk in in_batches(all_ts):
                pairs = rows.filter(ts__in=chunk).values_list("ts", "pk")
                ids |= {(slack_id, ts): pk for ts, pk in pairs}
            for ts in all_ts:
                if (slack_id, ts) not in ids:
                    raise SchemaError(f"there is no message {slack_id} {ts}")
        return ids

    # Rows

    def _create_workspace(self, slug: str | None) -> Workspace:
        with self.file(export_format.WORKSPACE):
            text = self.reader.text(export_format.WORKSPACE)
            row = schemas.WORKSPACE(parse_json(text))
            try:
                parse_settings(row["settings"])
            except InvalidSetting as error:
                raise SchemaError(f"settings: {error}") from error
            row["slug"] = slug = slug or row["slug"]
            self.members, self.budgets = row.pop("members"), row.pop("budgets")
            if Workspace.objects.filter(slug=slug).exists():
                raise ArchiveError(
                    f"There is already a workspace {slug}. --workspace imports under another slug."
                )
            team = row["team_id"]
            if team and (connected := Workspace.objects.filter(team_id=team).first()):
                raise ArchiveError(
                    f"Workspace {connected.slug} already belongs to this Slack team."
                )
            [workspace] = create_with_times([Workspace(**row)], "created_at")
            return workspace

    def _create_members(self) -> None:
        workspace = self.workspace
        try:
            Budget.objects.bulk_create(
                Budget(workspace=workspace, **budget) for budget in self.budgets
            )
            for member in self.members:
                user = self.account(member["user"])
                Member.objects.create(workspace=workspace, user=user, role=member["role"])
        except IntegrityError as error:
            raise ArchiveError(
                f"{export_format.WORKSPACE}: contains a member or a budget twice."
            ) from error

    def _create_people(self) -> None:
        # An account of the same name proves nothing: it does not open private channels.
        now = timezone.now()

        def make(row: dict[str, Any]) -> Person:
            user = self.find_account(row["user"])
            link = {"user": user, "link_valid_until": now if user else None}
            return Person(workspace=self.workspace, **row | link)

        def save(people: list[Person]) -> None:
            for person in Person.objects.bulk_create(people):
                self.people[person.slack_id] = person.pk

        self.import_rows("people", export_format.PEOPLE, schemas.PERSON, make, save)

    def _create_channels(self) -> None:
        def make(row: dict[str, Any]) -> tuple[Channel, list[Any], str]:
            people = [self.person_id(slack_id) for slack_id in row.pop("members")]
            synced_ts = row.pop("synced_ts")
            return Channel(workspace=self.workspace, **row), people, synced_ts

        def save(chunk: list[tuple[Channel, list[Any], str]]) -> None:
            for channel in Channel.objects.bulk_create(channel for channel, *_ in chunk):
                self.channels[channel.slack_id] = channel
            ChannelSync.objects.bulk_create(
                ChannelSync(channel=channel, synced_ts=synced_ts)
                for channel, _, synced_ts in chunk
                if synced_ts
            )
            for channel, people, _ in chunk:
                ChannelMember.objects.bulk_create(
                    ChannelMember(channel=channel, person_id=person) for person in people
                )

        self.import_rows("channels", export_format.CHANNELS, schemas.CHANNEL, make, save)

    def _create_segments(self) -> None:
        def make(row: dict[str, Any]) -> Segment:
            return Segment(**row | {"channel": self.channel(row["channel"])})

        def save(segments: list[Segment]) -> None:
            for segment in Segment.objects.bulk_create(segments):
                key = segment.channel.slack_id, segment.thread_ts, segment.number
                self.segments[key] = segment.pk

        self.import_rows("segments", export_format.SEGMENTS, schemas.SEGMENT, make, save)

    def _create_messages(self, slack_id: str, channel: Channel) -> None:
        def make(row: dict[str, Any]) -> Message:
            segment, thread = row.pop("segment"), row.pop("thread_segment")
            return Message(
                channel=channel,
                micros=micros(row["ts"]),
                author_id=self.person_id(row.pop("author")),
                segment_id=self.segment_id(None if segment is None else (slack_id, "", segment)),
                thread_segment_id=self.segment_id((slack_id, *thread) if thread else None),
                **row,
            )

        path = export_format.messages_path(slack_id)
        self.import_rows("messages", path, schemas.MESSAGE, make, Message.objects.insert)

    def _create_backfills(self) -> None:
        def make(row: dict[str, Any]) -> Backfill:
            parts = [(self.channel(slack_id), start) for slack_id, start in row.pop("channels")]
            row["author"] = self.find_account(row["author"])
            [backfill] = create_with_times(
                [Backfill(workspace=self.workspace, **row)], "created_at"
            )
            BackfillChannel.objects.bulk_create(
                BackfillChannel(backfill=backfill, channel=channel, start_us_before=start)
                for channel, start in parts
            )
            return backfill

        path = export_format.BACKFILLS
        self.import_rows("backfills", path, schemas.BACKFILL, make, self.backfills.extend)

    def _create_notes(self) -> None:
        def make(row: dict[str, Any]) -> tuple[Note, list[NoteVersion]]:
            versions = [self._note_version(each, row["number"]) for each in row.pop("versions")]
            row["channel"] = self.find_channel(row["channel"])
            if source := row.pop("source"):
                row["source_id"] = self.message_ids([source])[source]
            for name in ("author", "deleted_by", "written_by"):
                row[name] = self.find_account(row[name])
            return Note(workspace=self.workspace, **row), versions

        def save(chunk: list[tuple[Note, list[NoteVersion]]]) -> None:
            create_with_times([note for note, _ in chunk], "created_at", "updated_at")
            for note, versions in chunk:
                for version in versions:
                    version.note = note
            NoteVersion.objects.bulk_create(v for _, versions in chunk for v in versions)

        self.import_rows("notes", export_format.NOTES, schemas.NOTE, make, save)

    def _note_version(self, row: dict[str, Any], newest: int) -> NoteVersion:
        if row["number"] >= newest:
            raise SchemaError(f"versions: {row['number']} is not before {newest}")
        row["channel"] = self.find_channel(row["channel"])
        row["written_by"] = self.find_account(row["written_by"])
        return NoteVersion(**row)
