"""Lines for templates: their texts with numbered sources, authors and earlier wordings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.urls import reverse

from memories.models import Line, MemoryVersion, Message, Proposal
from memories.models.access.users import user_name
from memories.models.ingest.messages import author_name
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.memory.lines import Origin, hash_text, strip_bullet
from memories.views.access.access import WorkspaceAccess
from memories.views.paths import messages_path


@dataclass(frozen=True)
class SourceChip:
    """A numbered source of a line.

    ``href`` and ``state`` are "" if the reader may not open its channel. ``href`` is also "" if the
    message was removed.
    """

    number: int
    message: int  # primary key
    ts: str
    micros: int
    author: str
    href: str
    state: str

    @property
    def is_removed(self) -> bool:
        return self.state in Message.REMOVED


@dataclass
class LineDisplay:
    """A line for templates.

    ``author`` is the person who wrote it, "" for a model. ``since`` is the number of its first
    version, and ``since_href`` the page of that. The page is "" for the displayed version, and for
    a version that the reader may not read. ``earlier`` are the texts that it replaced.
    """

    text: str
    position: int
    is_indented: bool
    origin: str
    is_pinned: bool
    since: int
    since_href: str = ""
    author: str = ""
    earlier: list[str] = field(default_factory=list)
    is_disputed: bool = False  # a proposal to change it is open
    is_unverified: bool = False
    chips: list[SourceChip] = field(default_factory=list)
    is_unsourced: bool = False
    is_redacted: bool = False
    kind: str = ""
    at_us: int = 0
    is_replaced: bool = False  # by a newer line of its channel
    # Why the next version lacks the line, with the number and the page of that version.
    outcome: str = ""
    removed_in: int = 0
    removed_href: str = ""

    @property
    def is_by_person(self) -> bool:
        return self.origin == Origin.PERSON or bool(self.author)

    @property
    def words_hash(self) -> str:
        return hash_words(self.text)


def show_words(text: str) -> str:
    """Return the words of a line as pages show them."""
    return mark_invisible(strip_bullet(text))


def hash_words(words: str) -> str:
    """Return a short hash of the shown words. A link to a line has it: positions change."""
    return hash_text(words)[:12]


class LineBuilder:
    """Builds `LineDisplay` values from rows that it loads once for all lines."""

    def __init__(
        self, versions: list[MemoryVersion], lines: list[Line], access: WorkspaceAccess
    ) -> None:
        self.sources = _load_sources(lines)
        channels = {row.message__channel_id for rows in self.sources.values() for row in rows}
        slug = access.workspace.slug
        self.channel_paths = {
            key: messages_path(slug, channel.slack_id)
            for key, channel in access.channels_by_key(channels).items()
        }
        self.first_versions = _load_first_versions(versions, lines, access)
        self.earlier = _load_earlier(versions, self.first_versions, access)
        self.disputed = _load_disputed(versions, access)
        self.next_versions = _load_next_versions(
            {line.version_id for line in lines if line.outcome}, access
        )

    def build(self, line: Line, version: MemoryVersion, numbers: dict[int, int]) -> LineDisplay:
        """Return a line. ``numbers`` are those of the sources before it, and get new ones."""
        words = strip_bullet(line.text)
        first = self.first_versions.get((version.memory_id, line.since), version)
        display = LineDisplay(
            text=show_words(line.text),
            position=line.position,
            is_indented=line.text.startswith(("  ", "\t")),
            origin=line.origin,
            is_pinned=line.pinned,
            since=line.since,
            since_href="" if first == version else reverse("versions-detail", args=[first.pk]),
            author=user_name(line.author),
            earlier=self.earlier.get((first.pk, words), []),
            is_disputed=(version.memory_id, words) in self.disputed,
            is_unverified=line.unverified,
            is_redacted=line.redacted,
            kind=line.kind,
            at_us=line.at_us,
            is_replaced=line.outcome == Line.Outcome.SUPERSEDED,
        )
        if line.outcome and version.pk in self.next_versions:
            pk, display.removed_in = self.next_versions[version.pk]
            anchor = "" if line.successor is None else f"#line-{line.successor}"
            display.outcome = line.outcome
            display.removed_href = reverse("versions-detail", args=[pk]) + anchor
        for row in sorted(self.sources.get(line.pk, ()), key=lambda row: row.message__micros):
            number = numbers.setdefault(row.message_id, len(numbers) + 1)
            display.chips.append(self._build_chip(row, number, version))
        display.is_unsourced = not (display.chips or display.is_by_person or display.is_redacted)
        return display

    def _build_chip(self, row: Any, number: int, version: MemoryVersion) -> SourceChip:
        ts, path = row.message__ts, self.channel_paths.get(row.message__channel_id)
        state = row.message__state if path else ""
        is_linked = path and state not in Message.REMOVED
        return SourceChip(
            number,
            row.message_id,
            ts,
            row.message__micros,
            author_name(row.message__author__name or "", row.message__username),
            f"{path}?around={ts}&v={version.pk}#msg-{ts}" if is_linked else "",
            state,
        )


def _load_sources(lines: list[Line]) -> dict[int, list[Any]]:
    """Return the rows of source messages by line."""
    versions = {line.version_id for line in lines}
    through = Line.sources.through.objects.filter(line__version__in=versions).order_by("pk")
    sources: dict[int, list[Any]] = {}
    for row in through.values_list(
        "line_id",
        "message_id",
        "message__ts",
        "message__micros",
        "message__channel_id",
        "message__author__name",
        "message__username",
        "message__state",
        named=True,
    ):
        sources.setdefault(row.line_id, []).append(row)
    return sources


def _load_next_versions(versions: set[int], access: WorkspaceAccess) -> dict[int, tuple[int, int]]:
    """Return key and number of the first visible version by a model after each of these."""
    if not versions:
        return {}
    later_versions = MemoryVersion.objects.visible_to(access.reader).filter(
        base__in=versions, origin=Origin.MODEL
    )
    rows = later_versions.order_by("-number").values_list("base", "pk", "number")
    return {base: (pk, number) for base, pk, number in rows if base}


def _load_first_versions(
    versions: list[MemoryVersion], lines: list[Line], access: WorkspaceAccess
) -> dict[tuple[int, int], MemoryVersion]:
    """Return the visible first versions of older lines, by memory and number."""
    by_pk = {version.pk: version for version in versions}
    keys = {
        (by_pk[line.version_id].memory_id, line.since)
        for line in lines
        if line.since != by_pk[line.version_id].number
    }
    rows = MemoryVersion.objects.visible_to(access.reader).filter(
        memory__in={memory for memory, _ in keys}, number__in={number for _, number in keys}
    )
    loaded = rows.only("memory", "number", "base") if keys else ()
    firsts = {(version.memory_id, version.number): version for version in loaded}
    return {key: version for key, version in firsts.items() if key in keys}


def _load_earlier(
    versions: list[MemoryVersion],
    first_versions: Mapping[tuple[int, int], MemoryVersion],
    access: WorkspaceAccess,
) -> dict[tuple[int, str], list[str]]:
    """Return the texts that each line replaced in its first version, by version and words."""
    bases = {
        version.base_id: version.pk
        for version in (*versions, *first_versions.values())
        if version.base_id is not None
    }
    readable = MemoryVersion.objects.visible_to(access.reader).filter(pk__in=bases)
    replaced = Line.objects.filter(
        version__in=readable, outcome=Line.Outcome.SUPERSEDED, redacted=False
    )
    rows = [
        (bases[base], successor, strip_bullet(text))
        for base, successor, text in replaced.values_list("version", "successor", "text")
        if successor is not None
    ]
    successors = Line.objects.filter(version__in={version for version, *_ in rows})
    words = {
        (version, position): strip_bullet(text)
        for version, position, text in successors.values_list("version", "position", "text")
    }
    earlier: dict[tuple[int, str], list[str]] = {}
    for version, position, text in rows:
        if (version, position) in words:
            key = version, words[version, position]
            earlier.setdefault(key, []).append(mark_invisible(text))
    return earlier


def _load_disputed(versions: list[MemoryVersion], access: WorkspaceAccess) -> set[tuple[int, str]]:
    """Return memory and words of the lines with open proposals."""
    proposals = Proposal.objects.open().filter(memory__in={v.memory_id for v in versions})
    if not proposals.exists():  # the usual case, and `visible_to` is a slow query
        return set()
    return set(proposals.visible_to(access.reader).values_list("memory", "line_text"))
