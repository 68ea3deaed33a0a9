"""What a context is made of, and the text it is read as (S2, rule 10).

Notes, long-term memories, short-term history, threads and conversation follow each other, each
grouped by channel, the named channel first. The headings are ours alone: no memory, note or
message can write one. The text is put together of blocks, so that whoever shows it can say of each
stretch what it is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from memories.rules.invisible import clean
from memories.rules.notes import NoteText
from memories.rules.notes_file import injection
from memories.rules.prompts import one_line
from memories.rules.settings import MemorySettings
from memories.rules.slacktime import from_micros
from memories.rules.tokens import counts, of_counts


@dataclass(frozen=True)
class Version:
    """A version of a channel's short-term memory, or a thread's; ``until_us`` ends its period."""

    number: int
    content: str
    until_us: int = 0


@dataclass(frozen=True)
class Message:
    """A message as its line; ``thread_ts`` is "" at top level."""

    micros: int
    line: str
    thread_ts: str = ""


@dataclass(frozen=True)
class ChannelTexts:
    """What is kept of one channel; ``history`` in any order, no longer than it may be."""

    channel_id: str
    name: str
    long_term: str | None = None
    history: Sequence[Version] = ()


@dataclass(frozen=True)
class Material:
    """Everything a context is made of. ``own`` is the id of the named channel, "" without one;
    its ``messages`` are oldest first, and so are the notes."""

    settings: MemorySettings
    persona: str = ""
    own: str = ""
    target_thread_ts: str | None = None
    workspace_long_term: str | None = None
    workspace_short_term: str | None = None
    workspace_includes: Sequence[str] = ()  # names of channels that not everybody may read
    channels: Sequence[ChannelTexts] = ()
    threads: Mapping[str, Version] = field(default_factory=dict)
    messages: Sequence[Message] = ()
    notes: Sequence[NoteText] = ()


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
    """What is left of the material, in the order in which it is read; none of it is empty."""
    remembered = [
        *_section(Part.LONG_TERM, "Long-term memory", _long_term(material, channels)),
        *_section(Part.SHORT_TERM, "Short-term memory", _short_term(material, channels)),
        *_section(Part.THREADS, "Threads", _threads(threads)),
        *_section(Part.CONVERSATION, "Conversation", _conversation(material, channels, messages)),
    ]
    if remembered:
        zone = f"Times are in {material.settings.time_zone}."
        remembered.insert(0, Block(Part.ZONE, zone, items=0))
    told = Block(Part.NOTES, injection(notes).rstrip("\n"), items=len(notes))
    # What a person does not see, a model must not read; the persona is the caller's own.
    cleaned = (replace(block, text=clean(block.text)) for block in [told, *remembered])
    return [block for block in [Block(Part.PERSONA, material.persona), *cleaned] if block.text]


def joined(blocks: Iterable[Block]) -> str:
    """The text; "" when there is nothing to tell."""
    return "\n\n".join(block.text for block in blocks)


def sizes(blocks: Sequence[Block]) -> list[int]:
    """Tokens of each block where it stands: their sum is what the whole text takes."""
    wide = others = before = 0
    found: list[int] = []
    for block in blocks:
        more = counts(block.text if not found else f"\n\n{block.text}")
        wide, others = wide + more[0], others + more[1]
        found.append(of_counts(wide, others) - before)
        before += found[-1]
    return found


def _section(part: Part, title: str, blocks: Iterable[Block]) -> Iterator[Block]:
    found = list(blocks)
    if found:
        yield Block(part, f"# {title}", items=0)
        yield from found


def _heading(words: str) -> str:
    return f"## {one_line(words)}\n"


def _long_term(material: Material, channels: Sequence[ChannelTexts]) -> Iterator[Block]:
    if material.workspace_long_term is not None:
        text = _included(material) + _body(material.workspace_long_term)
        yield Block(Part.LONG_TERM, _heading("Workspace") + text)
    for channel in channels:
        if channel.long_term is not None:
            text = _heading(f"#{channel.name}") + _body(channel.long_term)
            yield Block(Part.LONG_TERM, text, channel.channel_id)


def _included(material: Material) -> str:
    """Whose private text was published there, on their admin's word."""
    names = ", ".join(f"#{one_line(name)}" for name in material.workspace_includes)
    return f"(Includes {names}, private, by opt-in.)\n" if names else ""


def _short_term(material: Material, channels: Sequence[ChannelTexts]) -> Iterator[Block]:
    if material.workspace_short_term is not None:
        text = _heading("Workspace") + _body(material.workspace_short_term)
        yield Block(Part.SHORT_TERM, text)
    for channel in channels:
        for i, version in enumerate(channel.history):
            text = f"### {_period(material, version)}\n{_body(version.content)}"
            above = "" if i else _heading(f"#{channel.name}")
            yield Block(Part.SHORT_TERM, above + text, channel.channel_id, version.number)


def _period(material: Material, version: Version) -> str:
    if not version.until_us:
        return f"Version {version.number}"
    until = from_micros(version.until_us).astimezone(material.settings.zone)
    return f"Version {version.number}, until {until:%Y-%m-%d %H:%M}"


def _threads(threads: Mapping[str, str]) -> Iterator[Block]:
    for ts, content in threads.items():
        yield Block(Part.THREADS, _heading(f"Thread {ts}") + _body(content), ts)


def _conversation(
    material: Material, channels: Sequence[ChannelTexts], messages: Sequence[Message]
) -> Iterator[Block]:
    name = next((c.name for c in channels if c.channel_id == material.own), "")
    target = [m for m in messages if m.thread_ts and m.thread_ts == material.target_thread_ts]
    others = [m for m in messages if not m.thread_ts or m.thread_ts != material.target_thread_ts]
    if others:
        yield _said(f"#{name}", others, material.own)
    if target:
        heading = f"#{name}, thread {material.target_thread_ts}"
        yield _said(heading, target, material.target_thread_ts or "")


def _said(heading: str, messages: Sequence[Message], place: str) -> Block:
    lines = "\n".join(message.line for message in messages)
    return Block(Part.CONVERSATION, _heading(heading) + lines, place, items=len(messages))


def _body(text: str) -> str:
    """A memory's text; none of its lines can pass for a heading or the end of the notes."""
    return "\n".join(
        f"  {line}" if line.startswith(("#", "---")) else line for line in text.splitlines()
    )
