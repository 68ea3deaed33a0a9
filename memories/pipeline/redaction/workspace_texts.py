"""Redaction of the texts beside memories: quarantined lines, earlier wordings, notes, topics."""

from collections.abc import Collection, Iterable, Mapping

from django.db.models import Q

from memories.models import (
    Draft,
    EarlierWording,
    Note,
    NoteVersion,
    Proposal,
    QuarantinedLine,
    Workspace,
)
from memories.rules.batches import in_batches
from memories.rules.memory.identity import MemoryType
from memories.rules.notes.fields import LONGEST_TITLE, title_of
from memories.rules.redaction.shingles import REDACTED, QuoteMatcher
from memories.rules.safety.normalized_text import repeats

ROWS_PER_FETCH = 500


def redact_quarantined_lines(
    workspace: Workspace, messages: Iterable[int], matcher: QuoteMatcher
) -> int:
    """Redact quarantined lines, whole if one of these messages is a source. Returns their number."""
    rows = QuarantinedLine.objects.filter(memory__workspace=workspace).exclude(text=REDACTED)
    with_source: set[int] = set()
    for keys in in_batches(messages):
        with_source.update(rows.filter(sources__in=keys).values_list("pk", flat=True))
    changed = 0
    for pk, text in rows.values_list("pk", "text").iterator(ROWS_PER_FETCH):
        redacted = REDACTED if pk in with_source else matcher.redact(text)
        if redacted != text:
            QuarantinedLine.objects.filter(pk=pk).update(text=redacted)
            changed += 1
    return changed


def delete_typed_texts(
    workspace: Workspace, messages: Collection[int], matcher: QuoteMatcher
) -> None:
    """Delete drafts and proposals that quote removed messages, or rest on one of these."""
    Draft.objects.filter(memory__workspace=workspace).delete_quoting(matcher)
    Proposal.objects.filter(memory__workspace=workspace).delete_quoting(matcher, messages)


def withdraw_wordings(
    workspace: Workspace,
    matcher: QuoteMatcher,
    versions: Collection[int],
    channels: Collection[int],
    segments: Collection[int],
    threads: Collection[str],
) -> None:
    """Withdraw the earlier wordings that may rest on removed messages, or quote them.

    ``versions`` are to be redacted. The messages are in these channels, segments and threads.
    """
    in_channels = Q(version__memory__channel__in=channels)
    may_rest = Q(version__in=versions) | Q(version__segment__in=segments)
    may_rest |= in_channels & Q(version__memory__thread_ts__in=threads)
    may_rest |= in_channels & Q(provisional=True)
    if not workspace.memory_settings.history_enabled:  # one text is of all segments
        may_rest |= in_channels & Q(version__memory__memory_type=MemoryType.SHORT_TERM)
    wordings = EarlierWording.objects.filter(version__memory__workspace=workspace)
    wordings.filter(may_rest).remove_texts()
    texts = wordings.values_list("pk", "content").iterator(ROWS_PER_FETCH)
    quoting = [pk for pk, content in texts if matcher.find_in(content)]
    wordings.filter(pk__in=quoting).remove_texts()


def redact_notes(
    workspace: Workspace, matcher: QuoteMatcher, removed_words: Mapping[int, frozenset[str]]
) -> int:
    """Redact notes and their old wordings. Returns the number of changed notes.

    ``removed_words``: removed message → its words. A note with this source loses the lines that
    repeat the message, even if they are too short for a quotation.
    """
    changed = set()
    # Notes come first: a wording that is replaced meanwhile is then among the versions.
    notes = Note.objects.filter(workspace=workspace)
    with_source = notes.filter(source__in=removed_words).values_list("pk", "source")
    source_words = {pk: removed_words[source] for pk, source in with_source}
    if not matcher.runs and not matcher.short:
        notes = notes.filter(pk__in=source_words)
    for note in notes.iterator(ROWS_PER_FETCH):
        if _redacted_words(note, matcher, source_words.get(note.pk)) is None:
            continue
        locked = notes.select_for_update(of=("self",)).filter(pk=note.pk).first()
        if locked is None:
            continue
        words = _redacted_words(locked, matcher, source_words.get(note.pk))
        if words is not None:
            locked.mask(*words)
            changed.add(note.pk)
    for version in NoteVersion.objects.filter(note__in=notes).iterator(ROWS_PER_FETCH):
        words = _redacted_words(version, matcher, source_words.get(version.note_id))
        if words is not None:
            version.mask(*words)
            changed.add(version.note_id)
    return len(changed)


def _redacted_words(
    note: Note | NoteVersion, matcher: QuoteMatcher, source_words: frozenset[str] | None
) -> tuple[str, str, list[str]] | None:
    """Return the redacted content, title and tags of a note, or None if nothing changes."""
    content, title = matcher.redact(note.content), matcher.redact(note.title)
    if source_words:
        content = "\n".join(
            REDACTED if repeats(line, source_words) else line for line in content.split("\n")
        )
        title = REDACTED if repeats(title, source_words) else title
    if note.title == title_of(note.content):
        title = title_of(content)
    tags = [tag for tag in note.tags if not matcher.spans(tag)]
    if (content, title, tags) == (note.content, note.title, note.tags):
        return None
    return content, title[:LONGEST_TITLE], tags


def redact_topics(workspace: Workspace, matcher: QuoteMatcher) -> None:
    """Redact topics and purposes. The next sync may bring them back if Slack still shows them."""
    for channel in workspace.channels.exclude(topic="", purpose=""):
        words = {name: matcher.redact(getattr(channel, name)) for name in ("topic", "purpose")}
        channel.update_fields(words)
