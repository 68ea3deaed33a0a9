"""Memories: identities (S0) whose texts are numbered versions."""

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import models, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils.text import normalize_newlines
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import AudienceQuerySet
from memories.models.access.users import User
from memories.models.access.workspaces import Workspace
from memories.models.ingest.channels import Channel
from memories.models.memory.earlier_wordings import EarlierWording
from memories.models.memory.lines import Audience, Line, LineQuerySet
from memories.models.memory.new_version import (
    ChangedSince,
    NewVersion,
    StaleBase,
    Unchanged,
    number_and_revision,
)
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory import compare
from memories.rules.memory.identity import (
    VALID_MEMORY_COMBINATIONS,
    WORKSPACE_SCOPE_ID,
    MemoryScope,
    MemoryType,
    make_thread_scope_id,
)
from memories.rules.memory.lines import Origin, restore_text, revise_lines, split_text, strip_bullet

if TYPE_CHECKING:
    from memories.models.memory.versions import MemoryVersion


class MemoryQuerySet(AudienceQuerySet["Memory"]):
    def with_current(self) -> "MemoryQuerySet":
        return self.select_related("current", "channel", "workspace")

    def with_current_dates(self) -> "MemoryQuerySet":
        """Annotate the creation time, end of period and origin of the current version."""
        return self.annotate(  # type: ignore[no-redef]
            written_at=F("current__created_at"),
            until_us=F("current__until_us"),
            origin=F("current__origin"),
        )

    def prefer_long_term(self) -> "MemoryQuerySet":
        """Exclude the short-term memories of channels that have a long-term text."""
        long_term = Memory.objects.filter(
            memory_type=MemoryType.LONG_TERM, channel=OuterRef("channel"), current__isnull=False
        )
        return self.filter(Q(memory_type=MemoryType.LONG_TERM) | ~Exists(long_term))

    def of_workspace(self, workspace: Workspace, memory_type: MemoryType) -> "Memory":
        """Return the memory of a workspace. Create it on first use."""
        return self._get_or_create(
            workspace, MemoryScope.WORKSPACE, WORKSPACE_SCOPE_ID, memory_type
        )

    def of_channel(self, channel: Channel, memory_type: MemoryType) -> "Memory":
        """Return the memory of a channel. Create it on first use."""
        return self._get_or_create(
            channel.workspace, MemoryScope.CHANNEL, channel.slack_id, memory_type, channel=channel
        )

    def of_thread(self, channel: Channel, thread_ts: str) -> "Memory":
        """Return the short-term memory of a thread. Create it on first use."""
        scope_id = make_thread_scope_id(channel.slack_id, thread_ts)
        values = {"channel": channel, "thread_ts": thread_ts}
        return self._get_or_create(
            channel.workspace, MemoryScope.THREAD, scope_id, MemoryType.SHORT_TERM, **values
        )

    def _get_or_create(
        self, workspace: Workspace, scope: MemoryScope, scope_id: str, kind: MemoryType, **more: Any
    ) -> "Memory":
        identity = {"scope": scope, "scope_id": scope_id, "memory_type": kind}
        return self.get_or_create(workspace=workspace, **identity, defaults=more)[0]


class Memory(models.Model):
    """An identity (S0): workspace, scope, scope_id, type. Its texts are versions.

    ``head`` is the number of the newest version. Each write compares and swaps it. Readers get
    ``current``: the newest version, unless that one covers an older period (a late backfill).
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memories")
    scope = models.CharField(
        _("scope"),
        max_length=10,
        choices=[
            (MemoryScope.WORKSPACE.value, _("workspace")),
            (MemoryScope.CHANNEL.value, _("channel")),
            (MemoryScope.THREAD.value, _("thread")),
        ],
    )
    scope_id = models.CharField(_("scope id"), max_length=60)
    memory_type = models.CharField(
        _("type"),
        max_length=10,
        choices=[
            (MemoryType.LONG_TERM.value, _("long-term memory")),
            (MemoryType.SHORT_TERM.value, _("short-term memory")),
        ],
    )
    channel = models.ForeignKey(
        Channel, on_delete=models.CASCADE, related_name="memories", null=True, blank=True
    )
    thread_ts = models.CharField(_("thread"), max_length=20, blank=True)
    head = models.PositiveIntegerField(_("newest version"), default=0)
    current = models.ForeignKey(
        "MemoryVersion",
        on_delete=models.SET_NULL,
        related_name="current_of",
        null=True,
        blank=True,
        verbose_name=_("current version"),
    )

    # Annotations of `seen.with_seen`, and `base_id` of `load_entries` in views/memory/news.py.
    seen: int
    seen_at: datetime | None
    news: int
    base_id: int | None
    written_at: datetime  # these three of `MemoryQuerySet.with_current_dates`
    until_us: int
    origin: str

    objects = MemoryQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "scope", "scope_id", "memory_type"], name="memory_identity"
            ),
            models.CheckConstraint(
                name="memory_valid_pair",
                condition=Q(
                    *(
                        Q(scope=scope.value, memory_type=memory_type.value)
                        for scope, memory_type in sorted(VALID_MEMORY_COMBINATIONS)
                    ),
                    _connector=Q.OR,
                ),
                violation_error_message=_("A thread has no long-term memory."),
            ),
            models.CheckConstraint(
                name="memory_place",
                condition=Q(
                    scope=MemoryScope.WORKSPACE.value,
                    scope_id=WORKSPACE_SCOPE_ID,
                    channel__isnull=True,
                    thread_ts="",
                )
                | Q(scope=MemoryScope.CHANNEL.value, channel__isnull=False, thread_ts="")
                | (Q(scope=MemoryScope.THREAD.value, channel__isnull=False) & ~Q(thread_ts="")),
            ),
        ]
        verbose_name = _("memory")
        verbose_name_plural = _("memories")

    def __str__(self) -> str:
        scope = f"{self.channel or self.workspace} {self.thread_ts}".strip()
        return f"{scope}, {self.get_memory_type_display()}"

    def add_version(self, new: NewVersion, expected_head: int) -> "MemoryVersion":
        """Write the next version if ``expected_head`` is the newest number.

        Raise StaleBase and write nothing if the number has changed.
        """
        with transaction.atomic():
            unchanged = Memory.objects.filter(pk=self.pk, head=expected_head)
            if not unchanged.update(head=expected_head + 1):
                self.refresh_from_db()
                raise StaleBase(self.current)
            columns = new.columns(self)
            version = self.versions.create(
                number=expected_head + 1,
                created_at=columns["updated_at"],
                origin=new.origin,
                author=new.author,
                base=new.base,
                restored_from=new.restored_from,
                **columns,
            )
            version.write_lines(new.lines)
            returned = self.archived_lines().filter(text__in=[line.text for line in new.lines])
            returned.update(outcome=Line.Outcome.RETURNED, outcome_us=to_micros(version.created_at))
            self.update_current()
        return version

    def add_version_by_person(
        self, base: "MemoryVersion | None", by: User | None, origin: Origin, **values: Any
    ) -> "MemoryVersion":
        """Write a person's change of ``base``, or a restore of an older version.

        Segment and message counts are those of ``restored_from``, or else of ``base``.
        """
        source = values.get("restored_from") or base
        if source is not None:
            values["segment"] = source.segment
            values["source_message_count"] = source.source_message_count
            values["source_latest_message_ts"] = source.source_latest_message_ts
        until_us = base.until_us if base else 0  # an edit does not extend the period
        new = NewVersion(origin=origin, author=by, base=base, until_us=until_us, **values)
        return self.add_version(new, expected_head=self.head)

    def archived_lines(self) -> "LineQuerySet":
        return Line.objects.archived().filter(version__memory=self)

    def lock(self) -> None:
        """Lock the row until the end of the transaction, and reload it."""
        self.refresh_from_db(from_queryset=Memory.objects.select_for_update(no_key=True))

    def update_current(self) -> None:
        """Set ``current`` to the newest version that all readers may read, or to None."""
        readable = self.versions.with_text().filter(audience=Audience.SCOPE)
        current = readable.order_by("-until_us", "-number").values_list("pk", flat=True).first()
        Memory.objects.filter(pk=self.pk).update(current=current)
        self.refresh_from_db()

    @transaction.atomic
    def revise(
        self,
        text: str,
        *,
        by: User | None,
        based_on: int,
        revision: int | None = None,
        audience: str = Audience.SCOPE,
    ) -> "MemoryVersion":
        """Save a person's edit of the version that they saw.

        ``based_on`` is its number, 0 for a memory without a text. ``revision`` counts the rewrites
        of that version by jobs. Raise StaleBase if readers get another text now, Unchanged if the
        text is the same, and ValueError if it is empty (rule 8).
        """
        text = normalize_newlines(text).strip("\n")
        if not split_text(text):
            raise ValueError("The edit has no text.")
        base = self.get_seen_version(based_on, revision)
        if base is not None:
            if text == base.content:
                raise Unchanged
            text = base.without_redacted(text)
            if not split_text(text):
                raise ValueError("The edit contains only forgotten text.")
        current = base.line_values() if base else []
        lines = revise_lines(current, text, by.pk if by else None)
        version = self.add_version_by_person(
            base, by, Origin.PERSON, lines=lines, content=text, audience=audience
        )
        self.record("memory_edit", by, version=version.number, based_on=based_on)
        return version

    @transaction.atomic
    def restore(
        self,
        version: "MemoryVersion",
        *,
        by: User | None,
        based_on: int,
        revision: int | None = None,
    ) -> "MemoryVersion":
        """Add a version with the text of an older one. Raise the errors of `revise`."""
        if version.memory_id != self.pk:
            raise ValueError("a version of another memory")
        base = self.get_seen_version(based_on, revision)
        version.refresh_from_db(fields=["content", "audience"])  # a redaction may have changed them
        content = version.without_redacted(version.content)
        if not content or (base and base.content == content):
            raise Unchanged
        new_version = self.add_version_by_person(
            base,
            by,
            Origin.RESTORE,
            lines=version.lines_over(base),
            content=content,
            restored_from=version,
            audience=version.audience,  # a restore publishes nothing
        )
        self.record("memory_restore", by, version=new_version.number, restored=version.number)
        return new_version

    @transaction.atomic
    def undo(
        self,
        older: "MemoryVersion",
        newer: "MemoryVersion",
        change: int,
        *,
        by: User | None,
        based_on: int,
        revision: int | None = None,
    ) -> "MemoryVersion":
        """Add a version without one change between two versions.

        ``change`` is its index among `compare.changed_rows`. Raise StaleBase as `revise` does,
        ChangedSince if the lines are different now, ValueError if no text remains, and IndexError
        if there is no such change.
        """
        base = self.get_seen_version(based_on, revision)
        if base is None:
            raise ChangedSince
        for version in (older, newer):  # a redaction may have changed them
            version.refresh_from_db(fields=["content", "audience"])
        text = compare.revert_change(older.content, newer.content, change, base.content)
        if text is None:
            raise ChangedSince
        text = base.without_redacted(text)
        current = base.line_values()
        lines = restore_text(current, older.line_values(), text)
        if lines is None:  # a redacted line is not restored
            raise ChangedSince
        if not lines:
            raise ValueError("No line would be left.")
        current_words = {strip_bullet(line.text) for line in current}
        restores_line = {strip_bullet(line.text) for line in lines} - current_words
        audience = older.audience if restores_line else base.audience  # as in restore
        trigger = {"reason": "undo", "of": newer.number}
        version = self.add_version_by_person(
            base, by, Origin.RESTORE, lines=lines, content=text, trigger=trigger, audience=audience
        )
        self.record("memory_undo", by, version=version.number, of=[older.number, newer.number])
        return version

    @transaction.atomic
    def pin(
        self,
        position: int,
        *,
        by: User | None,
        based_on: int,
        revision: int | None = None,
        pinned: bool = True,
    ) -> bool:
        """Pin or unpin a line of the current version, without a new version.

        ``position`` counts from 0. Return False if nothing changes. Raise StaleBase as `revise`
        does, and LookupError if there is no such line.
        """
        current = self.get_seen_version(based_on, revision)
        lines = list(current.lines.all()) if current else []
        if not 0 <= position < len(lines):
            raise LookupError(f"There is no line {position}.")
        words = strip_bullet(lines[position].text)
        # Equal lines change together: a merge treats them as one line.
        equal = [line.pk for line in lines if strip_bullet(line.text) == words]
        changed = Line.objects.filter(pk__in=equal, pinned=not pinned)
        if current is None or not changed.exists():
            return False
        EarlierWording.objects.keep(current)
        changed.update(pinned=pinned)
        self.record("line_pin" if pinned else "line_unpin", by, version=based_on, line=position)
        return True

    @transaction.atomic
    def pin_texts(
        self, texts: Collection[str], *, by: User | None, based_on: int, revision: int | None = None
    ) -> int:
        """Pin all lines of the current version with one of these texts.

        Return the number of lines that were not pinned. Raise StaleBase as `revise` does.
        """
        current = self.get_seen_version(based_on, revision)
        words = set(map(strip_bullet, texts))
        unpinned = Line.objects.filter(version=current, redacted=False, pinned=False)
        matches = [line for line in unpinned if strip_bullet(line.text) in words]
        if current is not None and matches:
            EarlierWording.objects.keep(current)
        Line.objects.filter(pk__in=[line.pk for line in matches]).update(pinned=True)
        for line in matches:
            self.record("line_pin", by, version=based_on, line=line.position)
        return len(matches)

    def record(self, action: str, by: User | None, **details: Any) -> None:
        AuditEvent.objects.record(
            action, by=by, workspace=self.workspace, subject=f"memory {self.pk}", **details
        )

    def get_seen_version(self, number: int, revision: int | None) -> "MemoryVersion | None":
        """Lock the memory and return its current version, None for a memory without a text.

        Raise StaleBase if it is not the one that a person saw. The current version is compared, not
        the head: after a late backfill the newest number belongs to an older period.
        """
        self.lock()
        current = number_and_revision(self.current)
        if (number, current[1] if revision is None else revision) != current:
            raise StaleBase(self.current)
        return self.current
