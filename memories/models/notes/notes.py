"""Notes: lasting statements that people and agents write down (S4), and what they said before.

A note's row holds its newest wording; each change leaves the wording from before in a row of its
own. A deleted note waits in the trash, where nobody but editors sees it, until it is brought back
or purged.
"""

import datetime as dt
from collections.abc import Iterable
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
from memories.models.access.readers import AudienceQuerySet, Reader
from memories.models.access.users import User
from memories.models.access.workspaces import Workspace
from memories.models.ingest.channels import Channel
from memories.models.search.documents import NOTE, SearchableQuerySet
from memories.rules.ingest.timestamps import to_micros
from memories.rules.notes import fields as rules
from memories.rules.notes.fields import NoteText


class NotesDisabled(Exception):
    """Notes are switched off in this workspace: nothing is shown, written or removed."""

    def __init__(self) -> None:
        super().__init__("Notes are switched off in this workspace (notes_enabled).")


class StaleNote(Exception):
    """Somebody changed or deleted the note since this change was based on it; nothing was saved."""

    def __init__(self, current: "Note") -> None:
        super().__init__("The note has other words by now, or is in the trash.")
        self.current = current


check_length = MaxLengthValidator(rules.LONGEST_CONTENT)  # of what a form brings


class NoteQuerySet(SearchableQuerySet["Note"]):
    searched_as = NOTE

    def kept_for(self, reader: Reader) -> "NoteQuerySet":
        """Those in the trash as well: for the pages that bring them back, and for exports."""
        # The rules import this module.
        from memories.models.access.audience import note_words

        return self.filter(note_words(reader, "workspace"))

    def live(self) -> "NoteQuerySet":
        return self.filter(deleted_at__isnull=True)

    def in_trash(self) -> "NoteQuerySet":
        """The last deleted one first."""
        return self.filter(deleted_at__isnull=False).order_by("-deleted_at", "-pk")

    def in_use(self, workspace: Workspace) -> "NoteQuerySet":
        """The workspace's notes, oldest first; none while notes are switched off (S4)."""
        if not workspace.memory_settings.notes_enabled:
            return self.none()
        return self.live().filter(workspace=workspace).select_related("channel").order_by("pk")

    def deleted_keys(self, workspace: Workspace) -> set[tuple[int | None, int | None]]:
        """The id and the time of making, in microseconds, of each note that was deleted: those in
        the trash, and those that were purged."""
        trash = self.in_trash().filter(workspace=workspace).values_list("pk", "created_at")
        purged = AuditEvent.objects.filter(action="note_purge", workspace=workspace.slug)
        details = purged.values_list("details__note", "details__made_us")
        return {(pk, to_micros(created_at)) for pk, created_at in trash} | set(details)

    def for_contexts(self) -> "NoteQuerySet":
        """Without those that somebody left out of contexts."""
        return self.filter(in_context=True)

    def first_pinned(self) -> "NoteQuerySet":
        """As pages list them: pinned ones, then the newest."""
        return self.order_by("-is_pinned", "-date", "-pk")

    def for_channel(self, slack_id: str) -> "NoteQuerySet":
        """Those that hold in a channel: its own and the workspace's."""
        return self.filter(Q(channel__isnull=True) | Q(channel__slack_id=slack_id))

    def search(self, query: str) -> list["Note"]:
        """Those whose title, content or tags hold the query, whatever the case (S4).

        Not a database's own comparison: SQLite knows the cases of ASCII letters only.
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
        review_on: date | None = None,
        author: User | None = None,
        now: datetime | None = None,
    ) -> "Note":
        """A new note. Without a title it is made from the content, without a date it is today's
        in the workspace's zone. Raises NotesDisabled, or InvalidNote when the text is
        blank or too long."""
        settings = workspace.memory_settings
        if not settings.notes_enabled:
            raise NotesDisabled
        note = Note(workspace=workspace, channel=channel, author=author, worded_by=author)
        note.date = date or rules.today(now or timezone.now(), settings.zone)
        note.review_on = review_on
        note.word(content, tags=tags, kind=kind, title=title)
        note.save()
        return note


# What a version keeps. A note that moved is, in its old wording, still its old channel's.
WORDING = ("title", "kind", "tags", "date", "content", "channel")


class Note(models.Model):
    """One note in its newest wording, which has this ``number``. ``tags`` is a list of words; the
    kind, where given, is the first of them. ``revision`` counts whatever happened to the words,
    also what was taken out of them without a new number."""

    class Kind(models.TextChoices):
        PATTERN = "pattern", _("pattern")
        ARCHITECTURE = "architecture", _("architecture")
        SOLUTION = "solution", _("solution")

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="notes")
    channel = models.ForeignKey(
        Channel, on_delete=models.CASCADE, related_name="notes", null=True, blank=True
    )
    title = models.CharField(_("title"), max_length=60)
    kind = models.CharField(_("type"), max_length=12, choices=Kind, blank=True)
    tags = models.JSONField(_("tags"), default=list, blank=True)
    date = models.DateField(_("date"))
    content = models.TextField(_("content"))
    # Written while its channel was private: for the members, whatever the channel is now.
    was_private = models.BooleanField(_("written in private"), default=False)
    author = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="notes", null=True, blank=True
    )
    number = models.PositiveIntegerField(_("version"), default=1, editable=False)
    revision = models.PositiveIntegerField(default=0, editable=False)
    # Who wrote the newest wording, when, and from which version it was brought back.
    worded_by = models.ForeignKey(
        User,
        on_delete=models.SET_NULL,
        related_name="notes_worded",
        null=True,
        blank=True,
        editable=False,
    )
    worded_at = models.DateTimeField(_("worded"), default=timezone.now, editable=False)
    restored_from = models.PositiveIntegerField(null=True, blank=True, editable=False)
    is_pinned = models.BooleanField(_("pinned"), default=False)
    in_context = models.BooleanField(
        _("in contexts"), default=True, help_text=_("Whether bots and agents are given it.")
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
        """The note as contexts and files show it."""
        return NoteText(
            title=self.title,
            tags=tuple(self.tags),
            date=self.date,
            content=self.content,
            channel_id=self.channel.slack_id if self.channel else "",
            id=self.pk,
            created_us=to_micros(self.created_at),
            is_pinned=self.is_pinned,
        )

    def word(
        self, content: str, *, tags: Iterable[str] = (), kind: str = "", title: str = ""
    ) -> None:
        """Set the text and what follows from it, unsaved. Raises InvalidNote, changing nothing."""
        content = rules.clean_content(content)
        if content != self.content:
            rules.check_length(content)
        words = rules.clean_tags(tags, kind)
        self.title = rules.clean_title(title, content)
        self.tags = list(words)
        self.kind = rules.kind_of(words)
        self.content = content

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
        """Save another text under the same id; what it said before becomes a version. False when
        nothing is different. Raises NotesDisabled and InvalidNote; StaleNote when it was deleted,
        or is not the version (and its revision) any more that this one is based on.

        A title that was made from the old text is made anew unless another one is given, and so is
        one that is "". None keeps the one that somebody gave.
        """
        self._must_be_on()
        title = self.title if title is None else title
        if title == self.title == rules.title_of(self.content):
            title = ""
        self.word(content, tags=tags, kind=kind, title=title)
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
        """Make the wording that was set here the newest one. As `rewrite`.

        What was there before is read behind a lock: of two who save at once the second one keeps
        the first one's words, or is refused where it says what it was based on.
        """
        was = Note.objects.select_for_update(of=("self",)).get(pk=self.pk)
        is_stale = based_on is not None and (based_on, revision or 0) != (was.number, was.revision)
        if was.deleted_at is not None or is_stale:
            raise StaleNote(was)
        if all(getattr(was, name) == getattr(self, name) for name in (*WORDING[:-1], "channel_id")):
            return False
        NoteVersion.objects.create(
            note=was,
            number=was.number,
            written_by=was.worded_by,
            written_at=was.worded_at,
            restored_from=was.restored_from,
            was_private=was.was_private,
            **{name: getattr(was, name) for name in WORDING},
        )
        self.number, self.revision = was.number + 1, was.revision + 1
        self.worded_by, self.worded_at = by, now or timezone.now()
        self.restored_from = restored_from
        written = ("number", "revision", "worded_by", "worded_at", "restored_from", "updated_at")
        self.save(update_fields=[*WORDING, *written])
        return True

    def restore(self, version: "NoteVersion", *, by: User, based_on: int, revision: int) -> bool:
        """Its words once more, as the newest version; the note stays where it holds. As `rewrite`."""
        self._must_be_on()
        for name in ("title", "kind", "tags", "date", "content"):
            setattr(self, name, getattr(version, name))
        return self.save_wording(
            by=by, based_on=based_on, revision=revision, restored_from=version.number
        )

    def mark(self, **flags: Any) -> None:
        """Set ``is_pinned``, ``in_context`` or ``review_on``: no new version, the words stay."""
        self._must_be_on()
        assert flags.keys() <= {"is_pinned", "in_context", "review_on"}
        Note.objects.filter(pk=self.pk).live().update(**flags)
        for name, value in flags.items():
            setattr(self, name, value)

    def mask(self, content: str, title: str, tags: list[str]) -> None:
        """Words of it were forgotten: what is left, and a sentence that says so. Also where notes
        are switched off, and in the trash. Whoever has the words from before on screen is refused."""
        explanation = gettext("[…] stands for words of a message that was deleted.")
        if explanation not in content:
            content = f"{content}\n\n{explanation}"
        Note.objects.filter(pk=self.pk).update(
            content=content,
            title=title,
            tags=tags,
            revision=F("revision") + 1,
            updated_at=timezone.now(),
        )

    def remove(self, *, by: User | None = None, now: datetime | None = None) -> bool:
        """Put it into the trash. False: it is there. Raises NotesDisabled: what is switched off
        is kept."""
        self._must_be_on()
        return bool(
            Note.objects.filter(pk=self.pk)
            .live()
            .update(deleted_at=now or timezone.now(), deleted_by=by)
        )

    def undelete(self) -> bool:
        """Bring it back out of the trash, as it was. False: it is not there."""
        self._must_be_on()
        there = Note.objects.filter(pk=self.pk, deleted_at__isnull=False)
        return bool(there.update(deleted_at=None, deleted_by=None))

    @transaction.atomic
    def purge(self, *, by: User | None) -> bool:
        """Take it out of the trash for good, with all that it ever said. On the record. False: it
        is not there."""
        self._must_be_on()
        pk, made_us = self.pk, to_micros(self.created_at)
        if not Note.objects.filter(pk=pk, deleted_at__isnull=False).delete()[0]:
            return False
        # An import of an older file finds here that the note is gone.
        AuditEvent.objects.record(
            "note_purge",
            by=by,
            workspace=self.workspace,
            subject=f"note {pk}",
            note=pk,
            made_us=made_us,
        )
        return True

    def is_due(self, today: dt.date) -> bool:
        """Whether it is time to look at it again."""
        return rules.is_due(self.review_on, today)

    def _must_be_on(self) -> None:
        if not self.workspace.memory_settings.notes_enabled:
            raise NotesDisabled

    def clean(self) -> None:
        """Forms: the same wording as everywhere, and a channel of the same workspace."""
        super().clean()
        tags: Any = self.tags
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise ValidationError({"tags": _("Tags are a list of words.")})
        if self.channel is not None and self.channel.workspace_id != self.workspace_id:
            raise ValidationError({"channel": _("This channel is in another workspace.")})
        try:
            check_length(self.content)
            self.word(self.content, tags=tags, kind=self.kind, title=self.title)
        except rules.InvalidNote as error:
            raise ValidationError({"content": _("A note needs a text.")}) from error
        except ValidationError as error:
            raise ValidationError({"content": error.messages}) from error


class NoteVersionQuerySet(AudienceQuerySet["NoteVersion"]):
    def newest_first(self) -> "NoteVersionQuerySet":
        return self.order_by("-number")


class NoteVersion(models.Model):
    """What a note said before it was changed. It changes only when words are forgotten."""

    note = models.ForeignKey(Note, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(_("version"))
    channel = models.ForeignKey(
        Channel, on_delete=models.CASCADE, related_name="note_versions", null=True, blank=True
    )
    title = models.CharField(_("title"), max_length=60)
    kind = models.CharField(_("type"), max_length=12, choices=Note.Kind, blank=True)
    tags = models.JSONField(_("tags"), default=list, blank=True)
    date = models.DateField(_("date"))
    content = models.TextField(_("content"))
    was_private = models.BooleanField(_("written in private"), default=False)
    written_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="note_versions", null=True, blank=True
    )
    written_at = models.DateTimeField(_("written"))
    restored_from = models.PositiveIntegerField(null=True, blank=True)

    objects = NoteVersionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["note", "number"], name="note_version_number"),
            models.CheckConstraint(name="note_version_counts_from_1", condition=Q(number__gte=1)),
        ]
        verbose_name = _("version of a note")
        verbose_name_plural = _("versions of notes")

    def __str__(self) -> str:
        return f"v{self.number}"

    def mask(self, content: str, title: str, tags: list[str]) -> None:
        """Words of it were forgotten: what is left."""
        NoteVersion.objects.filter(pk=self.pk).update(content=content, title=title, tags=tags)
