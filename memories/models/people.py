"""People and bots, as Slack knows them."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from memories.models.readers import Reader
from memories.models.users import User
from memories.models.workspaces import Workspace


class PersonQuerySet(models.QuerySet["Person"]):
    def visible_to(self, reader: Reader) -> "PersonQuerySet":
        """The people of the workspaces that the reader enters."""
        return self.filter(workspace__in=Workspace.objects.entered_by(reader))

    def names(self) -> dict[str, str]:
        """Display names by Slack id."""
        return dict(self.values_list("slack_id", "name"))


class Person(models.Model):
    """A Slack identity (U…, W…, or a bot's B…). One human may have two of them (shared channels).

    ``is_placeholder``: seen as an author, not (yet) in any list of people.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="people")
    slack_id = models.CharField(_("Slack id"), max_length=32)
    name = models.CharField(_("display name"), max_length=200)
    real_name = models.CharField(_("real name"), max_length=200, blank=True)
    email = models.EmailField(_("e-mail"), blank=True)
    is_bot = models.BooleanField(_("bot"), default=False)
    is_guest = models.BooleanField(_("guest"), default=False)
    is_external = models.BooleanField(_("from another team"), default=False)
    is_deleted = models.BooleanField(_("deactivated"), default=False)
    is_placeholder = models.BooleanField(_("not in any list of people"), default=False)
    # Slack's own clock of this profile, in seconds since 1970: an older export loses to it.
    updated = models.BigIntegerField(default=0, editable=False)
    user = models.ForeignKey(
        User,
        on_delete=models.SET_NULL,
        related_name="people",
        null=True,
        blank=True,
        help_text=_("The account that reads what this person may read in Slack."),
    )

    objects = PersonQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["workspace", "slack_id"], name="person_once"),
        ]
        verbose_name = _("person")
        verbose_name_plural = _("people")

    def __str__(self) -> str:
        return self.name
