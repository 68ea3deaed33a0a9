"""Redaction of the texts beside memories: quarantined lines, notes, topics and purposes."""

from collections.abc import Iterable

from memories.models import Note, NoteVersion, QuarantinedLine, Workspace
from memories.pipeline.redaction.removed import in_batches
from memories.rules.notes.fields import LONGEST_TITLE
from memories.rules.redaction.shingles import MARK, QuoteMatcher

ROWS_PER_FETCH = 500


def redact_quarantined_lines(
    workspace: Workspace, messages: Iterable[int], matcher: QuoteMatcher
) -> int:
    """Redact quarantined lines, whole if one of these messages is a source. Returns their number."""
    rows = QuarantinedLine.objects.filter(memory__workspace=workspace).exclude(text=MARK)
    with_source: set[int] = set()
    for keys in in_batches(messages):
        with_source.update(rows.filter(sources__in=keys).values_list("pk", flat=True))
    changed = 0
    for pk, text in rows.values_list("pk", "text").iterator(ROWS_PER_FETCH):
        redacted = MARK if pk in with_source else matcher.redact(text)
        if redacted != text:
            QuarantinedLine.objects.filter(pk=pk).update(text=redacted)
            changed += 1
    return changed


def redact_notes(workspace: Workspace, matcher: QuoteMatcher) -> int:
    """Redact notes and their old wordings. Returns the number of changed notes."""
    changed = set()
    # Notes come first: a wording that is replaced meanwhile is then among the versions.
    notes = Note.objects.filter(workspace=workspace)
    for note in notes.iterator(ROWS_PER_FETCH):
        if _redacted_words(note, matcher) is None:
            continue
        locked = notes.select_for_update(of=("self",)).filter(pk=note.pk).first()
        if locked is not None and (words := _redacted_words(locked, matcher)) is not None:
            locked.mask(*words)
            changed.add(note.pk)
    for version in NoteVersion.objects.filter(note__in=notes).iterator(ROWS_PER_FETCH):
        if (words := _redacted_words(version, matcher)) is not None:
            version.mask(*words)
            changed.add(version.note_id)
    return len(changed)


def _redacted_words(
    note: Note | NoteVersion, matcher: QuoteMatcher
) -> tuple[str, str, list[str]] | None:
    """Return the redacted content, title and tags of a note, or None if nothing changes."""
    content, title = matcher.redact(note.content), matcher.redact(note.title)
    tags = [tag for tag in note.tags if not matcher.spans(tag)]
    if (content, title, tags) == (note.content, note.title, note.tags):
        return None
    return content, title[:LONGEST_TITLE], tags


def redact_topics(workspace: Workspace, matcher: QuoteMatcher) -> None:
    """Redact topics and purposes. The next sync may bring them back if Slack still shows them."""
    for channel in workspace.channels.exclude(topic="", purpose=""):
        words = {name: matcher.redact(getattr(channel, name)) for name in ("topic", "purpose")}
        channel.describe(words)
