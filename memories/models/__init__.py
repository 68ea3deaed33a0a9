"""All models, and the values and errors that callers need."""

from memories.models.access import audience
from memories.models.access.access_grants import AccessGrant
from memories.models.access.api_keys import ApiKey
from memories.models.access.audit import AppendOnly, AuditEvent
from memories.models.access.digests import Digest, DigestDelivery
from memories.models.access.invitations import Invitation
from memories.models.access.readers import Reader
from memories.models.access.slack_digests import SlackDigest
from memories.models.access.users import User
from memories.models.access.webhooks import Webhook, WebhookDelivery
from memories.models.access.workspaces import Member, RoleRefused, Workspace
from memories.models.context.revisions import Revision
from memories.models.costs.model_calls import ModelCall
from memories.models.costs.prices import Budget, Price
from memories.models.generate.backfills import AnotherBackfill, Backfill, BackfillChannel
from memories.models.generate.endpoints import Endpoint
from memories.models.generate.heartbeats import Heartbeat
from memories.models.generate.jobs import Job, JobInput
from memories.models.generate.model_servers import ModelServer
from memories.models.generate.segments import Segment
from memories.models.ingest.channels import Channel, ChannelMember
from memories.models.ingest.events import SlackEvent
from memories.models.ingest.messages import Message
from memories.models.ingest.people import Person
from memories.models.ingest.uploads import Upload, UploadInProgress
from memories.models.memory.channel_preferences import ChannelPreference
from memories.models.memory.drafts import Draft
from memories.models.memory.earlier_wordings import EarlierWording
from memories.models.memory.lines import Line
from memories.models.memory.memories import Memory
from memories.models.memory.new_version import ChangedSince, NewVersion, StaleBase, Unchanged
from memories.models.memory.proposals import Proposal
from memories.models.memory.seen import Seen
from memories.models.memory.versions import MemoryVersion
from memories.models.notes.note_versions import NoteVersion
from memories.models.notes.notes import Note, NotesDisabled, StaleNote
from memories.models.safety.quarantine import QuarantinedLine
from memories.models.search.documents import SearchDocument, SearchPending
from memories.models.sync.channel_sync import ChannelSync
from memories.models.sync.connections import SlackConnection
from memories.models.sync.slack_budgets import SlackBudget

__all__ = [
    "audience",  # fills the rules of visible_to
    "ApiKey",
    "AnotherBackfill",
    "UploadInProgress",
    "AppendOnly",
    "AuditEvent",
    "Backfill",
    "BackfillChannel",
    "ModelCall",
    "Budget",
    "ChangedSince",
    "Channel",
    "ChannelMember",
    "ChannelPreference",
    "ChannelSync",
    "Digest",
    "DigestDelivery",
    "EarlierWording",
    "NewVersion",
    "Endpoint",
    "Invitation",
    "ModelServer",
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
    "Proposal",
    "QuarantinedLine",
    "Reader",
    "Revision",
    "SearchDocument",
    "SearchPending",
    "Seen",
    "RoleRefused",
    "Segment",
    "SlackBudget",
    "SlackConnection",
    "SlackDigest",
    "SlackEvent",
    "StaleBase",
    "StaleNote",
    "Unchanged",
    "Draft",
    "Upload",
    "User",
    "Webhook",
    "WebhookDelivery",
    "Workspace",
]
