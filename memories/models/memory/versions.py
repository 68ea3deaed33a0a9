"""Versions: the numbered texts of a memory, and the lines they are made of."""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from django.db import models, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.access.users import User
from memories.models.access.workspaces import Workspace
from memories.models.generate.segments import Segment
from memories.models.ingest.channels import Channel
from memories.models.ingest.messages import Message
from memories.models.memory.lines import Audience, Line
from memories.models.memory.new_version import NewVersion, columns_of, value_of
from memories.models.search.documents import VERSION, SearchableQuerySet
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory import lines as line_rules
from memories.rules.memory.identity import Memory as MemoryValue
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import Origin
from memories.rules.redaction.shingles import MARK, QuoteMatcher

LONGEST_NAME = 80  # characters
_HAS_WORDS = re.compile(r"\w")


class MemoryVersionQuerySet(SearchableQuerySet["MemoryVersion"]):
    searched_as = VERSION

    def current_in(
        self, channels: Iterable[Channel], memory_type: MemoryType
    ) -> "MemoryVersionQuerySet":
        """The current versions of these channels' own memories of a type."""
        return self.filter(
            current_of__channel__in=channels,
            current_of__scope=MemoryScope.CHANNEL,
            current_of__memory_type=memory_type,
        )

    def with_text(self) -> "MemoryVersionQuerySet":
        """Without those of which nothing is left: all that they said was forgotten."""
        return self.exclude(content=MARK)

    def listed_in(self, workspace: Workspace) -> "MemoryVersionQuerySet":
        """Those of a workspace, for lists in the order of their keys (`JobQuerySet.listed_in`)."""
        from memories.models.memory.memories import Memory

        memories = Memory.objects.filter(pk=models.OuterRef("memory"), workspace=workspace)
        return self.filter(models.Exists(memories))

    def restricted(self) -> "MemoryVersionQuerySet":
        """Those that not all readers of their memory may read."""
        return self.filter(~Q(audience=Audience.SCOPE))

    def current(self) -> "MemoryVersionQuerySet":
        """Those that stand now. `Exists`, for of a join by two columns PostgreSQL expects one row, and
        then joins all rows before it sorts them."""
        from memories.models.memory.memories import Memory

        return self.filter(models.Exists(Memory.objects.filter(current=models.OuterRef("pk"))))

    def older(self) -> "MemoryVersionQuerySet":
        """Those that another one stands for now."""
        return self.exclude(memory__current=F("pk"))

    def in_order(self) -> "MemoryVersionQuerySet":
        """Oldest first, as contexts and merges read them: by period, then by number."""
        return self.order_by("until_us", "number")

    def newest_first(self) -> "MemoryVersionQuerySet":
        return self.order_by("-number")

    def not_merged(self) -> "MemoryVersionQuerySet":
        """What the long-term memory above still owes (rules 5 and 6)."""
        return self.mergeable().filter(merged=False)

    def mergeable(self) -> "MemoryVersionQuerySet":
        """What a long-term memory is made from: of each segment its newest version, in the wording
        it has now; provisional ones never."""
        newer = MemoryVersion.objects.filter(
            segment=models.OuterRef("segment"),
            memory=models.OuterRef("memory"),
            number__gt=models.OuterRef("number"),
        )
        return self.with_text().filter(
            Q(segment__isnull=True) | ~models.Exists(newer),
            provisional=False,
            audience=Audience.SCOPE,
        )


class MemoryVersion(models.Model):
    """A numbered text of a memory. It changes only in place by `rewrite` (rules 2, 4, 5 and 7);
    a name that somebody gives it is beside the text, and stays through that.

    ``trigger`` says why it was made, in numbers: ``{"reason": "idle", "new": 12, "quiet_s": 7200}``.
    ``put_back`` lists held lines (a person wrote or pinned them) that the model had lost and code
    brought back, ``kept`` those that it left in. ``dropped`` are operations of a merge that were not
    carried out, each as ``reason: text`` (`rules.operations.Drop`).
    """

    Origin = Origin
    Audience = Audience

    memory = models.ForeignKey("Memory", on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(_("version"))
    # What people call it, to find it again among many.
    name = models.CharField(_("name"), max_length=LONGEST_NAME, blank=True, default="")
    content = models.TextField(_("text"))
    revision = models.PositiveIntegerField(_("times rewritten"), default=0)
    origin = models.CharField(
        _("written by"),
        max_length=10,
        choices=[
            (Origin.MODEL.value, _("model")),
            (Origin.PERSON.value, _("person")),
            (Origin.RESTORE.value, _("restore")),
        ],
    )
    author = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="versions", null=True, blank=True
    )
    base = models.ForeignKey(
        "self", on_delete=models.SET_NULL, related_name="followers", null=True, blank=True
    )
    restored_from = models.ForeignKey(
        "self", on_delete=models.SET_NULL, related_name="restored_as", null=True, blank=True
    )
    job = models.ForeignKey(
        "Job", on_delete=models.SET_NULL, related_name="versions", null=True, blank=True
    )
    segment = models.ForeignKey(
        Segment, on_delete=models.SET_NULL, related_name="versions", null=True, blank=True
    )
    audience = models.CharField(_("for"), max_length=10, choices=Audience, default=Audience.SCOPE)
    provisional = models.BooleanField(_("provisional"), default=False)
    # Whether the long-term memory above has read this wording.
    merged = models.BooleanField(_("merged"), default=False)
    until_us = models.BigIntegerField(default=0)
    source_message_count = models.PositiveIntegerField(_("messages"), default=0)
    source_latest_message_ts = models.CharField(_("newest message"), max_length=20, blank=True)
    trigger = models.JSONField(_("why"), default=dict, blank=True)
    put_back = models.JSONField(_("put back"), default=list, blank=True)
    kept = models.JSONField(_("kept"), default=list, blank=True)
    dropped = models.JSONField(_("dropped"), default=list, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    updated_at = models.DateTimeField(_("changed"), default=timezone.now)

    objects = MemoryVersionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["memory", "number"], name="version_number"),
            models.CheckConstraint(name="version_counts_from_1", condition=Q(number__gte=1)),
            models.CheckConstraint(name="version_says_something", condition=~Q(content="")),
        ]
        indexes = [
            # MemoryVersionQuerySet.not_merged: few rows, however long the history.
            models.Index(
                fields=["memory"],
                name="version_not_merged",
                condition=Q(merged=False, provisional=False),
            ),
            # MemoryVersionQuerySet.restricted: few rows as well.
            models.Index(
                fields=["memory"], name="version_not_for_all", condition=~Q(audience="scope")
            ),
        ]
        verbose_name = _("version")
        verbose_name_plural = _("versions")

    def __str__(self) -> str:
        return f"v{self.number}"

    @property
    def is_persons(self) -> bool:
        """Written or brought back by a person: no job touches it in place."""
        return self.origin != Origin.MODEL

    @property
    def value(self) -> MemoryValue:
        """This text as S0's immutable value: what contexts read."""
        memory = self.memory
        return MemoryValue(
            scope=MemoryScope(memory.scope),
            scope_id=memory.scope_id,
            memory_type=MemoryType(memory.memory_type),
            content=self.content,
            created_at=self.created_at,
            updated_at=self.updated_at,
            source_message_count=self.source_message_count,
            source_latest_message_ts=self.source_latest_message_ts or None,
        )

    def line_values(self) -> list[line_rules.Line]:
        """The lines as plain values, with the keys of their messages. Without masked ones: nothing
        is made from what was forgotten, though a person wrote or pinned it."""
        return self.lines.filter(masked=False).order_by("position").as_values()

    @transaction.atomic
    def call(self, name: str, *, by: User | None) -> bool:
        """A person's name for this version, "" for none any more; False when it had that already."""
        done = MemoryVersion.objects.filter(pk=self.pk).exclude(name=name).update(name=name)
        if done:
            self.name = name
            self.memory.record("version_name", by, version=self.number, named=bool(name))
        return bool(done)

    @cached_property
    def removed_lines(self) -> "list[Line]":
        """The lines of the version before that a merge took away, with the ``successor_text`` of those
        that were superseded."""
        standing = self.lines.values("text")
        removed_lines = Line.objects.filter(version=self.base_id).exclude(fate="")
        left = list(removed_lines.exclude(text__in=standing))
        places = [line.successor for line in left if line.successor is not None]
        texts = dict(self.lines.filter(position__in=places).values_list("position", "text"))
        for line in left:
            line.successor_text = (
                texts.get(line.successor, "") if line.successor is not None else ""
            )
        return left

    def protected_lines(self) -> list[line_rules.Line]:
        """What a person wrote or pinned: no job loses it."""
        return [line for line in self.line_values() if line.is_protected]

    def without_redacted(self, text: str) -> str:
        """A text made over this version's, without the lines that were masked in it."""
        masked = {
            line_rules.words_of(line)
            for line in self.redacted_lines().values_list("text", flat=True)
        }
        if not masked:
            return text
        kept = [line for line in text.split("\n") if line_rules.words_of(line) not in masked]
        return "\n".join(kept).strip("\n")

    def unprotected_lines(self) -> "models.QuerySet[Line]":
        """Those that an update may reword."""
        return self.lines.filter(masked=False, pinned=False).exclude(origin=Origin.PERSON)

    def redacted_lines(self) -> "models.QuerySet[Line]":
        return self.lines.filter(masked=True)

    def write_lines(self, lines: Iterable[line_rules.Line]) -> None:
        values = list(lines)
        times = self._times_of({key for line in values if not line.at_us for key in line.sources})
        written_us = to_micros(self.created_at)
        period_us = self.until_us or written_us
        rows = Line.objects.bulk_create(
            Line(
                version=self,
                position=i,
                text=line.text,
                origin=line.origin,
                since=line.since or self.number,
                pinned=line.pinned,
                kind=line.kind,
                at_us=line.at_us
                or max(
                    (times[key] for key in line.sources if key in times),
                    default=written_us if line.origin is Origin.PERSON else period_us,
                ),
                unverified=line.unverified,
            )
            for i, line in enumerate(values)
        )
        through = Line.sources.through
        through.objects.bulk_create(
            through(line_id=row.pk, message_id=message_id)
            for row, line in zip(rows, values, strict=True)
            for message_id in dict.fromkeys(line.sources)
        )

    @staticmethod
    def _times_of(messages: Collection[int]) -> dict[int, int]:
        rows = Message.objects.filter(pk__in=messages) if messages else Message.objects.none()
        return dict(rows.values_list("pk", "micros"))

    def mask(
        self,
        matcher: QuoteMatcher,
        whole: Collection[int] = (),
        short: Mapping[int, QuoteMatcher] | None = None,
    ) -> int:
        """Take out what may not be read any more, number kept: the lines with these keys as a whole,
        elsewhere what quotes ``known``, or in a line of ``short`` that. How many lines it changed.

        Unlike `rewrite` it touches texts of people too; their pages then refuse what was based on
        the text from before, and what was typed over it and not saved yet is gone. Call `Memory.update_current` afterwards.
        """
        lines = list(self.lines.order_by("position"))
        texts = [
            line_rules.redacted_line(line.text)
            if line.pk in whole
            else (short or {}).get(line.pk, matcher).redact(line.text)
            for line in lines
        ]
        together = matcher.redact("\n".join(texts)).split(
            "\n"
        )  # a quotation may fill several lines
        if len(together) == len(texts):
            texts = together
        masked_texts = {line.text: text for line, text in zip(lines, texts, strict=True)}
        changed = [line for line, text in zip(lines, texts, strict=True) if text != line.text]
        content = "\n".join(
            masked_texts.get(part.rstrip(), part) for part in self.content.split("\n")
        )
        content = matcher.redact(content)
        says_something = bool(_HAS_WORDS.search(content.replace(MARK, "")))
        values = {
            "name": matcher.redact(self.name)[:LONGEST_NAME] if says_something else "",
            "content": content if says_something else MARK,
            "put_back": [matcher.redact(masked_texts.get(text, text)) for text in self.put_back],
            "kept": [matcher.redact(masked_texts.get(text, text)) for text in self.kept],
            "dropped": [matcher.redact(text) for text in self.dropped],
        }
        if not changed and all(getattr(self, name) == value for name, value in values.items()):
            return 0
        for line in changed:
            line.text, line.masked = masked_texts[line.text], True
        Line.objects.bulk_update(changed, ["text", "masked"], batch_size=200)
        MemoryVersion.objects.filter(pk=self.pk).update(
            revision=F("revision") + 1, updated_at=timezone.now(), **values
        )
        self.memory.unsaved.all().delete()
        self.refresh_from_db()
        return len(changed)

    def withdraw(self) -> int:
        """Nothing that it was made from is left: only what people hold stays."""
        kept_origins = {Origin.PERSON}
        lines = [
            line.pk for line in self.lines.all() if not (line.pinned or line.origin in kept_origins)
        ]
        return self.mask(QuoteMatcher(frozenset()), lines)

    def rewrite(self, draft: NewVersion) -> bool:
        """Replace the text in place, number kept. False, and nothing done, if it is a person's or
        was rewritten meanwhile; the caller then adds a version instead."""
        value = value_of(draft, self.memory)
        with transaction.atomic():
            done = MemoryVersion.objects.filter(
                pk=self.pk, revision=self.revision, origin=Origin.MODEL
            ).update(revision=F("revision") + 1, merged=False, **columns_of(draft, value))
            if not done:
                return False
            self.lines.all().delete()
            self.refresh_from_db()
            self.write_lines(draft.lines)
            self.memory.update_current()
        return True
