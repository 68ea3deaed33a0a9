"""`manage.py worker`: one more worker, on this machine or another."""

from typing import Any

from django.core.management import BaseCommand, CommandError, call_command
from django.db import connection

from memoryhub.health import unapplied_migrations
from memoryhub.supervise import ChildFailedError, Supervisor
from memoryhub.worker import worker_child


class Command(BaseCommand):
    help = "Run a worker until Ctrl-C or SIGTERM; leave no process behind."

    def handle(self, *args: Any, **options: Any) -> None:
        if missing := unapplied_migrations():
            raise CommandError(
                f"{missing} migrations are not applied: run `manage.py migrate` first."
            )
        call_command("sync_schedules", stdout=self.stderr)
        self.stdout.write("A worker runs. Ctrl-C stops it.")
        self.stdout.flush()
        connection.close()  # nothing of it may leak into the child
        try:
            Supervisor([worker_child()]).run()
        except ChildFailedError as error:
            raise CommandError(str(error)) from error
