"""`manage.py serve`: web and worker in one terminal."""

import errno
import shutil
import socket
import sys
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command
from django.db import connection

from memories.management import arguments
from memories.pipeline.access.first_account import is_new_installation, setup_token
from memories.pipeline.locks import lock_preparation
from memories.pipeline.transfer.backup import remove_leftovers
from memoryhub.env import PROGRAM
from memoryhub.static import collect_static_when_changed
from memoryhub.supervise import Child, ChildFailedError, Supervisor
from memoryhub.web import PROCESSES
from memoryhub.worker import worker_child

METRICS_DIR = settings.MEMORYHUB_VAR / "metrics"


class Command(BaseCommand):
    help = "Run web and worker until Ctrl-C or SIGTERM, and stop all of their processes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--port",
            type=port_number,
            default=settings.PORT,
            help="the port; default: PORT or 8000",
        )
        parser.add_argument("--host", default="127.0.0.1", help="the address; default: %(default)s")
        parser.add_argument(
            "--try-port", action="store_true", help="only check that the port is free"
        )

    def handle(self, *args: Any, host: str, port: int, **options: Any) -> None:
        if options["try_port"]:
            listen(host, port).close()
            return
        with listen(host, port) as listener:
            port = listener.getsockname()[1]  # --port 0 means any free one
            with lock_preparation(self.stderr.write):
                arguments.check_migrations()
                remove_leftovers()
                call_command("sync_schedules", stdout=self.stderr)
                collect_static_when_changed()
                empty_metrics_folder()
            address = settings.MEMORYHUB_URL if port == settings.PORT else f"http://{host}:{port}"
            self.stdout.write(f"Memory Hub runs at {address} (listening on {host}:{port})")
            if is_new_installation():
                link = f"{address}/setup/?token={setup_token()}"
                self.stdout.write(f"Nobody can sign in yet. Create the first account: {link}")
            self.stdout.write("Ctrl-C stops web and worker.")
            self.stdout.flush()
            connection.close()  # the children must not inherit it
            try:
                Supervisor(children(listener)).run()
            except ChildFailedError as error:
                raise CommandError(str(error)) from error


def children(listener: socket.socket) -> list[Child]:
    """Return the web processes and the worker.

    The web processes inherit the bound socket, so no other program can take the port meanwhile.
    """
    descriptor = listener.fileno()
    web = [
        Child(
            f"web {number}",
            [sys.executable, "-m", "memoryhub.web", str(descriptor)],
            pass_fds=(descriptor,),
            env={"PROMETHEUS_MULTIPROC_DIR": str(METRICS_DIR)}
            if settings.MEMORYHUB_METRICS_KEY
            else {},
        )
        for number in range(1, PROCESSES + 1)
    ]
    return [*web, worker_child()]


def empty_metrics_folder() -> None:
    """Create the folder in which the web processes count requests, without earlier counts."""
    shutil.rmtree(METRICS_DIR, ignore_errors=True)
    METRICS_DIR.mkdir(parents=True)


def port_number(text: str) -> int:
    """Parse a port from 0 (any free one) to 65535."""
    if not (text.isascii() and text.isdigit() and int(text[:6]) <= 65_535):
        raise ArgumentTypeError(f"{text!r} is not a port: a number from 0 to 65535")
    return int(text)


def listen(host: str, port: int) -> socket.socket:
    """Bind the address. Raise ``CommandError`` with a remedy if it cannot be bound."""
    try:
        return socket.create_server((host, port), backlog=128)
    except OverflowError as error:  # from PORT
        raise CommandError(f"{port} is not a port: a number from 0 to 65535.") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CommandError(
                f"Port {port} is taken by another program."
                f" Choose another one with PORT={port + 1}, or with {PROGRAM} serve --port {port + 1}"
            ) from error
        raise CommandError(f"Cannot listen on {host}:{port}: {error.strerror or error}") from error
