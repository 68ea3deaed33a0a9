"""The channels that an account follows or mutes: for "Catch up" and the navigation."""

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from memories.models.access.readers import Reader
from memories.models.access.users import User
from memories.models.ingest.channels import Channel


class ChannelPreferenceQuerySet(models.QuerySet["ChannelPreference"]):
    def choose(self, user: User, channel: Channel, choice: str) -> None:
        """Save a choice. "" removes it."""
        if choice:
            self.update_or_create(user=user, channel=channel, defaults={"choice": choice})
        else:
            self.filter(user=user, channel=channel).delete()

    def with_choice(self, reader: Reader, choice: str) -> models.QuerySet[Any, Any]:
        """Return the keys of the channels for which the reader made this choice."""
        return self.filter(user=reader.user_id, choice=choice).values("channel")


class ChannelPreference(models.Model):
    """A followed channel comes first, a muted one is left out. It gives no access."""

    class Choice(models.TextChoices):
        FOLLOW = "follow", _("followed")
        MUTE = "mute", _("muted")

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="channel_preferences")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="preferences")
    choice = models.CharField(_("choice"), max_length=6, choices=Choice)

    objects = ChannelPreferenceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "channel"], name="channel_preference_once"),
        ]
        verbose_name = _("channel preference")
        verbose_name_plural = _("channel preferences")

    def __str__(self) -> str:
        return f"{self.user_id}: {self.choice} {self.channel_id}"
