"""Revoke messages and people as sources of memories, and restore them.

Lines that rest on a revoked message leave all versions at once (`redact_messages`). The message's
segments become stale, so the next passes make all memories above them again without it. Later
messages of a revoked person are stored, and are no sources either (`store`).
"""

from collections.abc import Iterable

from django.db import transaction

from memories.models import (
    AuditEvent,
    Channel,
    Message,
    Person,
    QuarantinedLine,
    Segment,
    User,
    Workspace,
)
from memories.models.ingest.messages import MessageQuerySet
from memories.pipeline.redaction.redactor import redact_messages
from memories.pipeline.redaction.removed import RedactionResult, RemovedMessage

BATCH = 1000


@transaction.atomic
def revoke_message(message: Message, *, by: User | None) -> RedactionResult | None:
    """Revoke one message. Returns None if it was revoked before."""
    channel = _lock(Channel.objects.filter(pk=message.channel_id))[0]
    result = _revoke(channel.workspace, Message.objects.filter(pk=message.pk), by)
    if result is not None:
        _record("source_revoke", by, channel.workspace, f"message {message.pk}", result)
    return result


@transaction.atomic
def restore_message(message: Message, *, by: User | None) -> bool:
    """Make a message a source again. Returns False if it is one, or its author is revoked."""
    channel = _lock(Channel.objects.filter(pk=message.channel_id))[0]
    rows = Message.objects.filter(pk=message.pk).exclude(author__is_revoked=True)
    if not _restore(rows):
        return False
    _record("source_restore", by, channel.workspace, f"message {message.pk}")
    return True


def revoke_person(person: Person, *, by: User | None) -> RedactionResult | None:
    """Revoke all past and future messages of a person. Returns None if revoked before.

    Work is done in batches, one transaction and one audit event each. An interrupted call can be
    repeated. If the person is restored meanwhile, no further batch starts.
    """
    result = _revoke_batch(person, by, is_first=True)
    while result and (batch := _revoke_batch(person, by)):
        result.add(batch)
    return result


@transaction.atomic
def _revoke_batch(
    person: Person, by: User | None, *, is_first: bool = False
) -> RedactionResult | None:
    _lock(Channel.objects.filter(workspace=person.workspace_id))
    changed = is_first and Person.objects.filter(pk=person.pk, is_revoked=False).update(
        is_revoked=True
    )
    messages = Message.objects.filter(author=person, author__is_revoked=True)
    result = _revoke(person.workspace, messages, by)
    if result is None and changed:
        result = RedactionResult()
    if result is not None:
        _record("source_revoke", by, person.workspace, f"person {person.pk}", result)
    return result


@transaction.atomic
def restore_person(person: Person, *, by: User | None) -> bool:
    """Make a person a source again. Returns False if they are one.

    This also restores messages of the person that were revoked one by one.
    """
    _lock(Channel.objects.filter(workspace=person.workspace_id))
    if not Person.objects.filter(pk=person.pk, is_revoked=True).update(is_revoked=False):
        return False
    _restore(Message.objects.filter(author=person))
    _record("source_restore", by, person.workspace, f"person {person.pk}")
    return True


def _lock(channels: Iterable[Channel]) -> list[Channel]:
    """Lock channels against imports, segments and new versions until the transaction ends."""
    rows = Channel.objects.select_for_update(of=("self",), no_key=True).select_related("workspace")
    keys = [channel.pk for channel in channels]
    return list(rows.filter(pk__in=keys).order_by("pk"))


def _revoke(
    workspace: Workspace, messages: MessageQuerySet, by: User | None
) -> RedactionResult | None:
    """Revoke some of these messages, at most ``BATCH``. Returns None if all were revoked before."""
    rows = list(messages.filter(is_revoked=False).order_by("pk").defer("raw")[:BATCH])
    if not rows:
        return None
    revoked = Message.objects.filter(pk__in=[row.pk for row in rows])
    revoked.update(is_revoked=True)
    for line in QuarantinedLine.objects.waiting().resting_on(revoked):
        line.reject(by=by)
    return redact_messages(workspace, [RemovedMessage.of(row) for row in rows])


def _restore(messages: MessageQuerySet) -> int:
    rows = messages.filter(is_revoked=True)
    segments = [pk for pair in rows.values_list("segment", "thread_segment") for pk in pair if pk]
    Segment.objects.filter(pk__in=segments).update(stale=True)
    return rows.update(is_revoked=False)


def _record(
    action: str,
    by: User | None,
    workspace: Workspace,
    subject: str,
    result: RedactionResult | None = None,
) -> None:
    counts = result.as_json() if result else {}
    counts.pop("memories", None)
    AuditEvent.objects.record(action, by=by, workspace=workspace, subject=subject, **counts)
