"""A person's word that a message, all of a person, or a channel is forgotten, and kept out.

Each is done in batches, one transaction each; stopped anywhere and run again it comes to the same
end. What is told of it are keys and counts, here, in the record and in the log, never a text.
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
from memories.pipeline.redaction import forgetting
from memories.pipeline.redaction.removed import RedactionResult, RemovedMessage
from memories.rules.ingest.names import safe_name
from memories.rules.ingest.profiles import strip_mention_labels, strip_names
from memories.rules.ingest.timestamps import micros, to_micros, ts_from_micros
from memories.rules.memory.identity import MemoryScope

BATCH = 1000
Progress = Callable[[int], None]


@dataclass
class Forgotten:
    """``what`` and its key, what was touched, and how much of other people's messages was cleaned."""

    what: str
    subject: int | None
    touched: RedactionResult = field(default_factory=RedactionResult)
    deleted: int = 0  # versions of a forgotten channel, gone as a whole
    cleaned: int = 0  # messages of others that told of the person

    def as_json(self) -> dict[str, Any]:
        counts = {"versions_deleted": self.deleted, "messages_cleaned": self.cleaned}
        return {"forgotten": self.what, "id": self.subject, **self.touched.as_json(), **counts}


def message(channel: Channel, ts: str, *, by: User | None) -> Forgotten:
    """One message, by its ts. One that is not stored leaves a tombstone: no export brings it in.

    Raises ValueError when the ts is none, `Busy` while the workspace is being stored into.
    """
    us = micros(ts)
    with lock_workspace(channel.workspace), transaction.atomic():
        Channel.objects.select_for_update().get(pk=channel.pk)
        ts = ts_from_micros(us)
        rows = channel.messages.filter(ts=ts)
        if not rows.exists():
            Message(channel=channel, ts=ts, micros=us, state=Message.State.DELETED).save()
        report = Forgotten("message", rows.get().pk)
        report.touched = _purge(channel.workspace, rows, None)
        _record(channel.workspace, report, by)
    return report


def person(
    person: Person, now: datetime, *, by: User | None, progress: Progress = lambda done: None
) -> Forgotten:
    """All that they said until now, their name, address and account, what they were called in texts
    that were made of other messages, and what these tell of them beside their id. What they say
    later is stored like anybody's, without a name."""
    workspace = person.workspace
    names = Names.public(workspace)
    report = Forgotten("person", person.pk)
    with lock_workspace(workspace):
        with transaction.atomic():
            called = {person.name, person.real_name} - {FORGOTTEN, person.slack_id}
            called |= set(map(safe_name, called))  # as lines hold them
            linking.forget(person)
            person.forget(now)
            report.touched.add(forgetting.mask_names(workspace, called))
        for rows in _batches(Message.objects.filter(author=person, micros__lte=to_micros(now))):
            with transaction.atomic():
                report.touched.add(_purge(workspace, rows, names))
            progress(report.touched.messages)
        report.cleaned = _clean_others(person)
        _record(workspace, report, by)
    return report


def channel(
    channel: Channel, now: datetime, *, by: User | None, progress: Progress = lambda done: None
) -> Forgotten:
    """All that was said in it until now, all that was remembered of it, its notes, topic and purpose;
    it is followed no more."""
    workspace = channel.workspace
    report = Forgotten("channel", channel.pk)
    with lock_workspace(workspace):
        with transaction.atomic():
            channel.forget(now)
        for rows in _batches(channel.messages.filter(micros__lte=to_micros(now))):
            with transaction.atomic():
                report.touched.add(_purge(workspace, rows, None))
            progress(report.touched.messages)
        with transaction.atomic():
            report.deleted = _drop_memories(channel)
            channel.note_versions.all().delete()  # also of notes that hold elsewhere by now
            report.touched.notes += channel.notes.all().delete()[1].get("memories.Note", 0)
            channel.describe({"topic": "", "purpose": ""})
        _record(workspace, report, by)
    return report


def _batches(rows: MessageQuerySet) -> Iterator[MessageQuerySet]:
    """What has not been purged yet, some at a time, oldest row first."""
    last = 0
    left = rows.exclude(state=Message.State.DELETED).order_by("pk")
    while keys := list(left.filter(pk__gt=last).values_list("pk", flat=True)[:BATCH]):
        last = keys[-1]
        yield Message.objects.filter(pk__in=keys)


def _purge(workspace: Workspace, rows: MessageQuerySet, names: Names | None) -> RedactionResult:
    keys = list(rows.values_list("pk", flat=True))
    locked = Message.objects.filter(pk__in=keys).select_for_update().defer("raw")
    removed = [RemovedMessage.of(row) for row in locked]
    Message.objects.filter(pk__in=keys).purge(Message.State.DELETED)
    return forgetting.mask(workspace, removed, names)


def _clean_others(person: Person) -> int:
    """Messages of others that carry their name along: mentions with a label, shared messages."""
    others = Message.objects.filter(channel__workspace=person.workspace_id)
    mentions = others.filter(
        Q(raw__contains=person.slack_id) | Q(text__contains=f"<@{person.slack_id}|")
    )
    cleaned = 0
    for row in mentions.only("text", "raw").iterator(200):
        text = strip_mention_labels(row.text, person.slack_id)
        raw = strip_names(row.raw, person.slack_id)
        if (text, raw) != (row.text, row.raw):
            cleaned += Message.objects.filter(pk=row.pk).update(text=text, raw=raw)
    SlackEvent.objects.of_team(person.workspace.team_id).failed().redact(person.slack_id)
    for talk in Channel.objects.filter(kind=Channel.Kind.IM, memberships__person=person):
        names = Person.objects.filter(memberships__channel=talk).names().values()
        talk.describe({"name": ", ".join(sorted(names))[:200]})
    SlackEvent.objects.filter(body__contains=person.slack_id, kind__startswith="user_").update(
        body="", state=SlackEvent.State.SKIPPED, reason="forgotten"
    )
    return cleaned


def _drop_memories(channel: Channel) -> int:
    """The workspace's memories that its texts went into were masked before."""
    memories = Memory.objects.filter(channel=channel).exclude(scope=MemoryScope.WORKSPACE)
    versions = sum(memory.versions.count() for memory in memories)
    memories.delete()
    Segment.objects.filter(channel=channel).update(outcome=Segment.Outcome.SKIPPED, stale=False)
    return versions


def _record(workspace: Workspace, report: Forgotten, by: User | None) -> None:
    counts = report.as_json()
    AuditEvent.objects.record(
        f"{counts.pop('forgotten')}_forget",
        by=by,
        workspace=workspace,
        subject=f"{report.what} {counts.pop('id')}",
        **counts,
    )
