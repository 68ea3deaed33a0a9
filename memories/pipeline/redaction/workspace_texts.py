"""Redaction of the texts beside memories: quarantined lines, earlier wordings, notes, topics."""

from collections.abc import Collection, Iterable, Mapping

from django.db.models import Q

from memories.models import (
    Draft,
    EarlierWording,
    MemoryVersion,
    Note,
    NoteVersion,
    Proposal,
    QuarantinedLine,
    Workspace,
)
from memories.rules.batches import in_batches
from memories.rules.memory.identity import MemoryType
from memories.rules.notes.fields import MAX_TITLE_LENGTH, title_of
from memories.rules.redaction.shingles import REDACTED, QuoteMatcher
from memories.rules.safety.normalized_text import repeats

ROWS_PER_FETCH = 500


def redact(
    workspace: Workspace,
    matcher: QuoteMatcher,
    removed_words: Mapping[int, frozenset[str]],
    short: Mapping[int, set[str]],
) -> tuple[int, int]:
    """Redact all texts beside memories. Return the number of quarantined lines and of notes.

    ``removed_words``: deleted message → its words. ``short``: edited message → its old texts that
    are too short for a quotation. Both count where a text has the message as a source.
    """
    quarantined = _redact_quarantined_lines(workspace, matcher, removed_words.keys(), short)
    notes = _redact_notes(workspace, matcher, removed_words, short)
    Draft.objects.filter(memory__workspace=workspace).delete_quoting(matcher)
    proposals = Proposal.objects.filter(memory__workspace=workspace)
    proposals.delete_quoting(matcher, removed_words.keys() | short.keys())
    _redact_topics(workspace, matcher)
    return quarantined, notes


def _with_short(matcher: QuoteMatcher, texts: Iterable[str]) -> QuoteMatcher:
    return QuoteMatcher(matcher.runs, matcher.short | frozenset(texts), matcher.mentions)


def _redact_quarantined_lines(
    workspace: Workspace,
    matcher: QuoteMatcher,
    messages: Collection[int],
    short: Mapping[int, set[str]],
) -> int:
    """Redact quarantined lines, whole if one of these messages is a source. Returns their number."""
    rows = QuarantinedLine.objects.filter(memory__workspace=workspace).exclude(text=REDACTED)
    texts: dict[int, set[str]] = {}
    with_source: set[int] = set()
    for keys in in_batches([*messages, *short]):
        pairs = rows.filter(sources__in=keys).values_list("pk", "sources")
        for pk, source in pairs:
            texts.setdefault(pk, set()).update(short.get(source, ()))
            if source in messages:
                with_source.add(pk)
    changed = 0
    for pk, text in rows.values_list("pk", "text").iterator(ROWS_PER_FETCH):
        words = _with_short(matcher, texts[pk]) if texts.get(pk) else matcher
        redacted = REDACTED if pk in with_source else words.redact(text)
        if redacted != text:
            QuarantinedLine.objects.filter(pk=pk).update(text=redacted)
            changed += 1
    return changed


def withdraw_wordings(
    workspace: Workspace,
    matcher: QuoteMatcher,
    versions: Collection[int],
    channels: Collection[int],
    segments: Collection[int],
    threads: Collection[str],
    since_us: int,
) -> None:
    """Withdraw the earlier wordings that may rest on removed messages, or quote them.

    ``versions`` are to be redacted. The messages are in these channels, segments and threads. The
    oldest one is of ``since_us``.
    """
    in_channels = Q(version__memory__channel__in=channels)
    may_rest = Q(version__in=versions) | Q(version__segment__in=segments)
    may_rest |= in_channels & Q(version__memory__thread_ts__in=threads)
    may_rest |= in_channels & Q(provisional=True)
    of_several = MemoryVersion.objects.of_several_segments(channels, since_us)
    may_rest |= Q(version__in=of_several.values("pk"), until_us__gte=since_us)
    if not workspace.memory_settings.history_enabled:  # one text is of all segments
        may_rest |= in_channels & Q(version__memory__memory_type=MemoryType.SHORT_TERM)
    wordings = EarlierWording.objects.filter(version__memory__workspace=workspace)
    wordings.filter(may_rest).remove_texts()
    texts = wordings.values_list("pk", "content").iterator(ROWS_PER_FETCH)
    quoting = [pk for pk, content in texts if matcher.spans(content)]
    wordings.filter(pk__in=quoting).remove_texts()


def _redact_notes(
    workspace: Workspace,
    matcher: QuoteMatcher,
    removed_words: Mapping[int, frozenset[str]],
    short: Mapping[int, set[str]],
) -> int:
    """Redact notes and their old wordings. Returns the number of changed notes.

    A note that was made from a deleted message loses the lines that repeat the message.
    """
    changed = set()
    # Notes come first: a wording that is replaced meanwhile is then among the versions.
    notes = Note.objects.filter(workspace=workspace)
    keys = {*removed_words, *short}
    sources = dict(notes.filter(source__in=keys).values_list("pk", "source"))
    if not matcher.runs and not matcher.short and not matcher.mentions:
        notes = notes.filter(pk__in=sources)

    def redacted(pk: int, text: Note | NoteVersion) -> tuple[str, str, list[str]] | None:
        source = sources.get(pk, 0)
        words = _with_short(matcher, short[source]) if source in short else matcher
        return _redacted_words(text, words, removed_words.get(source))

    def lock_and_redact(pk: int) -> None:
        locked = notes.select_for_update(of=("self",)).filter(pk=pk).first()
        words = redacted(pk, locked) if locked is not None else None
        if locked is not None and words is not None:
            locked.redact(*words)
            changed.add(pk)

    for note in notes.iterator(ROWS_PER_FETCH):
        if redacted(note.pk, note) is not None:
            lock_and_redact(note.pk)
    for version in NoteVersion.objects.filter(note__in=notes).iterator(ROWS_PER_FETCH):
        if (words := redacted(version.note_id, version)) is not None:
            lock_and_redact(version.note_id)  # this version may have been restored meanwhile
            version.redact(*words)
            changed.add(version.note_id)
    return len(changed)


def _redacted_words(
    note: Note | NoteVersion, matcher: QuoteMatcher, source_words: frozenset[str] | None
) -> tuple[str, str, list[str]] | None:
    """Return the redacted content, title and tags of a note, or None if nothing changes."""
    content, title = matcher.redact(note.content), matcher.redact(note.title)
    if source_words:
        content = "\n".join(
            REDACTED if repeats(line, [source_words]) else line for line in content.split("\n")
        )
        title = REDACTED if repeats(title, [source_words]) else title
    if note.title == title_of(note.content):
        title = title_of(content)
    tags = [tag for tag in note.tags if not matcher.spans(tag)]
    if (content, title, tags) == (note.content, note.title, note.tags):
        return None
    return content, title[:MAX_TITLE_LENGTH], tags


def _redact_topics(workspace: Workspace, matcher: QuoteMatcher) -> None:
    """Redact topics and purposes. The next sync may bring them back if Slack still shows them."""
    for channel in workspace.channels.exclude(topic="", purpose=""):
        words = {name: matcher.redact(getattr(channel, name)) for name in ("topic", "purpose")}
        channel.update_fields(words)
