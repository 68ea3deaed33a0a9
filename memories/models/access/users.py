"""Accounts and their preferences."""

from collections.abc import Collection, Iterable
from datetime import timedelta
from zoneinfo import ZoneInfo

from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

ACCESS_LASTS = timedelta(hours=1)  # the access to private channels that an operator gives


class User(AbstractUser):
    """An account. What it may read follows from its people and memberships.

    Preferences are columns, so that no page needs another query. "" is the default: the browser's
    language, the workspace's time zone, the system's theme.
    """

    class Theme(models.TextChoices):
        SYSTEM = "system", _("Same as the system")
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
    # The time at which an operator first set the password; null: the person has chosen it since.
    password_set_at = models.DateTimeField(null=True, blank=True, editable=False)

    @property
    def zone(self) -> ZoneInfo | None:
        """The user's time zone, or None for the workspace's, or if the system has no such zone."""
        try:
            return ZoneInfo(self.time_zone) if self.time_zone else None
        except (KeyError, ValueError, OSError):
            return None

    def validate_unique(self, exclude: Collection[str] | None = None) -> None:
        """Refuse the name of another account in any spelling, because neither could sign in."""
        super().validate_unique(exclude)
        if "username" in (exclude or ()):
            return
        if find_by_username(self.username) not in (None, self):
            raise ValidationError({"username": self.unique_error_message(User, ("username",))})

    def save_preferences(self, **preferences: str | bool) -> None:
        """Save any of ``language``, ``time_zone``, ``theme``, ``density`` and ``shortcuts``."""
        for name, value in preferences.items():
            setattr(self, name, value)
        self.save(update_fields=list(preferences))

    @property
    def is_operator(self) -> bool:
        return self.is_superuser and self.is_active

    def is_last_operator(self) -> bool:
        """Return whether the account is the only operator."""
        return self.is_operator and no_operator_except([self.pk])


def user_name(user: User | None) -> str:
    """Return the full name of the user, or else the user name."""
    return (user.get_full_name() or user.get_username()) if user else ""


def find_by_username(name: str) -> User | None:
    """Return the account with this user name in any spelling, as the sign-in finds it.

    Two accounts whose names differ in case alone cannot sign in, so no second one may be created.
    """
    spellings = Q(username__iexact=name)
    # SQLite ignores the case of ASCII letters only.
    spellings |= Q(username__iexact=name.lower()) | Q(username__iexact=name.upper())
    rows = User.objects.filter(spellings).order_by("pk")
    accounts = [user for user in rows if user.username.lower() == name.lower()]
    return min(accounts, key=lambda user: user.username != name, default=None)


def no_operator_except(keys: Iterable[int]) -> bool:
    """Return whether there is no active operator besides these accounts."""
    operators = User.objects.filter(is_superuser=True, is_active=True)
    return not operators.exclude(pk__in=list(keys)).exists()
