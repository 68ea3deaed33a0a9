"""`manage.py serve`: the web server and the worker, together, in one terminal."""

import errno
import logging
import socket
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command
from django.db import connection

from memoryhub.env import BASE_DIR
from memoryhub.health import unapplied_migrations
from memoryhub.static import collect_static_when_changed
from memoryhub.supervise import Child, ChildFailedError, Supervisor
from memoryhub.worker import worker_child

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Run web and worker until Ctrl-C or SIGTERM; leave no process behind."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=settings.PORT, help="default: PORT or 8000")
        parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
        parser.add_argument(
            "--try-port", action="store_true", help="only say whether the port can be had"
        )

    def handle(self, *args: Any, host: str, port: int, **options: Any) -> None:
        if options["try_port"]:
            listen(host, port).close()
            return
        if missing := unapplied_migrations():
            raise CommandError(
                f"{missing} migrations are not applied: run `manage.py migrate` first."
            )
        with listen(host, port) as listener:
            call_command("sync_schedules", stdout=self.stderr)
            collect_static_when_changed()
            address = settings.MEMORYHUB_URL if port == settings.PORT else f"http://{host}:{port}"
            self.stdout.write(f"Memory Hub runs at {address} (listening on {host}:{port})")
            self.stdout.write("Ctrl-C stops web and worker.")
            self.stdout.flush()
            connection.close()  # nothing of it may leak into the children
            try:
                Supervisor(children(listener)).run()
            except ChildFailedError as error:
                raise CommandError(str(error)) from error


def children(listener: socket.socket) -> list[Child]:
    """The two processes; web takes over the bound socket, so nobody can take the port between."""
    socket_fd = listener.fileno()
    return [
        Child(
            "web",
            [
                sys.executable,
                "-m",
                "gunicorn",
                "--chdir",
                str(BASE_DIR),
                "--config",
                "python:memoryhub.web",
                "--bind",
                f"fd://{socket_fd}",
            ],
            pass_fds=(socket_fd,),
        ),
        worker_child(),
    ]


def listen(host: str, port: int) -> socket.socket:
    """Bind the address, or say plainly why not and what to do."""
    try:
        return socket.create_server((host, port), backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CommandError(
                f"Port {port} is taken by another program."
                f" Choose another one: PORT={port + 1} make demo, or manage.py serve --port {port + 1}"
            ) from error
        raise CommandError(f"Cannot listen on {host}:{port}: {error.strerror or error}") from error
