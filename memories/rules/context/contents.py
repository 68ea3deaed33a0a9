"""What a reader (bot, agent) is given (S2, rule 10): its parts, and their order."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from memories.rules.context.budget import EARLIER, fit
from memories.rules.context.context_text import (
    Block,
    ChannelTexts,
    Material,
    Part,
    Version,
    blocks_of,
    joined,
)
from memories.rules.generate.tokens import estimate_tokens
from memories.rules.notes.fields import NoteText
from memories.rules.safety.prompt_injection import aimed_at_model
from memories.rules.settings import Inject, MemorySettings

# Sections that whoever asks may do without, and the reason that stands beside them then.
LEAVABLE = (Part.NOTES, Part.LONG_TERM, Part.SHORT_TERM, Part.THREADS, Part.CONVERSATION)
AS_ASKED = "as asked"
FURTHER = "channels"  # those whose memories were not read
DEFAULT_BUDGET = 4_000


class NoSuchChannel(LookupError):
    """Unknown, or not the reader's to see: the same words for both."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"There is no channel {wanted!r}.")


class NoThread(ValueError):
    """Not a thread's ts, or a thread without its channel."""


class UnknownThread(NoThread):
    """No thread of the channel that the reader may see has this ts."""


@dataclass(frozen=True)
class ChannelMemory:
    """What is remembered of a channel (S2): ``short_term_memory`` is the last of its history,
    which stands oldest first. ``archive`` are lines that left the long-term memory for want of room,
    where they are asked for."""

    channel_id: str
    channel_name: str
    long_term_memory: str | None = None
    short_term_memory: str | None = None
    short_term_memory_history: list[str] = field(default_factory=list)
    archive: str | None = None


@dataclass(frozen=True)
class LeftOut:
    """``count`` lines or messages of one kind that the budget had no room for, or channels that were
    not read for it. ``id`` is that of the channel, of the note, or the ts of the thread; "" for a whole
    section that was not wanted."""

    what: str
    id: str
    count: int
    reason: str


@dataclass(frozen=True)
class Context:
    """``channel_memories`` by channel id, ``thread_memories`` by the ts of the thread's root.

    ``conversation_history`` holds lines ``[YYYY-MM-DD HH:MM] name: text`` in the workspace's zone.
    ``tokens`` is what ``text`` takes, as estimated; ``blocks`` are its stretches, for pages.
    """

    persona: str
    conversation_history: list[str]
    workspace_long_term_memory: str | None = None
    workspace_short_term_memory: str | None = None
    workspace_archive: str | None = None
    # Channels that not everybody may read, and whose long-term text is in the workspace's by opt-in.
    workspace_includes: list[str] = field(default_factory=list)
    channel_memories: dict[str, ChannelMemory] = field(default_factory=dict)
    thread_memories: dict[str, str] = field(default_factory=dict)
    target_thread_ts: str | None = None
    notes: list[NoteText] = field(default_factory=list)
    # Messages beyond the conversation that the budget had room for: the most informative of the
    # named channel, and with a question those that are about it; never an order to a model.
    earlier_messages: list[str] = field(default_factory=list)
    tokens: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    text: str = ""
    blocks: tuple[Block, ...] = ()

    def as_json(self) -> dict[str, Any]:
        told = {**asdict(self), "notes": [note.as_json() for note in self.notes]}
        del told["blocks"]
        for part in (told, *told["channel_memories"].values()):
            for key in ("workspace_archive", "archive"):
                if part.get(key, "") is None:  # not asked for: S2's keys alone
                    del part[key]
        return told


def history_limit(settings: MemorySettings) -> int:
    """How many short-term versions of a channel a context holds (S2): one without history."""
    return settings.max_history_count if settings.history_enabled else 1


def history_in_order(versions: Iterable[Version]) -> list[Version]:
    """Oldest first (S2): by the period they cover, then by number."""
    return sorted(versions, key=lambda version: (version.until_us, version.number))


def injects(mode: Inject, *, asked: bool) -> bool:
    """Whether notes go into this context (S4): always, when asked for, or never."""
    return mode == "auto" or (mode == "manual" and asked)


def find_channel(channels: Mapping[str, str], wanted: str) -> str:
    """The id of a channel named by id or by name (with # or without), of ``{id: name}``.

    Names may be used again in Slack: one that several channels have is as good as none.
    """
    if wanted in channels:
        return wanted
    named = [key for key, name in channels.items() if name == wanted.removeprefix("#")]
    if len(named) != 1:
        raise NoSuchChannel(wanted)
    return named[0]


def assemble(
    material: Material,
    budget: int | None = None,
    without: Collection[Part] = (),
    *,
    whole: Material | None = None,
) -> Context:
    """The context, ``without`` these sections, and within ``budget`` tokens where one is given.

    Under a budget it holds the best lines, notes and messages (`context_budget`); what the budget
    has no room for is counted. The persona stays in any case. With ``whole`` only the text obeys
    the budget, and all else is as that has it.
    """
    material, unwanted = _leave(material, without)
    built = _built(replace(material, earlier=()), unwanted)
    if budget is None:
        return built
    context = _with_everything(material, built.tokens, budget, unwanted)
    if context is None:
        context = _within(material, budget, unwanted)
    if material.further:
        reason = "their memories changed before those of the others"
        further = LeftOut(FURTHER, "", material.further, reason)
        context = replace(context, left_out=[*context.left_out, further])
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


def _with_everything(
    material: Material, tokens: int, budget: int, unwanted: Sequence[LeftOut]
) -> Context | None:
    """The context with all earlier messages beside what takes so many ``tokens``; None if that is
    over the budget."""
    if tokens + sum(estimate_tokens(message.line_of_day) for message in material.earlier) > budget:
        return None
    earlier = [message for message in material.earlier if not aimed_at_model(message.line)]
    context = _built(replace(material, earlier=earlier), unwanted)
    return context if context.tokens <= budget else None


def _within(material: Material, budget: int, unwanted: Sequence[LeftOut]) -> Context:
    choice = fit(material, budget)
    context = _built(choice.reduced, ())
    # What a unit costs is estimated by itself: there may be room for more, or the last be too much.
    choice.fill(budget - context.tokens)
    context = _built(choice.reduced, ())
    while context.tokens > budget and choice.chosen:
        choice.cut(context.tokens - budget)
        context = _built(choice.reduced, ())
    counts = Counter(unit.group[:2] for unit in choice.left_out if unit.what != EARLIER)
    reason = f"over the budget of {budget} tokens"
    left_out = [LeftOut(what, place, n, reason) for (what, place), n in counts.items()]
    return replace(context, left_out=[*unwanted, *left_out])


def _leave(material: Material, parts: Collection[Part]) -> tuple[Material, list[LeftOut]]:
    """The material as if there were nothing for these sections, and how much that leaves out."""
    m, counts = material, dict[Part, int]()
    if Part.NOTES in parts:
        counts[Part.NOTES], m = len(m.notes), replace(m, notes=())
    if Part.LONG_TERM in parts:
        texts = [m.workspace_long_term, *(channel.long_term for channel in m.channels)]
        counts[Part.LONG_TERM] = sum(text is not None for text in texts)
        channels = [replace(channel, long_term=None, archive=None) for channel in m.channels]
        m = replace(m, workspace_long_term=None, workspace_archive=None, channels=channels)
        m = replace(m, workspace_includes=())
    if Part.SHORT_TERM in parts:
        history = sum(len(channel.history) for channel in m.channels)
        counts[Part.SHORT_TERM] = history + (m.workspace_short_term is not None)
        channels = [replace(channel, history=()) for channel in m.channels]
        m = replace(m, workspace_short_term=None, channels=channels)
    if Part.THREADS in parts:
        counts[Part.THREADS], m = len(m.threads), replace(m, threads={})
    if Part.CONVERSATION in parts:
        counts[Part.CONVERSATION], m = len(m.messages), replace(m, messages=(), earlier=())
    return m, [LeftOut(part, "", n, AS_ASKED) for part, n in counts.items() if n]


def _built(m: Material, left_out: Sequence[LeftOut]) -> Context:
    in_order = sorted(m.channels, key=lambda c: (c.channel_id != m.own, c.name, c.channel_id))
    channels = [replace(c, history=history_in_order(c.history)) for c in in_order]
    threads = {ts: thread.content for ts, thread in m.threads.items()}
    blocks = blocks_of(m, channels, threads, m.messages, m.notes)
    text = joined(blocks)
    return Context(
        persona=m.persona,
        conversation_history=[message.line for message in m.messages],
        workspace_long_term_memory=m.workspace_long_term,
        workspace_short_term_memory=m.workspace_short_term,
        workspace_archive=m.workspace_archive,
        workspace_includes=list(m.workspace_includes),
        channel_memories={c.channel_id: _channel_memory(c) for c in channels},
        thread_memories=threads,
        target_thread_ts=m.target_thread_ts,
        notes=list(m.notes),
        earlier_messages=[message.line for message in m.earlier],
        tokens=estimate_tokens(text),
        left_out=list(left_out),
        text=text,
        blocks=tuple(blocks),
    )


def _channel_memory(channel: ChannelTexts) -> ChannelMemory:
    history = [version.content for version in channel.history]
    return ChannelMemory(
        channel_id=channel.channel_id,
        channel_name=channel.name,
        long_term_memory=channel.long_term,
        short_term_memory=history[-1] if history else None,
        short_term_memory_history=history,
        archive=channel.archive,
    )
