"""Versions for templates: their lines in reading order, and their authors.

The number of queries does not depend on the number of versions (`LineBuilder`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memories.models import Job, Line, Memory, MemoryVersion, Message
from memories.models.access.users import user_name
from memories.models.memory.version_queries import MemoryVersionQuerySet
from memories.pipeline.memory import proposals
from memories.rules.generate.faults import is_sudden_shrink
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory import compare
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.kinds import Kind
from memories.rules.memory.lines import group_by_kind, split_text
from memories.rules.memory.superseding import Statement, find_successors
from memories.rules.salience import content_words
from memories.rules.summariser import OFFLINE
from memories.views.access.access import WorkspaceAccess
from memories.views.memory.line_display import LineBuilder, LineDisplay, SourceChip
from memories.views.texts import in_its_language, with_words


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
    def kept_count(self) -> int:
        """How many lines of the base are in the proposed text."""
        return compare.count_kept(self.base.content, self.text)[0]

    @property
    def is_short(self) -> bool:
        """Whether the text is much shorter. Other proposals are rebuilds or reviewed merges."""
        return is_sudden_shrink(self.base.content, self.text)

    @property
    def base_count(self) -> int:
        """How many lines the base has."""
        return len(split_text(self.base.content))


@dataclass
class VersionDisplay:
    """A version with its lines.

    ``author`` says in words who wrote or restored it. ``person`` is the user who did, "" for a model.
    ``new_lines`` are the lines of a requested period, None without one. ``since`` is the period in a URL.
    """

    version: MemoryVersion
    lines: list[LineDisplay]
    new_lines: list[LineDisplay] | None = None
    since: str = ""

    def __post_init__(self) -> None:
        self.author_kind = author_kind(self.version)
        self.author = who_wrote(self.version)
        self.person = user_name(self.version.author) if self.version.is_by_person else ""
        self.is_offline = _model_name(self.version) == OFFLINE
        # In a short-term memory, the replaced lines that are behind no newer line of the text.
        self.replaced_lines = [] if self.is_long_term else _fold_replaced(self.lines)

    @property
    def sources(self) -> list[SourceChip]:
        """Each source once, by its number."""
        chips = {chip.number: chip for line in self.lines for chip in line.chips}
        return [chip for _, chip in sorted(chips.items())]

    @property
    def expired_source_count(self) -> int:
        """How many sources were deleted by retention."""
        return sum(chip.state == Message.State.EXPIRED for chip in self.sources)

    @property
    def current_groups(self) -> list[tuple[str, list[LineDisplay]]]:
        """The lines that are neither new nor events, by kind. In a short-term memory: one group."""
        if not self.is_long_term:
            lines = self.other_lines
            return [("", lines)] if lines else []
        return _with_titles(line for line in self.other_lines if line.kind != Kind.EVENT)

    @property
    def event_months(self) -> list[tuple[str, list[LineDisplay]]]:
        """The events of a long-term memory that are not new, by month, the newest month first."""
        if not self.is_long_term:
            return []
        events = [line for line in self.other_lines if line.kind == Kind.EVENT]
        months: dict[str, list[LineDisplay]] = {}
        for line in sorted(events, key=lambda line: line.at_us):
            at = timezone.localtime(from_micros(line.at_us))
            months.setdefault(date_format(at, _("F Y")), []).append(line)
        return list(reversed(months.items()))

    @property
    def new_groups(self) -> list[tuple[str, list[LineDisplay]]]:
        """The new lines by kind. In a short-term memory: one group."""
        if self.is_long_term:
            return _with_titles(self.new_lines or ())
        new_lines = _in_force(self.new_lines or ())
        return [("", new_lines)] if new_lines else []

    @property
    def other_lines(self) -> list[LineDisplay]:
        """All lines but the new ones and, in a short-term memory, the replaced ones."""
        new_lines = {line.position for line in self.new_lines or ()}
        lines = self.lines if self.is_long_term else _in_force(self.lines)
        return [line for line in lines if line.position not in new_lines]

    @property
    def is_long_term(self) -> bool:
        return self.version.memory.memory_type == MemoryType.LONG_TERM

    @cached_property
    def archived_count(self) -> int:
        return self.version.memory.archived_lines().count()

    @cached_property
    def proposal(self) -> ProposalDisplay | None:
        return display_proposal(self.version)


def _fold_replaced(lines: Sequence[LineDisplay]) -> list[LineDisplay]:
    """Add the replaced lines to ``earlier`` of the newer lines. Return those without a newer line."""
    replaced = [line for line in lines if line.is_replaced]
    if not replaced:
        return []
    by_time = sorted(lines, key=lambda line: line.at_us)
    statements = [Statement(line.text, line.at_us, content_words(line.text)) for line in by_time]
    successors = {
        by_time[old].position: by_time[new] for old, new in find_successors(statements).items()
    }
    without_successor = []
    for line in replaced:
        newer = successors.get(line.position)
        if newer is None or newer.is_replaced or line.is_redacted:
            without_successor.append(line)
        else:
            newer.earlier = [*newer.earlier, line.text]
    return without_successor


def _in_force(lines: Iterable[LineDisplay]) -> list[LineDisplay]:
    return [line for line in lines if not line.is_replaced]


def for_display(versions: MemoryVersionQuerySet) -> MemoryVersionQuerySet:
    """Join all related rows that a `VersionDisplay` reads."""
    return versions.select_related(
        "job", "author", "segment", "restored_from", "memory__channel", "memory__workspace"
    )


def for_list(versions: MemoryVersionQuerySet) -> MemoryVersionQuerySet:
    """Join what a list of versions reads, and defer all texts."""
    texts = ("content", "put_back", "kept", "dropped")
    old = (f"restored_from__{name}" for name in (*texts, "trigger"))
    job = (f"job__{name}" for name in ("reply", "reply_sources", "trigger", "fault_text"))
    joined = versions.select_related("restored_from", "author", "job")
    return joined.defer(*texts, *old, *job)


def visible_versions(memory: Memory, access: WorkspaceAccess) -> MemoryVersionQuerySet:
    versions: MemoryVersionQuerySet = memory.versions.visible_to(access.reader)
    return versions


def display_versions(
    versions: Iterable[MemoryVersion], access: WorkspaceAccess
) -> list[VersionDisplay]:
    """Load the lines of versions. A source has the number of its first occurrence in the text."""
    loaded = list(versions)
    lines: dict[int, list[Line]] = {version.pk: [] for version in loaded}
    of_versions = Line.objects.filter(version__in=loaded).select_related("author")
    for line in of_versions.order_by("version", "position"):
        lines[line.version_id].append(line)
    builder = LineBuilder(loaded, [line for group in lines.values() for line in group], access)
    displays = []
    for version in loaded:
        numbers: dict[int, int] = {}
        rows = [builder.build(line, version, numbers) for line in lines[version.pk]]
        displays.append(VersionDisplay(version, rows))
    return displays


def display_version(
    version: MemoryVersion | None, access: WorkspaceAccess
) -> VersionDisplay | None:
    return display_versions([version], access)[0] if version else None


def display_lines(lines: list[Line], access: WorkspaceAccess) -> list[tuple[Line, LineDisplay]]:
    """Return lines with their display. They may be of several versions of one memory."""
    builder = LineBuilder([line.version for line in lines], lines, access)
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


def display_proposal(version: MemoryVersion) -> ProposalDisplay | None:
    """Return the waiting proposal that would replace this version."""
    if version.memory.memory_type != MemoryType.LONG_TERM:
        return None
    job = proposals.find_proposal(version.memory)
    if job is None or proposals.get_base(job) != version:
        return None
    return ProposalDisplay(job, version, proposals.proposed_text(job))


def _with_titles(lines: Iterable[LineDisplay]) -> list[tuple[str, list[LineDisplay]]]:
    titles = {
        Kind.DECISION: _("Decided"),
        Kind.TASK: _("Tasks"),
        Kind.QUESTION: _("Open"),
        Kind.STATUS: _("Status"),
        Kind.EVENT: _("What happened"),
    }
    return [(titles[kind], group) for kind, group in group_by_kind(lines, lambda line: line.kind)]


def author_kind(version: MemoryVersion) -> str:
    """Return who wrote a version: model, person, restore or provisional."""
    return "provisional" if version.provisional else str(version.origin)


def who_wrote(version: MemoryVersion) -> str:
    """Return the author in words: a person, or a model by its name."""
    kind, name = author_kind(version), user_name(version.author)
    if kind == "person":
        return in_its_language(name) if name else _("A person")
    if kind == "restore":
        return with_words(_("Restored by %(name)s"), name=name) if name else _("Restored")
    model = _model_name(version)
    words = _("highlights") if model == OFFLINE else model or _("model")
    if name:  # a person edited the proposal before approving it
        words = with_words(_("%(model)s, edited by %(name)s"), model=words, name=name)
    return _("Provisional") + _(", ") + words if kind == "provisional" else words


def _model_name(version: MemoryVersion) -> str:
    return version.job.model if version.job else ""
