"""Render the material of a context as text (S2, rule 10).

The order is: notes, long-term memories, short-term history, threads, conversation. Each section is
grouped by channel, the named channel first. A memory lists what holds now before what happened.
Lines of a persona, memory, note, message or name that look like headings are indented. The text
consists of blocks, so that a page can show the source and the size of each.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from memories.rules.context.material import (
    ARCHIVE,
    LONG_TERM,
    SHORT_TERM,
    THREAD,
    WORKSPACE,
    LineFacts,
    Material,
    MemoryText,
    MessageLine,
)
from memories.rules.generate.prompts import to_one_line, visible_text
from memories.rules.ingest.invisible import SHAPELESS
from memories.rules.ingest.names import safe_name
from memories.rules.ingest.timestamps import from_micros
from memories.rules.language import is_mostly_japanese
from memories.rules.memory.lines import split_history
from memories.rules.notes.notes_file import injection
from memories.rules.tokens import count_characters, tokens_of_counts

_BLANK = rf"(?:[{SHAPELESS}]|[^\S\n])"
_RULERS = "-=_*~\u2010-\u2015\u2212\u2500\u2501\u2e3a\u2e3b\ufe58\ufe63\uff0d\uff1d\uff3f"
_BRACKETS = r"\[\u2045\u27e6\u3010\u3014\u3016\u3018\u301a\ufe3b\ufe47\ufe5d\uff3b"
# The start of a line that looks like a heading, a separator or a speaker.
_FORGED = re.compile(
    rf"^{_BLANK}*(?=[#\ufe5f\uff03]|---|(?:[{_RULERS}]{_BLANK}*)+$"
    rf"|[{_BRACKETS}]{_BLANK}*\d{{2}})",
    re.MULTILINE,
)
_BULLET = re.compile(r"\s*[-*•・]\s+")
_REPLACED = {"en": " (replaced)", "ja": "（変更済み）"}
_WRITTEN_BY = {"en": " (written by {})", "ja": "（{}が記入）"}
_NOW_AND_HISTORY = {"en": ("Now", "History"), "ja": ("現在", "経緯")}


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
    """A part of the text: the title of a section, or a heading with the text below it.

    ``scope_key`` is the id of a channel, "" for the workspace, or the ts of a thread. ``number`` is
    set for a version of a channel's short-term memory. ``items`` counts its notes or messages; it is
    0 for a title.
    """

    part: Part
    text: str
    scope_key: str = ""
    number: int | None = None
    items: int = 1


def build_blocks(material: Material) -> list[Block]:
    """Return the blocks of the text in order, without empty ones."""
    sections = (
        (Part.LONG_TERM, "Long-term memory", _long_term(material)),
        (Part.SHORT_TERM, "Short-term memory", _short_term(material)),
        (Part.THREADS, "Threads", _threads(material)),
        (Part.CONVERSATION, "Conversation", _conversation(material)),
    )
    remembered: list[Block] = []
    for part, title, blocks in sections:
        if in_section := list(blocks):
            remembered += [Block(part, f"# {title}", items=0), *in_section]
    if remembered:
        zone = f"Times are in {material.settings.time_zone}."
        remembered.insert(0, Block(Part.ZONE, zone, items=0))
    persona = Block(Part.PERSONA, _escape(material.persona))
    notes = injection(material.notes).rstrip("\n")
    noted = Block(Part.NOTES, notes, items=len(material.notes))
    return [block for block in (persona, noted, *remembered) if block.text]


def join_blocks(blocks: Iterable[Block]) -> str:
    return "\n\n".join(block.text for block in blocks)


def block_tokens(blocks: Sequence[Block]) -> list[int]:
    """Return the tokens of each block. Their sum is the estimate for the whole text."""
    wide = others = total = 0
    tokens: list[int] = []
    for block in blocks:
        block_wide, block_others = count_characters(f"\n\n{block.text}" if tokens else block.text)
        wide, others = wide + block_wide, others + block_others
        tokens.append(tokens_of_counts(wide, others) - total)
        total += tokens[-1]
    return tokens


def _heading(words: str, day: str = "") -> str:
    return f"## {to_one_line(words)}{', ' if day else ''}{day}\n"


def _titles(material: Material) -> dict[str, str]:
    """Return the headings of the workspace and of the channels by scope key, in order."""
    channels = material.channels_in_order.items()
    return {WORKSPACE: "Workspace"} | {key: f"#{safe_name(name)}" for key, name in channels}


def _long_term(material: Material) -> Iterator[Block]:
    for scope_key, title in _titles(material).items():
        long_term = material.text(LONG_TERM, scope_key)
        if long_term is not None:
            day = material.shared_day(long_term)
            names = material.workspace_includes if scope_key == WORKSPACE else ()
            note = ", ".join(f"#{safe_name(name)}" for name in names)
            included = f"(Includes {note}, private, by opt-in.)\n" if note else ""
            text = _heading(title, day) + included + _memory(material, long_term, day)
            yield Block(Part.LONG_TERM, text, scope_key)
        archive = material.text(ARCHIVE, scope_key)
        if archive is not None:
            heading = _heading(title) if long_term is None else ""
            yield Block(Part.LONG_TERM, f"{heading}### Archive\n{_escape(archive)}", scope_key)


def _short_term(material: Material) -> Iterator[Block]:
    titles = _titles(material)
    short_term = material.text(SHORT_TERM)
    if short_term is not None:
        day = material.shared_day(short_term)
        text = _heading(titles[WORKSPACE], day) + _memory(material, short_term, day)
        yield Block(Part.SHORT_TERM, text)
    for scope_key in material.channels_in_order:
        for i, version in enumerate(material.history(scope_key)):
            day = material.day_of(version.until_us)
            text = _memory(material, version.content, day, level="###")
            heading = "" if i else _heading(titles[scope_key])
            text = f"{heading}### {_period(material, version)}\n{text}"
            yield Block(Part.SHORT_TERM, text, scope_key, version.number)


def _period(material: Material, version: MemoryText) -> str:
    if not version.until_us:
        return f"Version {version.number}"
    until = from_micros(version.until_us).astimezone(material.settings.zone)
    return f"Version {version.number}, until {until:%Y-%m-%d %H:%M}"


def _threads(material: Material) -> Iterator[Block]:
    for memory in material.memories:
        if memory.kind == THREAD:
            day = material.shared_day(memory.content)
            text = _heading(f"Thread {memory.scope_key}", day) + _memory(
                material, memory.content, day
            )
            yield Block(Part.THREADS, text, memory.scope_key)


def _memory(material: Material, text: str, day: str, *, level: str = "##") -> str:
    """Return a memory's text below a heading of this level: what holds now, then what happened.

    The two get headings if both exist. Events are oldest first.
    """
    lines = [(line, material.facts_of(line)) for line in text.split("\n")]
    now, history = split_history(lines, lambda line: (line[1].kind, line[1].at_us))
    if not (now and history):
        return "\n".join(dated_line(material, *line, day) for line in lines).rstrip("\n")
    rows = []
    titles = _NOW_AND_HISTORY["ja" if is_mostly_japanese(text) else "en"]
    for title, dated in zip(titles, (now, history), strict=True):
        rows.append(f"{level}# {title}")
        rows += [dated_line(material, *line, day) for line in dated if line[0].strip()]
    return "\n".join(rows)


def dated_line(material: Material, line: str, facts: LineFacts, heading_day: str) -> str:
    """Return a line with its day behind the bullet.

    The day is omitted if the heading has it. Marks name the person who wrote the line, and say that
    a newer line replaces it.
    """
    day, body = material.day_of(facts.at_us), _escape(line)
    if facts.author or facts.is_replaced:
        language = "ja" if is_mostly_japanese(line) else "en"
        if facts.author:
            body += _WRITTEN_BY[language].format(safe_name(facts.author))
        if facts.is_replaced:
            body += _REPLACED[language]
    bullet = _BULLET.match(body)
    if not bullet or day in ("", heading_day):
        return body
    return f"{bullet[0]}({day}) {body[bullet.end() :]}"


def _conversation(material: Material) -> Iterator[Block]:
    """Yield the messages of each channel, those of the named channel and of its thread last."""
    target_ts = material.target_thread_ts
    in_thread = [m for m in material.messages if m.thread_ts and m.thread_ts == target_ts]
    in_channel = [m for m in material.messages if not m.thread_ts or m.thread_ts != target_ts]
    by_channel: dict[str, list[MessageLine]] = {}
    for message in material.earlier:
        by_channel.setdefault(message.channel_id, []).append(message)
    own = [*by_channel.pop(material.channel_id, ()), *in_channel]
    own.sort(key=lambda message: message.micros)
    names = {key: safe_name(name) for key, name in material.channels_in_order.items()}
    for channel_id, name in names.items():
        if channel_id in by_channel:
            messages = by_channel[channel_id]
            yield _messages_block(material, f"#{name}, earlier", messages, channel_id)
    name = names.get(material.channel_id, "")
    if own:
        yield _messages_block(material, f"#{name}", own, material.channel_id)
    if in_thread:
        yield _messages_block(material, f"#{name}, thread {target_ts}", in_thread, target_ts or "")


def _messages_block(
    material: Material, heading: str, messages: Sequence[MessageLine], scope_key: str
) -> Block:
    """Return the messages below their days. Only the first of an author has the whole name."""
    rows: list[str] = []
    named: set[str] = set()
    for day, of_day in groupby(messages, key=lambda message: message.day):
        rows.append(f"### {day}")
        for message in of_day:
            is_named = message.author in named
            rows.append(message.shortened(material.short_names if is_named else {}))
            named.add(message.author)
    text = _heading(heading) + "\n".join(rows)
    return Block(Part.CONVERSATION, text, scope_key, items=len(messages))


def _escape(text: str) -> str:
    """Remove invisible characters, and indent lines that look like ours by two spaces."""
    return _FORGED.sub("  ", visible_text(text).rstrip("\n"))
