"""Versions for templates: their lines with numbered sources, and their authors.

Any number of versions takes three queries: lines, sources, and first versions of lines. A fourth
one finds the next versions, if lines were removed in them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from memories.models import Job, Line, Memory, MemoryVersion, Message, User
from memories.models.ingest.messages import author_name
from memories.models.memory.versions import MemoryVersionQuerySet
from memories.pipeline.memory import proposals
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.memory import compare
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Origin, split_history, split_text, words_of
from memories.rules.summariser import OFFLINE
from memories.views.access.access import WorkspaceContext
from memories.views.paths import messages_path
from memories.views.texts import in_its_language, with_words


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

    ``since`` is the number of its first version, and ``since_href`` the page of that. The page is
    "" for the displayed version, and for a version that the reader may not read.
    """

    text: str
    position: int
    is_indented: bool
    origin: str
    is_pinned: bool
    since: int
    since_href: str = ""
    chips: list[SourceChip] = field(default_factory=list)
    is_unsourced: bool = False
    is_redacted: bool = False
    kind: str = ""
    at_us: int = 0
    is_replaced: bool = False  # by a newer line of its channel
    # Why the next version lacks the line, with the number and the page of that version.
    fate: str = ""
    removed_in: int = 0
    removed_href: str = ""

    @property
    def is_by_person(self) -> bool:
        return self.origin == Origin.PERSON


@dataclass(frozen=True)
class ComparedRow(compare.DiffRow):
    """A row of a comparison, with its line in either version."""

    old_line: LineDisplay | None = None
    new_line: LineDisplay | None = None

    @property
    def line(self) -> LineDisplay | None:
        return self.new_line or self.old_line


@dataclass(frozen=True)
class ProposalDisplay:
    """A proposal with its text, and the version that it would replace."""

    job: Job
    base: MemoryVersion
    text: str

    @property
    def kept(self) -> int:
        """How many lines of the base are in the proposed text."""
        return compare.count_kept(self.base.content, self.text)[0]

    @property
    def of(self) -> int:
        """How many lines the base has."""
        return len(split_text(self.base.content))


@dataclass
class VersionDisplay:
    """A version with its lines. ``author`` is a person or a model, ``person`` is "" for a model."""

    version: MemoryVersion
    lines: list[LineDisplay]

    def __post_init__(self) -> None:
        self.shape = shape_of(self.version)
        self.author = who_wrote(self.version)
        self.person = user_name(self.version.author) if self.version.is_by_person else ""
        self.is_offline = _model_name(self.version) == OFFLINE

    @property
    def sources(self) -> list[SourceChip]:
        """Each source once, by its number."""
        chips = {chip.number: chip for line in self.lines for chip in line.chips}
        return [chip for _, chip in sorted(chips.items())]

    @property
    def expired_sources(self) -> int:
        """How many sources were deleted by retention."""
        return sum(chip.state == Message.State.EXPIRED for chip in self.sources)

    @property
    def parts(self) -> list[tuple[str, list[LineDisplay]]]:
        """The lines in reading order: current statements, then events.

        Both have titles if both exist.
        """
        now, history = split_history(self.lines, lambda line: (line.kind, line.at_us))
        if not (now and history):
            return [("", self.lines)]
        return [(_("Now"), now), (_("History"), history)]

    @property
    def first_lines(self) -> list[LineDisplay]:
        return [line for _title, lines in self.parts for line in lines][:2]

    @property
    def more_lines(self) -> int:
        return max(0, len(self.lines) - 2)

    @cached_property
    def archived_count(self) -> int:
        return self.version.memory.archived_lines().count()

    @cached_property
    def proposal(self) -> ProposalDisplay | None:
        return find_proposal(self.version)


def for_display(versions: MemoryVersionQuerySet) -> MemoryVersionQuerySet:
    """Join all related rows that a `VersionDisplay` reads."""
    return versions.select_related(
        "job", "author", "segment", "restored_from", "memory__channel", "memory__workspace"
    )


def for_list(versions: MemoryVersionQuerySet) -> MemoryVersionQuerySet:
    """Join what a list of versions reads, and defer all texts."""
    texts = ("content", "put_back", "kept", "dropped")
    old = (f"restored_from__{name}" for name in (*texts, "trigger"))
    job = (f"job__{name}" for name in ("reply", "cites", "trigger", "fault_text"))
    joined = versions.select_related("restored_from", "author", "job")
    return joined.defer(*texts, *old, *job)


def visible_versions(memory: Memory, place: WorkspaceContext) -> MemoryVersionQuerySet:
    versions: MemoryVersionQuerySet = memory.versions.visible_to(place.reader)
    return versions


def display_versions(
    versions: Iterable[MemoryVersion], place: WorkspaceContext
) -> list[VersionDisplay]:
    """Load the lines of versions. A source has the number of its first occurrence in the text."""
    loaded = list(versions)
    lines: dict[int, list[Line]] = {version.pk: [] for version in loaded}
    for line in Line.objects.filter(version__in=loaded).order_by("version", "position"):
        lines[line.version_id].append(line)
    builder = _LineBuilder(loaded, [line for group in lines.values() for line in group], place)
    displays = []
    for version in loaded:
        numbers: dict[int, int] = {}
        rows = [builder.build(line, version, numbers) for line in lines[version.pk]]
        displays.append(VersionDisplay(version, rows))
    return displays


def display_version(
    version: MemoryVersion | None, place: WorkspaceContext
) -> VersionDisplay | None:
    return display_versions([version], place)[0] if version else None


def display_lines(lines: list[Line], place: WorkspaceContext) -> list[tuple[Line, LineDisplay]]:
    """Load the sources of lines of any versions of one memory."""
    builder = _LineBuilder([line.version for line in lines], lines, place)
    numbers: dict[int, int] = {}
    return [(line, builder.build(line, line.version, numbers)) for line in lines]


def compare_displayed(old: VersionDisplay, new: VersionDisplay) -> list[ComparedRow]:
    rows = compare.compare_lines(old.version.content, new.version.content)
    return add_lines(rows, old.lines, new.lines)


def add_lines(
    rows: Iterable[compare.DiffRow], old: Iterable[LineDisplay], new: Iterable[LineDisplay]
) -> list[ComparedRow]:
    """Return the rows with the lines of both versions, matched by text."""
    old_by_text, new_by_text = ({line.text: line for line in lines} for lines in (old, new))
    return [
        ComparedRow(
            **vars(row),
            old_line=old_by_text.get(mark_invisible(row.before)),
            new_line=new_by_text.get(mark_invisible(row.after)),
        )
        for row in rows
    ]


def find_proposal(version: MemoryVersion) -> ProposalDisplay | None:
    """Return the waiting proposal that would replace this version."""
    if version.memory.memory_type != MemoryType.LONG_TERM:
        return None
    job = proposals.find_proposal(version.memory)
    if job is None or proposals.get_base(job) != version:
        return None
    text = "\n".join(line.text for line in proposals.proposed_lines(job))
    return ProposalDisplay(job, version, text)


def shape_of(version: MemoryVersion) -> str:
    """Return the icon of a version: model, person, restore or provisional."""
    return "provisional" if version.provisional else str(version.origin)


def who_wrote(version: MemoryVersion) -> str:
    """Return the author in words: a person, or a model by its name."""
    shape, name = shape_of(version), user_name(version.author)
    if shape == "person":
        return in_its_language(name) if name else _("A person")
    if shape == "restore":
        return with_words(_("Restored by %(name)s"), name=name) if name else _("Restored")
    model = _model_name(version)
    words = _("highlights") if model == OFFLINE else model or _("model")
    return _("Provisional") + _(", ") + words if shape == "provisional" else words


def _model_name(version: MemoryVersion) -> str:
    return version.job.model if version.job else ""


def user_name(user: User | None) -> str:
    return (user.get_full_name() or user.get_username()) if user else ""


class _LineBuilder:
    """Builds `LineDisplay` values from rows that it loads once for all lines."""

    def __init__(
        self, versions: list[MemoryVersion], lines: list[Line], place: WorkspaceContext
    ) -> None:
        self.sources = _load_sources(lines)
        channels = {row.message__channel_id for rows in self.sources.values() for row in rows}
        slug = place.workspace.slug
        self.channel_paths = {
            channel.pk: messages_path(slug, channel.slack_id)
            for channel in (place.readable_channels.filter(pk__in=channels) if channels else ())
        }
        self.first_paths = _load_first_paths(versions, lines, place)
        self.next_versions = _load_next_versions(
            {line.version_id for line in lines if line.fate}, place
        )

    def build(self, line: Line, version: MemoryVersion, numbers: dict[int, int]) -> LineDisplay:
        """Return a line. ``numbers`` are those of the sources before it, and get new ones."""
        display = LineDisplay(
            text=mark_invisible(words_of(line.text)),
            position=line.position,
            is_indented=line.text.startswith(("  ", "\t")),
            origin=line.origin,
            is_pinned=line.pinned,
            since=line.since,
            since_href=self.first_paths.get((version.memory_id, line.since), ""),
            is_redacted=line.redacted,
            kind=line.kind,
            at_us=line.at_us,
            is_replaced=line.fate == Line.Fate.SUPERSEDED,
        )
        if line.fate and version.pk in self.next_versions:
            pk, display.removed_in = self.next_versions[version.pk]
            anchor = "" if line.successor is None else f"#line-{line.successor}"
            display.fate = line.fate
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


def _load_next_versions(versions: set[int], place: WorkspaceContext) -> dict[int, tuple[int, int]]:
    """Return key and number of the first visible version by a model after each of these."""
    if not versions:
        return {}
    later_versions = MemoryVersion.objects.visible_to(place.reader).filter(
        base__in=versions, origin=Origin.MODEL
    )
    rows = later_versions.order_by("-number").values_list("base", "pk", "number")
    return {base: (pk, number) for base, pk, number in rows if base}


def _load_first_paths(
    versions: list[MemoryVersion], lines: list[Line], place: WorkspaceContext
) -> dict[tuple[int, int], str]:
    """Return the pages of the visible first versions of older lines, by memory and number."""
    by_pk = {version.pk: version for version in versions}
    keys = {
        (by_pk[line.version_id].memory_id, line.since)
        for line in lines
        if line.since != by_pk[line.version_id].number
    }
    rows = MemoryVersion.objects.visible_to(place.reader).filter(
        memory__in={memory for memory, _ in keys}, number__in={number for _, number in keys}
    )
    return {
        (memory, number): reverse("versions-detail", args=[pk])
        for memory, number, pk in rows.values_list("memory", "number", "pk")
        if (memory, number) in keys
    }
