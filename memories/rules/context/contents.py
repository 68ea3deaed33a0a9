"""Assemble the context that an agent or bot gets (S2, rule 10)."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from memories.rules.context.blocks import Block, Part, build_blocks, join_blocks
from memories.rules.context.budget import EARLIER, Selection
from memories.rules.context.material import (
    ARCHIVE,
    LONG_TERM,
    SHORT_TERM,
    THREAD,
    Material,
)
from memories.rules.notes.fields import NoteText
from memories.rules.safety.prompt_injection import find_injection
from memories.rules.settings import Inject, MemorySettings
from memories.rules.tokens import estimate_tokens

# Sections that a request may leave out, and the reason that the context gives for them.
LEAVABLE = (Part.NOTES, Part.LONG_TERM, Part.SHORT_TERM, Part.THREADS, Part.CONVERSATION)
ON_REQUEST = "left out on request"
UNREAD_CHANNELS = "channels"
DEFAULT_BUDGET = 4_000
API_BUDGET = 20_000  # the largest one of the API and of MCP

_MEMORY_KINDS = {
    Part.LONG_TERM: (LONG_TERM, ARCHIVE),
    Part.SHORT_TERM: (SHORT_TERM,),
    Part.THREADS: (THREAD,),
}


class NoSuchChannel(LookupError):
    """The channel is unknown or unreadable. The message is the same for both."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no channel {name!r}.")


class NoThread(ValueError):
    """The ts is not that of a thread, or its channel is missing."""


class UnknownThread(NoThread):
    """The channel has no thread with this ts that the reader may read."""


@dataclass(frozen=True)
class ChannelMemory:
    """The memories of a channel (S2). ``short_term_memory`` is the last of its history, which is
    oldest first. ``archive`` has lines that left the long-term memory for want of room; None if the
    request does not include the archive."""

    channel_id: str
    channel_name: str
    long_term_memory: str | None = None
    short_term_memory: str | None = None
    short_term_memory_history: list[str] = field(default_factory=list)
    archive: str | None = None


@dataclass(frozen=True)
class LeftOut:
    """A number of lines, notes, messages or channels that a context does not hold.

    ``id`` is the id of the channel or note, or the ts of the thread; "" for a whole section.
    """

    what: str
    id: str
    count: int
    reason: str


@dataclass(frozen=True)
class Context:
    """A context and its parts. ``text`` is the whole.

    ``channel_memories`` are by channel id, ``thread_memories`` by the ts of the thread's root.
    ``conversation_history`` holds lines ``[YYYY-MM-DD HH:MM] name: text`` in the workspace's zone.
    ``workspace_includes`` names private channels whose long-term text is in the workspace's by
    opt-in. ``earlier_messages`` are messages before the conversation that fit into the budget,
    without those that give orders to a model. ``tokens`` is the estimate for ``text``. ``versions``
    are the keys of the memories' versions, the oldest first.
    """

    persona: str
    conversation_history: list[str]
    workspace_long_term_memory: str | None = None
    workspace_short_term_memory: str | None = None
    workspace_archive: str | None = None
    workspace_includes: list[str] = field(default_factory=list)
    channel_memories: dict[str, ChannelMemory] = field(default_factory=dict)
    thread_memories: dict[str, str] = field(default_factory=dict)
    target_thread_ts: str | None = None
    notes: list[NoteText] = field(default_factory=list)
    earlier_messages: list[str] = field(default_factory=list)
    tokens: int = 0
    versions: list[int] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    text: str = ""
    blocks: tuple[Block, ...] = ()

    def as_json(self) -> dict[str, Any]:
        document = {**asdict(self), "notes": [note.as_json() for note in self.notes]}
        del document["blocks"]
        for part in (document, *document["channel_memories"].values()):
            for key in ("workspace_archive", "archive"):
                if part.get(key, "") is None:  # S2 has no such keys
                    del part[key]
        return document


def history_limit(settings: MemorySettings) -> int:
    """Return how many short-term versions of a channel a context holds (S2): 1 without history."""
    return settings.max_history_count if settings.history_enabled else 1


def injects(mode: Inject, *, is_requested: bool) -> bool:
    """Return whether a context includes notes (S4): always, on request, or never."""
    return mode == "auto" or (mode == "manual" and is_requested)


def find_channel(channels: Mapping[str, str], channel: str) -> str:
    """Return the id of a channel given by id or by name, with or without #.

    ``channels`` are names by id. Raises NoSuchChannel, also if several channels have the name.
    """
    if channel in channels:
        return channel
    matches = [key for key, name in channels.items() if name == channel.removeprefix("#")]
    if len(matches) != 1:
        raise NoSuchChannel(channel)
    return matches[0]


def assemble(
    material: Material,
    budget: int | None = None,
    without: Collection[Part] = (),
    *,
    whole: Material | None = None,
) -> Context:
    """Return the context ``without`` these sections, within ``budget`` tokens if given.

    Within a budget it holds the best lines, notes and messages (`Selection`), and counts the
    others. It always holds the persona. With ``whole`` only the text is within the budget; all
    other fields come from ``whole``.
    """
    material, omitted = _leave_out(material, without)
    if budget is None:
        return _build(replace(material, earlier=()), omitted)
    context = _with_everything(material, budget, omitted) or _within(material, budget, omitted)
    if material.unread_channels:
        reason = "their memories changed before those of the others"
        unread = LeftOut(UNREAD_CHANNELS, "", material.unread_channels, reason)
        context = replace(context, left_out=[*context.left_out, unread])
    if whole is None:
        return context
    return replace(
        assemble(whole, None, without),
        earlier_messages=context.earlier_messages,
        tokens=context.tokens,
        left_out=context.left_out,
        text=context.text,
        blocks=context.blocks,
    )


def _with_everything(material: Material, budget: int, omitted: Sequence[LeftOut]) -> Context | None:
    """Return the context with all earlier messages, None if that is over the budget."""
    if sum(estimate_tokens(memory.content) for memory in material.memories) > 2 * budget:
        return None  # without a look: a text is at most shorter by its invisible characters
    without = _build(replace(material, earlier=()))
    tokens = without.tokens + sum(
        estimate_tokens(message.without_day) for message in material.earlier
    )
    if tokens > budget:
        return None
    earlier = [message for message in material.earlier if not find_injection(message.line)]
    context = _build(replace(material, earlier=earlier), omitted)
    return context if context.tokens <= budget else None


def _within(material: Material, budget: int, omitted: Sequence[LeftOut]) -> Context:
    selection = Selection(material, budget)
    context = _build(selection.reduced_material())
    # The cost of a unit is an estimate: there may be room for more units, or for fewer.
    selection.fill(budget - context.tokens)
    context = _build(selection.reduced_material())
    while context.tokens > budget and selection.chosen:
        selection.drop_last(context.tokens - budget)
        context = _build(selection.reduced_material())
    counts = Counter(unit.group[:2] for unit in selection.left_out() if unit.kind != EARLIER)
    reason = f"over the budget of {budget} tokens"
    over = [LeftOut(kind, key, count, reason) for (kind, key), count in counts.items()]
    return replace(context, left_out=[*omitted, *over])


def _leave_out(m: Material, parts: Collection[Part]) -> tuple[Material, list[LeftOut]]:
    """Return the material without these sections, and how much each of them had."""
    counts: dict[Part, int] = {}
    for part in LEAVABLE:
        if part not in parts:
            continue
        if part is Part.NOTES:
            counts[part], m = len(m.notes), replace(m, notes=())
        elif part is Part.CONVERSATION:
            counts[part], m = len(m.messages), replace(m, messages=(), earlier=())
        else:
            kinds = _MEMORY_KINDS[part]
            counts[part] = sum(memory.kind == kinds[0] for memory in m.memories)
            m = replace(m, memories=[x for x in m.memories if x.kind not in kinds])
    if Part.LONG_TERM in parts:
        m = replace(m, workspace_includes=())
    return m, [LeftOut(part, "", count, ON_REQUEST) for part, count in counts.items() if count]


def _build(m: Material, left_out: Iterable[LeftOut] = ()) -> Context:
    blocks = build_blocks(m)
    text = join_blocks(blocks)
    channel_memories = {}
    for channel_id, name in m.channels_in_order.items():
        history = [version.content for version in m.history(channel_id)]
        channel_memories[channel_id] = ChannelMemory(
            channel_id=channel_id,
            channel_name=name,
            long_term_memory=m.text(LONG_TERM, channel_id),
            short_term_memory=history[-1] if history else None,
            short_term_memory_history=history,
            archive=m.text(ARCHIVE, channel_id),
        )
    return Context(
        persona=m.persona,
        conversation_history=[message.line for message in m.messages],
        workspace_long_term_memory=m.text(LONG_TERM),
        workspace_short_term_memory=m.text(SHORT_TERM),
        workspace_archive=m.text(ARCHIVE),
        workspace_includes=list(m.workspace_includes),
        channel_memories=channel_memories,
        thread_memories={x.scope_key: x.content for x in m.memories if x.kind == THREAD},
        target_thread_ts=m.target_thread_ts,
        notes=list(m.notes),
        earlier_messages=[message.line for message in m.earlier],
        tokens=estimate_tokens(text),
        versions=sorted(memory.version for memory in m.memories if memory.version),
        left_out=list(left_out),
        text=text,
        blocks=tuple(blocks),
    )
