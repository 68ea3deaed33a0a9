"""The first half of a bundle: the workspace, its people and channels, and what was said there."""

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
    Cap,
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
from memories.pipeline.transfer.archive import MANIFEST, ArchiveError
from memories.pipeline.transfer.export import records
from memories.pipeline.transfer.export.archive import BundleReader, Tell, chunks
from memories.rules.ingest.timestamps import micros
from memories.rules.settings import InvalidSetting, parse_settings
from memories.rules.transfer import export as rules
from memories.rules.transfer import export_text
from memories.rules.transfer.schema import Schema, SchemaError

CHUNK = 1000  # rows held at a time
_T = TypeVar("_T")
_Model = TypeVar("_Model", bound=models.Model)


@dataclass
class Imported:
    """The new workspace, and how many rows of each kind it was made from."""

    workspace: Workspace
    counts: Counter[str] = field(default_factory=Counter)
    accounts_known: int = 0  # of this installation, taken to be the same people
    accounts_made: int = 0  # inactive, without a password: only names
    left_out: dict[str, int] = field(default_factory=dict)  # by the export


def timed(rows: list[_Model], *names: str) -> list[_Model]:
    """Add rows whose moments their fields would set to now."""
    if not rows:
        return rows
    moments = [[getattr(row, name) for name in names] for row in rows]
    manager = type(rows[0])._default_manager
    manager.bulk_create(rows)
    for row, values in zip(rows, moments, strict=True):
        for name, value in zip(names, values, strict=True):
            setattr(row, name, value)
    manager.bulk_update(rows, names, batch_size=100)
    return rows


class Taken:
    """What was taken in so far, by the names that the bundle has for it."""

    def __init__(self, bundle: BundleReader, slug: str | None, tell: Tell) -> None:
        self.bundle, self.tell = bundle, tell
        self.left = dict.fromkeys(bundle.files)  # not read yet
        self.seen = 0
        self.accounts: dict[str, User] = {}
        self.people: dict[str, int] = {}
        self.channels: dict[str, Channel] = {}
        self.segments: dict[tuple[str, str, int], int] = {}
        self.backfills: list[Backfill] = []
        self.done = Imported(self._workspace(slug), left_out=bundle.manifest["left_out"])

    # -- files

    @contextmanager
    def file(self, name: str) -> Iterator[None]:
        """Whatever is wrong in here is wrong with this file, which is read once."""
        if name not in self.left:
            raise ArchiveError(f"{name}: is missing.")
        del self.left[name]
        try:
            yield
        except SchemaError as error:
            raise ArchiveError(f"{name}: {error}.") from error
        except (IntegrityError, DataError) as error:
            raise ArchiveError(f"{name}: two of its rows are the same, or contradict.") from error

    def text(self, name: str) -> str:
        return self.bundle.text(name)

    def rows(
        self, what: str, name: str, shape: Schema, make: Callable[[dict[str, Any]], _T]
    ) -> Iterator[list[_T]]:
        """Chunks of what is made of each line; an error of ``make`` is told with its line."""

        def each() -> Iterator[_T]:
            for line, row in self.bundle.objects(name, shape):
                try:
                    made = make(row)
                except SchemaError as error:
                    raise ArchiveError(f"{name}, line {line}: {error}.") from error
                self.count(what, name)
                yield made

        yield from chunks(each(), CHUNK)

    def count(self, what: str, name: str) -> None:
        self.done.counts[what] += 1
        self.seen += 1
        if self.seen % 500 == 0:
            self.tell(name, self.seen)

    def finish(self) -> None:
        for name in self.left:
            raise ArchiveError(f"{name}: belongs to nothing in this bundle.")
        if dict(self.done.counts) != {k: n for k, n in self._promised().items() if n}:
            raise ArchiveError(f"{MANIFEST}: counts: are not what the files hold.")

    def _promised(self) -> dict[str, Any]:
        promised: dict[str, Any] = self.bundle.manifest["counts"]
        return promised

    # -- references

    def account(self, username: str | None) -> User | None:
        """The account of that name; one that nobody can sign in with where there is none."""
        if username is None:
            return None
        if username not in self.accounts:
            user = User.objects.filter(username=username).first()
            if user is None:
                user = User(username=username, is_active=False)
                user.set_unusable_password()
                user.save()
                self.done.accounts_made += 1
            else:
                self.done.accounts_known += 1
            self.accounts[username] = user
        return self.accounts[username]

    def channel(self, slack_id: str) -> Channel:
        if slack_id not in self.channels:
            raise SchemaError(f"there is no channel {slack_id}")
        return self.channels[slack_id]

    def person(self, slack_id: str | None) -> int | None:
        if slack_id is not None and slack_id not in self.people:
            raise SchemaError(f"there is no person {slack_id}")
        return None if slack_id is None else self.people[slack_id]

    def segment(self, key: tuple[str, str, int] | None) -> int | None:
        if key is not None and key not in self.segments:
            raise SchemaError(f"there is no segment {' '.join(map(str, key))}")
        return None if key is None else self.segments[key]

    def messages(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Row ids of messages by (channel, ts); all of them must be there."""
        found: dict[tuple[str, str], int] = {}
        wanted: dict[str, dict[str, None]] = {}
        for slack_id, ts in keys:
            wanted.setdefault(slack_id, {})[ts] = None
        for slack_id, of_channel in wanted.items():
            rows = Message.objects.filter(channel=self.channel(slack_id))
            for some in chunks(of_channel, 500):
                pairs = rows.filter(ts__in=some).values_list("ts", "pk")
                found |= {(slack_id, ts): pk for ts, pk in pairs}
            for ts in of_channel:
                if (slack_id, ts) not in found:
                    raise SchemaError(f"there is no message {slack_id} {ts}")
        return found

    # -- the workspace and what was said in it

    def _workspace(self, slug: str | None) -> Workspace:
        with self.file(rules.WORKSPACE):
            self.own = records.WORKSPACE(export_text.from_json(self.text(rules.WORKSPACE)))
            try:
                parse_settings(self.own["settings"])
            except InvalidSetting as error:
                raise SchemaError(f"settings: {error}") from error
            slug = slug or self.own["slug"]
            if Workspace.objects.filter(slug=slug).exists():
                raise ArchiveError(
                    f"There is a workspace {slug} already; --workspace takes it in under another"
                    " name."
                )
            team = self.own["team_id"]
            if team and (other := Workspace.objects.filter(team_id=team).first()):
                raise ArchiveError(f"Workspace {other.slug} already is that of this Slack team.")
            own = {k: v for k, v in self.own.items() if k not in ("members", "caps", "slug")}
            [workspace] = timed([Workspace(slug=slug, **own)], "created_at")
            return workspace

    def read(self) -> None:
        self._members()
        self._people()
        self._channels()
        self._segments()
        for slack_id, channel in self.channels.items():
            self._messages(slack_id, channel)
        self._backfills()
        self._notes()

    def _members(self) -> None:
        workspace = self.done.workspace
        try:
            Cap.objects.bulk_create(Cap(workspace=workspace, **cap) for cap in self.own["caps"])
            for member in self.own["members"]:
                row = {"user": self.account(member["user"]), "role": member["role"]}
                Member.objects.create(workspace=workspace, **row)
        except IntegrityError as error:
            raise ArchiveError(f"{rules.WORKSPACE}: has a member or a cap twice.") from error

    def _people(self) -> None:
        now = (
            timezone.now()
        )  # an account of the same name proves nothing: it opens no private channel

        def make(row: dict[str, Any]) -> Person:
            user = self.account(row["user"])
            link = {"user": user, "opens_until": now if user else None}
            return Person(workspace=self.done.workspace, **row | link)

        with self.file(rules.PEOPLE):
            for some in self.rows("people", rules.PEOPLE, records.PERSON, make):
                for person in Person.objects.bulk_create(some):
                    self.people[person.slack_id] = person.pk

    def _channels(self) -> None:
        def make(row: dict[str, Any]) -> tuple[Channel, list[Any], str]:
            people = [self.person(slack_id) for slack_id in row.pop("members")]
            synced_ts = row.pop("synced_ts")
            return Channel(workspace=self.done.workspace, **row), people, synced_ts

        with self.file(rules.CHANNELS):
            for some in self.rows("channels", rules.CHANNELS, records.CHANNEL, make):
                for channel in Channel.objects.bulk_create(channel for channel, *_ in some):
                    self.channels[channel.slack_id] = channel
                ChannelSync.objects.bulk_create(
                    ChannelSync(channel=channel, synced_ts=synced_ts)
                    for channel, _, synced_ts in some
                    if synced_ts
                )
                for channel, people, _ in some:
                    ChannelMember.objects.bulk_create(
                        ChannelMember(channel=channel, person_id=person) for person in people
                    )

    def _segments(self) -> None:
        def make(row: dict[str, Any]) -> Segment:
            return Segment(**row | {"channel": self.channel(row["channel"])})

        with self.file(rules.SEGMENTS):
            for some in self.rows("segments", rules.SEGMENTS, records.SEGMENT, make):
                for one in Segment.objects.bulk_create(some):
                    self.segments[one.channel.slack_id, one.thread_ts, one.number] = one.pk

    def _messages(self, slack_id: str, channel: Channel) -> None:
        def make(row: dict[str, Any]) -> Message:
            segment, thread = row.pop("segment"), row.pop("thread_segment")
            return Message(
                channel=channel,
                micros=micros(row["ts"]),
                author_id=self.person(row.pop("author")),
                segment_id=self.segment(None if segment is None else (slack_id, "", segment)),
                thread_segment_id=self.segment((slack_id, *thread) if thread else None),
                **row,
            )

        name = rules.messages_file(slack_id)
        with self.file(name):
            for some in self.rows("messages", name, records.MESSAGE, make):
                Message.objects.insert(some)

    def _backfills(self) -> None:
        def make(row: dict[str, Any]) -> Backfill:
            parts = [(self.channel(slack_id), start) for slack_id, start in row.pop("channels")]
            author = self.account(row.pop("author"))
            [made] = timed(
                [Backfill(workspace=self.done.workspace, author=author, **row)], "created_at"
            )
            BackfillChannel.objects.bulk_create(
                BackfillChannel(backfill=made, channel=channel, start_us_before=start)
                for channel, start in parts
            )
            return made

        with self.file(rules.BACKFILLS):
            for some in self.rows("backfills", rules.BACKFILLS, records.BACKFILL, make):
                self.backfills += some

    def _notes(self) -> None:
        def make(row: dict[str, Any]) -> tuple[Note, list[NoteVersion]]:
            versions = [self._note_version(each, row["number"]) for each in row.pop("versions")]
            names = ("author", "deleted_by", "worded_by")
            accounts = {name: self.account(row[name]) for name in names}
            channel = self._channel_or_none(row["channel"])
            own = {"workspace": self.done.workspace, "channel": channel}
            return Note(**row | accounts | own), versions

        with self.file(rules.NOTES):
            for some in self.rows("notes", rules.NOTES, records.NOTE, make):
                timed([note for note, _ in some], "created_at", "updated_at")
                for note, versions in some:
                    for version in versions:
                        version.note = note
                NoteVersion.objects.bulk_create(version for _, many in some for version in many)

    def _note_version(self, row: dict[str, Any], newest: int) -> NoteVersion:
        if row["number"] >= newest:
            raise SchemaError(f"versions: {row['number']} is not before {newest}")
        channel = self._channel_or_none(row["channel"])
        return NoteVersion(
            **row | {"channel": channel, "written_by": self.account(row["written_by"])}
        )

    def _channel_or_none(self, slack_id: str | None) -> Channel | None:
        return self.channel(slack_id) if slack_id else None
