"""Versions: the numbered texts of a memory."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property

from django.db import models, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.access.users import User
from memories.models.generate.segments import Segment
from memories.models.ingest.messages import Message
from memories.models.memory.earlier_wordings import EarlierWording
from memories.models.memory.lines import Audience, Line
from memories.models.memory.new_version import NewVersion
from memories.models.memory.version_queries import MemoryVersionQuerySet
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory import lines as line_rules
from memories.rules.memory.identity import Memory as MemoryValue
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import Origin
from memories.rules.memory.operations import operation_text
from memories.rules.redaction.shingles import REDACTED, QuoteMatcher
from memories.rules.safety.normalized_text import LineMatcher

MAX_NAME_LENGTH = 80  # characters
_HAS_WORDS = re.compile(r"\w")


class MemoryVersion(models.Model):
    """A numbered text of a memory. `rewrite` and `redact` change it in place (rules 2, 4, 5 and 7).

    ``trigger`` is the reason in numbers: ``{"reason": "idle", "new": 12, "quiet_s": 7200}``.
    ``put_back`` are protected lines (a person wrote or pinned them) that the model dropped and code
    restored. ``kept`` are those that the model kept. ``dropped`` are operations of a merge that
    were not applied, each as ``reason: text`` with an `operations.DropReason`.
    """

    Origin = Origin
    Audience = Audience

    lines_then: list[Line] | None  # set by `EarlierWordingQuerySet.load_into`

    memory = models.ForeignKey("Memory", on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(_("version"))
    # What people call it, to find it again among many.
    name = models.CharField(_("name"), max_length=MAX_NAME_LENGTH, blank=True, default="")
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
    audience = models.CharField(
        _("visible to"), max_length=10, choices=Audience, default=Audience.SCOPE
    )
    provisional = models.BooleanField(_("provisional"), default=False)
    # Whether the long-term memory above has read this wording.
    merged = models.BooleanField(_("merged"), default=False)
    until_us = models.BigIntegerField(default=0)
    source_message_count = models.PositiveIntegerField(_("messages"), default=0)
    source_latest_message_ts = models.CharField(_("newest message"), max_length=20, blank=True)
    trigger = models.JSONField(_("why"), default=dict, blank=True)
    put_back = models.JSONField(_("restored lines"), default=list, blank=True)
    kept = models.JSONField(_("kept lines"), default=list, blank=True)
    dropped = models.JSONField(_("changes not applied"), default=list, blank=True)
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
            # For MemoryVersionQuerySet.not_merged: it returns few of many rows.
            models.Index(
                fields=["memory"],
                name="version_not_merged",
                condition=Q(merged=False, provisional=False),
            ),
            # For MemoryVersionQuerySet.restricted: it returns few rows too.
            models.Index(
                fields=["memory"], name="version_not_for_all", condition=~Q(audience="scope")
            ),
        ]
        verbose_name = _("version")
        verbose_name_plural = _("versions")

    def __str__(self) -> str:
        return f"{self.memory}, v{self.number}"

    @property
    def is_by_person(self) -> bool:
        """Whether a person wrote or restored it. No job rewrites such a version."""
        return self.origin != Origin.MODEL

    @property
    def value(self) -> MemoryValue:
        """The immutable value of S0, which contexts read."""
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

    def lines_over(self, base: "MemoryVersion | None") -> list[line_rules.Line]:
        """Return the lines of this version as they are restored over another one.

        The undo of a restore brings them back as they were.
        """
        lines = self.line_values()
        if base is not None and base.origin == Origin.RESTORE and base.base_id == self.pk:
            return lines
        return line_rules.restore_lines(base.line_values() if base else [], lines)

    def line_values(self) -> list[line_rules.Line]:
        """Return the lines as plain values, without redacted ones."""
        return self.lines.filter(redacted=False).order_by("position").as_values()

    def protected_lines(self) -> list[line_rules.Line]:
        """Return the lines that a person wrote or pinned."""
        return [line for line in self.line_values() if line.is_protected]

    def unprotected_lines(self) -> "models.QuerySet[Line]":
        """Return the lines that an update may change."""
        return self.lines.filter(redacted=False, pinned=False).exclude(origin=Origin.PERSON)

    def redacted_lines(self) -> "models.QuerySet[Line]":
        return self.lines.filter(redacted=True)

    def without_redacted(self, text: str) -> str:
        """Return an edit of this version without the lines that were redacted in it."""
        redacted = {
            line_rules.strip_bullet(line)
            for line in self.redacted_lines().values_list("text", flat=True)
        }
        if not redacted:
            return text
        kept = [line for line in text.split("\n") if line_rules.strip_bullet(line) not in redacted]
        return "\n".join(kept).strip("\n")

    @cached_property
    def removed_lines(self) -> "list[Line]":
        """The lines of the base that a merge removed, each with its ``successor_text``."""
        base_lines = Line.objects.filter(version=self.base_id).exclude(outcome="")
        removed = list(base_lines.exclude(text__in=self.lines.values("text")))
        positions = [line.successor for line in removed if line.successor is not None]
        texts: dict[int | None, str] = dict(
            self.lines.filter(position__in=positions).values_list("position", "text")
        )
        for line in removed:
            line.successor_text = texts.get(line.successor, "")
        return removed

    @transaction.atomic
    def rename(self, name: str, *, by: User | None) -> bool:
        """Set the name, "" for none. Return False if it is the same."""
        renamed = MemoryVersion.objects.filter(pk=self.pk).exclude(name=name).update(name=name)
        if renamed:
            self.name = name
            self.memory.record("version_name", by, version=self.number, named=bool(name))
        return bool(renamed)

    def write_lines(self, lines: Iterable[line_rules.Line]) -> None:
        values = list(lines)
        undated = {key for line in values if not line.at_us for key in line.sources}
        sent_us = dict(Message.objects.filter(pk__in=undated).values_list("pk", "micros"))
        created_us = to_micros(self.created_at)

        def time_of(line: line_rules.Line) -> int:
            default = created_us if line.origin is Origin.PERSON else self.until_us or created_us
            times = (sent_us[key] for key in line.sources if key in sent_us)
            return line.at_us or max(times, default=default)

        rows = Line.objects.bulk_create(
            Line(
                version=self,
                position=i,
                text=line.text,
                origin=line.origin,
                since=line.since or self.number,
                pinned=line.pinned,
                kind=line.kind,
                at_us=time_of(line),
                unverified=line.unverified,
                author_id=line.author,
            )
            for i, line in enumerate(values)
        )
        through = Line.sources.through
        through.objects.bulk_create(
            through(line_id=row.pk, message_id=message_id)
            for row, line in zip(rows, values, strict=True)
            for message_id in dict.fromkeys(line.sources)
        )

    def redact(
        self,
        matcher: QuoteMatcher,
        whole: Collection[int] = (),
        short: Mapping[int, QuoteMatcher] | None = None,
        repeats_removed: Callable[[str], bool] = lambda text: False,
    ) -> int:
        """Redact the text in place, also a person's. Return the number of changed lines.

        ``whole`` are primary keys of lines to redact completely. ``short`` are matchers for single
        lines, by primary key; all other lines use ``matcher``. ``repeats_removed`` matches dropped
        operations to redact completely.

        The new revision makes open editors stale. The drafts of the memory are deleted, and the
        proposals that replace or repeat a redacted line. Call `Memory.update_current` afterwards.
        """
        lines = list(self.lines.order_by("position"))
        texts = [
            line_rules.redacted_line(line.text)
            if line.pk in whole
            else (short or {}).get(line.pk, matcher).redact(line.text)
            for line in lines
        ]
        joined = matcher.redact("\n".join(texts)).split("\n")  # a quotation may have several lines
        if len(joined) == len(texts):
            texts = joined
        redacted = {line.text: text for line, text in zip(lines, texts, strict=True)}
        changed = [line for line, text in zip(lines, texts, strict=True) if text != line.text]
        content = matcher.redact(
            "\n".join(redacted.get(part.rstrip(), part) for part in self.content.split("\n"))
        )
        has_words = bool(_HAS_WORDS.search(content.replace(REDACTED, "")))
        values = {
            "name": matcher.redact(self.name)[:MAX_NAME_LENGTH] if has_words else "",
            "content": content if has_words else REDACTED,
            "put_back": [matcher.redact(redacted.get(text, text)) for text in self.put_back],
            "kept": [matcher.redact(redacted.get(text, text)) for text in self.kept],
            "dropped": [
                REDACTED if repeats_removed(operation_text(text)) else matcher.redact(text)
                for text in self.dropped
            ],
        }
        if not changed and all(getattr(self, name) == value for name, value in values.items()):
            return 0
        for line in changed:
            line.text, line.redacted = redacted[line.text], True
        Line.objects.bulk_update(changed, ["text", "redacted"], batch_size=200)
        MemoryVersion.objects.filter(pk=self.pk).update(
            revision=F("revision") + 1, updated_at=timezone.now(), **values
        )
        self.memory.drafts.all().delete()
        old_words = [line_rules.strip_bullet(old) for old, new in redacted.items() if old != new]
        about = Q(line_text__in=old_words) | Q(text__in=old_words)
        self.memory.proposals.filter(about).delete()
        self.refresh_from_db()
        return len(changed)

    def withdraw(self) -> int:
        """Redact all lines except protected ones: the sources of the version are gone."""
        lines = {
            line.pk: line.text
            for line in self.lines.all()
            if not line.pinned and line.origin != Origin.PERSON
        }
        repeats_removed = LineMatcher(lines.values()).matches
        return self.redact(QuoteMatcher(frozenset()), lines, repeats_removed=repeats_removed)

    def rewrite(self, new: NewVersion) -> bool:
        """Replace the text in place.

        Return False and do nothing if a person wrote the version, or if it was rewritten since it
        was loaded. The caller then adds a version.
        """
        columns = new.columns(self.memory)
        with transaction.atomic():
            rewritten = MemoryVersion.objects.filter(
                pk=self.pk, revision=self.revision, origin=Origin.MODEL
            ).update(revision=F("revision") + 1, merged=False, **columns)
            if not rewritten:
                return False
            EarlierWording.objects.keep(self)
            self.lines.all().delete()
            self.refresh_from_db()
            self.write_lines(new.lines)
            self.memory.update_current()
        return True
