"""Notes: lasting statements by people and agents (S4), and their earlier versions.

The row of a note has its newest wording. Each change stores the wording before it as a NoteVersion.
A deleted note stays in the trash, visible to editors only, until it is restored or purged.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator
from django.db import models, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.users import User
from memories.models.access.workspaces import Workspace
from memories.models.ingest.channels import Channel
from memories.models.ingest.messages import Message
from memories.models.notes.note_versions import NoteKind, NoteVersion, kind_words
from memories.models.search.documents import NOTE, SearchableQuerySet
from memories.rules.ingest.timestamps import to_micros
from memories.rules.notes import fields as rules
from memories.rules.notes.fields import NoteText


class NotesDisabled(Exception):
    """Notes are switched off in the workspace. Nothing is shown, written or removed."""

    def __init__(self) -> None:
        super().__init__("Notes are switched off in this workspace (notes_enabled).")


class StaleNote(Exception):
    """The note was changed or deleted after the version that this change is based on."""

    def __init__(self, current: "Note") -> None:
        super().__init__("The note has changed, or is in the trash.")
        self.current = current


check_length = MaxLengthValidator(rules.MAX_CONTENT_LENGTH)  # for forms


class NoteQuerySet(SearchableQuerySet["Note"]):
    searched_as = NOTE

    def live(self) -> "NoteQuerySet":
        return self.filter(deleted_at__isnull=True)

    def in_trash(self) -> "NoteQuerySet":
        """Filter deleted notes, the last deleted first."""
        return self.filter(deleted_at__isnull=False).order_by("-deleted_at", "-pk")

    def in_use(self, workspace: Workspace) -> "NoteQuerySet":
        """Filter the workspace's notes, oldest first; none while notes are switched off (S4)."""
        if not workspace.memory_settings.notes_enabled:
            return self.none()
        return self.live().filter(workspace=workspace).select_related("channel").order_by("pk")

    def deleted_keys(self, workspace: Workspace) -> set[tuple[int | None, int | None]]:
        """Return the ids and creation times in microseconds of notes in the trash and purged notes."""
        trash = self.in_trash().filter(workspace=workspace).values_list("pk", "created_at")
        purged = AuditEvent.objects.filter(action="note_purge", workspace=workspace.slug)
        details = purged.values_list("details__note", "details__made_us")
        return {(pk, to_micros(created_at)) for pk, created_at in trash} | set(details)

    @transaction.atomic
    def purge_all(self, *, by: User | None) -> int:
        """Delete these notes with their versions, audit each, and return their number."""
        notes = list(self.select_for_update(of=("self",)).select_related("workspace"))
        Note.objects.filter(pk__in=[note.pk for note in notes]).delete()
        for note in notes:  # An import of an older file reads here that the note was deleted.
            AuditEvent.objects.record(
                "note_purge",
                by=by,
                workspace=note.workspace,
                subject=f"note {note.pk}",
                note=note.pk,
                made_us=to_micros(note.created_at),
            )
        return len(notes)

    def for_contexts(self) -> "NoteQuerySet":
        return self.filter(in_context=True)

    def first_pinned(self) -> "NoteQuerySet":
        """Order by pin, then newest first."""
        return self.order_by("-is_pinned", "-date", "-pk")

    def search(self, query: str) -> list["Note"]:
        """Return the notes whose title, content or tags contain the query, ignoring case (S4).

        The comparison is in Python, since SQLite ignores the case of ASCII letters only.
        """
        return [note for note in self if rules.matches(query, note.value)]

    def write(
        self,
        workspace: Workspace,
        content: str,
        *,
        tags: Iterable[str] = (),
        kind: str = "",
        title: str = "",
        channel: Channel | None = None,
        date: date | None = None,
        author: User | None = None,
        source: Message | None = None,
        was_private: bool = False,
        now: datetime | None = None,
        **flags: Any,
    ) -> "Note":
        """Save a new note. With a ``source`` its readers are those of that message.

        With ``was_private`` only members of the channel may read it. A missing title is made from the
        content. A missing date is today in the workspace's zone. Raises NotesDisabled and InvalidNote.
        """
        if not (settings := workspace.memory_settings).notes_enabled:
            raise NotesDisabled
        note = Note(workspace=workspace, channel=channel, author=author, written_by=author, **flags)
        note.source = source
        note.was_private = was_private or (source is not None and source.was_private)
        note.date = date or rules.today(now or timezone.now(), settings.zone)
        note.set_wording(content, tags=tags, kind=kind, title=title)
        note.save()
        return note


# The fields of a version. A version of a moved note stays in the old channel.
WORDING = ("title", "kind", "tags", "date", "content", "channel")


class Note(models.Model):
    """A note in its newest wording, version ``number``.

    ``tags`` is a list of words. The kind, if given, is the first of them. ``revision`` counts all
    changes of the wording, also redactions, which have no new number.
    """

    Kind = NoteKind

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="notes")
    channel = models.ForeignKey(
        Channel, on_delete=models.CASCADE, related_name="notes", null=True, blank=True
    )
    title = models.CharField(_("title"), max_length=60)
    kind = models.CharField(_("type"), max_length=20, blank=True)
    tags = models.JSONField(_("tags"), default=list, blank=True)
    date = models.DateField(_("date"))
    content = models.TextField(_("content"))
    # The message in Slack that the note keeps.
    source = models.ForeignKey(
        Message,
        on_delete=models.SET_NULL,
        related_name="notes",
        null=True,
        blank=True,
        editable=False,
    )
    # Written while its channel was private: only its members may read it.
    was_private = models.BooleanField(_("written in private"), default=False)
    author = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="notes", null=True, blank=True
    )
    number = models.PositiveIntegerField(_("version"), default=1, editable=False)
    revision = models.PositiveIntegerField(default=0, editable=False)
    # The author and time of the newest wording, and the version that it restores.
    written_by = models.ForeignKey(
        User,
        on_delete=models.SET_NULL,
        related_name="notes_written",
        null=True,
        blank=True,
        editable=False,
    )
    written_at = models.DateTimeField(_("written at"), default=timezone.now, editable=False)
    restored_from = models.PositiveIntegerField(null=True, blank=True, editable=False)
    is_pinned = models.BooleanField(_("pinned"), default=False)
    in_context = models.BooleanField(
        _("in contexts"), default=True, help_text=_("Whether bots and agents receive it.")
    )
    review_on = models.DateField(_("to be reviewed on"), null=True, blank=True)
    deleted_at = models.DateTimeField(_("deleted"), null=True, blank=True, editable=False)
    deleted_by = models.ForeignKey(
        User,
        on_delete=models.SET_NULL,
        related_name="notes_deleted",
        null=True,
        blank=True,
        editable=False,
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = NoteQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.CheckConstraint(name="note_counts_from_1", condition=Q(number__gte=1)),
        ]
        verbose_name = _("note")
        verbose_name_plural = _("notes")

    def __str__(self) -> str:
        return self.title

    @property
    def value(self) -> NoteText:
        """The note as a plain value, for contexts and files."""
        return NoteText(
            title=self.title,
            tags=tuple(self.tags),
            date=self.date,
            content=self.content,
            channel_id=self.channel.slack_id if self.channel else "",
            id=self.pk,
            created_us=to_micros(self.created_at),
            is_pinned=self.is_pinned,
            kind=self.kind,
        )

    def set_wording(
        self, content: str, *, tags: Iterable[str] = (), kind: str = "", title: str = ""
    ) -> None:
        """Set the wording without saving it. Raises InvalidNote before any change.

        A type is one of the workspace's, or the one that the note has.
        """
        content = rules.clean_content(content)
        if content != self.content:
            rules.check_length(content)
        kinds = self._kinds(kind)
        words = rules.clean_tags(tags, kind, kinds)
        self.title = rules.clean_title(title, content)
        self.tags = list(words)
        self.kind = rules.kind_of(words, kinds)
        self.content = content

    def _kinds(self, kind: str) -> Sequence[str]:
        """Return the types that the note may have: the workspace's, and ``kind`` if it is saved."""
        if self.workspace_id is None:
            return rules.KINDS
        kinds = self.workspace.memory_settings.all_note_types
        saved = Note.objects.filter(pk=self.pk).exclude(kind__in=["", *kinds])
        return (*kinds, *saved.values_list("kind", flat=True)) if kind not in kinds else kinds

    def rewrite(
        self,
        content: str,
        *,
        tags: Iterable[str] = (),
        kind: str = "",
        title: str | None = None,
        by: User | None = None,
        based_on: int | None = None,
        revision: int | None = None,
    ) -> bool:
        """Save another wording; the wording before it becomes a version.

        Returns False if nothing differs. A title that was made from the content is made again,
        unless a new one is given; ``title`` None keeps a given one. Raises NotesDisabled and
        InvalidNote. Raises StaleNote if the note was deleted, or if it is not version ``based_on``
        with this revision any more.
        """
        self._check_enabled()
        title = self.title if title is None else title
        if title == self.title == rules.title_of(self.content):
            title = ""
        self.set_wording(content, tags=tags, kind=kind, title=title)
        return self.save_wording(by=by, based_on=based_on, revision=revision)

    @transaction.atomic
    def save_wording(
        self,
        *,
        by: User | None,
        based_on: int | None = None,
        revision: int | None = None,
        restored_from: int | None = None,
        now: datetime | None = None,
    ) -> bool:
        """Save the wording of this instance as the newest. Returns and raises as `rewrite`.

        The stored wording is read behind a lock. Of two simultaneous changes the second stores the
        first as a version, or raises StaleNote if it gives ``based_on``.
        """
        stored = Note.objects.select_for_update(of=("self",)).get(pk=self.pk)
        is_stale = based_on is not None and (based_on, revision or 0) != (
            stored.number,
            stored.revision,
        )
        if stored.deleted_at is not None or is_stale:
            raise StaleNote(stored)
        if all(
            getattr(stored, name) == getattr(self, name) for name in (*WORDING[:-1], "channel_id")
        ):
            return False
        NoteVersion.objects.create(
            note=stored,
            number=stored.number,
            written_by=stored.written_by,
            written_at=stored.written_at,
            restored_from=stored.restored_from,
            was_private=stored.was_private,
            **{name: getattr(stored, name) for name in WORDING},
        )
        self.number, self.revision = stored.number + 1, stored.revision + 1
        self.written_by, self.written_at = by, now or timezone.now()
        self.restored_from = restored_from
        written = ("number", "revision", "written_by", "written_at", "restored_from", "updated_at")
        self.save(update_fields=[*WORDING, *written])
        return True

    @transaction.atomic
    def restore(self, version: "NoteVersion", *, by: User, based_on: int, revision: int) -> bool:
        """Save the wording of a version again, in the note's channel. Returns as `rewrite`."""
        self._check_enabled()
        # A redaction locks the note first as well. It may have changed the version.
        Note.objects.select_for_update(of=("self",)).get(pk=self.pk)
        version = NoteVersion.objects.select_for_update(of=("self",)).get(pk=version.pk)
        for name in ("title", "kind", "tags", "date", "content"):
            setattr(self, name, getattr(version, name))
        return self.save_wording(
            by=by, based_on=based_on, revision=revision, restored_from=version.number
        )

    def set_flags(self, **flags: Any) -> None:
        """Set some of `rules.FLAGS`. There is no new version."""
        self._check_enabled()
        assert flags.keys() <= {*rules.FLAGS}
        rows = Note.objects.filter(pk=self.pk).live().exclude(**flags)
        rows.update(**flags, updated_at=timezone.now())
        for name, value in flags.items():
            setattr(self, name, value)

    def redact(self, content: str, title: str, tags: list[str]) -> None:
        """Store a redacted wording with a sentence that explains it, and raise the revision.

        It also works in the trash and while notes are switched off.
        """
        explanation = gettext("[…] replaces words of a deleted message.")
        if explanation not in content:
            content = f"{content}\n\n{explanation}"
        changes = {"content": content, "title": title, "tags": tags, "updated_at": timezone.now()}
        Note.objects.filter(pk=self.pk).update(**changes, revision=F("revision") + 1)

    def remove(self, *, by: User | None = None, now: datetime | None = None) -> bool:
        """Move the note to the trash. Returns False if it is there. Raises NotesDisabled."""
        self._check_enabled()
        rows = Note.objects.live().filter(pk=self.pk)
        return bool(rows.update(deleted_at=now or timezone.now(), deleted_by=by))

    def undelete(self) -> bool:
        """Restore the note from the trash. Returns False if it is not there."""
        self._check_enabled()
        deleted = Note.objects.filter(pk=self.pk, deleted_at__isnull=False)
        return bool(deleted.update(deleted_at=None, deleted_by=None, updated_at=timezone.now()))

    @transaction.atomic
    def purge(self, *, by: User | None) -> bool:
        """Delete the note in the trash with its versions, and audit it. Returns False if not there."""
        self._check_enabled()
        return bool(Note.objects.filter(pk=self.pk).in_trash().purge_all(by=by))

    def get_kind_display(self) -> str:
        return kind_words(self.kind)

    def is_due(self, today: dt.date) -> bool:
        return rules.is_due(self.review_on, today)

    def _check_enabled(self) -> None:
        if not self.workspace.memory_settings.notes_enabled:
            raise NotesDisabled

    def clean(self) -> None:
        """Check the wording and the workspace of the channel, for forms."""
        super().clean()
        tags: Any = self.tags
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise ValidationError({"tags": _("Tags must be a list of words.")})
        if self.channel is not None and self.channel.workspace_id != self.workspace_id:
            raise ValidationError({"channel": _("This channel is in another workspace.")})
        if self.kind and self.kind not in self._kinds(self.kind):
            raise ValidationError(
                {"kind": _("Enter a type that is in the settings of the workspace.")}
            )
        try:
            check_length(self.content)
            self.set_wording(self.content, tags=tags, kind=self.kind, title=self.title)
        except rules.InvalidNote as error:
            raise ValidationError({"content": _("A note needs a text.")}) from error
        except ValidationError as error:
            raise ValidationError({"content": error.messages}) from error
