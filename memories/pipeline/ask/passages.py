"""Find the lines, notes and messages that may answer a question, for a reader."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memories.models import Line, MemoryVersion, Message, Note, Reader, Workspace
from memories.models.ingest.names import names_in
from memories.pipeline.search.finding import (
    audience_keys,
    most_relevant,
    question_hits,
    question_words,
)
from memories.rules.ask.ranking import Candidate, choose
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.ingest.markup import render_plain
from memories.rules.ingest.names import safe_name
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.lines import strip_bullet

VERSIONS = 200  # the newest texts with a word of the question, whose lines are read
MESSAGES = 100  # the most relevant messages


@dataclass(frozen=True)
class Passage:
    """A readable text that may answer a question, without markup."""

    row: Line | Note | Message
    text: str
    at_us: int

    @property
    def key(self) -> str:
        """The kind and primary key, as in the ids of the API: "line-5"."""
        return f"{self.row._meta.model_name}-{self.row.pk}"

    @property
    def author(self) -> str:
        """The name of the author of a message, which is data. Other texts have none."""
        return safe_name(self.row.author_name) if isinstance(self.row, Message) else ""

    @property
    def channel_id(self) -> int | None:
        """The primary key of its channel, None for a line or note of the whole workspace."""
        row = self.row.version.memory if isinstance(self.row, Line) else self.row
        return row.channel_id

    @property
    def with_author(self) -> str:
        """The text of a message after the name of its author, as in most lines."""
        return f"{self.author}: {self.text}" if self.author else self.text

    @property
    def candidate(self) -> Candidate:
        return Candidate(self.with_author, self.at_us, isinstance(self.row, Line))


def find_passages(
    question: str, workspace: Workspace, reader: Reader, now: datetime
) -> list[Passage]:
    """Return the readable texts that are most about a question, best first. No model is involved.

    The number of queries does not depend on the number of hits.
    """
    words = question_words(question)
    if not words:
        return []
    keys = audience_keys(workspace, reader, None)
    versions = _versions(workspace, reader).current().matching_any(words, keys)[:VERSIONS]
    lines = Line.objects.filter(version__in=[version.pk for version in versions])
    notes = _notes(workspace, reader).matching_any(words, keys)[:VERSIONS]
    now_us = to_micros(now)
    messages = _messages(workspace, reader).until(now_us)
    hits = question_hits(question, messages, keys, now_us).values_list("pk", "micros", "tokens")
    best = most_relevant(question, hits)[:MESSAGES]
    passages = _load(lines, notes, messages.filter(pk__in=best), workspace, reader)
    candidates = [passage.candidate for passage in passages]
    chosen = choose(question, candidates, now_us)
    return [passages[i] for i in chosen]


def load_passages(keys: Iterable[str], workspace: Workspace, reader: Reader) -> list[Passage]:
    """Return the passages with these keys that the reader may read, in any order."""
    pks: dict[str, list[int]] = {"line": [], "note": [], "message": []}
    for key in keys:
        kind, _, pk = key.partition("-")
        if kind in pks and pk.isascii() and pk.isdigit() and len(pk) < 18:
            pks[kind].append(int(pk))
    return _load(
        Line.objects.filter(pk__in=pks["line"], version__in=_versions(workspace, reader)),
        _notes(workspace, reader).filter(pk__in=pks["note"]),
        _messages(workspace, reader).filter(pk__in=pks["message"]),
        workspace,
        reader,
    )


def _versions(workspace: Workspace, reader: Reader) -> Any:
    versions = MemoryVersion.objects.visible_to(reader).with_text()
    return versions.filter(memory__workspace=workspace)


def _notes(workspace: Workspace, reader: Reader) -> Any:
    return Note.objects.visible_to(reader).in_use(workspace).select_related("workspace", "channel")


def _messages(workspace: Workspace, reader: Reader) -> Any:
    messages = Message.objects.visible_to(reader).rememberable()
    return messages.filter(channel__workspace=workspace)


def _load(
    lines: Any, notes: Any, messages: Any, workspace: Workspace, reader: Reader
) -> list[Passage]:
    """Return the passages of these rows, without lines that another line replaces."""
    lines = lines.filter(redacted=False, outcome="").select_related(
        "version__memory__channel__workspace", "version__memory__workspace"
    )
    messages = list(messages.select_related("channel__workspace", "author"))
    names = names_in((message.text for message in messages), workspace, reader)
    return [
        *(Passage(line, strip_invisible(strip_bullet(line.text)), line.at_us) for line in lines),
        *(
            Passage(note, strip_invisible(note.content), to_micros(note.written_at))
            for note in notes
        ),
        *(
            Passage(row, render_plain(strip_invisible(row.text), names), row.micros)
            for row in messages
        ),
    ]
