"""Who signs in."""

from collections.abc import Iterable
from datetime import timedelta
from zoneinfo import ZoneInfo

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils.translation import gettext_lazy as _

ACCESS_LASTS = timedelta(hours=1)  # so long an operator's word opens private channels


class User(AbstractUser):
    """An account of this installation. What it may read follows from its people and memberships.

    How its person likes to read is kept here, so that no page asks once more for it; "" is what
    nobody chose: the browser's language, the workspace's zone, the system's theme.
    """

    class Theme(models.TextChoices):
        SYSTEM = "system", _("as the system")
        LIGHT = "light", _("light")
        DARK = "dark", _("dark")

    class Density(models.TextChoices):
        COMFORTABLE = "comfortable", _("comfortable")
        COMPACT = "compact", _("compact")

    language = models.CharField(_("language"), max_length=10, blank=True, editable=False)
    time_zone = models.CharField(_("time zone"), max_length=64, blank=True, editable=False)
    theme = models.CharField(
        _("theme"), max_length=6, choices=Theme, blank=True, default="", editable=False
    )
    density = models.CharField(
        _("density"), max_length=11, choices=Density, default=Density.COMFORTABLE, editable=False
    )
    shortcuts = models.BooleanField(_("single keys"), default=True, editable=False)
    # An operator set the password then; null: its person chose it.
    password_given_at = models.DateTimeField(null=True, blank=True, editable=False)

    @property
    def zone(self) -> ZoneInfo | None:
        """In which their times are told; None: in the workspace's. A name that this machine does
        not know counts for nothing."""
        try:
            return ZoneInfo(self.time_zone) if self.time_zone else None
        except (KeyError, ValueError, OSError):
            return None

    def prefer(self, **wishes: str | bool) -> None:
        """``language``, ``time_zone``, ``theme``, ``density``, ``shortcuts``: from now on so, in every browser."""
        for name, value in wishes.items():
            setattr(self, name, value)
        self.save(update_fields=list(wishes))

    @property
    def is_operator(self) -> bool:
        return self.is_superuser and self.is_active

    def is_last_operator(self) -> bool:
        """Whether there is no operator any more once this account is none."""
        return self.is_operator and no_operator_except([self.pk])


def no_operator_except(keys: Iterable[int]) -> bool:
    """Whether nobody would be left to run the installation without these accounts."""
    operators = User.objects.filter(is_superuser=True, is_active=True)
    return not operators.exclude(pk__in=list(keys)).exists()
