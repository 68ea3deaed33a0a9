"""The app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class MemoriesConfig(AppConfig):
    name = "memories"
    verbose_name = _("Memory Hub")

    def ready(self) -> None:
        from memories import checks, logins  # noqa: F401  # registers them
