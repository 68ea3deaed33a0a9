"""Lines: the statements of a version, with what is known of each."""

from dataclasses import replace
from typing import TYPE_CHECKING

from django.db import models, transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.users import User
from memories.models.ingest.messages import Message
from memories.models.memory.new_version import NewVersion
from memories.rules.generate.summariser import Kind
from memories.rules.memory import lines as line_rules
from memories.rules.memory.lines import Origin

if TYPE_CHECKING:
    from memories.models.memory.versions import MemoryVersion


class Audience(models.TextChoices):
    """Who may read a version. The current one is always for all readers of its memory."""

    SCOPE = "scope", _("readers of the memory")
    MEMBERS = "members", _("members of the channel")  # it rests on what was said in private
    NOBODY = "nobody", _("nobody")  # it rests on what its readers may not read any more


class Fate(models.TextChoices):
    """Why a line left its memory's text, and whether it came back."""

    SUPERSEDED = "superseded"  # another line says what holds now
    SETTLED = "settled"  # it no longer matters
    ARCHIVED = "archived"  # there was no room for it
    RETURNED = "returned"  # it was archived, and a later version has it again


class LineQuerySet(models.QuerySet["Line"]):
    def archived(self) -> "LineQuerySet":
        """The archives of memories: lines that had no room, for all readers of their memory."""
        return self.filter(fate=Fate.ARCHIVED, masked=False, version__audience=Audience.SCOPE)

    def pinned_or_by_person(self) -> "LineQuerySet":
        """What a person wrote or pinned."""
        return self.filter(Q(pinned=True) | Q(origin=Origin.PERSON))

    def newest_first(self) -> "LineQuerySet":
        return self.order_by("-at_us", "-pk")

    def before(self, line: "Line") -> "LineQuerySet":
        """Those that stand before this one, the newest first."""
        return self.filter(Q(at_us__gt=line.at_us) | Q(at_us=line.at_us, pk__gt=line.pk))

    def as_values(self) -> list[line_rules.Line]:
        """These lines as plain values, with the keys of their messages."""
        sources: dict[int, list[int]] = {}
        lines = list(self)
        through = Line.sources.through.objects.filter(line__in=[line.pk for line in lines])
        for line_id, message_id in through.order_by("pk").values_list("line_id", "message_id"):
            sources.setdefault(line_id, []).append(message_id)
        return [
            line_rules.Line(
                line.text,
                Origin(line.origin),
                line.since,
                tuple(sources.get(line.pk, ())),
                line.pinned,
                line.kind,
                line.at_us,
                line.unverified,
            )
            for line in lines
        ]


class Line(models.Model):
    """A line of a version, who wrote it, since when, and the messages it rests on."""

    Fate = Fate

    version = models.ForeignKey(
        "memories.MemoryVersion", on_delete=models.CASCADE, related_name="lines"
    )
    position = models.PositiveIntegerField()
    text = models.TextField()
    origin = models.CharField(max_length=10, choices=[(o.value, o.value) for o in Origin])
    since = models.PositiveIntegerField(_("since version"))
    # A person wants it word for word, whoever wrote it.
    pinned = models.BooleanField(_("pinned"), default=False)
    kind = models.CharField(
        _("kind"), max_length=10, blank=True, default="", choices=[(k.value, k.value) for k in Kind]
    )
    # The time of its newest message; without one, when a person wrote it or its period ended.
    at_us = models.BigIntegerField(default=0)
    # A number, a date or a link of it stands in none of its messages.
    unverified = models.BooleanField(_("unverified"), default=False)
    # Why the next version lacks it; of a short-term memory, that it holds no longer.
    fate = models.CharField(
        max_length=10, blank=True, default="", choices=[(f.value, f.value) for f in Fate]
    )
    # The place in the next version of the line that supersedes it.
    successor = models.PositiveIntegerField(null=True, blank=True)
    # It quoted what was deleted in Slack: a mark stands in its place, and no merge reads it.
    masked = models.BooleanField(_("masked"), default=False)
    sources = models.ManyToManyField(Message, related_name="lines")

    successor_text: str  # set by `MemoryVersion.removed_lines`

    objects = LineQuerySet.as_manager()

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["version", "position"], name="line_position"),
        ]
        indexes = [
            # LineQuerySet.archived: few rows of very many.
            models.Index(fields=["version"], name="line_archived", condition=Q(fate=Fate.ARCHIVED)),
            # LineQuerySet.pinned_or_by_person: few as well, and a context looks for them in each current version.
            models.Index(
                fields=["version"],
                name="line_held",
                condition=Q(pinned=True) | Q(origin=Origin.PERSON.value),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.version_id}/{self.position}"

    @transaction.atomic
    def restore(
        self, *, by: User | None, based_on: int, revision: int | None = None
    ) -> "MemoryVersion":
        """Bring a line of the archive back as it was, with its author and sources, as a new version
        of the current text. It is pinned: no merge archives it again. Raises StaleBase as
        `Memory.revise` does, LookupError when the archive has it no longer."""
        memory = self.version.memory
        base = memory.get_seen_version(based_on, revision)
        values = memory.archived_lines().filter(pk=self.pk).as_values()
        if not values or base is None:
            raise LookupError(f"The archive has no line {self.pk}.")
        current, restored = base.line_values(), replace(values[0], pinned=True)
        place = line_rules.insert_position(current, restored)
        lines = [*current[:place], restored, *current[place:]]
        made = memory.add_version(
            NewVersion(
                lines=lines,
                content=line_rules.insert_line(base.without_redacted(base.content), lines, place),
                origin=Origin.RESTORE,
                author=by,
                base=base,
                segment=base.segment,
                until_us=base.until_us,
                source_message_count=base.source_message_count,
                source_latest_message_ts=base.source_latest_message_ts,
                trigger={"reason": "line_restore"},
            ),
            expected_head=memory.head,
        )
        memory.record("line_restore", by, version=made.number)
        return made
