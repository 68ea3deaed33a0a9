"""Keep a message as a note."""

from datetime import datetime

from django.db import transaction

from memories.models import Channel, Message, Note, User


@transaction.atomic
def keep_message(message: Message, content: str, *, author: User | None, now: datetime) -> Note:
    """Return the note that keeps a message, in the message's channel. Save it the first time.

    A note that moved to another channel does not count: its readers may be others. Raises as
    `NoteQuerySet.write`, and ValueError if the message was deleted or edited since it was read.
    """
    # Two people may keep a message at the same time. Deletions lock the channel as well.
    channel = Channel.objects.select_for_update().get(pk=message.channel_id)
    unchanged = Message.objects.rememberable().filter(pk=message.pk, text=message.text)
    if not unchanged.exists():
        raise ValueError("The message was deleted or edited.")
    kept = Note.objects.live().filter(source=message, channel=channel).first()
    return kept or Note.objects.write(
        channel.workspace, content, channel=channel, author=author, source=message, now=now
    )
