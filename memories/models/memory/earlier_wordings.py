"""Earlier wordings: the texts of versions before a change in place."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.memory.lines import Audience, Line
from memories.rules.redaction.shingles import REDACTED

if TYPE_CHECKING:
    from memories.models.memory.versions import MemoryVersion

_LINE_FIELDS = (
    *("id", "position", "text", "origin", "since", "pinned", "kind", "at_us", "unverified"),
    *("outcome", "outcome_us", "redacted", "author_id"),
)


class EarlierWordingQuerySet(models.QuerySet["EarlierWording"]):
    def keep(self, version: "MemoryVersion") -> None:
        """Store the text of a version before the caller changes its text or its lines.

        If some readers of the memory may not read it, the row holds REDACTED and no lines.
        """
        is_for_all = version.audience == Audience.SCOPE
        self.create(
            version=version,
            content=version.content if is_for_all else REDACTED,
            until_us=version.until_us,
            provisional=version.provisional,
            lines=list(version.lines.values(*_LINE_FIELDS)) if is_for_all else [],
        )

    def replaced_after(self, at: datetime) -> "EarlierWordingQuerySet":
        """Filter the wordings that ended after ``at``. The first one of a version is its text at ``at``."""
        return self.filter(replaced_at__gt=at).order_by("replaced_at", "pk")

    def remove_texts(self) -> None:
        """Remove the texts. Contexts of the time of such a wording leave the version out."""
        self.update(content=REDACTED, lines=[])

    def load_into(self, versions: Sequence["MemoryVersion"], at: datetime) -> None:
        """Give each of these instances the text, the period and the lines that it had at a time.

        Nothing is saved. ``lines_then`` is None for a version that has not changed since. One query.
        """
        rows = self.replaced_after(at).filter(version__in=[version.pk for version in versions])
        wordings = {wording.version_id: wording for wording in rows.reverse()}  # the oldest stays
        for version in versions:
            wording = wordings.get(version.pk)
            version.lines_then = None
            if wording is not None:
                version.content, version.until_us = wording.content, wording.until_us
                version.lines_then = [Line(version=version, **fields) for fields in wording.lines]


class EarlierWording(models.Model):
    """The text of a version before a job replaced it in place, or a person pinned or unpinned a line.

    ``lines`` has the fields of the lines. ``until_us`` is the end of the version's period. A redaction
    replaces the text by REDACTED and removes the lines.
    """

    version = models.ForeignKey(
        "memories.MemoryVersion", on_delete=models.CASCADE, related_name="earlier_wordings"
    )
    replaced_at = models.DateTimeField(_("replaced"), default=timezone.now)
    content = models.TextField(_("text"))
    until_us = models.BigIntegerField()
    provisional = models.BooleanField(_("provisional"), default=False)
    lines: Any = models.JSONField(default=list, blank=True)

    objects = EarlierWordingQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["version", "replaced_at"], name="earlier_wording_time"),
        ]
        verbose_name = _("earlier wording")
        verbose_name_plural = _("earlier wordings")

    def __str__(self) -> str:
        return f"{self.version_id} until {self.replaced_at:%Y-%m-%d %H:%M}"
