"""Versions as people read them: lines with numbered sources, and who wrote what.

However many versions are shown, it takes two queries: one for the lines, one for the sources.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from memories.models import Generation, Line, Memory, MemoryVersion, User
from memories.models.messages import name_of_author
from memories.models.versions import MemoryVersionQuerySet
from memories.pipeline import proposals
from memories.rules import compare
from memories.rules.invisible import marked
from memories.rules.lines import Origin, split_text, words_of
from memories.rules.memory import MemoryType
from memories.rules.summary import OFFLINE
from memories.views.access import Place
from memories.views.paths import messages_path

VERSIONS_SHOWN = 10  # beside a memory


@dataclass(frozen=True)
class Chip:
    """A source: its number in the text, its message, and where to read that.

    ``href`` is "" when the message stands in a channel that this reader may not open.
    """

    number: int
    ts: str
    micros: int
    author: str
    href: str


@dataclass
class ShownLine:
    text: str
    position: int
    indented: bool
    is_persons: bool
    is_restored: bool
    is_pinned: bool
    since: int
    chips: list[Chip] = field(default_factory=list)
    is_unsourced: bool = False
    is_masked: bool = False  # words of it were forgotten


@dataclass(frozen=True)
class Proposal:
    """A shorter text that waits for a person's word: of the ``of`` lines that stand now ``kept``
    would stay as they are."""

    generation: Generation
    base: MemoryVersion
    text: str

    @property
    def kept(self) -> int:
        return compare.kept(self.base.content, self.text)[0]

    @property
    def of(self) -> int:
        return len(split_text(self.base.content))


@dataclass
class ShownVersion:
    """A version with its lines; ``writer`` is the name of the person behind it, "" for none."""

    version: MemoryVersion
    shape: str
    writer: str
    is_offline: bool
    lines: list[ShownLine] = field(default_factory=list)

    @property
    def first_lines(self) -> list[ShownLine]:
        return self.lines[:2]

    @property
    def more(self) -> int:
        return max(0, len(self.lines) - 2)

    @cached_property
    def proposal(self) -> Proposal | None:
        """What waits to follow this version; looked up when a page asks for it."""
        return proposal_to(self.version)


def with_origin(versions: MemoryVersionQuerySet) -> MemoryVersionQuerySet:
    """Versions with all that `show` reads of their row."""
    return versions.select_related(
        "generation", "author", "segment", "restored_from", "memory__channel", "memory__workspace"
    )


def as_listed(versions: MemoryVersionQuerySet) -> MemoryVersionQuerySet:
    """Versions with what a list tells of each: why and when, not its text."""
    texts = ("content", "put_back", "kept")
    old = (f"restored_from__{name}" for name in (*texts, "trigger"))
    return versions.select_related("restored_from").defer(*texts, *old)


def show(versions: Iterable[MemoryVersion], place: Place) -> list[ShownVersion]:
    """The versions with their lines; a source is numbered where the text first rests on it."""
    found = list(versions)
    lines: dict[int, list[Line]] = {}
    for line in Line.objects.filter(version__in=found).order_by("version", "position"):
        lines.setdefault(line.version_id, []).append(line)
    sources = _sources(found)
    slug = place.workspace.slug
    paths = {channel.pk: messages_path(slug, channel.slack_id) for channel in place.channels}
    return [_shown(version, lines.get(version.pk, []), sources, paths) for version in found]


def show_one(version: MemoryVersion | None, place: Place) -> ShownVersion | None:
    return show([version], place)[0] if version else None


def proposal_to(version: MemoryVersion) -> Proposal | None:
    """The text that a person may accept in place of this one; None when nothing waits."""
    if version.memory.memory_type != MemoryType.LONG_TERM:
        return None
    generation = proposals.of(version.memory)
    if generation is None or generation.base_id != version.pk:
        return None
    text = "\n".join(line.text for line in proposals.lines(generation))
    return Proposal(generation, version, text)


def versions_of(memory: Memory, place: Place) -> MemoryVersionQuerySet:
    """Those that this reader may read: a memory may have more."""
    found: MemoryVersionQuerySet = memory.versions.visible_to(place.reader)
    return found


class Rail(list[MemoryVersion]):
    """The newest versions beside a memory, and how many there are in all."""

    total = 0


def rail_of(memory: Memory | None, place: Place) -> Rail:
    """The newest versions of a memory, for the rail beside it; no lines are read."""
    if memory is None:
        return Rail()
    found = versions_of(memory, place)
    rail = Rail(as_listed(found.newest_first())[:VERSIONS_SHOWN])
    rail.total = found.count() if len(rail) == VERSIONS_SHOWN else len(rail)
    return rail


def card_of(memory: Memory, place: Place) -> dict[str, Any]:
    """What a memory's card and the rail beside it are drawn from."""
    current = with_origin(memory.versions.filter(current_of=memory)).first()
    return {
        "place": place,
        "memory": memory,
        "shown": show_one(current, place),
        "rail": rail_of(memory, place),
    }


def shape_of(version: MemoryVersion) -> str:
    """model, person, restore or provisional: drawn as a knot, and said in words."""
    return "provisional" if version.provisional else str(version.origin)


def name_of(user: User | None) -> str:
    return (user.get_full_name() or user.get_username()) if user else ""


@dataclass(frozen=True)
class _Source:
    message: int
    ts: str
    micros: int
    channel: int
    author: str


def _sources(versions: list[MemoryVersion]) -> dict[int, list[_Source]]:
    through = Line.sources.through.objects.filter(line__version__in=versions).order_by("pk")
    rows = through.values_list(
        "line_id",
        "message_id",
        "message__ts",
        "message__micros",
        "message__channel_id",
        "message__author__name",
        "message__username",
    )
    sources: dict[int, list[_Source]] = {}
    for line, message, ts, us, channel, author, username in rows:
        found = _Source(message, ts, us, channel, name_of_author(author or "", username))
        sources.setdefault(line, []).append(found)
    return sources


def _shown(
    version: MemoryVersion,
    lines: list[Line],
    sources: dict[int, list[_Source]],
    paths: dict[int, str],
) -> ShownVersion:
    generation = version.generation
    shown = ShownVersion(
        version,
        shape=shape_of(version),
        writer=name_of(version.author) if version.is_persons else "",
        is_offline=bool(generation and generation.model == OFFLINE),
    )
    numbers: dict[int, int] = {}
    for line in lines:
        one = ShownLine(
            text=marked(words_of(line.text)),
            position=line.position,
            indented=line.text.startswith(("  ", "\t")),
            is_persons=line.origin == Origin.PERSON,
            is_restored=line.origin == Origin.RESTORE,
            is_pinned=line.pinned,
            since=line.since,
            is_masked=line.masked,
        )
        for source in sorted(sources.get(line.pk, ()), key=lambda s: s.micros):
            number = numbers.setdefault(source.message, len(numbers) + 1)
            path = paths.get(source.channel)
            href = f"{path}?around={source.ts}&v={version.pk}#msg-{source.ts}" if path else ""
            one.chips.append(Chip(number, source.ts, source.micros, source.author, href))
        one.is_unsourced = not (one.chips or one.is_persons or one.is_masked)
        shown.lines.append(one)
    return shown
