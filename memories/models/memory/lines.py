"""Lines: the statements of a version, with their origin, kind, time and sources."""

from dataclasses import replace
from typing import TYPE_CHECKING

from django.db import models, transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.users import User
from memories.models.ingest.messages import Message
from memories.models.memory.new_version import Unchanged
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory import lines as line_rules
from memories.rules.memory.kinds import Kind
from memories.rules.memory.lines import Origin

if TYPE_CHECKING:
    from memories.models.memory.versions import MemoryVersion


class Audience(models.TextChoices):
    """Who may read a version. The current version is always for all readers of its memory."""

    SCOPE = "scope", _("readers of the memory")
    MEMBERS = "members", _("members of the channel")  # it has private sources
    NOBODY = "nobody", _("nobody")  # it has sources that its readers may no longer read


class Outcome(models.TextChoices):
    """Why a line is not in the next version, and whether it was restored later."""

    SUPERSEDED = "superseded"  # another line has the newer state
    SETTLED = "settled"  # it is no longer relevant
    ARCHIVED = "archived"  # the text was over its token limit
    RETURNED = "returned"  # it was archived, and a later version has it again


class LineQuerySet(models.QuerySet["Line"]):
    def archived(self) -> "LineQuerySet":
        """Return the archives of memories that all readers of a memory may read."""
        return self.filter(
            outcome=Outcome.ARCHIVED, redacted=False, version__audience=Audience.SCOPE
        )

    def in_force(self) -> "LineQuerySet":
        """Return the lines that no newer line replaces, if their versions are current."""
        return self.filter(outcome="", redacted=False)

    def ended_after(self, us: int) -> "LineQuerySet":
        """Return the lines that are superseded or settled since a time."""
        return self.filter(
            outcome__in=(Outcome.SUPERSEDED, Outcome.SETTLED), outcome_us__gt=us, redacted=False
        )

    def pinned_or_by_person(self) -> "LineQuerySet":
        return self.filter(Q(pinned=True) | Q(origin=Origin.PERSON))

    def newest_first(self) -> "LineQuerySet":
        return self.order_by("-at_us", "-pk")

    def newer_than(self, line: "Line") -> "LineQuerySet":
        """Return the lines before this one in the order of `newest_first`."""
        return self.filter(Q(at_us__gt=line.at_us) | Q(at_us=line.at_us, pk__gt=line.pk))

    def as_values(self) -> list[line_rules.Line]:
        """Return the lines as plain values with the primary keys of their messages."""
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
                line.author_id,
            )
            for line in lines
        ]


class Line(models.Model):
    """A line of a version."""

    Outcome = Outcome

    version = models.ForeignKey(
        "memories.MemoryVersion", on_delete=models.CASCADE, related_name="lines"
    )
    position = models.PositiveIntegerField()
    text = models.TextField()
    origin = models.CharField(max_length=10, choices=[(o.value, o.value) for o in Origin])
    # The account that wrote the words. A merge into another memory copies it with them.
    author = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="+", null=True, blank=True
    )
    since = models.PositiveIntegerField(_("since version"))
    # Every merge keeps it word for word.
    pinned = models.BooleanField(_("pinned"), default=False)
    kind = models.CharField(
        _("kind"), max_length=10, blank=True, default="", choices=[(k.value, k.value) for k in Kind]
    )
    # The time of its newest message. Without any, that of the edit or the end of the period.
    at_us = models.BigIntegerField(default=0)
    # A number, a date or a link of it is in none of its messages.
    unverified = models.BooleanField(_("unverified"), default=False)
    # Why the next version lacks it, or in a short-term memory that a newer line replaces it.
    outcome = models.CharField(
        max_length=10, blank=True, default="", choices=[(f.value, f.value) for f in Outcome]
    )
    # When its outcome was decided, 0 if that is not known.
    outcome_us = models.BigIntegerField(default=0)
    # The position, in the next version, of the line that supersedes it.
    successor = models.PositiveIntegerField(null=True, blank=True)
    # Its words were redacted. No merge reads it.
    redacted = models.BooleanField(_("redacted"), default=False)
    sources = models.ManyToManyField(Message, related_name="lines")

    successor_text: str  # set by `MemoryVersion.removed_lines`

    objects = LineQuerySet.as_manager()

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["version", "position"], name="line_position"),
        ]
        indexes = [
            # For LineQuerySet.archived, which returns few of many rows.
            models.Index(
                fields=["version"], name="line_archived", condition=Q(outcome=Outcome.ARCHIVED)
            ),
            # For LineQuerySet.ended_after.
            models.Index(fields=["outcome_us"], name="line_outcome"),
            # For LineQuerySet.pinned_or_by_person, which contexts use on each current version.
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
        """Add a version with this archived line, which keeps its author and sources.

        The line is pinned, so no merge archives it again. Raise StaleBase as `Memory.revise` does,
        and LookupError if the line is not in the archive.
        """
        memory = self.version.memory
        base = memory.get_seen_version(based_on, revision)
        values = memory.archived_lines().filter(pk=self.pk).as_values()
        if not values or base is None:
            raise LookupError(f"The archive has no line {self.pk}.")
        current, restored = base.line_values(), replace(values[0], pinned=True)
        index = line_rules.insert_position(current, restored)
        lines = [*current[:index], restored, *current[index:]]
        version = memory.add_version_by_person(
            base,
            by,
            Origin.RESTORE,
            lines=lines,
            content=line_rules.insert_line(base.without_redacted(base.content), lines, index),
            trigger={"reason": "line_restore"},
        )
        memory.record("line_restore", by, version=version.number)
        return version

    @transaction.atomic
    def correct(
        self,
        text: str,
        *,
        by: User | None,
        based_on: int,
        revision: int | None = None,
        audience: str = Audience.SCOPE,
    ) -> "MemoryVersion":
        """Add a version with these words in place of the line. They are the person's from now on.

        Raise the errors of `Memory.revise`, and LookupError if the current version does not have
        the line.
        """
        words = line_rules.strip_bullet(text)
        if not words:
            raise ValueError("The line has no text.")
        memory = self.version.memory
        base = memory.get_seen_version(based_on, revision)
        current = base.line_values() if base else []
        old_words = line_rules.strip_bullet(self.text)
        matches = (
            i for i, line in enumerate(current) if line_rules.strip_bullet(line.text) == old_words
        )
        index = next(matches, None)
        if base is None or index is None:
            raise LookupError(f"The memory has no line {old_words!r}.")
        if words == old_words:
            raise Unchanged
        author = by.pk if by else None
        lines = line_rules.correct_line(current, index, words, author)
        rows = base.without_redacted(base.content).split("\n")
        at = next(i for i, row in enumerate(rows) if row.rstrip() == current[index].text)
        content = "\n".join([*rows[:at], lines[index].text, *rows[at + 1 :]])
        version = memory.add_version_by_person(
            base,
            by,
            Origin.PERSON,
            lines=lines,
            content=content,
            trigger={"reason": "line_edit"},
            audience=audience,
        )
        if audience == Audience.SCOPE:  # else the current version keeps the line
            replaced = Line.objects.filter(version=base, text=current[index].text)
            replaced.update(
                outcome=Line.Outcome.SUPERSEDED,
                successor=index,
                outcome_us=to_micros(version.created_at),
            )
        memory.record("memory_edit", by, version=version.number, based_on=based_on, line=index)
        return version
