"""Memories: identities whose text stands in numbered versions."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import models, transaction
from django.db.models import Count, Exists, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils.text import normalize_newlines
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import AudienceQuerySet
from memories.models.access.users import User
from memories.models.access.workspaces import Workspace
from memories.models.ingest.channels import Channel
from memories.models.memory.lines import Audience, Line, LineQuerySet
from memories.models.memory.new_version import (
    ChangedSince,
    NewVersion,
    StaleBase,
    Unchanged,
    columns_of,
    value_of,
)
from memories.models.memory.versions import MemoryVersion
from memories.rules.memory import compare
from memories.rules.memory import lines as line_rules
from memories.rules.memory.identity import (
    VALID_MEMORY_COMBINATIONS,
    WORKSPACE_SCOPE_ID,
    InvalidMemoryCombination,
    MemoryScope,
    MemoryType,
    is_valid_memory_combination,
    make_thread_scope_id,
)
from memories.rules.memory.lines import Origin


class MemoryQuerySet(AudienceQuerySet["Memory"]):
    def with_current(self) -> "MemoryQuerySet":
        return self.select_related("current", "channel", "workspace")

    def with_mark(self, user_id: int | None) -> "MemoryQuerySet":
        """With ``seen``, the number of the version that this account marked last (0: none), and
        ``seen_at``; ``news`` counts the versions for all readers since then, up to the current one.
        """
        from memories.models.memory.seen import Seen

        mark = Seen.objects.filter(memory=OuterRef("pk"), user=user_id)
        newer = MemoryVersion.objects.filter(
            memory=OuterRef("pk"),
            audience=Audience.SCOPE,
            number__gt=OuterRef("seen"),
            number__lte=OuterRef("current__number"),
        )
        counted = newer.order_by().values("memory").annotate(n=Count("pk")).values("n")
        return self.annotate(  # type: ignore[no-redef]
            seen=Coalesce(Subquery(mark.values("number")), Value(0)),
            seen_at=Subquery(mark.values("at")),
        ).annotate(news=Coalesce(Subquery(counted), Value(0)))

    def unseen(self, user_id: int | None) -> "MemoryQuerySet":
        """Those whose current version is newer than the one that this account marked last."""
        from memories.models.memory.seen import Seen

        # Only what was marked is held against its version: a list of versions is slow to read.
        marks = Seen.objects.filter(
            user=user_id, memory=OuterRef("pk"), number__gte=F("memory__current__number")
        )
        return self.filter(~Exists(marks), current__isnull=False)

    def with_current_dates(self) -> "MemoryQuerySet":
        """With when the current text was written, up to when it covers, and by whom it is, without
        the text."""
        return self.annotate(  # type: ignore[no-redef]
            written_at=F("current__created_at"),
            until_us=F("current__until_us"),
            origin=F("current__origin"),
        )

    def prefer_long_term(self) -> "MemoryQuerySet":
        """Of each place the long-term memory, or the short-term one as long as there is no other."""
        long = Memory.objects.filter(
            memory_type=MemoryType.LONG_TERM, channel=OuterRef("channel"), current__isnull=False
        )
        return self.filter(Q(memory_type=MemoryType.LONG_TERM) | ~Exists(long))

    def of_workspace(self, workspace: Workspace, memory_type: MemoryType) -> "Memory":
        """The workspace's memory of this type; made on first use."""
        return self._identity(workspace, MemoryScope.WORKSPACE, WORKSPACE_SCOPE_ID, memory_type)

    def of_channel(self, channel: Channel, memory_type: MemoryType) -> "Memory":
        return self._identity(
            channel.workspace, MemoryScope.CHANNEL, channel.slack_id, memory_type, channel=channel
        )

    def of_thread(
        self, channel: Channel, thread_ts: str, memory_type: MemoryType = MemoryType.SHORT_TERM
    ) -> "Memory":
        """A thread's short-term memory; thread + long_term raises InvalidMemoryCombination."""
        scope_id = make_thread_scope_id(channel.slack_id, thread_ts)
        return self._identity(
            channel.workspace,
            MemoryScope.THREAD,
            scope_id,
            memory_type,
            channel=channel,
            thread_ts=thread_ts,
        )

    def _identity(
        self,
        workspace: Workspace,
        scope: MemoryScope,
        scope_id: str,
        memory_type: MemoryType,
        **place: Any,
    ) -> "Memory":
        if not is_valid_memory_combination(scope, memory_type):
            raise InvalidMemoryCombination(scope, memory_type)
        memory, _made = self.get_or_create(
            workspace=workspace,
            scope=scope,
            scope_id=scope_id,
            memory_type=memory_type,
            defaults=place,
        )
        return memory


class Memory(models.Model):
    """An identity (S0): workspace, scope, scope_id, type. Its text stands in versions.

    ``head`` is the number of the newest version: every write compares and swaps it. ``current``
    is what readers get: the newest version, unless it covers an older period (a late backfill).
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

    # Of rows that were read by `MemoryQuerySet.with_mark`.
    seen: int
    seen_at: datetime | None
    news: int
    # And by `MemoryQuerySet.with_current_dates`.
    written_at: datetime
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
        return f"{self.scope}:{self.scope_id}:{self.memory_type}"

    def add_version(self, draft: NewVersion, expected_head: int) -> "MemoryVersion":
        """Write the next version if ``expected_head`` is still the newest number.

        The comparison is part of the write; raises StaleBase and writes nothing when it moved.
        """
        with transaction.atomic():
            swapped = Memory.objects.filter(pk=self.pk, head=expected_head).update(
                head=expected_head + 1
            )
            if not swapped:
                self.refresh_from_db()
                raise StaleBase(self.current)
            value = value_of(draft, self)
            version = MemoryVersion.objects.create(
                memory=self,
                number=expected_head + 1,
                created_at=value.created_at,
                origin=draft.origin,
                author=draft.author,
                base=draft.base,
                restored_from=draft.restored_from,
                **columns_of(draft, value),
            )
            version.write_lines(draft.lines)
            back = self.archived_lines().filter(text__in=[line.text for line in draft.lines])
            back.update(fate=Line.Fate.RETURNED)
            self.update_current()
        return version

    def archived_lines(self) -> "LineQuerySet":
        """Its archive: lines that left the text because there was no room."""
        return Line.objects.archived().filter(version__memory=self)

    def lock(self) -> None:
        """Take the row until the transaction ends and see it as it is now: whoever writes by what
        is there takes turns."""
        self.refresh_from_db(from_queryset=Memory.objects.select_for_update(no_key=True))

    def update_current(self) -> None:
        """Let readers get the newest version that all of them may read; none, if there is none."""
        current = (
            self.versions.with_text()
            .filter(audience=Audience.SCOPE)
            .order_by("-until_us", "-number")
            .first()
        )
        Memory.objects.filter(pk=self.pk).update(current=current)
        self.refresh_from_db()

    @transaction.atomic
    def revise(
        self, text: str, *, by: User | None, based_on: int, revision: int | None = None
    ) -> "MemoryVersion":
        """A person's edit of the current version as they saw it: its number (0 for a memory
        without a text yet) and, where known, its revision (a job may have rewritten it in place).

        Raises StaleBase when readers get another text by now, Unchanged when nothing is different,
        ValueError when the text says nothing (rule 8).
        """
        text = normalize_newlines(text).strip("\n")
        if not line_rules.split_text(text):
            raise ValueError("There is no text in this edit.")
        base = self.get_seen_version(based_on, revision)
        if base is not None and text == base.content:
            raise Unchanged
        if base is not None:
            text = base.without_redacted(text)
            if not line_rules.split_text(text):
                raise ValueError("Nothing is left in this edit but what was forgotten.")
        old = base.line_values() if base else []
        version = self.add_version(
            NewVersion(
                lines=line_rules.revise_lines(old, text),
                content=text,
                origin=Origin.PERSON,
                author=by,
                base=base,
                segment=base.segment if base else None,
                until_us=self._latest_until(),
                source_message_count=base.source_message_count if base else 0,
                source_latest_message_ts=base.source_latest_message_ts if base else None,
            ),
            expected_head=self.head,
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
        """Bring an older version back as a new one; history only grows. Raises like revise."""
        if version.memory_id != self.pk:
            raise ValueError("a version of another memory")
        base = self.get_seen_version(based_on, revision)
        content = version.without_redacted(version.content)
        if not content or (base is not None and base.content == content):
            raise Unchanged
        current = base.line_values() if base else []
        made = self.add_version(
            NewVersion(
                lines=line_rules.restore_lines(current, version.line_values()),
                content=content,
                origin=Origin.RESTORE,
                author=by,
                base=base,
                restored_from=version,
                segment=version.segment,
                until_us=self._latest_until(),
                source_message_count=version.source_message_count,
                source_latest_message_ts=version.source_latest_message_ts,
                audience=version.audience,  # bringing it back publishes nothing
            ),
            expected_head=self.head,
        )
        self.record("memory_restore", by, version=made.number, restored=version.number)
        return made

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
        """Take one change between two versions (its place among `compare.changes`) back, as a new
        version of the current text.

        Raises StaleBase like revise, ChangedSince when what the change left is different by now,
        ValueError when nothing would be left, IndexError when there is no such change.
        """
        base = self.get_seen_version(based_on, revision)
        if base is None:
            raise ChangedSince
        text = compare.revert_change(older.content, newer.content, change, base.content)
        if text is None:
            raise ChangedSince
        text = base.without_redacted(text)
        current = base.line_values()
        lines = line_rules.restore_text(current, older.line_values(), text)
        if lines is None:  # what was forgotten does not come back
            raise ChangedSince
        if not lines:
            raise ValueError("Nothing would be left.")
        stood = {line_rules.words_of(line.text) for line in current}
        brings = any(line_rules.words_of(line.text) not in stood for line in lines)
        made = self.add_version(
            NewVersion(
                lines=lines,
                content=text,
                origin=Origin.RESTORE,
                author=by,
                base=base,
                segment=base.segment,
                until_us=base.until_us,
                source_message_count=base.source_message_count,
                source_latest_message_ts=base.source_latest_message_ts,
                trigger={"reason": "undo", "of": newer.number},
                audience=older.audience if brings else base.audience,  # as in restore
            ),
            expected_head=self.head,
        )
        self.record("memory_undo", by, version=made.number, of=[older.number, newer.number])
        return made

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
        """A person's word that a line (its position, from 0) of the current version, as they saw
        it, stays as it is from now on; or no longer. The text is the same, so it is no new version.

        False when it was so already. Raises StaleBase like revise, LookupError for no such line.
        """
        current = self.get_seen_version(based_on, revision)
        lines = list(current.lines.all()) if current else []
        if not 0 <= position < len(lines):
            raise LookupError(f"There is no line {position}.")
        words = line_rules.words_of(lines[position].text)
        # Equal lines are one: a merge does not tell them apart.
        equal = [line.pk for line in lines if line_rules.words_of(line.text) == words]
        changed = Line.objects.filter(pk__in=equal, pinned=not pinned).update(pinned=pinned)
        if changed and current:
            action = "line_pin" if pinned else "line_unpin"
            self.record(action, by, version=current.number, line=position)
        return bool(changed)

    @transaction.atomic
    def pin_texts(
        self,
        texts: Collection[str],
        *,
        by: User | None,
        based_on: int,
        revision: int | None = None,
    ) -> int:
        """Pin all lines of the current version that say the same as one of these texts, as `pin`
        does; words that do not stand in it are passed over. How many were not pinned yet."""
        current = self.get_seen_version(based_on, revision)
        words = {line_rules.words_of(text) for text in texts}
        lines = Line.objects.filter(version=current, masked=False, pinned=False)
        matches = [line for line in lines if line_rules.words_of(line.text) in words]
        Line.objects.filter(pk__in=[line.pk for line in matches]).update(pinned=True)
        for line in matches:
            self.record("line_pin", by, version=based_on, line=line.position)
        return len(matches)

    def record(self, action: str, by: User | None, **details: Any) -> None:
        AuditEvent.objects.record(
            action, by=by, workspace=self.workspace, subject=f"memory {self.pk}", **details
        )

    def get_seen_version(self, number: int, revision: int | None = None) -> "MemoryVersion | None":
        """The current version if it still is the one a person saw, else StaleBase.

        Seen is the current one, never the head: after a late backfill the newest number belongs
        to an older period.
        """
        self.lock()
        current = self.current
        number_now, revision_now = (current.number, current.revision) if current else (0, 0)
        if number != number_now or revision not in (None, revision_now):
            raise StaleBase(current)
        return current

    def _latest_until(self) -> int:
        """What a person decides counts as the newest word."""
        return self.current.until_us if self.current else 0
