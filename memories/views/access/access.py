"""Open rows for the signed-in user. Rows that the user may not read raise Http404."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

from django.core.exceptions import PermissionDenied
from django.db.models import Count, Min, OuterRef, Q, QuerySet, Subquery
from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404
from django_htmx.middleware import HtmxDetails

from memories.models import (
    Channel,
    ChannelPreference,
    Member,
    Memory,
    MemoryVersion,
    Note,
    QuarantinedLine,
    Reader,
    SlackConnection,
    User,
    Workspace,
)
from memories.models.access.audience import (
    entered_workspaces,
    member_channels,
    notes_with_trash,
    read_once,
    whole_workspaces,
)
from memories.models.access.kept_sql import fetch, subquery
from memories.models.ingest.channels import ChannelQuerySet
from memories.models.memory.memories import MemoryQuerySet
from memories.models.memory.seen import Seen, unseen_memories
from memories.models.notes.notes import NoteQuerySet
from memories.pipeline.generate.job_control import find_workspace_blocker
from memories.rules.generate.job_status import Blocker
from memories.rules.health import HealthSignals, find_problems
from memories.rules.ingest.timestamps import micros
from memories.views.generate.health import get_signals
from memories.views.memory.seen import (
    NavChannel,
    first_channels,
    preferred_channels,
    recent_channels,
    unmuted_memories,
    unseen_keys,
)

NAV_FOLLOWED = 40  # channels in the navigation
NAV_RECENT = 12  # for a reader who follows none
FEW_CHANNELS = 100  # that a form offers as a list
COUNTED = 100  # memories with news, or lines in quarantine


class UserRequest(HttpRequest):
    """A request with the attribute of django-htmx. Behind `login_required` its user is a `User`."""

    user: User
    htmx: HtmxDetails


@dataclass
class WorkspaceAccess:
    """The workspace of a page, its reader, and their role."""

    workspace: Workspace
    reader: Reader
    reader_zone: ZoneInfo | None = None

    @property
    def zone(self) -> tzinfo:
        """The time zone of times on the page: the reader's own, or the workspace's."""
        return self.reader_zone or self.workspace.memory_settings.zone

    @cached_property
    def role(self) -> str:
        return self.workspace.role_of(self.reader)

    @property
    def can_edit(self) -> bool:
        return self.role in Member.EDITING

    @property
    def may_propose(self) -> bool:
        """Whether the reader may propose corrections. Guests may not."""
        return self.role in Member.READING

    @property
    def can_administer(self) -> bool:
        return self.role == Member.Role.ADMIN

    @cached_property
    def reads_workspace(self) -> bool:
        """Whether the reader may read the workspace's own memory. Guests and narrowed keys may not."""
        return whole_workspaces(self.reader).filter(pk=self.workspace.pk).exists()

    @cached_property
    def is_hidden(self) -> bool:
        """Whether all texts are hidden, because the list of people is stale."""
        if self.workspace.connected_at is None:
            return False
        fresh = Workspace.objects.with_fresh_people(self.reader.now)
        return not fresh.filter(pk=self.workspace.pk).exists()

    @cached_property
    def quarantined_count(self) -> int:
        """The number of waiting lines that the reader may read, exact up to `COUNTED`.

        One query if there are none.
        """
        lines = QuarantinedLine.objects.waiting().filter(memory__workspace=self.workspace)
        if not lines.exists():
            return 0
        return len(fetch(waiting_lines, self.reader, self.workspace.pk, COUNTED + 1))

    @property
    def quarantined_text(self) -> str:
        return format_count(self.quarantined_count)

    @cached_property
    def readable_channels(self) -> ChannelQuerySet:
        """The channels that the reader may read, active ones first, by name."""
        channels = Channel.objects.visible_to(self.reader).filter(workspace=self.workspace)
        return channels.order_by("is_archived", "name", "slack_id")

    def with_workspace(self, channels: Iterable[Channel]) -> list[Channel]:
        """Return channels with their workspace, without a query for it."""
        rows = list(channels)
        for channel in rows:
            channel.workspace = self.workspace
        return rows

    @cached_property
    def channels(self) -> list[Channel]:
        """All channels that the reader may read."""
        return self.with_workspace(self.readable_channels)

    def find_channels(self, slack_ids: Iterable[str]) -> dict[str, Channel]:
        """Return readable channels by Slack id, with their ``sync``. Each id is queried once."""
        ids = {slack_id for slack_id in slack_ids if slack_id}
        if new := ids - self._looked_up.keys():
            channels = self.readable_channels.select_related("sync").filter(slack_id__in=new)
            rows = {row.slack_id: row for row in self.with_workspace(channels)}
            self._looked_up.update(dict.fromkeys(new) | rows)
        pairs = ((slack_id, self._looked_up[slack_id]) for slack_id in ids)
        return {slack_id: channel for slack_id, channel in pairs if channel is not None}

    def channels_by_key(self, keys: Collection[int]) -> dict[int, Channel]:
        """Return readable channels by primary key. Those of `find_channels` are not queried again."""
        channels = {row.pk: row for row in self._looked_up.values() if row and row.pk in keys}
        if new := set(keys) - channels.keys():
            rows = self.with_workspace(self.readable_channels.filter(pk__in=new))
            channels |= {row.pk: row for row in rows}
        return channels

    @cached_property
    def _looked_up(self) -> dict[str, Channel | None]:
        return {}

    @cached_property
    def unmuted_memories(self) -> MemoryQuerySet:
        """The memories that the reader catches up with, without muted channels."""
        return unmuted_memories(self.reader, self.workspace.pk)

    @cached_property
    def preferences(self) -> dict[int, str]:
        """The reader's choices by the primary key of the channel (`ChannelPreference.Choice`)."""
        rows = ChannelPreference.objects.filter(
            user=self.reader.user_id, channel__workspace=self.workspace
        )
        return dict(rows.values_list("channel", "choice"))

    @cached_property
    def unseen(self) -> int:
        """The number of followed memories with news, exact up to `COUNTED`."""
        return len(fetch(unseen_keys, self.reader, self.workspace.pk, COUNTED + 1))

    @cached_property
    def oldest_mark(self) -> datetime | None:
        """The time of the oldest seen mark of a memory that changed later.

        None without such a mark, and if a changed memory has no mark.
        """
        mark = Seen.objects.filter(memory=OuterRef("pk"), user=self.reader.user_id)
        changed = unseen_memories(self.unmuted_memories, self.reader.user_id).order_by()
        marks = changed.annotate(marked_at=Subquery(mark.values("at"))).aggregate(
            at=Min("marked_at"), marked=Count("marked_at"), changed=Count("pk")
        )
        at: datetime | None = marks["at"]
        return at if marks["marked"] == marks["changed"] else None

    @property
    def unseen_text(self) -> str:
        return format_count(self.unseen)

    @cached_property
    def blocker(self) -> Blocker | None:
        """The reason why no memories are made, for the banner. Guests do not see it."""
        return (
            find_workspace_blocker(self.workspace, self.now)
            if self.role in Member.READING
            else None
        )

    @cached_property
    def stopped(self) -> SlackConnection | None:
        """The ended connection to Slack, for the banner. Guests do not see it."""
        if self.role not in Member.READING:
            return None
        connection: SlackConnection | None = getattr(self.workspace, "slack_connection", None)
        return None if connection is None or connection.is_live else connection

    @cached_property
    def health_signals(self) -> HealthSignals:
        """The health signals that the reader may see."""
        return get_signals(
            self.workspace,
            self.reader,
            self.readable_channels,
            self.now,
            is_member=self.role in Member.READING,
            is_blocked=self.blocker is not None,
            is_stopped=self.stopped is not None,
        )

    @property
    def has_problems(self) -> bool:
        """Whether the navigation shows a warning beside the jobs."""
        return bool(find_problems(self.health_signals, self.now))

    @property
    def now(self) -> datetime:
        return self.reader.now

    @cached_property
    def nav(self) -> list[NavChannel]:
        """The channels in the navigation: the followed ones, else those that changed last."""
        choices = [(recent_channels, NAV_RECENT), (first_channels, NAV_RECENT)]
        if ChannelPreference.Choice.FOLLOW in self.preferences.values():
            choices.insert(0, (preferred_channels, NAV_FOLLOWED))
        for channels, limit in choices:
            if rows := fetch(channels, self.reader, self.workspace.pk, limit):
                return [NavChannel(*row) for row in rows]
        return []

    @cached_property
    def has_few_channels(self) -> bool:
        """Whether forms list all channels of the reader. Else they have a text field."""
        return self.readable_channels.order_by()[: FEW_CHANNELS + 1].count() <= FEW_CHANNELS

    @cached_property
    def has_channels(self) -> bool:
        return self.readable_channels.exists()

    def is_member_of(self, channel: Channel) -> bool:
        """Return whether the reader is a member of the channel in Slack. Access grants do not count."""
        members = Reader(self.reader.user_id, now=self.reader.now)
        return member_channels(members).filter(pk=channel.pk).exists()


def waiting_lines(reader: Reader, workspace: int, limit: int) -> QuerySet[QuarantinedLine, Any]:
    """Return the keys of the lines that wait for the reader's decision, for `fetch`."""
    waiting = QuarantinedLine.objects.waiting().filter(memory__workspace=workspace)
    return waiting.visible_to(reader).order_by().values("pk")[:limit]


def format_count(number: int, limit: int = COUNTED) -> str:
    """Return the number as text, with a plus sign above the limit."""
    return f"{limit:,}+" if number > limit else f"{number:,}"


def reader_of(request: UserRequest) -> Reader:
    """Return the user as a reader. A request that changes nothing reads its rights once."""
    reader = Reader.of(request.user)
    return read_once(reader) if request.method in ("GET", "HEAD") else reader


def access_to(
    request: UserRequest, workspace: Workspace, reader: Reader | None = None
) -> WorkspaceAccess:
    return WorkspaceAccess(workspace, reader or reader_of(request), request.user.zone)


def find_only_workspace(request: UserRequest) -> WorkspaceAccess | None:
    """Return the workspace of a user who has exactly one, for pages outside of workspaces."""
    entered = list(entered_workspaces(Reader.of(request.user))[:2])
    return access_to(request, entered[0]) if len(entered) == 1 else None


def open_workspace(request: UserRequest, slug: str) -> WorkspaceAccess:
    entered = Q(pk__in=subquery(entered_workspaces, Reader.of(request.user)))
    workspaces = Workspace.objects.filter(entered).select_related("slack_connection")
    return access_to(request, get_object_or_404(workspaces, slug=slug))


def open_channel(request: UserRequest, slug: str, slack_id: str) -> tuple[WorkspaceAccess, Channel]:
    access = open_workspace(request, slug)
    channel = access.find_channels([slack_id]).get(slack_id)
    if channel is None:
        raise Http404
    return access, channel


def open_memory(request: UserRequest, pk: int) -> tuple[WorkspaceAccess, Memory]:
    reader = reader_of(request)
    memory = get_object_or_404(Memory.objects.visible_to(reader).with_current(), pk=pk)
    return access_to(request, memory.workspace, reader), memory


def open_version(request: UserRequest, pk: int) -> tuple[WorkspaceAccess, MemoryVersion]:
    reader = reader_of(request)
    versions = MemoryVersion.objects.visible_to(reader).select_related(
        "memory__workspace", "memory__channel", "memory__current"
    )
    version = get_object_or_404(versions, pk=pk)
    return access_to(request, version.memory.workspace, reader), version


def open_notes(request: UserRequest, slug: str) -> WorkspaceAccess:
    """Open a workspace for its notes. Raise Http404 while they are switched off."""
    access = open_workspace(request, slug)
    if not access.workspace.memory_settings.notes_enabled:
        raise Http404
    return access


def open_note(request: UserRequest, slug: str, pk: int) -> tuple[WorkspaceAccess, Note]:
    access = open_notes(request, slug)
    notes = Note.objects.visible_to(access.reader).filter(workspace=access.workspace)
    return access, get_object_or_404(_with_people(notes), pk=pk)


def open_note_or_trashed(request: UserRequest, slug: str, pk: int) -> tuple[WorkspaceAccess, Note]:
    """Open a note, for editors also one in the trash."""
    access = open_notes(request, slug)
    notes = notes_with_trash(access.reader).filter(workspace=access.workspace)
    note = get_object_or_404(_with_people(notes), pk=pk)
    if note.deleted_at is not None and not access.can_edit:
        raise Http404
    return access, note


def _with_people(notes: NoteQuerySet) -> NoteQuerySet:
    return notes.select_related("workspace", "channel", "author", "written_by", "deleted_by")


def number_or_none(given: str) -> int | None:
    """Return the number in a text from a request, or None if no column can hold it."""
    is_number = given.isascii() and given.isdigit() and len(given) < 20
    return int(given) if is_number and int(given) < 2**63 else None


def number_in(request: HttpRequest, name: str) -> int:
    """Return a number from a form, or 0."""
    return number_or_none(request.POST.get(name, "")) or 0


def numbers_in(request: HttpRequest, *names: str) -> list[int | None]:
    """Return numbers from a form, None for missing ones."""
    return [number_or_none(request.POST.get(name, "")) for name in names]


def moment_or_404(ts: str) -> int:
    """Return the microseconds of a Slack ts in a URL."""
    try:
        return micros(ts)
    except ValueError as error:
        raise Http404 from error


def must_edit(access: WorkspaceAccess) -> None:
    if not access.can_edit:
        raise PermissionDenied


def must_administer(access: WorkspaceAccess) -> None:
    if not access.can_administer:
        raise PermissionDenied


def must_operate(request: UserRequest) -> None:
    if not request.user.is_operator:
        raise PermissionDenied
