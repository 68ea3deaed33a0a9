"""What is kept."""

from memories.models.api_keys import ApiKey
from memories.models.audit import AppendOnly, AuditEvent
from memories.models.backfills import AnotherBackfill, Backfill, BackfillChannel
from memories.models.budgets import SlackBudget
from memories.models.calls import Call
from memories.models.channels import Channel, ChannelMember
from memories.models.connections import SlackConnection
from memories.models.drafts import ChangedSince, Draft, StaleBase, Unchanged
from memories.models.endpoints import Endpoint
from memories.models.events import SlackEvent
from memories.models.generations import Generation, GenerationInput
from memories.models.heartbeats import Heartbeat
from memories.models.memories import Memory
from memories.models.messages import Message
from memories.models.notes import Note, NotesDisabled, NoteVersion, StaleNote
from memories.models.openings import Opening
from memories.models.people import Person
from memories.models.prices import Cap, Price
from memories.models.quarantine import QuarantinedLine
from memories.models.readers import Reader
from memories.models.search import SearchDocument, SearchPending
from memories.models.seen import Seen
from memories.models.segments import Segment
from memories.models.unsaved import UnsavedText
from memories.models.uploads import AnotherUpload, Upload
from memories.models.users import User
from memories.models.versions import Line, MemoryVersion
from memories.models.workspaces import Member, RoleRefused, Workspace

__all__ = [
    "ApiKey",
    "AnotherBackfill",
    "AnotherUpload",
    "AppendOnly",
    "AuditEvent",
    "Backfill",
    "BackfillChannel",
    "Call",
    "Cap",
    "ChangedSince",
    "Channel",
    "ChannelMember",
    "Draft",
    "Endpoint",
    "Generation",
    "GenerationInput",
    "Heartbeat",
    "Line",
    "Member",
    "Memory",
    "MemoryVersion",
    "Message",
    "Note",
    "NoteVersion",
    "NotesDisabled",
    "Opening",
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
    "UnsavedText",
    "Upload",
    "User",
    "Workspace",
]
