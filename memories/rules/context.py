"""What a reader (bot, agent) is given (S2, rule 10): its parts, their order, what gives way."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from memories.rules.context_text import (
    Block,
    ChannelTexts,
    Material,
    Part,
    Version,
    blocks_of,
    joined,
)
from memories.rules.notes import NoteText
from memories.rules.settings import Inject, MemorySettings
from memories.rules.tokens import estimate

# Sections that whoever asks may do without, and the reason that stands beside them then.
LEAVABLE = (Part.NOTES, Part.LONG_TERM, Part.SHORT_TERM, Part.THREADS, Part.CONVERSATION)
AS_ASKED = "as asked"


class NoSuchChannel(LookupError):
    """Unknown, or not the reader's to see: the same words for both."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"There is no channel {wanted!r}.")


class NoThread(ValueError):
    """Not a thread's ts, or a thread without its channel."""


@dataclass(frozen=True)
class ChannelMemory:
    """What is remembered of a channel (S2): ``short_term_memory`` is the last of its history,
    which stands oldest first."""

    channel_id: str
    channel_name: str
    long_term_memory: str | None = None
    short_term_memory: str | None = None
    short_term_memory_history: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LeftOut:
    """``count`` pieces of one kind that the budget had no room for. ``id`` is that of the channel,
    of the note, or the ts of the thread; "" for a whole section that was not wanted."""

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
    # Channels that not everybody may read, and whose long-term text is in the workspace's by opt-in.
    workspace_includes: list[str] = field(default_factory=list)
    channel_memories: dict[str, ChannelMemory] = field(default_factory=dict)
    thread_memories: dict[str, str] = field(default_factory=dict)
    target_thread_ts: str | None = None
    notes: list[NoteText] = field(default_factory=list)
    tokens: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    text: str = ""
    blocks: tuple[Block, ...] = ()

    def as_json(self) -> dict[str, Any]:
        told = {**asdict(self), "notes": [note.as_json() for note in self.notes]}
        del told["blocks"]
        return told


# A thing that may be left out: its kind, the id it is listed under, and its number there.
Piece = tuple[str, str, int]


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
    material: Material, budget: int | None = None, without: Collection[Part] = ()
) -> Context:
    """The context, within ``budget`` tokens where that can be, and ``without`` these sections.

    Pieces give way one after the other in the fixed order of `giving_way`, no more of them than
    needed; the persona, the own channel's long-term memory and the workspace's stay in any case.
    """
    material, unwanted = _leave(material, without)
    whole = _without(material, frozenset(), unwanted)
    if budget is None or whole.tokens <= budget:
        return whole
    order = giving_way(material)
    # Each further piece only makes the text shorter, so the least number can be searched for.
    enough, too_few = len(order), 0
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if _without(material, frozenset(order[:middle])).tokens <= budget:
            enough = middle
        else:
            too_few = middle
    counts = Counter((what, place) for what, place, _ in order[:enough])
    reason = f"over the budget of {budget} tokens"
    left_out = [LeftOut(what, place, n, reason) for (what, place), n in counts.items()]
    return _without(material, frozenset(order[:enough]), [*unwanted, *left_out])


def _leave(material: Material, parts: Collection[Part]) -> tuple[Material, list[LeftOut]]:
    """The material as if there were nothing for these sections, and how much that leaves out."""
    m, counts = material, dict[Part, int]()
    if Part.NOTES in parts:
        counts[Part.NOTES], m = len(m.notes), replace(m, notes=())
    if Part.LONG_TERM in parts:
        texts = [m.workspace_long_term, *(channel.long_term for channel in m.channels)]
        counts[Part.LONG_TERM] = sum(text is not None for text in texts)
        channels = [replace(channel, long_term=None) for channel in m.channels]
        m = replace(m, workspace_long_term=None, workspace_includes=(), channels=channels)
    if Part.SHORT_TERM in parts:
        history = sum(len(channel.history) for channel in m.channels)
        counts[Part.SHORT_TERM] = history + (m.workspace_short_term is not None)
        channels = [replace(channel, history=()) for channel in m.channels]
        m = replace(m, workspace_short_term=None, channels=channels)
    if Part.THREADS in parts:
        counts[Part.THREADS], m = len(m.threads), replace(m, threads={})
    if Part.CONVERSATION in parts:
        counts[Part.CONVERSATION], m = len(m.messages), replace(m, messages=())
    return m, [LeftOut(part, "", n, AS_ASKED) for part, n in counts.items() if n]


def giving_way(material: Material) -> list[Piece]:
    """What is left out first comes first (rule 10), within each kind the oldest; pinned notes
    after all other notes."""
    others = [c for c in material.channels if c.channel_id != material.own]
    own = [c for c in material.channels if c.channel_id == material.own]
    ended = {
        c.channel_id: max((version.until_us for version in c.history), default=0) for c in others
    }
    quiet_first = sorted(others, key=lambda c: (ended[c.channel_id], c.name))
    threads = sorted(material.threads.items(), key=lambda thread: thread[1].until_us)
    return [
        *_histories(others),
        *(("long_term_memory", c.channel_id, 0) for c in quiet_first if c.long_term is not None),
        *(("thread_memory", ts, 0) for ts, _ in threads),
        *(("note", str(n.id), 0) for n in sorted(material.notes, key=lambda n: n.is_pinned)),
        *_histories(own),
        *(("message", material.own, i) for i in range(len(material.messages))),
    ]


def _histories(channels: Iterable[ChannelTexts]) -> Iterator[Piece]:
    dated = [(v.until_us, c.name, c.channel_id, v.number) for c in channels for v in c.history]
    for _, _, channel_id, number in sorted(dated):
        yield "short_term_memory", channel_id, number


def _without(
    material: Material, gone: frozenset[Piece], left_out: Sequence[LeftOut] = ()
) -> Context:
    m = material
    channels = {
        c.channel_id: ChannelTexts(
            c.channel_id,
            c.name,
            None if ("long_term_memory", c.channel_id, 0) in gone else c.long_term,
            history_in_order(
                v for v in c.history if ("short_term_memory", c.channel_id, v.number) not in gone
            ),
        )
        for c in sorted(m.channels, key=lambda c: (c.channel_id != m.own, c.name, c.channel_id))
    }
    threads = {ts: v.content for ts, v in m.threads.items() if ("thread_memory", ts, 0) not in gone}
    messages = [x for i, x in enumerate(m.messages) if ("message", m.own, i) not in gone]
    notes = [note for note in m.notes if ("note", str(note.id), 0) not in gone]
    blocks = blocks_of(m, list(channels.values()), threads, messages, notes)
    text = joined(blocks)
    return Context(
        persona=m.persona,
        conversation_history=[message.line for message in messages],
        workspace_long_term_memory=m.workspace_long_term,
        workspace_short_term_memory=m.workspace_short_term,
        workspace_includes=list(m.workspace_includes),
        channel_memories={key: _channel_memory(c) for key, c in channels.items()},
        thread_memories=threads,
        target_thread_ts=m.target_thread_ts,
        notes=notes,
        tokens=estimate(text),
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
    )
