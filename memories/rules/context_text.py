"""What a context is made of, and the text it is read as (S2, rule 10).

Notes, long-term memories, short-term history, threads and conversation follow each other, each
grouped by channel, the named channel first. The headings are ours alone: no memory, note or
message can write one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memories.rules.invisible import clean
from memories.rules.notes import NoteText
from memories.rules.notes_file import injection
from memories.rules.prompts import one_line
from memories.rules.settings import MemorySettings
from memories.rules.slacktime import from_micros


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


def text_of(
    material: Material,
    channels: Sequence[ChannelTexts],
    threads: Mapping[str, str],
    messages: Sequence[Message],
    notes: Sequence[NoteText],
) -> str:
    """The text of what is left of the material; "" when there is nothing to tell."""
    sections = [
        _section("Long-term memory", _long_term(material, channels)),
        _section("Short-term memory", _short_term(material, channels)),
        _section("Threads", _threads(threads)),
        _section("Conversation", _conversation(material, channels, messages)),
    ]
    remembered = [section for section in sections if section]
    if remembered:
        remembered.insert(0, f"Times are in {material.settings.time_zone}.")
    parts = [injection(notes).rstrip("\n"), *remembered]
    # What a person does not see, a model must not read; the persona is the caller's own.
    return "\n\n".join(part for part in [material.persona, *map(clean, parts)] if part)


def _section(title: str, groups: Iterable[tuple[str, str]]) -> str:
    parts = [f"## {one_line(heading)}\n{body}" for heading, body in groups]
    return "\n\n".join([f"# {title}", *parts]) if parts else ""


def _long_term(material: Material, channels: Sequence[ChannelTexts]) -> Iterator[tuple[str, str]]:
    if material.workspace_long_term is not None:
        yield "Workspace", _included(material) + _body(material.workspace_long_term)
    for channel in channels:
        if channel.long_term is not None:
            yield f"#{channel.name}", _body(channel.long_term)


def _included(material: Material) -> str:
    """Whose private text was published there, on their admin's word."""
    names = ", ".join(f"#{one_line(name)}" for name in material.workspace_includes)
    return f"(Includes {names}, private, by opt-in.)\n" if names else ""


def _short_term(material: Material, channels: Sequence[ChannelTexts]) -> Iterator[tuple[str, str]]:
    if material.workspace_short_term is not None:
        yield "Workspace", _body(material.workspace_short_term)
    for channel in channels:
        if channel.history:
            parts = (f"### {_period(material, v)}\n{_body(v.content)}" for v in channel.history)
            yield f"#{channel.name}", "\n\n".join(parts)


def _period(material: Material, version: Version) -> str:
    if not version.until_us:
        return f"Version {version.number}"
    until = from_micros(version.until_us).astimezone(material.settings.zone)
    return f"Version {version.number}, until {until:%Y-%m-%d %H:%M}"


def _threads(threads: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for ts, content in threads.items():
        yield f"Thread {ts}", _body(content)


def _conversation(
    material: Material, channels: Sequence[ChannelTexts], messages: Sequence[Message]
) -> Iterator[tuple[str, str]]:
    name = next((c.name for c in channels if c.channel_id == material.own), "")
    target = [m for m in messages if m.thread_ts and m.thread_ts == material.target_thread_ts]
    others = [m for m in messages if not m.thread_ts or m.thread_ts != material.target_thread_ts]
    if others:
        yield f"#{name}", "\n".join(message.line for message in others)
    if target:
        heading = f"#{name}, thread {material.target_thread_ts}"
        yield heading, "\n".join(message.line for message in target)


def _body(text: str) -> str:
    """A memory's text; none of its lines can pass for a heading or the end of the notes."""
    return "\n".join(
        f"  {line}" if line.startswith(("#", "---")) else line for line in text.splitlines()
    )
