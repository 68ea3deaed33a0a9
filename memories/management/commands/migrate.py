"""Django's `migrate`, with a lock so that one process runs it at a time."""

from typing import Any

from django.core.management.commands.migrate import Command as MigrateCommand

from memories.management import arguments
from memories.pipeline.locks import lock_preparation


class Command(MigrateCommand):
    def execute(self, *args: Any, **options: Any) -> str | None:
        # The lock includes Django's checks, because they write to the database.
        with lock_preparation(self.stderr.write):
            arguments.refuse_newer_database()
            return super().execute(*args, **options)
