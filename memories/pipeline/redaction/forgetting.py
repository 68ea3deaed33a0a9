"""What is gone in Slack is gone here: its words are taken out of everything that was made from them.

A message that was deleted, edited, forgotten by command or revoked as a source leaves its row in the
same transaction in which its words leave all other places: each version, old and withheld ones too,
replies of the model that are kept, notes, drafts, quarantined lines, events that wait. A line that cites such
a message is masked whole; so is one of a model of which nobody knows what it rests on, where it may be
this. Elsewhere runs of its words are masked (`rules.shingles`) unless another message holds them as
well, among those that the texts in question rest on. What was asked with its words is asked anew; the
segments it was in are stale, and all up to the workspace's memory is made again.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from django.db import models, transaction
from django.db.models import Q

from memories.models import (
    Channel,
    Draft,
    Job,
    JobInput,
    Line,
    Memory,
    MemoryVersion,
    Message,
    Note,
    NoteVersion,
    QuarantinedLine,
    Segment,
    SlackEvent,
    Workspace,
)
from memories.models.ingest.names import Names
from memories.models.memory.versions import MemoryVersionQuerySet
from memories.pipeline.redaction.removed import RedactionResult, RemovedMessage
from memories.rules.ingest import references
from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.markup import render_plain
from memories.rules.ingest.message_text import message_text
from memories.rules.ingest.timestamps import micros
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import Origin
from memories.rules.notes.fields import LONGEST_TITLE
from memories.rules.redaction import shingles
from memories.rules.redaction.shingles import MARK, QuoteMatcher
from memories.rules.safety.guard import word_set

AT_ONCE = 500  # keys in one query
ALIKE = 0.6  # share of a line's words: without sources it says what this message says


def mask(
    workspace: Workspace, gone: Sequence[RemovedMessage], names: Names | None = None
) -> RedactionResult:
    """Take these messages' words out of all that was made from them, and have it made again. Call it
    in the transaction that purges or revokes them.

    ``names`` are those that mentions were read with, where they are about to be forgotten too.
    """
    if not gone:
        return RedactionResult()
    return _Redactor(workspace, gone, names or Names.public(workspace)).run()


def mask_names(workspace: Workspace, names: Iterable[str]) -> RedactionResult:
    """Take what somebody was called out of all texts, who is forgotten. What others are called as
    well stays; what others say as well goes only where it is a mention."""
    called = frozenset(map(shingles.words, names)) - {""}
    others = workspace.people.values_list("name", "real_name")
    for name in {name for pair in others for name in pair}:
        called -= QuoteMatcher(frozenset(), called).in_text(name)
    if not called:
        return RedactionResult()
    return _Redactor(workspace, (), Names.public(workspace), called).run()


class _Redactor:
    """One scan of the texts for all removed messages. ``called``: names that are removed, too."""

    def __init__(
        self,
        workspace: Workspace,
        gone: Sequence[RemovedMessage],
        names: Names,
        called: frozenset[str] = frozenset(),
    ) -> None:
        self.workspace = workspace
        self.gone = gone
        self.called = called
        self.channels = {one.channel for one in gone}
        self.keys = {one.pk for one in gone}
        self.cited = {one.pk for one in gone if one.cited}
        self.segments = {pk for one in gone for pk in one.segments}
        self.threads = {one.thread_ts for one in gone if one.thread_ts}
        self.unsourced: dict[int, int] = {}  # line → version
        self.touched = RedactionResult(messages=len(gone))
        own = dict(Channel.objects.filter(pk__in=self.channels).values_list("slack_id", "name"))
        self.names = Names(names.people, {**names.channels, **own})
        self.known = QuoteMatcher(frozenset().union(*map(self._runs_of, gone)), called)
        short = {one.pk: self._short_of(one) for one in gone if not one.cited}
        self.short = {pk: words for pk, words in short.items() if words}

    def run(self) -> RedactionResult:
        self._drop_previews()
        self._take_back_calls(set())
        near = self._near()
        self.unsourced = self._unsourced(near) if self.cited else {}
        versions = [*self._versions(near), *set(self.unsourced.values())]
        replies = self._replies(near)
        # People carry words from channel to channel, too: what is deleted is looked for everywhere. An
        # edit, of which there are many, only where a model can have carried it.
        if self.cited or self.called or self._reached_the_others(versions):
            others = Memory.objects.filter(workspace=self.workspace).exclude(pk__in=near)
            versions += self._versions(others)
            replies += self._replies(others)
        self._spare_what_others_say(versions)
        memories = self._mask_versions(versions)
        self._mask_replies(replies)
        self._mask_quarantined()
        self._mask_notes()
        Draft.objects.filter(memory__workspace=self.workspace).delete_quoting(self.known)
        self._mask_topics()
        self._drop_events()
        self._mask_copies()
        self._take_back_calls(memories)
        # A call that was claimed meanwhile may have read the rows as they were.
        transaction.on_commit(partial(self._take_back_calls, memories))
        Segment.objects.filter(pk__in=self.segments).update(stale=True)
        self.touched.memories |= memories
        return self.touched

    # -- what to look for

    def _words(self, text: str) -> Iterator[str]:
        """A message as it was read, and as Slack sent it; there a mention's label is a name that its
        author did not say."""
        read = render_plain(text, self.names)
        yield read
        if read != text and not self.called:
            yield text

    def _runs_of(self, one: RemovedMessage) -> set[str]:
        found = {run for text in self._words(one.text) for run in shingles.runs(text)}
        for text in self._words(one.instead):
            found -= shingles.runs(text)
        return found

    def _short_of(self, one: RemovedMessage) -> set[str]:
        found = {shingles.whole(text) for text in self._words(one.text)}
        return found - {shingles.whole(text) for text in self._words(one.instead)} - {""}

    # -- where it stands

    def _near(self) -> "models.QuerySet[Memory]":
        of_workspace = Q(workspace=self.workspace, scope=MemoryScope.WORKSPACE)
        return Memory.objects.filter(Q(channel__in=self.channels) | of_workspace)

    def _versions(self, memories: "models.QuerySet[Memory]") -> list[int]:
        """Versions of these memories that cite or quote."""
        lines = Line.objects.filter(version__memory__in=memories)
        found = set(self._citing(lines, self.cited | self.short.keys()).values())
        if self.known.runs or self.called:
            rows = MemoryVersion.objects.filter(memory__in=memories).exclude(pk__in=found)
            texts = rows.values_list("pk", "name", "content", "put_back", "kept", "dropped")
            for pk, name, content, *lists in texts.iterator(AT_ONCE):
                if any(map(self.known.in_text, (name, content, *sum(lists, [])))):
                    found.add(pk)
        return sorted(found)

    def _citing(
        self, lines: "models.QuerySet[Line]", messages: Iterable[int]
    ) -> dict[tuple[int, int], int]:
        """Which of these lines rest on which of these messages: (line, message) → version."""
        through = Line.sources.through.objects.filter(line__in=lines)
        found = {}
        for keys in _some(messages):
            rows = through.filter(message_id__in=keys)
            for line, message, version in rows.values_list(
                "line_id", "message_id", "line__version_id"
            ):
                found[line, message] = version
        return found

    def _unsourced(self, near: "models.QuerySet[Memory]") -> dict[int, int]:
        """Lines of which nobody knows what they rest on, and perhaps on this: those of their own
        segments and threads, those that a merge wrote when it had read them, and what says the
        same in other words. What a person wrote rests on their word; so does, in a merge, what they pinned."""
        lines = Line.objects.filter(version__memory__in=near, sources__isnull=True)
        lines = lines.exclude(origin=Origin.PERSON)
        of_channels = Q(version__memory__channel__in=self.channels)
        own = Q(version__segment__in=self.segments)
        own |= of_channels & Q(version__memory__thread_ts__in=self.threads)
        own |= of_channels & Q(version__provisional=True)
        for memory, number in self._first_that_read().items():
            own |= Q(version__memory=memory, since__gte=number, pinned=False)
        found = dict(lines.filter(own).values_list("pk", "version"))
        said = [word_set(one.text) for one in self.gone if one.cited]
        for pk, version, text in lines.filter(pinned=False).values_list("pk", "version", "text"):
            words = frozenset() if self.known.in_text(text) else word_set(text)
            if words and any(len(words & other) >= ALIKE * len(words) for other in said):
                found[pk] = version
        return found

    def _first_that_read(self) -> dict[int, int]:
        """Of each memory that is merged, the number of its first version that had read their
        segments' texts: what it says from then on may come from them."""
        read = JobInput.objects.filter(version__memory__channel__in=self.channels)
        direct = read
        if self.workspace.memory_settings.history_enabled:  # else one text is of all segments
            direct = read.filter(version__segment__in=self.segments)
        made = "job__versions__memory", "job__versions__number"
        first = _lowest(direct.values_list(*made))
        through = Q(pk__in=())
        for memory, number in first.items():
            through |= Q(version__memory=memory, version__number__gte=number)
        for memory, number in _lowest(read.filter(through).values_list(*made)).items():
            first[memory] = min(number, first.get(memory, number))
        return first

    def _replies(self, memories: "models.QuerySet[Memory]") -> list[int]:
        """Jobs that keep an answer, or a fault's words, which cites or quotes."""
        rows = Job.objects.filter(memory__in=memories)
        kept = rows.filter(Q(reply__isnull=False) | ~Q(fault_text=""))
        # Whatever an answer about them says without a source.
        about = self._about() | Q(versions__in=set(self.unsourced.values()))
        found = list(kept.filter(about).values_list("pk", flat=True)) if self.cited else []
        for pk, reply, cites, fault in kept.values_list(
            "pk", "reply", "cites", "fault_text"
        ).iterator(AT_ONCE):
            told = reply.get("text", "") if reply else ""
            cites_it = told and not self.cited.isdisjoint(key for keys in cites for key in keys)
            if cites_it or any(map(self.known.in_text, (told, fault))):
                found.append(pk)
        return found

    def _reached_the_others(self, versions: Collection[int]) -> bool:
        """Whether the words came to stand in the workspace's memory, which goes along when any
        channel is summarised; or did so before something else was masked there."""
        of_workspace = Q(memory__workspace=self.workspace, memory__scope=MemoryScope.WORKSPACE)
        if MemoryVersion.objects.filter(of_workspace, pk__in=versions).exists():
            return True
        masked = Line.objects.filter(masked=True, version__memory__workspace=self.workspace)
        masked = masked.filter(version__memory__scope=MemoryScope.WORKSPACE)
        return masked.filter(sources__channel__in=self.channels).exists()

    def _spare_what_others_say(self, versions: Collection[int]) -> None:
        """What a message that stays says as well is not taken from it: one of those that the same
        texts rest on, or of the same segments."""
        beside = Q(segment__in=self.segments) | Q(thread_segment__in=self.segments)
        cited = Line.sources.through.objects.filter(line__version__in=versions)
        beside |= Q(pk__in=cited.values("message_id"))
        stays = Message.objects.rememberable().filter(beside).exclude(pk__in=self.keys)
        held: set[str] = set()
        for text in stays.values_list("text", flat=True).iterator(AT_ONCE):
            for words in self._words(text):
                held |= self.known.in_text(words)
        if held:
            short = self.known.short
            self.known = QuoteMatcher(self.known.runs - held, short - held, short & held)

    # -- what becomes of it

    def _mask_versions(self, versions: Sequence[int]) -> set[int]:
        """The memories that it changed, each behind its lock, their versions read anew."""
        rows = MemoryVersion.objects.filter(pk__in=versions)
        memories = list(Memory.objects.filter(versions__in=rows).distinct().order_by("pk"))
        lines = Line.objects.filter(version__in=versions)
        whole = {line for line, _ in self._citing(lines, self.cited)}
        whole.update(self.unsourced)
        short = self._short_lines(lines)
        by_memory: dict[int, list[int]] = defaultdict(list)
        for pk, memory_id in rows.order_by("pk").values_list("pk", "memory"):
            by_memory[memory_id].append(pk)
        changed = set()
        for memory in memories:
            memory.lock()
            was = memory.current_id
            lost: set[int] = set()
            for version in MemoryVersion.objects.filter(pk__in=by_memory[memory.pk]):
                before = set(version.redacted_lines().values_list("pk", flat=True))
                revision = version.revision
                self.touched.lines += version.redact(self.known, whole, short)
                if version.revision == revision:
                    continue
                self.touched.versions += 1
                changed.add(memory.pk)
                if version.segment_id and memory.memory_type == MemoryType.SHORT_TERM:
                    self.segments.add(version.segment_id)
                if version.pk == was:
                    now = set(version.redacted_lines().values_list("pk", flat=True))
                    lost = now - before
            if memory.pk in changed:
                memory.update_current()
                self._owe_again(memory, lost)
        return changed

    def _short_lines(self, lines: "models.QuerySet[Line]") -> Mapping[int, QuoteMatcher]:
        """Lines that cite an edited message too short to have a run: its old words as a whole."""
        found: dict[int, set[str]] = defaultdict(set)
        for line, message in self._citing(lines, self.short):
            found[line] |= self.short[message]
        return {
            line: QuoteMatcher(self.known.runs, frozenset(words)) for line, words in found.items()
        }

    def _owe_again(self, memory: Memory, lost: Collection[int]) -> None:
        """Long-term memories are merged again with all that the masked lines rested on and that is
        still there; of a channel also with its newest text, so that there is something to merge."""
        if memory.memory_type != MemoryType.LONG_TERM:
            return
        left = Message.objects.rememberable().filter(lines__in=lost)
        # Of a line without sources, what was read when it came in.
        read = self._read_for(memory, lost)
        if memory.channel_id is None:
            channels = self.channels | set(left.values_list("channel", flat=True))
            channels |= {pk for pk in read.values_list("memory__channel", flat=True) if pk}
            again = MemoryVersion.objects.filter(
                current_of__channel__in=channels,
                current_of__scope=MemoryScope.CHANNEL,
                current_of__memory_type=MemoryType.LONG_TERM,
            )
        else:
            short = MemoryVersion.objects.filter(
                memory__channel=memory.channel_id,
                memory__scope=MemoryScope.CHANNEL,
                memory__memory_type=MemoryType.SHORT_TERM,
            )
            newest = short.filter(current_of__isnull=False).values("pk")
            of_left = Q(segment__in=left.values("segment")) | Q(pk__in=read.values("pk"))
            again = short.filter(of_left | Q(pk__in=newest))
        MemoryVersion.objects.filter(pk__in=list(again.values_list("pk", flat=True))).update(
            merged=False
        )

    def _read_for(self, memory: Memory, lost: Collection[int]) -> MemoryVersionQuerySet:
        since = Line.objects.filter(pk__in=self.unsourced.keys() & lost).values("since")
        made = MemoryVersion.objects.filter(memory=memory, number__in=since)
        read = JobInput.objects.filter(job__in=made.values("job"))
        return MemoryVersion.objects.filter(pk__in=read.values("version"))

    def _mask_replies(self, replies: Sequence[int]) -> None:
        for keys in _some(replies):
            rows = Job.objects.filter(pk__in=keys)
            rows.restart()
            for pk, fault in rows.exclude(fault_text="").values_list("pk", "fault_text"):
                Job.objects.filter(pk=pk).update(fault_text=self.known.masked(fault))
            self.touched.jobs += rows.update(reply=None)

    def _take_back_calls(self, memories: Collection[int]) -> None:
        """What is being asked about their segments; of the memories that were masked whatever is
        being asked, also with their text beside it."""
        reach = self._about()
        of_channels = Q(memory__channel__in=self.channels)
        if not self.workspace.memory_settings.history_enabled:
            reach |= of_channels & Q(memory__memory_type=MemoryType.SHORT_TERM)
        if memories:
            touched = Memory.objects.filter(pk__in=memories)
            reach |= Q(memory__channel__in=touched.exclude(channel=None).values("channel"))
            if touched.filter(channel=None).exists():
                reach |= Q(memory__workspace=self.workspace)
            else:
                reach |= Q(read__version__memory__in=memories)
        if self.called:  # anything may have been shown it
            reach = Q(memory__workspace=self.workspace)
        rows = Job.objects.filter(reach, state__in=(Job.State.CLAIMED, Job.State.REPLIED))
        Job.objects.filter(pk__in=list(rows.values_list("pk", flat=True))).restart()

    def _about(self) -> Q:
        """Jobs that are shown them. A thread's row names the last of its segments only."""
        of_channels = Q(memory__channel__in=self.channels)
        about = Q(segment__in=self.segments) | of_channels & Q(provisional=True)
        return about | of_channels & Q(memory__thread_ts__in=self.threads)

    def _mask_quarantined(self) -> None:
        rows = QuarantinedLine.objects.filter(memory__workspace=self.workspace).exclude(text=MARK)
        cited = {
            pk for keys in _some(self.cited)
            for pk in rows.filter(sources__in=keys).values_list("pk", flat=True)
        }  # fmt: skip
        for pk, text in rows.values_list("pk", "text").iterator(AT_ONCE):
            told = MARK if pk in cited else self.known.masked(text)
            if told != text:
                QuarantinedLine.objects.filter(pk=pk).update(text=told)
                self.touched.quarantined += 1

    def _mask_notes(self) -> None:
        if not (self.known.runs or self.called):
            return
        touched = set()
        # Notes first: a wording that is replaced meanwhile is found among the versions.
        notes = Note.objects.filter(workspace=self.workspace)
        for note in notes.iterator(AT_ONCE):
            if self._left_of(note) is None:
                continue
            locked = notes.select_for_update(of=("self",)).filter(pk=note.pk).first()
            if locked is not None and (left := self._left_of(locked)) is not None:
                locked.mask(*left)
                touched.add(note.pk)
        for version in NoteVersion.objects.filter(note__in=notes).iterator(AT_ONCE):
            if (left := self._left_of(version)) is not None:
                version.mask(*left)
                touched.add(version.note_id)
        self.touched.notes += len(touched)

    def _left_of(self, note: Note | NoteVersion) -> tuple[str, str, list[str]] | None:
        """What is left of its words; None where nothing is gone."""
        content, title = self.known.masked(note.content), self.known.masked(note.title)
        tags = [tag for tag in note.tags if not self.known.spans(tag)]
        if (content, title, tags) == (note.content, note.title, note.tags):
            return None
        return content, title[:LONGEST_TITLE], tags

    def _mask_topics(self) -> None:
        """Until Slack is asked again, which may still show it: then somebody has to take it out there."""
        described = self.workspace.channels.exclude(topic="", purpose="")
        for channel in described.only("topic", "purpose"):
            words = {name: getattr(channel, name) for name in ("topic", "purpose")}
            channel.describe({name: self.known.masked(text) for name, text in words.items()})

    def _drop_events(self) -> None:
        """What still waits about them adds nothing; of an edited one, what tells the old words: a
        sync makes good what else it told. What others say in the same words is theirs."""
        places = self._places()
        if not places:
            return
        times = {ts for _, ts in places}
        kept = SlackEvent.objects.with_body()
        for pk, body in kept.values_list("pk", "body").iterator(AT_ONCE):
            if times.isdisjoint(references.TS.findall(body)):
                continue
            told = references.load_object(body)
            about = {places[key] for key in references.event_messages(told) & places.keys()}
            quotes = about and any(map(self.known.spans, references.iter_strings(told)))
            if quotes or any(one.cited for one in about):
                SlackEvent.objects.filter(pk=pk).update(
                    body="", state=SlackEvent.State.SKIPPED, reason="forgotten"
                )
                self.touched.events += 1

    def _places(self) -> dict[tuple[str, str], RemovedMessage]:
        """By their channel's Slack id and their ts."""
        channels = dict(Channel.objects.filter(pk__in=self.channels).values_list("pk", "slack_id"))
        return {(channels[one.channel], one.ts): one for one in self.gone}

    def _drop_previews(self) -> None:
        """A message that links to another one, or shares it, carries it along. It came later."""
        places = self._places()
        if not places:
            return
        since = min(micros(one.ts) for one in self.gone)
        held = Message.objects.filter(channel__workspace=self.workspace, micros__gte=since)
        held = held.filter(raw__contains='"attachments"').exclude(pk__in=self.keys)
        links = {references.permalink_path(*place) for place in places}
        read = held.select_related("channel").only(
            "text", "raw", "segment", "thread_segment", "channel__slack_id"
        )
        for row in read.iterator(AT_ONCE):
            if links.isdisjoint(references.LINK.findall(row.raw)):
                continue
            told = references.load_object(row.raw)
            left = references.remove_embedded(told, row.channel.slack_id, links)
            if left == told:
                continue
            text = row.text
            if text == make_storable(message_text(told)):  # a share without text of its own
                text = make_storable(message_text(left))
            Message.objects.filter(pk=row.pk).update(raw=json.dumps(left), text=text)
            if text != row.text:
                self.segments |= {pk for pk in (row.segment_id, row.thread_segment_id) if pk}

    def _mask_copies(self) -> None:
        """A reply that was sent to the channel as well carries its root along."""
        roots = {(one.channel, one.ts) for one in self.gone if one.thread_ts == one.ts}
        for keys in _some({ts for _, ts in roots}):
            rows = Message.objects.filter(
                channel__in=self.channels, thread_ts__in=keys, raw__contains='"root"'
            ).exclude(pk__in=self.keys)
            for row in rows.only("channel", "thread_ts", "raw"):
                if (row.channel_id, row.thread_ts) in roots:
                    told = json.loads(row.raw)
                    told.pop("root", None)
                    Message.objects.filter(pk=row.pk).update(raw=json.dumps(told))


def _lowest(rows: Iterable[tuple[int | None, int | None]]) -> dict[int, int]:
    """The lowest number of each key."""
    lowest: dict[int, int] = {}
    for key, number in rows:
        if key is not None and number is not None:
            lowest[key] = min(number, lowest.get(key, number))
    return lowest


def _some(keys: Iterable[Any]) -> Iterator[list[Any]]:
    """Keys for one query at a time."""
    keys = list(keys)
    return (keys[begin : begin + AT_ONCE] for begin in range(0, len(keys), AT_ONCE))
