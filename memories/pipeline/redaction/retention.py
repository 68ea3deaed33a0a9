"""Messages that are older than their workspace keeps them: their words go, their place and the
memories made from them stay. No import brings them back."""

import logging
import time
from dataclasses import dataclass
from datetime import datetime

from memories.models import Message, Workspace
from memories.rules.ingest.timestamps import HOUR, to_micros

logger = logging.getLogger(__name__)

BATCH = 2000


@dataclass(frozen=True)
class Expired:
    """How many messages it was, and whether that was all."""

    messages: int
    is_done: bool = True


def delete_expired(workspace: Workspace, now: datetime, *, seconds: float | None = None) -> Expired:
    """Remove what is too old by now, a bounded batch a transaction. ``seconds``: then begin no
    other batch; the next call goes on."""
    days = workspace.memory_settings.retention_days
    began, done = time.monotonic(), 0
    horizon = to_micros(now) - days * 24 * HOUR
    for channel in workspace.channels.order_by("pk") if days else ():
        old = channel.messages.filter(micros__lt=horizon, state=Message.State.LIVE).in_order()
        last = 0  # or each batch would look at all that have gone before
        while rows := list(old.filter(micros__gte=last).values_list("pk", "micros")[:BATCH]):
            if seconds is not None and time.monotonic() - began >= seconds:
                return Expired(done, is_done=False)
            last = rows[-1][1]
            messages = Message.objects.filter(pk__in=[pk for pk, _ in rows])
            done += messages.purge(Message.State.EXPIRED)
    if done:
        logger.info("workspace %s: %s messages are older than kept", workspace.pk, done)
    return Expired(done)
