"""The Django app. Its functions import models, which is possible after the apps are loaded."""

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
        from memories import checks, factors, logins  # noqa: F401  # registers checks and signals
        from memoryhub import task_guard

        task_guard.install()  # closes ways of django-q2 around the broker
        post_migrate.connect(create_cache_table, sender=self)
        post_migrate.connect(create_search_index, sender=self)
        pre_migrate.connect(remove_memory_triggers, sender=self)
        post_migrate.connect(create_memory_triggers, sender=self)
        pre_migrate.connect(remove_revision_triggers, sender=self)
        post_migrate.connect(create_revision_triggers, sender=self)


def create_cache_table(using: str, **kwargs: Any) -> None:
    """Create the cache table, which has no model and so no migration."""
    call_command("createcachetable", database=using, verbosity=0)


def create_search_index(using: str, **kwargs: Any) -> None:
    """Create the search index and its triggers if a trigger is missing. Then all texts are pending."""
    from memories.models.search.search_triggers import install  # after the apps are loaded

    install(connections[using])


def remove_memory_triggers(using: str, **kwargs: Any) -> None:
    """Remove the triggers, because SQLite cannot rename a table that a trigger reads."""
    from memories.models.memory.memory_triggers import remove  # after the apps are loaded

    remove(connections[using])


def create_memory_triggers(using: str, **kwargs: Any) -> None:
    """Create the triggers that check the scope id of a memory."""
    from memories.models.memory.memory_triggers import install  # after the apps are loaded

    install(connections[using])


def remove_revision_triggers(using: str, plan: list[Any], **kwargs: Any) -> None:
    """Remove the triggers only if a migration will run. Other processes rely on them."""
    from memories.models.context.revision_triggers import remove  # after the apps are loaded

    if plan:
        remove(connections[using])


def create_revision_triggers(using: str, **kwargs: Any) -> None:
    """Create the triggers of the revision (`revision_triggers`), after those of the search."""
    from memories.models.context.revision_triggers import install  # after the apps are loaded

    install(connections[using])
