"""Versions as people read them: lines with numbered sources, and who wrote what.

However many versions are shown, it takes three queries: for the lines, for their sources, and for
the versions that they first stood in; one more for the versions that lack some of them.
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
from memories.rules.generate.summariser import OFFLINE
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.memory import compare
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Origin, split_history, split_text, words_of
from memories.views.access.access import WorkspaceContext
from memories.views.memory.marks import followed, with_marks
from memories.views.paths import messages_path
from memories.views.texts import in_its_language, with_words

VERSIONS_SHOWN = 10  # beside a memory


@dataclass(frozen=True)
class Chip:
    """A source: its number in the text, its message (``message`` is the key), and where to read that.

    ``href`` is "" when the message is gone, or stands in a channel that this reader may not open.
    """

    number: int
    message: int
    ts: str
    micros: int
    author: str
    href: str
    state: str  # of the message; "" in such a channel

    @property
    def is_gone(self) -> bool:
        return self.state in Message.REMOVED


@dataclass
class ShownLine:
    """A line, and who wrote it: in the version with the number ``since``, whose page ``since_href``
    is; "" for the version that is shown, and for one that this reader may not read."""

    text: str
    position: int
    indented: bool
    origin: str
    is_pinned: bool
    since: int
    since_href: str = ""
    chips: list[Chip] = field(default_factory=list)
    is_unsourced: bool = False
    is_masked: bool = False  # words of it were forgotten
    kind: str = ""
    at_us: int = 0
    # Why the next version lacks it; the number of that version, and where it says what stands instead.
    fate: str = ""
    gone_in: int = 0
    gone_href: str = ""
    is_replaced: bool = False  # a newer line of its channel says what holds now

    @property
    def is_by_person(self) -> bool:
        return self.origin == Origin.PERSON


@dataclass(frozen=True)
class ShownRow(compare.DiffRow):
    """A row of a comparison with the lines that it is about; None in a text without it."""

    was: ShownLine | None = None
    stands: ShownLine | None = None

    @property
    def line(self) -> ShownLine | None:
        """As it stands, or as it stood last."""
        return self.stands or self.was


@dataclass(frozen=True)
class Proposal:
    """A text that waits for a person's word, shorter or rebuilt: of the ``of`` lines that stand now
    ``kept`` would stay as they are."""

    job: Job
    base: MemoryVersion
    text: str

    @property
    def kept(self) -> int:
        return compare.count_kept(self.base.content, self.text)[0]

    @property
    def of(self) -> int:
        return len(split_text(self.base.content))


@dataclass
class ShownVersion:
    """A version with its lines; ``writer`` is the name of the person behind it, "" for none, and
    ``who`` is said of it: that, or the model."""

    version: MemoryVersion
    shape: str
    writer: str
    who: str
    is_offline: bool
    lines: list[ShownLine] = field(default_factory=list)

    @property
    def sources(self) -> list[Chip]:
        """Each once, by its number."""
        chips = {chip.number: chip for line in self.lines for chip in line.chips}
        return [chip for _, chip in sorted(chips.items())]

    @property
    def expired(self) -> int:
        """How many of its sources are older than messages are kept."""
        return sum(chip.state == Message.State.EXPIRED for chip in self.sources)

    @property
    def parts(self) -> list[tuple[str, list[ShownLine]]]:
        """The lines in the order in which they are read: what holds now, then what happened, each
        with its title where both are there."""
        now, history = split_history(self.lines, lambda line: (line.kind, line.at_us))
        if not (now and history):
            return [("", self.lines)]
        return [(_("Now"), now), (_("History"), history)]

    @property
    def first_lines(self) -> list[ShownLine]:
        return [line for _title, lines in self.parts for line in lines][:2]

    @property
    def more(self) -> int:
        return max(0, len(self.lines) - 2)

    @cached_property
    def archived(self) -> int:
        """How many lines its memory's archive has; counted when a page asks for it."""
        return self.version.memory.archived_lines().count()

    @cached_property
    def proposal(self) -> Proposal | None:
        """What waits to follow this version; looked up when a page asks for it."""
        return proposal_to(self.version)


def with_origin(versions: MemoryVersionQuerySet) -> MemoryVersionQuerySet:
    """Versions with all that `show` reads of their row."""
    return versions.select_related(
        "job", "author", "segment", "restored_from", "memory__channel", "memory__workspace"
    )


def as_listed(versions: MemoryVersionQuerySet) -> MemoryVersionQuerySet:
    """Versions with what a list tells of each: who, why and when, not its text."""
    texts = ("content", "put_back", "kept", "dropped")
    old = (f"restored_from__{name}" for name in (*texts, "trigger"))
    job = (f"job__{name}" for name in ("reply", "cites", "trigger", "fault_text"))
    listed = versions.select_related("restored_from", "author", "job")
    return listed.defer(*texts, *old, *job)


def show(versions: Iterable[MemoryVersion], place: WorkspaceContext) -> list[ShownVersion]:
    """The versions with their lines; a source is numbered where the text first rests on it."""
    loaded = list(versions)
    lines: dict[int, list[Line]] = {}
    for line in Line.objects.filter(version__in=loaded).order_by("version", "position"):
        lines.setdefault(line.version_id, []).append(line)
    all_lines = [line for of_version in lines.values() for line in of_version]
    facts = _Facts.of(loaded, all_lines, place)
    return [_shown(version, lines.get(version.pk, []), facts) for version in loaded]


def show_lines(lines: list[Line], place: WorkspaceContext) -> list[tuple[Line, ShownLine]]:
    """Lines of any versions of a memory, each with its sources."""
    facts = _Facts.of([line.version for line in lines], lines, place)
    numbers: dict[int, int] = {}
    return [(line, facts.shown(line, line.version, numbers)) for line in lines]


def show_one(version: MemoryVersion | None, place: WorkspaceContext) -> ShownVersion | None:
    return show([version], place)[0] if version else None


def compared(old: ShownVersion, new: ShownVersion) -> list[ShownRow]:
    """The rows of a comparison, each with who wrote what it shows."""
    before, after = (
        {line.text: line for line in shown_version.lines} for shown_version in (old, new)
    )
    return [
        ShownRow(
            **vars(row),
            was=before.get(mark_invisible(row.before)),
            stands=after.get(mark_invisible(row.after)),
        )
        for row in compare.compare_lines(old.version.content, new.version.content)
    ]


def proposal_to(version: MemoryVersion) -> Proposal | None:
    """The text that a person may accept in place of this one; None when nothing waits."""
    if version.memory.memory_type != MemoryType.LONG_TERM:
        return None
    job = proposals.find_proposal(version.memory)
    if job is None or proposals.get_base(job) != version:
        return None
    text = "\n".join(line.text for line in proposals.proposed_lines(job))
    return Proposal(job, version, text)


def versions_of(memory: Memory, place: WorkspaceContext) -> MemoryVersionQuerySet:
    """Those that this reader may read: a memory may have more."""
    versions: MemoryVersionQuerySet = memory.versions.visible_to(place.reader)
    return versions


@dataclass(frozen=True)
class Aftermath:
    """What the first update after the reader's latest edit did to it."""

    edit: MemoryVersion
    update: MemoryVersion

    @property
    def is_kept(self) -> bool:
        base = self.edit.base.content if self.edit.base else ""
        return compare.is_edit_kept(base, self.edit.content, self.update.content)


class Rail(list[MemoryVersion]):
    """The newest versions beside a memory, how many there are in all, the one before the current
    one, and what became of the reader's own edit."""

    total = 0
    previous: MemoryVersion | None = None
    aftermath: Aftermath | None = None


def rail_of(memory: Memory | None, place: WorkspaceContext) -> Rail:
    """The newest versions of a memory, for the rail beside it; no lines are read."""
    if memory is None:
        return Rail()
    versions = versions_of(memory, place)
    rail = Rail(as_listed(versions.newest_first())[:VERSIONS_SHOWN])
    rail.total = versions.count() if len(rail) == VERSIONS_SHOWN else len(rail)
    # The newest one may be of an older period, or for members alone.
    current = next((version.number for version in rail if version.pk == memory.current_id), 0)
    rail.previous = next((version for version in rail if version.number < current), None)
    rail.aftermath = aftermath_of(versions, place)
    return rail


def aftermath_of(versions: MemoryVersionQuerySet, place: WorkspaceContext) -> Aftermath | None:
    """Of a memory's versions that the reader may read. None as long as no update followed an edit
    of theirs, and where they made none."""
    own = versions.filter(author=place.reader.user_id, origin=Origin.PERSON)
    edit = own.select_related("base").newest_first().first()
    if edit is None:
        return None
    # A short-term memory's next version is mostly of another conversation.
    later = versions.filter(number__gt=edit.number, segment=edit.segment_id, origin=Origin.MODEL)
    update = later.order_by("number").first()
    return Aftermath(edit, update) if update else None


def last_seen_of(memory: Memory | None, place: WorkspaceContext) -> MemoryVersion | None:
    """The version that this reader marked last, or the newest before it that they may still read;
    None where nothing is newer, or nothing was marked."""
    if memory is None:
        return None
    same = followed(place.workspace, place.reader).filter(pk=memory.pk)
    for candidate in with_marks(same, place.reader):
        if candidate.news and candidate.seen:
            readable = versions_of(candidate, place).with_text()
            return readable.filter(number__lte=candidate.seen).newest_first().first()
    return None


def card_of(memory: Memory, place: WorkspaceContext) -> dict[str, Any]:
    """What a memory's card and the rail beside it are drawn from."""
    current = with_origin(memory.versions.filter(current_of=memory)).first()
    return {
        "place": place,
        "memory": memory,
        "shown": show_one(current, place),
        "rail": rail_of(memory, place),
        "last_seen": last_seen_of(memory, place),
    }


def shape_of(version: MemoryVersion) -> str:
    """model, person, restore or provisional: drawn as a knot, and said in words."""
    return "provisional" if version.provisional else str(version.origin)


def who_wrote(version: MemoryVersion) -> str:
    """A person, or a model by its name."""
    shape, name = shape_of(version), name_of(version.author)
    if shape == "person":
        return in_its_language(name) if name else _("A person")
    if shape == "restore":
        return with_words(_("Restored by %(name)s"), name=name) if name else _("Restored")
    model = model_of(version)
    words = _("highlights") if model == OFFLINE else model or _("model")
    return _("Provisional") + _(", ") + words if shape == "provisional" else words


def model_of(version: MemoryVersion) -> str:
    return version.job.model if version.job else ""


def name_of(user: User | None) -> str:
    return (user.get_full_name() or user.get_username()) if user else ""


@dataclass(frozen=True)
class _Source:
    message: int
    ts: str
    micros: int
    channel: int
    author: str
    state: str


@dataclass(frozen=True)
class _Facts:
    """What lines are shown with: their sources by key, paths of channels that the reader may open,
    pages of the versions they first stood in, and the versions that lack them."""

    sources: dict[int, list[_Source]]
    paths: dict[int, str]
    firsts: dict[tuple[int, int], str]
    followers: dict[int, tuple[int, int]]  # by the key of a version: key and number

    @classmethod
    def of(
        cls, versions: list[MemoryVersion], lines: list[Line], place: WorkspaceContext
    ) -> "_Facts":
        sources = _sources(lines)
        said_in = {source.channel for of_line in sources.values() for source in of_line}
        channels = place.readable_channels.filter(pk__in=said_in) if said_in else ()
        slug = place.workspace.slug
        return cls(
            sources,
            {channel.pk: messages_path(slug, channel.slack_id) for channel in channels},
            _firsts(versions, lines, place),
            _followers({line.version_id for line in lines if line.fate}, place),
        )

    def shown(self, line: Line, version: MemoryVersion, numbers: dict[int, int]) -> ShownLine:
        """``numbers`` are those of the messages that were shown before it."""
        shown_line = ShownLine(
            text=mark_invisible(words_of(line.text)),
            position=line.position,
            indented=line.text.startswith(("  ", "\t")),
            origin=line.origin,
            is_pinned=line.pinned,
            since=line.since,
            since_href=self.firsts.get((version.memory_id, line.since), ""),
            is_masked=line.masked,
            kind=line.kind,
            at_us=line.at_us,
            is_replaced=line.fate == Line.Fate.SUPERSEDED,
        )
        if line.fate and version.pk in self.followers:
            pk, shown_line.gone_in = self.followers[version.pk]
            anchor = "" if line.successor is None else f"#line-{line.successor}"
            shown_line.fate, shown_line.gone_href = (
                line.fate,
                reverse("versions-detail", args=[pk]) + anchor,
            )
        for source in sorted(self.sources.get(line.pk, ()), key=lambda s: s.micros):
            number = numbers.setdefault(source.message, len(numbers) + 1)
            path = self.paths.get(source.channel)
            state = source.state if path else ""
            href = f"{path}?around={source.ts}&v={version.pk}#msg-{source.ts}"
            shown_line.chips.append(
                Chip(
                    number,
                    source.message,
                    source.ts,
                    source.micros,
                    source.author,
                    href if path and state not in Message.REMOVED else "",
                    state,
                )
            )
        shown_line.is_unsourced = not (
            shown_line.chips or shown_line.is_by_person or shown_line.is_masked
        )
        return shown_line


def _sources(lines: list[Line]) -> dict[int, list[_Source]]:
    versions = {line.version_id for line in lines}
    through = Line.sources.through.objects.filter(line__version__in=versions).order_by("pk")
    rows = through.values_list(
        "line_id",
        "message_id",
        "message__ts",
        "message__micros",
        "message__channel_id",
        "message__author__name",
        "message__username",
        "message__state",
    )
    sources: dict[int, list[_Source]] = {}
    for line, message, ts, us, channel, author, username, state in rows:
        name = author_name(author or "", username)
        source = _Source(message, ts, us, channel, name, state)
        sources.setdefault(line, []).append(source)
    return sources


def _followers(versions: set[int], place: WorkspaceContext) -> dict[int, tuple[int, int]]:
    """Of versions with lines that left the text: key and number of the version that lacks these, as
    far as this reader may read it."""
    if not versions:
        return {}
    later_versions = MemoryVersion.objects.visible_to(place.reader).filter(
        base__in=versions, origin=Origin.MODEL
    )
    rows = later_versions.order_by("-number").values_list("base", "pk", "number")
    return {base: (pk, number) for base, pk, number in rows if base}


def _firsts(
    versions: list[MemoryVersion], lines: list[Line], place: WorkspaceContext
) -> dict[tuple[int, int], str]:
    """By memory and number, the pages of the versions that older lines first stood in, as far as
    this reader may read them."""
    of = {version.pk: version for version in versions}
    since = {
        (of[line.version_id].memory_id, line.since)
        for line in lines
        if line.since != of[line.version_id].number
    }
    rows = MemoryVersion.objects.visible_to(place.reader).filter(
        memory__in={memory for memory, _ in since}, number__in={number for _, number in since}
    )
    return {
        (memory, number): reverse("versions-detail", args=[pk])
        for memory, number, pk in rows.values_list("memory", "number", "pk")
        if (memory, number) in since
    }


def _shown(version: MemoryVersion, lines: list[Line], facts: _Facts) -> ShownVersion:
    shown = ShownVersion(
        version,
        shape=shape_of(version),
        writer=name_of(version.author) if version.is_by_person else "",
        who=who_wrote(version),
        is_offline=model_of(version) == OFFLINE,
    )
    numbers: dict[int, int] = {}
    shown.lines = [facts.shown(line, version, numbers) for line in lines]
    return shown
