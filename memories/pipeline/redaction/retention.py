"""Retention: delete the words of messages by age.

Tombstones and the memories made from the messages stay. No import brings the words back.
"""

import logging
import time
from datetime import datetime

from memories.models import Message, Workspace
from memories.pipeline.redaction.slack_copies import remove_copies_of_removed
from memories.rules.ingest.timestamps import HOUR, to_micros

logger = logging.getLogger(__name__)

BATCH = 2000


def delete_expired(
    workspace: Workspace, now: datetime, *, seconds: float | None = None
) -> tuple[int, bool]:
    """Delete the words of expired messages, one batch in a transaction.

    After ``seconds`` no further batch starts. The next call continues.
    Return the number of deleted messages, and whether none is left.
    """
    days = workspace.memory_settings.retention_days
    began, done = time.monotonic(), 0
    horizon = to_micros(now) - days * 24 * HOUR
    for channel in workspace.channels.order_by("pk") if days else ():
        old = channel.messages.filter(micros__lt=horizon, state=Message.State.LIVE).in_order()
        last = 0  # else each batch would scan the deleted messages
        while rows := list(old.filter(micros__gte=last).values_list("pk", "micros")[:BATCH]):
            if seconds is not None and time.monotonic() - began >= seconds:
                return done, False
            last = rows[-1][1]
            # A message that is deleted meanwhile stays deleted: without its author, and forgotten.
            messages = Message.objects.filter(
                pk__in=[pk for pk, _ in rows], state=Message.State.LIVE
            )
            done += messages.purge(Message.State.EXPIRED)
    if done:
        remove_copies_of_removed(workspace, horizon)
        logger.info("workspace %s: %s messages are older than kept", workspace.pk, done)
    return done, True
