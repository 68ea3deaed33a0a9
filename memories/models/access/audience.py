"""Audience: which rows a reader may read (docs/rules.md, readers).

`is_readable` is the only decision. Every `visible_to` filters by it.
"""

from django.db.models import Exists, OuterRef, Q

from memories.models.access.access_grants import AccessGrant
from memories.models.access.audit import AuditEvent
from memories.models.access.kept_sql import prefetch_keys, subquery
from memories.models.access.readers import RULES, Reader
from memories.models.access.workspaces import Member, Workspace, WorkspaceQuerySet
from memories.models.costs.model_calls import ModelCall
from memories.models.generate.backfills import Backfill, BackfillChannel
from memories.models.generate.jobs import Job
from memories.models.generate.segments import Segment
from memories.models.ingest.channels import Channel, ChannelMember, ChannelQuerySet
from memories.models.ingest.messages import Message
from memories.models.ingest.people import Person, PersonQuerySet
from memories.models.memory.lines import Audience
from memories.models.memory.memories import Memory
from memories.models.memory.proposals import Proposal
from memories.models.memory.versions import MemoryVersion
from memories.models.notes.note_versions import NoteVersion
from memories.models.notes.notes import Note, NoteQuerySet
from memories.models.safety.quarantine import QuarantinedLine
from memories.models.sync.connections import SlackConnection
from memories.rules.memory.identity import MemoryScope

_EVERY_ROW = Q()


def people_of(reader: Reader) -> PersonQuerySet:
    """Return the reader's person, or those linked to the account. None is deactivated in Slack."""
    if reader.person_id is not None:
        return Person.objects.filter(pk=reader.person_id, is_deleted=False, is_bot=False)
    if reader.user_id is None:
        return Person.objects.none()
    return Person.objects.filter(user=reader.user_id, is_deleted=False)


# Workspaces


def entered_workspaces(reader: Reader) -> WorkspaceQuerySet:
    """Return the workspaces that the reader may open. A guest enters for single channels."""
    if reader.reads_all_public:
        return Workspace.objects.all()
    if reader.user_id is None:
        return Workspace.objects.filter(pk__in=people_of(reader).values("workspace"))
    members = Member.objects.filter(user=reader.user_id).values("workspace")
    left = Person.objects.filter(user=reader.user_id, is_deleted=True).values("workspace")
    return Workspace.objects.filter(
        Q(pk__in=people_of(reader).values("workspace")) | (Q(pk__in=members) & ~Q(pk__in=left))
    )


def readable_workspaces(reader: Reader) -> WorkspaceQuerySet:
    """Return the workspaces whose public channels the reader may read now."""
    return Workspace.objects.visible_to(reader).with_fresh_people(reader.now)


def _is_member(reader: Reader) -> Q:
    """Match workspaces in which the reader has more than the role of a guest.

    Slack and `Member` may disagree about an account. The stricter of the two roles counts.
    """
    if reader.reads_all_public:
        return _EVERY_ROW
    if reader.user_id is None:
        return Q(pk__in=people_of(reader).full_members().values("workspace"))
    people = Person.objects.filter(user=reader.user_id)
    full = people_of(reader).full_members()
    restricted = people.restricted() | people.filter(is_deleted=True)
    members = Member.objects.filter(user=reader.user_id)
    reading = members.filter(role__in=Member.READING)
    guests = members.filter(role=Member.Role.GUEST)
    return (
        Q(pk__in=full.values("workspace"))
        | (Q(pk__in=reading.values("workspace")) & ~Q(pk__in=restricted.values("workspace")))
    ) & ~Q(pk__in=guests.values("workspace"))


def whole_workspaces(reader: Reader) -> WorkspaceQuerySet:
    """Return the workspaces whose own memories and notes the reader may read."""
    return Workspace.objects.none() if reader.is_narrowed else readable_workspaces(reader)


# Channels


def member_channels(reader: Reader) -> ChannelQuerySet:
    """Return the channels that the reader is in, or has an access grant for.

    A list of members counts if it is known and, in a connected workspace, fresh. The readers of a
    private channel are its members.
    """
    if reader.channel_id is not None:
        is_in = Q(pk=reader.channel_id) & ~Q(kind=Channel.Kind.PUBLIC)
    elif reader.user_id is None and reader.person_id is None:
        return Channel.objects.none()
    else:
        people = people_of(reader)
        if reader.person_id is None:
            people = people.with_open_link(reader.now)
        joined = ChannelMember.objects.filter(person__in=people)
        is_in = Q(pk__in=joined.values("channel"))
    is_member = is_in & Q(
        Q(workspace__connected_at__isnull=True) | Q(members_known_at__gte=reader.memberships_since),
        members_known_at__isnull=False,
        workspace__in=Workspace.objects.with_fresh_people(reader.now).values("pk"),
    )
    if reader.is_operator:
        is_member |= Q(pk__in=AccessGrant.objects.active_for(reader).values("channel"))
    return Channel.objects.filter(is_member).filter(_is_in_key(reader))


def _is_public(reader: Reader) -> Q:
    workspaces = subquery(readable_workspaces, reader)
    return Q(kind=Channel.Kind.PUBLIC, workspace__in=workspaces) & _is_in_key(reader)


def _is_in_key(reader: Reader) -> Q:
    """Match the channels that an API key names, or the reader's own, if it is limited to these."""
    if not reader.is_narrowed:
        return _EVERY_ROW
    if reader.channel_id is not None:
        return Q(pk=reader.channel_id)
    named = Channel.api_keys.through.objects.filter(apikey=reader.key_id)
    return Q(pk__in=named.values("channel"))


def _channel(reader: Reader) -> Q:
    return _is_public(reader) | _in_member_channel(reader, "pk")


def _in_member_channel(reader: Reader, channel: str) -> Q:
    return Q(**{f"{channel}__in": subquery(member_channels, reader)})


def _in_public_channel(reader: Reader, channel: str) -> Exists:
    # Correlated: a list grows with the channels, and with a join SQLite begins with the channels.
    return Exists(Channel.objects.filter(_is_public(reader), pk=OuterRef(channel)))


def _is_whole_workspace(reader: Reader, workspace: str = "workspace") -> Q:
    workspaces = () if reader.is_narrowed else subquery(readable_workspaces, reader)
    return Q(**{f"{workspace}__in": workspaces})


def read_once(reader: Reader) -> Reader:
    """Return the reader for one request that changes no rights: with the keys of what they may read.

    The queries of the request are short then, and the database plans them in less time.
    """
    return prefetch_keys(reader, readable_workspaces, member_channels)


# Texts


def _text(reader: Reader, channel: str, *, is_private: Q | Exists) -> Q:
    """Match texts in a channel. Those from its private days are for its members only."""
    in_public_channel = Q(_in_public_channel(reader, channel))
    return _in_member_channel(reader, channel) | in_public_channel & Q(~is_private)


def _message(reader: Reader) -> Q:
    return _text(reader, "channel", is_private=Q(was_private=True))


def _segment(reader: Reader) -> Q:
    segment = Segment.objects.filter(pk=OuterRef("pk"))
    is_private = Exists(segment.filter(messages__was_private=True)) | Exists(
        segment.filter(thread_messages__was_private=True)
    )
    return _text(reader, "channel", is_private=is_private)


def note_words(reader: Reader, workspace: str) -> Q:
    """Match wordings of notes, also of notes in the trash. ``workspace`` names their workspace."""
    in_channel = _text(reader, "channel", is_private=Q(was_private=True))
    return in_channel | Q(channel__isnull=True) & _is_whole_workspace(reader, workspace)


def notes_with_trash(reader: Reader) -> NoteQuerySet:
    """Return readable notes, also those in the trash, for its pages and for exports."""
    return Note.objects.filter(note_words(reader, "workspace"))


def _note(reader: Reader) -> Q:
    return note_words(reader, "workspace") & Q(deleted_at__isnull=True)


def _note_version(reader: Reader) -> Q:
    """Match wordings whose note, and whose channel at that time, the reader may read."""
    notes = notes_with_trash(reader).values("pk")
    return note_words(reader, "note__workspace") & Q(note__in=notes)


def _memory(reader: Reader) -> Q:
    """Match memories of which the reader may read all sources."""
    return (
        _in_member_channel(reader, "channel")
        | _in_public_channel(reader, "channel")
        | Q(channel__isnull=True) & _is_whole_workspace(reader)
    )


def _memory_is_readable(reader: Reader) -> Exists:
    # Correlated: with a list of memories a database reads all their rows and sorts them.
    return Exists(Memory.objects.visible_to(reader).filter(pk=OuterRef("memory")))


def _version(reader: Reader) -> Q:
    """Match versions by `Audience`: for readers of the memory, or for members of the channel."""
    return Q(_memory_is_readable(reader), audience=Audience.SCOPE) | (
        Q(audience=Audience.MEMBERS) & _in_member_channel(reader, "memory__channel")
    )


def _proposal(reader: Reader) -> Q:
    """Match proposals whose memory, and the version that the author saw, the reader may read."""
    version = MemoryVersion.objects.visible_to(reader).filter(pk=OuterRef("version"))
    return Q(_memory_is_readable(reader)) & Q(Exists(version))


def _job(reader: Reader) -> Q:
    """Match jobs of readable memories. Jobs that rest on private words are for members only."""
    in_member_channel = _in_member_channel(reader, "memory__channel")
    return in_member_channel | Q(_memory_is_readable(reader)) & ~_job_rests_on_private()


def _job_rests_on_private() -> Q:
    """Match jobs about private days, or about channels that left the workspace's memory."""
    private = Message.objects.filter(was_private=True)
    in_channel = private.filter(channel=OuterRef("memory__channel"))
    # Two subqueries, each with an index: SQLite reads a whole channel for their disjunction.
    in_segment = private.filter(segment=OuterRef("segment"))
    in_thread = in_channel.filter(~Q(thread_ts=""), thread_ts=OuterRef("memory__thread_ts"))
    inputs = MemoryVersion.objects.filter(read_by__job=OuterRef("pk"))
    made = MemoryVersion.objects.filter(job=OuterRef("pk"))
    base = MemoryVersion.objects.filter(pk=OuterRef("base"))
    not_flowing = inputs.filter(memory__channel__isnull=False).exclude(
        memory__channel__in=Channel.objects.feeding_workspace_memory().values("pk")
    )
    return (
        Q(Exists(in_segment))
        | Exists(in_thread)
        | Exists(inputs.exclude(audience=Audience.SCOPE))
        | Exists(made.exclude(audience=Audience.SCOPE))
        | Exists(base.exclude(audience=Audience.SCOPE))
        | Q(provisional=True) & Exists(in_channel)
        | Q(memory__scope=MemoryScope.WORKSPACE) & Exists(not_flowing)
    )


def _quarantined_line(reader: Reader) -> Q:
    """Match lines of readable memories whose sources and job the reader may read too.

    Nobody may read lines of the workspace that rest on a channel which does not feed it any more.
    """
    # Correlated: a list of all readable messages or jobs grows with their number.
    message = Message.objects.visible_to(reader).filter(pk=OuterRef("message"))
    is_withdrawn = Q(quarantinedline__memory__scope=MemoryScope.WORKSPACE) & ~Q(
        message__channel__in=Channel.objects.feeding_workspace_memory()
    )
    hidden_sources = QuarantinedLine.sources.through.objects.filter(
        ~Exists(message) | is_withdrawn, quarantinedline=OuterRef("pk")
    )
    job = Job.objects.visible_to(reader).filter(pk=OuterRef("job"))
    return (
        ~Exists(hidden_sources)
        & (Q(job__isnull=True) | Exists(job))
        & Q(_memory_is_readable(reader))
    )


# Operation


def _person(reader: Reader) -> Q:
    return Q(workspace__in=entered_workspaces(reader))


def _model_call(reader: Reader) -> Q:
    """Match the calls whose sums the reader may see: an operator all, others their workspaces'."""
    if reader.is_operator:
        return _EVERY_ROW
    return Q(workspace__in=subquery(Workspace.objects.visible_to, reader))


def _backfill(reader: Reader) -> Q:
    """Match backfills of readable workspaces without a channel that is hidden from the reader."""
    hidden = BackfillChannel.objects.exclude(
        channel__in=subquery(Channel.objects.visible_to, reader)
    )
    return Q(workspace__in=subquery(Workspace.objects.visible_to, reader)) & ~Q(
        pk__in=hidden.values("backfill")
    )


def _administered_workspaces(reader: Reader) -> WorkspaceQuerySet:
    """Return the workspaces with the role of an admin, unless Slack restricts the reader there."""
    return Workspace.objects.visible_to(reader).filter(
        members__user=reader.user_id, members__role=Member.Role.ADMIN
    )


def _slack_connection(reader: Reader) -> Q:
    """Match all connections for an operator, their own workspace's for an admin."""
    if reader.is_operator:
        return _EVERY_ROW
    return Q(workspace__in=_administered_workspaces(reader).values("pk"))


def _audit_event(reader: Reader) -> Q:
    """Match all events for an operator, those of their own workspace for an admin."""
    if reader.is_operator:
        return _EVERY_ROW
    return Q(workspace__in=_administered_workspaces(reader).values("slug")) & ~Q(workspace="")


RULES |= {
    AuditEvent: _audit_event,
    Backfill: _backfill,
    Channel: _channel,
    Job: _job,
    Memory: _memory,
    MemoryVersion: _version,
    Message: _message,
    ModelCall: _model_call,
    Note: _note,
    NoteVersion: _note_version,
    Person: _person,
    Proposal: _proposal,
    QuarantinedLine: _quarantined_line,
    Segment: _segment,
    SlackConnection: _slack_connection,
    Workspace: _is_member,
}
