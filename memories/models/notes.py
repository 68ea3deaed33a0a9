"""Notes: lasting statements that people and agents write down (S4)."""

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memories.models.channels import Channel
from memories.models.readers import Reader
from memories.models.users import User
from memories.models.workspaces import Workspace
from memories.rules import notes as rules
from memories.rules.notes import NoteText
from memories.rules.slacktime import to_micros


class NotesDisabled(Exception):
    """Notes are switched off in this workspace: nothing is shown, written or removed."""

    def __init__(self) -> None:
        super().__init__("Notes are switched off in this workspace (notes_enabled).")


class NoteQuerySet(models.QuerySet["Note"]):
    def visible_to(self, reader: Reader) -> "NoteQuerySet":
        """A channel's notes to its readers, those from its private days to its members; the others
        to members of the workspace."""
        return self.filter(
            Q(channel__in=Channel.objects.of_members(reader).values("pk"))
            | Q(
                channel__in=Channel.objects.visible_to(reader).values("pk"),
                was_private=False,
            )
            | Q(
                channel__isnull=True,
                workspace__in=Workspace.objects.visible_to(reader).confirmed(reader).values("pk"),
            )
        )

    def in_use(self, workspace: Workspace) -> "NoteQuerySet":
        """The workspace's notes, oldest first; none while notes are switched off (S4)."""
        if not workspace.memory_settings.notes_enabled:
            return self.none()
        return self.filter(workspace=workspace).select_related("channel").order_by("pk")

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
        author: User | None = None,
        now: datetime | None = None,
    ) -> "Note":
        """A new note. Without a title it is made from the content, without a date it is today's
        in the workspace's zone. Raises NotesDisabled, or InvalidNote when the text is blank."""
        settings = workspace.memory_settings
        if not settings.notes_enabled:
            raise NotesDisabled
        note = Note(workspace=workspace, channel=channel, author=author)
        note.date = date or rules.today(now or timezone.now(), settings.zone)
        note.word(content, tags=tags, kind=kind, title=title)
        note.save()
        return note


class Note(models.Model):
    """One note. ``tags`` is a list of words; the kind, where given, is the first of them."""

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
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = NoteQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
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
        )

    def word(
        self, content: str, *, tags: Iterable[str] = (), kind: str = "", title: str = ""
    ) -> None:
        """Set the text and what follows from it, unsaved. Raises InvalidNote, changing nothing."""
        content = rules.clean_content(content)
        words = rules.clean_tags(tags, kind)
        self.title = rules.clean_title(title, content)
        self.tags = list(words)
        self.kind = rules.kind_of(words)
        self.content = content

    def rewrite(
        self, content: str, *, tags: Iterable[str] = (), kind: str = "", title: str = ""
    ) -> None:
        """Save another text under the same id. Raises NotesDisabled and InvalidNote.

        A title that was made from the old text is made anew unless another one is given.
        """
        if not self.workspace.memory_settings.notes_enabled:
            raise NotesDisabled
        title = title or self.title
        if title == self.title == rules.title_of(self.content):
            title = ""
        self.word(content, tags=tags, kind=kind, title=title)
        self.save()

    def mask(self, content: str, title: str, tags: list[str]) -> None:
        """Words of it were forgotten: what is left, and a sentence that says so. Also where notes
        are switched off."""
        said = gettext("[…] stands for words of a message that was deleted.")
        if said not in content:
            content = f"{content}\n\n{said}"
        Note.objects.filter(pk=self.pk).update(
            content=content, title=title, tags=tags, updated_at=timezone.now()
        )

    def remove(self) -> None:
        """Delete it. Raises NotesDisabled: what is switched off is kept."""
        if not self.workspace.memory_settings.notes_enabled:
            raise NotesDisabled
        self.delete()

    def clean(self) -> None:
        """Forms: the same wording as everywhere, and a channel of the same workspace."""
        super().clean()
        tags: Any = self.tags
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise ValidationError({"tags": _("Tags are a list of words.")})
        if self.channel is not None and self.channel.workspace_id != self.workspace_id:
            raise ValidationError({"channel": _("This channel is in another workspace.")})
        try:
            self.word(self.content, tags=tags, kind=self.kind, title=self.title)
        except rules.InvalidNote as error:
            raise ValidationError({"content": _("A note needs a text.")}) from error
