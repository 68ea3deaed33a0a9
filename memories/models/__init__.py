"""What is kept."""

from memories.models.access_grants import AccessGrant
from memories.models.api_keys import ApiKey
from memories.models.audit import AppendOnly, AuditEvent
from memories.models.backfills import AnotherBackfill, Backfill, BackfillChannel
from memories.models.budgets import SlackBudget
from memories.models.channels import Channel, ChannelMember
from memories.models.connections import SlackConnection
from memories.models.drafts import Draft
from memories.models.endpoints import Endpoint
from memories.models.events import SlackEvent
from memories.models.heartbeats import Heartbeat
from memories.models.jobs import Job, JobInput
from memories.models.lines import Line
from memories.models.memories import Memory
from memories.models.messages import Message
from memories.models.model_calls import ModelCall
from memories.models.new_version import ChangedSince, NewVersion, StaleBase, Unchanged
from memories.models.notes import Note, NotesDisabled, NoteVersion, StaleNote
from memories.models.people import Person
from memories.models.prices import Cap, Price
from memories.models.quarantine import QuarantinedLine
from memories.models.readers import Reader
from memories.models.search import SearchDocument, SearchPending
from memories.models.seen import Seen
from memories.models.segments import Segment
from memories.models.uploads import AnotherUpload, Upload
from memories.models.users import User
from memories.models.versions import MemoryVersion
from memories.models.workspaces import Member, RoleRefused, Workspace

__all__ = [
    "ApiKey",
    "AnotherBackfill",
    "AnotherUpload",
    "AppendOnly",
    "AuditEvent",
    "Backfill",
    "BackfillChannel",
    "ModelCall",
    "Cap",
    "ChangedSince",
    "Channel",
    "ChannelMember",
    "NewVersion",
    "Endpoint",
    "Job",
    "JobInput",
    "Heartbeat",
    "Line",
    "Member",
    "Memory",
    "MemoryVersion",
    "Message",
    "Note",
    "NoteVersion",
    "NotesDisabled",
    "AccessGrant",
    "Person",
    "Price",
    "QuarantinedLine",
    "Reader",
    "SearchDocument",
    "SearchPending",
    "Seen",
    "RoleRefused",
    "Segment",
    "SlackBudget",
    "SlackConnection",
    "SlackEvent",
    "StaleBase",
    "StaleNote",
    "Unchanged",
    "Draft",
    "Upload",
    "User",
    "Workspace",
]
