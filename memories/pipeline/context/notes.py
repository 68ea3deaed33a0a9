"""The notes of a context, now or as of a past moment."""

from dataclasses import replace
from datetime import datetime

from memories.models import Note, NoteVersion, Reader, Workspace
from memories.rules.notes.fields import NoteText


def context_notes(
    workspace: Workspace, reader: Reader, channel_id: str, at: datetime | None
) -> list[NoteText]:
    """Return the notes of the workspace and of the channel, or all notes without a channel.

    With ``at`` each note has its wording of that time. A deleted note stays out, and pins and
    exclusions are those of now.
    """
    notes = list(Note.objects.in_use(workspace).visible_to(reader).for_contexts())
    values = [note.value for note in notes] if at is None else _values_at(notes, reader, at)
    return [x for x in values if not channel_id or x.channel_id in ("", channel_id)]


def _values_at(notes: list[Note], reader: Reader, at: datetime) -> list[NoteText]:
    rewritten = [note.pk for note in notes if note.written_at > at]
    versions = NoteVersion.objects.visible_to(reader).filter(note__in=rewritten, written_at__lte=at)
    wordings = {row.note_id: row for row in versions.select_related("channel").order_by("number")}
    values = []
    for note in notes:
        if note.written_at <= at:
            values.append(note.value)
        elif (wording := wordings.get(note.pk)) is not None:
            values.append(
                replace(
                    note.value,
                    title=wording.title,
                    tags=tuple(wording.tags),
                    date=wording.date,
                    content=wording.content,
                    channel_id=wording.channel.slack_id if wording.channel else "",
                )
            )
    return values
