"""Redaction: remove deleted words from every text that was made from them.

A message is deleted, edited, forgotten by a command, or revoked as a source. The same transaction
removes its words from all versions, also old and withheld ones, and from kept replies of models,
notes, drafts, proposals, quarantined lines and waiting events.

- A line that has the message as a source is removed whole. So is a model's line without sources, if
  it may rest on the message.
- Elsewhere quotations are removed (`rules.redaction.shingles`), unless another source of the same
  texts holds these words too.
- Calls that were sent the words are repeated. The message's segments become stale, so the next
  passes make all memories above them again.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from django.db import models, transaction
from django.db.models import Q

from memories.models import (
    Channel,
    Job,
    Line,
    Memory,
    MemoryVersion,
    Message,
    Person,
    Segment,
    Workspace,
)
from memories.models.ingest.names import Names
from memories.pipeline.redaction import merges, slack_copies, workspace_texts
from memories.pipeline.redaction.removed import RedactionResult, RemovedMessage
from memories.pipeline.redaction.source_lines import lines_with_source, texts_with_source
from memories.rules.batches import in_batches
from memories.rules.ingest.markup import render_plain
from memories.rules.ingest.timestamps import micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import Origin
from memories.rules.redaction import shingles
from memories.rules.redaction.shingles import QuoteMatcher
from memories.rules.safety.normalized_text import LineMatcher, repeats, word_set

ROWS_PER_FETCH = 500


def redact_messages(
    workspace: Workspace, removed: Sequence[RemovedMessage], names: Names | None = None
) -> RedactionResult:
    """Remove the words of these messages, and have the texts made again without them.

    Call it in the transaction that purges or revokes the messages. ``names`` resolve the mentions
    in them, if the names are about to be forgotten as well.
    """
    if not removed:
        return RedactionResult()
    return Redactor(workspace, removed, names or Names.public(workspace)).run()


def redact_names(person: Person, names: Iterable[str]) -> RedactionResult:
    """Remove the names of a forgotten person from all texts.

    Another person's name stays. A name that is also an ordinary word of others is removed only
    where it is a mention.
    """
    workspace = person.workspace
    person_names = frozenset(map(shingles.normalize, names)) - {""}
    for name in {name for row in workspace.people.values_list("name", "real_name") for name in row}:
        person_names -= QuoteMatcher(frozenset(), person_names).find_in(name)
    if not person_names:
        return RedactionResult()
    return Redactor(workspace, (), Names.public(workspace), person_names, person.pk).run()


class Redactor:
    """One scan of a workspace's texts for removed messages, or for the names of a person."""

    def __init__(
        self,
        workspace: Workspace,
        removed: Sequence[RemovedMessage],
        names: Names,
        person_names: frozenset[str] = frozenset(),
        forgotten: int = 0,
    ) -> None:
        self.workspace = workspace
        self.removed = removed
        self.person_names = person_names
        self.forgotten = forgotten  # the key of the person
        self.channels = {message.channel for message in removed}
        self.keys = {message.pk for message in removed}
        self.deleted = {message.pk for message in removed if not message.is_edit}
        self.segments = {pk for message in removed for pk in message.segments}
        self.threads = {message.thread_ts for message in removed if message.thread_ts}
        self.since_us = min((micros(message.ts) for message in removed), default=0)
        self.result = RedactionResult(messages=len(removed))
        own_names = Channel.objects.filter(pk__in=self.channels).values_list("slack_id", "name")
        self.names = Names(names.people, {**names.channels, **dict(own_names)})
        self.matcher = QuoteMatcher(frozenset().union(*map(self._runs_of, removed)), person_names)
        self.removed_words = {
            message.pk: frozenset().union(*map(word_set, self._readings(message.text)))
            for message in removed
            if not message.is_edit
        }
        self.short = {m.pk: texts for m in removed if (texts := self._short_texts_of(m))}

    def run(self) -> RedactionResult:
        self.segments |= slack_copies.remove_previews(self.workspace, self.removed)
        self._restart_jobs(set())
        near = self._near_memories()
        of_workspace = Memory.objects.filter(workspace=self.workspace)
        self.writes = merges.count_writes(of_workspace)
        # A merge that drops an operation names a line of another memory.
        self.source_lines = LineMatcher(texts_with_source(self.deleted))
        self.unsourced = self._unsourced_lines(near) if self.deleted else {}  # line → version
        versions = self._versions_to_redact(near) | set(self.unsourced.values())
        replies = self._replies_to_redact(near)
        searched = near
        # People carry words from channel to channel, so deleted words are searched everywhere. An
        # edit is frequent, and is searched only where a model can have carried the words.
        reached = partial(merges.reached_workspace_memory, self.workspace, self.channels)
        if self.deleted or self.person_names or reached(versions):
            far = of_workspace.exclude(pk__in=near)
            versions |= self._versions_to_redact(far)
            replies += self._replies_to_redact(far)
            searched = of_workspace
        memories = self._redact_matches(versions, replies)
        # A version may have been saved or rewritten between the search and the lock of its memory. The text of
        # a job that was not restarted is saved by now.
        while written := merges.find_changed(searched, self.writes):
            rows = Memory.objects.filter(pk__in=written)
            newer = self._versions_to_redact(rows) | self._search_unsourced(written)
            memories |= self._redact_matches(newer, self._replies_to_redact(rows))
            versions |= newer
        workspace_texts.withdraw_wordings(
            self.workspace,
            self.matcher,
            versions,
            self.channels,
            self.segments,
            self.threads,
            self.since_us,
        )
        quarantined, notes = workspace_texts.redact(
            self.workspace, self.matcher, self.removed_words, self.short
        )
        self.result.quarantined += quarantined
        self.result.notes += notes
        self.result.events += slack_copies.skip_events(self.removed, self.matcher)
        slack_copies.remove_root_copies(self.removed, self.keys)
        # A call that was claimed meanwhile may have read the rows as they were.
        transaction.on_commit(partial(self._restart_jobs, memories))
        Segment.objects.filter(pk__in=self.segments).update(stale=True)
        self.result.memories |= memories
        return self.result

    # Words to search for

    def _readings(self, text: str) -> Iterator[str]:
        """Yield a message as a model reads it, and as Slack sent it.

        In Slack's markup a mention may hold a name that its author did not write.
        """
        yield (readable := render_plain(text, self.names))
        if readable != text and not self.person_names:
            yield text

    def _runs_of(self, message: RemovedMessage) -> set[str]:
        old = {run for text in self._readings(message.text) for run in shingles.runs(text)}
        return old.difference(*map(shingles.runs, self._readings(message.new_text)))

    def _short_texts_of(self, message: RemovedMessage) -> set[str]:
        """Return the old text of an edited message that is too short for a run."""
        if not message.is_edit:
            return set()
        old = set(map(shingles.short_text, self._readings(message.text)))
        return old - set(map(shingles.short_text, self._readings(message.new_text))) - {""}

    def _repeats_removed(self, text: str) -> bool:
        return repeats(text, self.removed_words.values())

    def _repeats_source(self, text: str) -> bool:
        """Return whether a dropped operation has the words of a deleted message, or of its lines."""
        return self._repeats_removed(text) or self.source_lines.matches(text)

    def _repeats_any(self, lines: LineMatcher, text: str) -> bool:
        return self._repeats_source(text) or lines.matches(text)

    # Rows to redact

    def _near_memories(self) -> "models.QuerySet[Memory]":
        of_workspace = Q(workspace=self.workspace, scope=MemoryScope.WORKSPACE)
        of_shares = Q(channel__in=Segment.objects.filter(pk__in=self.segments).values("channel"))
        return Memory.objects.filter(Q(channel__in=self.channels) | of_shares | of_workspace)

    def _versions_to_redact(self, memories: "models.QuerySet[Memory]") -> set[int]:
        """Return the versions that have a removed message as a source, or quote it."""
        lines = Line.objects.filter(version__memory__in=memories)
        matches = set(lines_with_source(lines, self.deleted | self.short.keys()).values())
        if self.matcher.runs or self.person_names:
            rows = MemoryVersion.objects.filter(memory__in=memories).exclude(pk__in=matches)
            texts = rows.values_list("pk", "name", "content", "put_back", "kept", "dropped")
            for pk, name, content, *lists in texts.iterator(ROWS_PER_FETCH):
                if any(map(self.matcher.find_in, (name, content, *sum(lists, [])))):
                    matches.add(pk)
        if self.deleted:
            rows = MemoryVersion.objects.filter(memory__in=memories)
            matches |= rows.keys_dropping(self._repeats_source)
        return matches

    def _unsourced_lines(self, near: "models.QuerySet[Memory]") -> dict[int, int]:
        """Return line → version for lines without sources that may rest on a removed message.

        These are the lines of its segments and threads, the lines of merges that read these, and
        lines that say the same in other words. Lines that a person wrote never are; lines that a
        person pinned are not in the last two cases.
        """
        lines = Line.objects.filter(version__memory__in=near, sources__isnull=True)
        lines = lines.exclude(origin=Origin.PERSON)
        in_channels = Q(version__memory__channel__in=self.channels)
        may_rest = Q(version__segment__in=self.segments)
        may_rest |= in_channels & Q(version__memory__thread_ts__in=self.threads)
        may_rest |= in_channels & Q(version__provisional=True)
        of_several = MemoryVersion.objects.of_several_segments(self.channels, self.since_us)
        may_rest |= Q(version__in=of_several.values("pk"))
        first_merges = merges.first_merges(
            self.workspace, self.channels, self.segments, self.since_us
        )
        for memory, number in first_merges.items():
            may_rest |= Q(version__memory=memory, since__gte=number, pinned=False)
        matches = dict(lines.filter(may_rest).values_list("pk", "version"))
        for pk, version, text in lines.filter(pinned=False).values_list("pk", "version", "text"):
            if not self.matcher.find_in(text) and self._repeats_removed(text):
                matches[pk] = version
        return matches

    def _search_unsourced(self, memories: Collection[int]) -> set[int]:
        """Add the unsourced lines of these memories. Return their versions."""
        if not self.deleted:
            return set()
        lines = self._unsourced_lines(self._near_memories().filter(pk__in=memories))
        self.unsourced |= lines
        return set(lines.values())

    def _replies_to_redact(self, memories: "models.QuerySet[Memory]") -> list[int]:
        """Return the jobs whose kept reply or fault rests on a removed message, or quotes it."""
        kept = Job.objects.filter(Q(reply__isnull=False) | ~Q(fault_text=""), memory__in=memories)
        matches: list[int] = []
        if self.deleted:
            about = self._is_about_removed() | Q(versions__in=set(self.unsourced.values()))
            matches += kept.filter(about).values_list("pk", flat=True)
        sources = self.deleted | self.short.keys()
        columns = kept.values_list("pk", "reply", "reply_sources", "fault_text")
        for pk, reply, reply_sources, fault in columns.iterator(ROWS_PER_FETCH):
            text = reply.get("text", "") if reply else ""
            has_source = text and not sources.isdisjoint(sum(reply_sources, []))
            if has_source or any(map(self.matcher.find_in, (text, fault))):
                matches.append(pk)
        return matches

    def _spare_words_of_other_messages(self, versions: Collection[int]) -> None:
        """Keep words that a remaining message of the same segments or texts holds as well."""
        beside = Q(segment__in=self.segments) | Q(thread_segment__in=self.segments)
        sources = Line.sources.through.objects.filter(line__version__in=versions)
        beside |= Q(pk__in=sources.values("message_id"))
        remaining = Message.objects.rememberable().filter(beside).exclude(pk__in=self.keys)
        remaining = remaining.exclude(author=self.forgotten)
        spared: set[str] = set()
        for text in remaining.values_list("text", flat=True).iterator(ROWS_PER_FETCH):
            for reading in self._readings(text):
                spared |= self.matcher.find_in(reading)
        if spared:
            old = self.matcher
            mentions = old.mentions | old.short & spared
            self.matcher = QuoteMatcher(old.runs - spared, old.short - spared, mentions)

    # Changes

    def _redact_matches(self, versions: Collection[int], replies: Iterable[int]) -> set[int]:
        """Redact versions and replies, restart the jobs, and return the changed memories."""
        self._spare_words_of_other_messages(versions)
        changed = self._redact_versions(versions)
        self._redact_replies(replies)
        self._restart_jobs(changed)
        return changed

    def _redact_versions(self, versions: Collection[int]) -> set[int]:
        """Redact versions, all memories under their locks, and return the changed memories."""
        rows = MemoryVersion.objects.filter(pk__in=versions)
        memories = list(Memory.objects.filter(versions__in=rows).distinct().order_by("pk"))
        for memory in memories:
            memory.lock()
        self._search_unsourced({memory.pk for memory in memories})  # a job may have replaced lines
        lines = Line.objects.filter(version__in=versions)
        whole = {line for line, _ in lines_with_source(lines, self.deleted)}
        whole.update(self.unsourced)
        short_texts: dict[int, set[str]] = defaultdict(set)
        for line, message in lines_with_source(lines, self.short):
            short_texts[line] |= self.short[message]
        short = {
            line: QuoteMatcher(self.matcher.runs, frozenset(texts))
            for line, texts in short_texts.items()
        }
        by_memory: dict[int, set[int]] = defaultdict(set)
        for pk, memory_id in rows.values_list("pk", "memory"):
            by_memory[memory_id].add(pk)
        removed_texts = self._removed_texts(whole, short)
        changed = set()
        for memory in memories:
            current = memory.current_id
            redacted_lines: set[int] = set()
            texts, keys = removed_texts[memory.pk], by_memory[memory.pk]
            lines_of_memory = LineMatcher(texts)
            repeats_removed = partial(self._repeats_any, lines_of_memory)
            if texts:
                keys = keys | memory.versions.all().keys_dropping(lines_of_memory.matches)
            for version in MemoryVersion.objects.filter(pk__in=keys).order_by("pk"):
                before = set(version.redacted_lines().values_list("pk", flat=True))
                revision = version.revision
                self.result.lines += version.redact(self.matcher, whole, short, repeats_removed)
                if version.revision == revision:
                    continue
                self.result.versions += 1
                changed.add(memory.pk)
                head, revisions = self.writes.get(memory.pk, (0, 0))
                self.writes[memory.pk] = head, revisions + 1
                if version.segment_id and memory.memory_type == MemoryType.SHORT_TERM:
                    self.segments.add(version.segment_id)
                if version.pk == current:
                    after = version.redacted_lines().values_list("pk", flat=True)
                    redacted_lines = set(after) - before
            if memory.pk in changed:
                memory.update_current()
                if memory.memory_type == MemoryType.LONG_TERM:
                    unsourced = self.unsourced.keys() & redacted_lines
                    merges.merge_again(memory, redacted_lines, unsourced, self.channels)
        return changed

    def _removed_texts(
        self, whole: Collection[int], short: Mapping[int, QuoteMatcher]
    ) -> dict[int, set[str]]:
        """Return memory → texts of its lines that are redacted because of a source."""
        texts: dict[int, set[str]] = defaultdict(set)
        for keys in in_batches({*whole, *short}):
            rows = Line.objects.filter(pk__in=keys, redacted=False)
            for pk, memory, text in rows.values_list("pk", "version__memory", "text"):
                if pk in whole or short[pk].find_in(text):
                    texts[memory].add(text)
        return texts

    def _redact_replies(self, replies: Iterable[int]) -> None:
        for keys in in_batches(replies):
            rows = Job.objects.filter(pk__in=keys)
            rows.restart()
            for pk, fault in rows.exclude(fault_text="").values_list("pk", "fault_text"):
                Job.objects.filter(pk=pk).update(fault_text=self.matcher.redact(fault))
            self.result.jobs += rows.update(reply=None)

    def _restart_jobs(self, memories: Collection[int]) -> None:
        """Restart the running jobs that were sent removed words, or the text of these memories."""
        affected = self._is_about_removed()
        if not self.workspace.memory_settings.history_enabled:
            affected |= Q(
                memory__channel__in=self.channels, memory__memory_type=MemoryType.SHORT_TERM
            )
        if memories:
            rows = Memory.objects.filter(pk__in=memories)
            affected |= Q(memory__channel__in=rows.exclude(channel=None).values("channel"))
            if rows.filter(channel=None).exists():
                affected |= Q(memory__workspace=self.workspace)
            else:
                affected |= Q(input_rows__version__memory__in=memories)
        if self.person_names:  # any call may have been sent a name
            affected = Q(memory__workspace=self.workspace)
        running = Job.objects.filter(affected, state__in=(Job.State.CLAIMED, Job.State.REPLIED))
        Job.objects.filter(pk__in=list(running.values_list("pk", flat=True))).restart()

    def _is_about_removed(self) -> Q:
        """Match jobs that are sent a removed message. A thread's job names its last segment only."""
        in_channels = Q(memory__channel__in=self.channels)
        about = Q(segment__in=self.segments) | in_channels & Q(provisional=True)
        return about | in_channels & Q(memory__thread_ts__in=self.threads)
