"""Earlier versions of notes."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from memories.models.access.readers import AudienceQuerySet
from memories.models.access.users import User
from memories.models.ingest.channels import Channel


class NoteKind(models.TextChoices):
    PATTERN = "pattern", _("pattern")
    ARCHITECTURE = "architecture", _("architecture")
    SOLUTION = "solution", _("solution")


def kind_words(kind: str) -> str:
    """Return a type in the reader's language. The team's own types stay as they are."""
    return str(dict(NoteKind.choices).get(kind, kind))


class NoteVersionQuerySet(AudienceQuerySet["NoteVersion"]):
    def newest_first(self) -> "NoteVersionQuerySet":
        return self.order_by("-number")


class NoteVersion(models.Model):
    """An earlier wording of a note. Only a redaction changes it."""

    note = models.ForeignKey("memories.Note", on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(_("version"))
    channel = models.ForeignKey(
        Channel, on_delete=models.CASCADE, related_name="note_versions", null=True, blank=True
    )
    title = models.CharField(_("title"), max_length=60)
    kind = models.CharField(_("type"), max_length=20, blank=True)
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

    def redact(self, content: str, title: str, tags: list[str]) -> None:
        """Store a redacted wording."""
        NoteVersion.objects.filter(pk=self.pk).update(content=content, title=title, tags=tags)
