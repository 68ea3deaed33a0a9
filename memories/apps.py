"""The app."""

from typing import Any

from django.apps import AppConfig
from django.core.management import call_command
from django.db import connections
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.translation import gettext_lazy as _


class MemoriesConfig(AppConfig):
    name = "memories"
    verbose_name = _("Memory Hub")

    def ready(self) -> None:
        from memories import checks, factors, logins  # noqa: F401  # registers them
        from memoryhub import task_guard

        task_guard.install()
        post_migrate.connect(make_cache_table, sender=self)
        post_migrate.connect(make_search_index, sender=self)
        pre_migrate.connect(remove_memory_triggers, sender=self)
        post_migrate.connect(make_memory_triggers, sender=self)


def make_cache_table(using: str, **kwargs: Any) -> None:
    """It belongs to no model, so no migration makes it."""
    call_command("createcachetable", database=using, verbosity=0)


def make_search_index(using: str, **kwargs: Any) -> None:
    """What no model and no migration can keep: see there."""
    from memories.models.search.search_triggers import install

    install(connections[using])


def remove_memory_triggers(using: str, **kwargs: Any) -> None:
    """They would stop a migration that makes their tables anew."""
    from memories.models.memory.memory_triggers import remove

    remove(connections[using])


def make_memory_triggers(using: str, **kwargs: Any) -> None:
    from memories.models.memory.memory_triggers import install

    install(connections[using])
