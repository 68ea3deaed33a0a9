"""The forget command: remove a message, a person or a channel for good.

Work is done in batches, one transaction each. An interrupted run can be repeated. Reports, audit
events and logs hold keys and counts, never texts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from memories.models import (
    AuditEvent,
    Channel,
    Memory,
    Message,
    Person,
    Segment,
    SlackEvent,
    User,
    Workspace,
)
from memories.models.ingest.messages import MessageQuerySet
from memories.models.ingest.names import Names
from memories.models.ingest.people import FORGOTTEN
from memories.pipeline.access import linking
from memories.pipeline.locks import lock_workspace
from memories.pipeline.redaction.redactor import redact_messages, redact_names
from memories.pipeline.redaction.removed import RedactionResult, RemovedMessage
from memories.rules.ingest.names import safe_name
from memories.rules.ingest.profiles import strip_mention_labels, strip_names
from memories.rules.ingest.timestamps import micros, to_micros, ts_from_micros
from memories.rules.memory.identity import MemoryScope

BATCH = 1000
Progress = Callable[[int], None]


@dataclass
class ForgetReport:
    """What was forgotten, its key, and the numbers of changed rows."""

    subject: str
    pk: int
    redaction: RedactionResult = field(default_factory=RedactionResult)
    versions_deleted: int = 0  # with the memories of a forgotten channel
    messages_cleaned: int = 0  # messages of others that named the forgotten person

    def as_json(self) -> dict[str, Any]:
        return {
            "forgotten": self.subject,
            "id": self.pk,
            **self.redaction.as_json(),
            "versions_deleted": self.versions_deleted,
            "messages_cleaned": self.messages_cleaned,
        }


def forget_message(channel: Channel, ts: str, *, by: User | None) -> ForgetReport:
    """Forget one message. A message that is not stored leaves a tombstone, against later imports.

    Raises ValueError for an invalid ts, and `Busy` while an import or sync of the workspace runs.
    """
    us = micros(ts)
    with lock_workspace(channel.workspace), transaction.atomic():
        Channel.objects.select_for_update().get(pk=channel.pk)
        ts = ts_from_micros(us)
        rows = channel.messages.filter(ts=ts)
        if not rows.exists():
            Message(channel=channel, ts=ts, micros=us, state=Message.State.DELETED).save()
        report = ForgetReport("message", rows.get().pk)
        report.redaction = _purge(channel.workspace, rows, None)
        _record(channel.workspace, report, by)
    return report


def forget_person(
    person: Person, now: datetime, *, by: User | None, progress: Progress = lambda done: None
) -> ForgetReport:
    """Forget a person: their messages until now, name, address, access, and names in other texts.

    Their later messages are stored as usual, without a name.
    """
    workspace = person.workspace
    names = Names.public(workspace)
    report = ForgetReport("person", person.pk)
    with lock_workspace(workspace):
        with transaction.atomic():
            # Messages that are being stored now come first, so that the batches below see them.
            Channel.objects.filter(workspace=workspace).lock()
            person_names = {person.name, person.real_name} - {FORGOTTEN, person.slack_id}
            person_names |= set(map(safe_name, person_names))  # as lines contain them
            linking.forget(person, now, by=by)
            person.forget(now)
            report.redaction.add(redact_names(person, person_names))
        for rows in _batches(Message.objects.filter(author=person, micros__lte=to_micros(now))):
            with transaction.atomic():
                report.redaction.add(_purge(workspace, rows, names))
            progress(report.redaction.messages)
        report.messages_cleaned = _clean_messages_of_others(person)
        _record(workspace, report, by)
    return report


def forget_channel(
    channel: Channel, now: datetime, *, by: User | None, progress: Progress = lambda done: None
) -> ForgetReport:
    """Forget a channel: its messages until now, memories, notes, topic and purpose.

    The channel is no longer followed.
    """
    workspace = channel.workspace
    report = ForgetReport("channel", channel.pk)
    with lock_workspace(workspace):
        with transaction.atomic():
            channel.mark_forgotten(now)
        for rows in _batches(channel.messages.filter(micros__lte=to_micros(now))):
            with transaction.atomic():
                report.redaction.add(_purge(workspace, rows, None))
            progress(report.redaction.messages)
        with transaction.atomic():
            report.versions_deleted = _delete_memories(channel)
            channel.note_versions.all().delete()  # also of notes that have moved elsewhere
            report.redaction.notes += channel.notes.all().purge_all(by=by)
            channel.update_fields({"topic": "", "purpose": ""})
            SlackEvent.objects.of_team(workspace.team_id).failed().redact(channel.slack_id)
        _record(workspace, report, by)
    return report


def _batches(rows: MessageQuerySet) -> Iterator[MessageQuerySet]:
    """Yield the messages that are not purged yet, some at a time, by key."""
    last = 0
    remaining = rows.exclude(state=Message.State.DELETED).order_by("pk")
    while keys := list(remaining.filter(pk__gt=last).values_list("pk", flat=True)[:BATCH]):
        last = keys[-1]
        yield Message.objects.filter(pk__in=keys)


def _purge(workspace: Workspace, rows: MessageQuerySet, names: Names | None) -> RedactionResult:
    keys = list(rows.values_list("pk", flat=True))
    # Passes and those who keep a message as a note lock its channel before they read it.
    Channel.objects.filter(pk__in=Message.objects.filter(pk__in=keys).values("channel")).lock()
    locked = Message.objects.filter(pk__in=keys).select_for_update().defer("raw")
    removed = [RemovedMessage.of(row) for row in locked]
    Message.objects.filter(pk__in=keys).purge(Message.State.DELETED)
    return redact_messages(workspace, removed, names)


def _clean_messages_of_others(person: Person) -> int:
    """Remove the person's name from mentions with a label, shared messages and stored events."""
    messages = Message.objects.filter(channel__workspace=person.workspace_id)
    mentions = messages.filter(
        Q(raw__contains=person.slack_id) | Q(text__contains=f"<@{person.slack_id}|")
    )

    def without_name(text: str, raw: str) -> tuple[str, str]:
        return strip_mention_labels(text, person.slack_id), strip_names(raw, person.slack_id)

    rows = mentions.only("text", "raw").iterator(200)
    cleaned = sum(row.replace_content(without_name) for row in rows)
    SlackEvent.objects.of_team(person.workspace.team_id).failed().redact(person.slack_id)
    direct = (Channel.Kind.IM, Channel.Kind.MPIM)  # Slack names these after their members
    for talk in Channel.objects.filter(kind__in=direct, memberships__person=person):
        members = Person.objects.filter(memberships__channel=talk)
        talk.update_fields({"name": members.joined_names()})
    about = SlackEvent.objects.filter(body__contains=person.slack_id, kind__startswith="user_")
    about.forget()
    return cleaned


def _delete_memories(channel: Channel) -> int:
    """Delete the channel's memories and return the number of their versions.

    `_purge` has redacted the memories of the workspace that rest on them.
    """
    memories = Memory.objects.filter(channel=channel).exclude(scope=MemoryScope.WORKSPACE)
    versions = sum(memory.versions.count() for memory in memories)
    memories.delete()
    Segment.objects.filter(channel=channel).update(outcome=Segment.Outcome.SKIPPED, stale=False)
    return versions


def _record(workspace: Workspace, report: ForgetReport, by: User | None) -> None:
    counts = report.as_json()
    AuditEvent.objects.record(
        f"{counts.pop('forgotten')}_forget",
        by=by,
        workspace=workspace,
        subject=f"{report.subject} {counts.pop('id')}",
        **counts,
    )
