"""The input of a context: memories, messages and notes as plain values (S2, rule 10)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo

from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.lines import split_text, strip_bullet
from memories.rules.notes.fields import NoteText
from memories.rules.settings import MemorySettings

# Kinds of memory texts, as the keys of a context name them.
LONG_TERM = "long_term_memory"
SHORT_TERM = "short_term_memory"
THREAD = "thread_memory"
ARCHIVE = "archive"
WORKSPACE = ""  # the scope key of the workspace's own memories
_TIMES = 20_000  # whose days a process keeps

Group = tuple[str, str, int]  # kind, scope key, number of the version


@dataclass(frozen=True)
class MemoryText:
    """The text of a memory, or one version of a channel's short-term memory.

    ``kind`` is LONG_TERM, SHORT_TERM, THREAD, or ARCHIVE for lines that left a long-term memory
    for want of room. ``scope_key`` is the id of a channel, WORKSPACE, or the ts of a thread. Versions
    of channels and threads have a ``number``, and end their period at ``until_us``. ``version`` is
    the key of the version, 0 for an archive.
    """

    kind: str
    content: str
    scope_key: str = WORKSPACE
    number: int = 0
    until_us: int = 0
    version: int = 0

    @property
    def group(self) -> Group:
        return (self.kind, self.scope_key, self.number)


@dataclass(frozen=True)
class MessageLine:
    """A message as its line ``[YYYY-MM-DD HH:MM] name: text``; ``thread_ts`` is "" at top level."""

    micros: int
    line: str
    thread_ts: str = ""
    channel_id: str = ""

    @property
    def day(self) -> str:
        return self.line[1:11]

    @property
    def without_time(self) -> str:
        return self.line[len("[YYYY-MM-DD HH:MM] ") :]

    @property
    def author(self) -> str:
        return self.without_time.partition(": ")[0]

    @property
    def without_day(self) -> str:
        return f"[{self.line[12:]}"

    def shortened(self, short_names: Mapping[str, str]) -> str:
        """Return the line without its day, and with the short name of its author."""
        author = self.author
        short_name = short_names.get(author, author)
        return (
            f"{self.line[11:19].replace(' ', '[', 1)}{short_name}{self.without_time[len(author) :]}"
        )


@dataclass(frozen=True)
class LineFacts:
    """Facts about a line of a memory.

    ``at_us`` is the time of its newest message, or the end of its version's period.
    ``is_protected`` is true if a person wrote or pinned it. ``kind`` is "" if unknown.
    ``is_replaced`` is true if a newer line replaces it. ``author`` is the name of the person who
    wrote it, "" for a model.
    """

    at_us: int = 0
    is_protected: bool = False
    kind: str = ""
    is_replaced: bool = False
    author: str = ""


@dataclass(frozen=True)
class Material:
    """Everything a context is made of. Messages and notes are oldest first.

    ``channel_id`` is the id of the named channel, "" without one; ``messages`` are its
    conversation. ``channels`` are the names of the listed channels by id. ``earlier`` are messages
    that are added if the budget has room. ``facts`` are the facts of lines by `lines.strip_bullet`.
    ``unread_channels`` counts the channels with a memory that were not read.
    """

    settings: MemorySettings
    persona: str = ""
    channel_id: str = ""
    target_thread_ts: str | None = None
    channels: Mapping[str, str] = field(default_factory=dict)
    memories: Sequence[MemoryText] = ()
    # Names of private channels whose text is in the workspace's long-term memory by opt-in.
    workspace_includes: Sequence[str] = ()
    unread_channels: int = 0
    messages: Sequence[MessageLine] = ()
    notes: Sequence[NoteText] = ()
    earlier: Sequence[MessageLine] = ()
    facts: Mapping[str, LineFacts] = field(default_factory=dict)
    question: str = ""

    @cached_property
    def channels_in_order(self) -> dict[str, str]:
        """Names of channels by id: the named channel first, then by name."""
        items = sorted(
            self.channels.items(), key=lambda item: (item[0] != self.channel_id, item[1], item[0])
        )
        return dict(items)

    @cached_property
    def _by_scope(self) -> dict[tuple[str, str], list[MemoryText]]:
        by_scope = defaultdict(list)
        for memory in self.memories:
            by_scope[memory.kind, memory.scope_key].append(memory)
        return dict(by_scope)

    def history(self, channel_id: str) -> list[MemoryText]:
        """Return the versions of a channel's short-term memory, oldest first."""
        return history_in_order(self._by_scope.get((SHORT_TERM, channel_id), ()))

    def text(self, kind: str, scope_key: str = WORKSPACE) -> str | None:
        """Return the text of a memory that has one version here, None without it."""
        memories = self._by_scope.get((kind, scope_key))
        return memories[0].content if memories else None

    @cached_property
    def short_names(self) -> dict[str, str]:
        """The first words of names of authors, if no other author has the same."""
        names = {message.author for message in (*self.messages, *self.earlier)}
        first_words = {name: name.split(" ")[0] for name in names}
        counts = Counter(first_words.values())
        return {
            name: word
            for name, word in first_words.items()
            if counts[word] == 1 and word.isalpha() and len(word) < len(name)
        }

    def facts_of(self, line: str) -> LineFacts:
        return self.facts.get(strip_bullet(line), LineFacts())

    def day_of(self, us: int) -> str:
        """Return the day of a time in the workspace's time zone, "" for 0."""
        return _day_of(us, self.settings.zone) if us else ""

    def shared_day(self, text: str) -> str:
        """Return the day of all lines of a memory, "" if their days differ."""
        days = {self.day_of(self.facts_of(line).at_us) for line in split_text(text)}
        return days.pop() if len(days) == 1 else ""


@lru_cache(maxsize=_TIMES)
def _day_of(us: int, zone: ZoneInfo) -> str:
    return f"{from_micros(us).astimezone(zone):%Y-%m-%d}"


def history_in_order(versions: Iterable[MemoryText]) -> list[MemoryText]:
    """Return versions oldest first (S2): by the end of their period, then by number."""
    return sorted(versions, key=lambda version: (version.until_us, version.number))
