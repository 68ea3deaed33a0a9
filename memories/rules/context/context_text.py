"""What a context is made of, and the text it is read as (S2, rule 10).

Notes, long-term memories, short-term history, threads and conversation follow each other, each
grouped by channel, the named channel first. A memory's lines stand with what holds now before what
happened, each with its day. The headings and days are ours alone: no persona, memory, note, message
or name can write one. The text is put together of blocks, so that whoever shows it can say of each
stretch what it is.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from memories.rules.generate.language import is_mostly_japanese
from memories.rules.generate.prompts import to_one_line, visible_text
from memories.rules.generate.tokens import count_characters, tokens_of_counts
from memories.rules.ingest.invisible import SHAPELESS
from memories.rules.ingest.names import safe_name
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.lines import split_history, split_text, words_of
from memories.rules.notes.fields import NoteText
from memories.rules.notes.notes_file import injection
from memories.rules.settings import MemorySettings

_BLANK = rf"(?:[{SHAPELESS}]|[^\S\n])"
_RULERS = "-=_*~\u2010-\u2015\u2212\u2500\u2501\u2e3a\u2e3b\ufe58\ufe63\uff0d\uff1d\uff3f"
# The beginning of a line that passes for a heading, a separator or a speaker.
_FORGED = re.compile(
    rf"^{_BLANK}*(?=[#\ufe5f\uff03]|---|(?:[{_RULERS}]{_BLANK}*)+$|[\[\uff3b]{_BLANK}*\d{{2}})",
    re.MULTILINE,
)
_BULLET = re.compile(r"\s*[-*•・]\s+")
_REPLACED = {"en": " (replaced)", "ja": "（変更済み）"}
_NOW_AND_HISTORY = {"en": ("Now", "History"), "ja": ("現在", "経緯")}


@dataclass(frozen=True)
class Version:
    """A version of a channel's short-term memory, or a thread's; ``until_us`` ends its period."""

    number: int
    content: str
    until_us: int = 0


@dataclass(frozen=True)
class Message:
    """A message as its line ``[YYYY-MM-DD HH:MM] name: text``; ``thread_ts`` is "" at top level."""

    micros: int
    line: str
    thread_ts: str = ""
    channel_id: str = ""

    @property
    def day(self) -> str:
        return self.line[1:11]

    @property
    def said(self) -> str:
        """The line without its time."""
        return self.line[len("[YYYY-MM-DD HH:MM] ") :]

    @property
    def line_of_day(self) -> str:
        """The line under a heading that has the day."""
        return f"[{self.line[12:]}"


@dataclass(frozen=True)
class LineFacts:
    """Of a line of a memory: when its newest message was sent, or its version's period ended,
    whether a person wrote or pinned it, its kind, "" where nobody said, and whether a newer line
    replaces it."""

    at_us: int = 0
    is_held: bool = False
    kind: str = ""
    is_replaced: bool = False


@dataclass(frozen=True)
class ChannelTexts:
    """What is kept of one channel; ``history`` in any order, no longer than it may be."""

    channel_id: str
    name: str
    long_term: str | None = None
    history: Sequence[Version] = ()
    archive: str | None = None  # lines that left the long-term memory, where they are wanted


@dataclass(frozen=True)
class Material:
    """Everything a context is made of. ``own`` is the id of the named channel, "" without one;
    its ``messages`` are oldest first, and so are the notes. ``earlier`` are messages beyond them that
    a budget may have room for; ``facts`` are those of lines, by `lines.words_of`."""

    settings: MemorySettings
    persona: str = ""
    own: str = ""
    target_thread_ts: str | None = None
    workspace_long_term: str | None = None
    workspace_short_term: str | None = None
    workspace_archive: str | None = None
    workspace_includes: Sequence[str] = ()  # names of channels that not everybody may read
    channels: Sequence[ChannelTexts] = ()
    further: int = 0  # channels with a memory that none of these are
    threads: Mapping[str, Version] = field(default_factory=dict)
    messages: Sequence[Message] = ()
    notes: Sequence[NoteText] = ()
    earlier: Sequence[Message] = ()
    facts: Mapping[str, LineFacts] = field(default_factory=dict)
    question: str = ""

    def facts_of(self, line: str) -> LineFacts:
        return self.facts.get(words_of(line), LineFacts())

    def day_of(self, us: int) -> str:
        """The day of a moment in the workspace's zone; "" where none is known."""
        return f"{from_micros(us).astimezone(self.settings.zone):%Y-%m-%d}" if us else ""


class Part(StrEnum):
    """The sections of the text, in their order."""

    PERSONA = "persona"
    NOTES = "notes"
    ZONE = "zone"
    LONG_TERM = "long_term"
    SHORT_TERM = "short_term"
    THREADS = "threads"
    CONVERSATION = "conversation"


@dataclass(frozen=True)
class Block:
    """A stretch of the text: a heading with what stands below it, or a section's title alone.

    ``place`` is the id of a channel, "" for the workspace, or the ts of a thread; ``number`` that of
    a version of short-term memory; ``items`` says how many pieces are in it, 0 for a title.
    """

    part: Part
    text: str
    place: str = ""
    number: int | None = None
    items: int = 1


def blocks_of(
    material: Material,
    channels: Sequence[ChannelTexts],
    threads: Mapping[str, str],
    messages: Sequence[Message],
    notes: Sequence[NoteText],
) -> list[Block]:
    """The material with these texts, in the order in which it is read; none of it is empty."""
    remembered = [
        *_section(Part.LONG_TERM, "Long-term memory", _long_term(material, channels)),
        *_section(Part.SHORT_TERM, "Short-term memory", _short_term(material, channels)),
        *_section(Part.THREADS, "Threads", _threads(material, threads)),
        *_section(Part.CONVERSATION, "Conversation", _conversation(material, channels, messages)),
    ]
    if remembered:
        zone = f"Times are in {material.settings.time_zone}."
        remembered.insert(0, Block(Part.ZONE, zone, items=0))
    persona = Block(Part.PERSONA, _body(material.persona))
    noted = Block(Part.NOTES, injection(notes).rstrip("\n"), items=len(notes))
    return [block for block in [persona, noted, *remembered] if block.text]


def joined(blocks: Iterable[Block]) -> str:
    """The text; "" when there is nothing to tell."""
    return "\n\n".join(block.text for block in blocks)


def sizes(blocks: Sequence[Block]) -> list[int]:
    """Tokens of each block where it stands: their sum is what the whole text takes."""
    wide = others = before = 0
    found: list[int] = []
    for block in blocks:
        more = count_characters(block.text if not found else f"\n\n{block.text}")
        wide, others = wide + more[0], others + more[1]
        found.append(tokens_of_counts(wide, others) - before)
        before += found[-1]
    return found


def _section(part: Part, title: str, blocks: Iterable[Block]) -> Iterator[Block]:
    found = list(blocks)
    if found:
        yield Block(part, f"# {title}", items=0)
        yield from found


def _heading(words: str, day: str = "") -> str:
    return f"## {to_one_line(words)}{', ' if day else ''}{day}\n"


def _long_term(material: Material, channels: Sequence[ChannelTexts]) -> Iterator[Block]:
    if material.workspace_long_term is not None:
        day = day_of_all(material, material.workspace_long_term)
        text = _included(material) + _memory(material, material.workspace_long_term, day)
        yield Block(Part.LONG_TERM, _heading("Workspace", day) + text)
    if material.workspace_archive is not None:
        above = "" if material.workspace_long_term is not None else _heading("Workspace")
        yield Block(Part.LONG_TERM, above + _archived(material.workspace_archive))
    for channel in channels:
        if channel.long_term is not None:
            day = day_of_all(material, channel.long_term)
            text = _memory(material, channel.long_term, day)
            text = _heading(f"#{safe_name(channel.name)}", day) + text
            yield Block(Part.LONG_TERM, text, channel.channel_id)
        if channel.archive is not None:
            has_heading = channel.long_term is not None
            above = "" if has_heading else _heading(f"#{safe_name(channel.name)}")
            yield Block(Part.LONG_TERM, above + _archived(channel.archive), channel.channel_id)


def _archived(text: str) -> str:
    return f"### Archive\n{_body(text)}"


def _included(material: Material) -> str:
    """Whose private text was published there, on their admin's word."""
    names = ", ".join(f"#{safe_name(name)}" for name in material.workspace_includes)
    return f"(Includes {names}, private, by opt-in.)\n" if names else ""


def _short_term(material: Material, channels: Sequence[ChannelTexts]) -> Iterator[Block]:
    if material.workspace_short_term is not None:
        day = day_of_all(material, material.workspace_short_term)
        text = _memory(material, material.workspace_short_term, day)
        yield Block(Part.SHORT_TERM, _heading("Workspace", day) + text)
    for channel in channels:
        for i, version in enumerate(channel.history):
            text = f"### {_period(material, version)}\n{_version(material, version)}"
            above = "" if i else _heading(f"#{safe_name(channel.name)}")
            yield Block(Part.SHORT_TERM, above + text, channel.channel_id, version.number)


def _version(material: Material, version: Version) -> str:
    return _memory(material, version.content, material.day_of(version.until_us), above="###")


def _memory(material: Material, text: str, day: str, *, above: str = "##") -> str:
    """A memory's text as it is read, below a heading of so many signs: what holds now, then what
    happened, oldest first. The two have headings of their own where both are there."""
    lines = [(line, material.facts_of(line)) for line in text.split("\n")]
    now, history = split_history(lines, lambda line: (line[1].kind, line[1].at_us))
    if not (now and history):
        return "\n".join(dated(material, *line, day) for line in lines).rstrip("\n")
    titles = _NOW_AND_HISTORY["ja" if is_mostly_japanese(text) else "en"]
    return "\n".join(
        row
        for title, part in zip(titles, (now, history), strict=True)
        for row in (
            f"{above}# {title}",
            *(dated(material, *line, day) for line in part if line[0].strip()),
        )
    )


def day_of_all(material: Material, text: str) -> str:
    """The day of all lines of a memory, which its heading has then; "" where they differ."""
    days = {material.day_of(material.facts_of(line).at_us) for line in split_text(text)}
    return days.pop() if len(days) == 1 else ""


def dated(material: Material, line: str, facts: LineFacts, day: str) -> str:
    """A line with its day behind the bullet, unless that is the day of the heading above it, and with
    a mark where a newer one replaces it."""
    own, body = material.day_of(facts.at_us), _body(line)
    if facts.is_replaced:
        body += _REPLACED["ja" if is_mostly_japanese(line) else "en"]
    bullet = _BULLET.match(body)
    return f"{bullet[0]}({own}) {body[bullet.end() :]}" if bullet and own not in ("", day) else body


def _period(material: Material, version: Version) -> str:
    if not version.until_us:
        return f"Version {version.number}"
    until = from_micros(version.until_us).astimezone(material.settings.zone)
    return f"Version {version.number}, until {until:%Y-%m-%d %H:%M}"


def _threads(material: Material, threads: Mapping[str, str]) -> Iterator[Block]:
    for ts, content in threads.items():
        day = day_of_all(material, content)
        text = _heading(f"Thread {ts}", day) + _memory(material, content, day)
        yield Block(Part.THREADS, text, ts)


def _conversation(
    material: Material, channels: Sequence[ChannelTexts], messages: Sequence[Message]
) -> Iterator[Block]:
    names = {channel.channel_id: safe_name(channel.name) for channel in channels}
    for channel_id, name in names.items():
        if said := [m for m in material.earlier if m.channel_id == channel_id]:
            yield _said(f"#{name}, earlier", said, channel_id)
    name = names.get(material.own, "")
    target = [m for m in messages if m.thread_ts and m.thread_ts == material.target_thread_ts]
    others = [m for m in messages if not m.thread_ts or m.thread_ts != material.target_thread_ts]
    if others:
        yield _said(f"#{name}", others, material.own)
    if target:
        heading = f"#{name}, thread {material.target_thread_ts}"
        yield _said(heading, target, material.target_thread_ts or "")


def _said(heading: str, messages: Sequence[Message], place: str) -> Block:
    days = [
        "\n".join([f"### {day}", *(message.line_of_day for message in of_day)])
        for day, of_day in groupby(messages, key=lambda message: message.day)
    ]
    return Block(Part.CONVERSATION, _heading(heading) + "\n".join(days), place, items=len(messages))


def _body(text: str) -> str:
    """A text without invisible characters. Lines that pass for ours stand behind two spaces."""
    return _FORGED.sub("  ", visible_text(text).rstrip("\n"))
