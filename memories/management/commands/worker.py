"""`manage.py worker`: a worker on this or another machine."""

from typing import Any

from django.core.management import BaseCommand, CommandError, call_command
from django.db import connection

from memories.management import arguments
from memoryhub.supervise import ChildFailedError, Supervisor
from memoryhub.worker import worker_child


class Command(BaseCommand):
    help = "Run a worker until Ctrl-C or SIGTERM, and stop all of its processes."

    def handle(self, *args: Any, **options: Any) -> None:
        arguments.check_migrations()
        call_command("sync_schedules", stdout=self.stderr)
        self.stdout.write("A worker is running. Ctrl-C stops it.")
        self.stdout.flush()
        connection.close()  # the child must not inherit it
        try:
            Supervisor([worker_child()]).run()
        except ChildFailedError as error:
            raise CommandError(str(error)) from error
