"""One message, or one person, is no source any more: what rested on them goes, and is made again.

A person's word, and one that can be taken back. Lines that rest on a revoked message leave all
versions at once (`redact_messages`); its segments are stale, and the next passes make everything again
without it, up to the workspace's memory. What such a person says later is stored, and no source either
(`store`).
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


@transaction.atomic
def revoke_message(message: Message, *, by: User | None) -> RedactionResult | None:
    """None: it was revoked already."""
    channel = _lock(Channel.objects.filter(pk=message.channel_id))[0]
    touched = _revoke(channel.workspace, Message.objects.filter(pk=message.pk), by)
    if touched is not None:
        _record("source_revoke", by, channel.workspace, f"message {message.pk}", touched)
    return touched


@transaction.atomic
def restore_message(message: Message, *, by: User | None) -> bool:
    """It is a source again. False: it was one, or its author is none."""
    channel = _lock(Channel.objects.filter(pk=message.channel_id))[0]
    rows = Message.objects.filter(pk=message.pk).exclude(author__is_revoked=True)
    if not _restore(rows):
        return False
    _record("source_restore", by, channel.workspace, f"message {message.pk}")
    return True


@transaction.atomic
def revoke_person(person: Person, *, by: User | None) -> RedactionResult | None:
    """All that they said, and will say. None: they were revoked already."""
    _lock(Channel.objects.filter(workspace=person.workspace_id))  # nothing is stored meanwhile
    if not Person.objects.filter(pk=person.pk, is_revoked=False).update(is_revoked=True):
        return None
    touched = (
        _revoke(person.workspace, Message.objects.filter(author=person), by) or RedactionResult()
    )
    _record("source_revoke", by, person.workspace, f"person {person.pk}", touched)
    return touched


@transaction.atomic
def restore_person(person: Person, *, by: User | None) -> bool:
    """Also their messages that were revoked one by one: which, nobody remembers. False: they were
    a source."""
    _lock(Channel.objects.filter(workspace=person.workspace_id))
    if not Person.objects.filter(pk=person.pk, is_revoked=True).update(is_revoked=False):
        return False
    _restore(Message.objects.filter(author=person))
    _record("source_restore", by, person.workspace, f"person {person.pk}")
    return True


def _lock(channels: Iterable[Channel]) -> list[Channel]:
    """In turn with who stores in these channels, cuts them, or writes what came of them."""
    rows = Channel.objects.select_for_update(of=("self",), no_key=True).select_related("workspace")
    keys = [channel.pk for channel in channels]
    return list(rows.filter(pk__in=keys).order_by("pk"))


def _revoke(
    workspace: Workspace, messages: MessageQuerySet, by: User | None
) -> RedactionResult | None:
    rows = list(messages.filter(is_revoked=False).order_by("pk"))
    if not rows:
        return None
    keys = [row.pk for row in rows]
    revoked = Message.objects.filter(pk__in=keys)
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
    touched: RedactionResult | None = None,
) -> None:
    counts = {k: v for k, v in touched.as_json().items() if k != "memories"} if touched else {}
    AuditEvent.objects.record(action, by=by, workspace=workspace, subject=subject, **counts)
