"""Arguments and checks that commands share."""

import argparse
import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError
from django.utils import timezone

from memories.models import Channel, Member, Reader, User, Workspace
from memories.pipeline.locks import Busy
from memories.pipeline.transfer.backup import migrations
from memories.rules.context.contents import NoSuchChannel, find_channel
from memories.rules.ingest.timestamps import parse_utc
from memories.rules.transfer.upgrade import newer_database
from memoryhub.database import connection_problem
from memoryhub.env import PROGRAM
from memoryhub.health import unapplied_migrations


def add_action(actions: Any, name: str, summary: str, **options: Any) -> argparse.ArgumentParser:
    """Add a subcommand with this help text, and return its parser."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=summary, description=summary, **options
    )
    return parser


ONLY_WORKSPACE = (
    "the workspace; default: the only one, or a new one named `default` if there is none"
)


def add_workspace(parser: argparse.ArgumentParser, summary: str = ONLY_WORKSPACE) -> None:
    parser.add_argument("--workspace", metavar="SLUG", help=summary)


@contextmanager
def needs_database() -> Iterator[None]:
    """Raise ``CommandError`` after an error of a database that lacks migrations."""
    try:
        yield
    except DatabaseError as error:
        # Not migrations, but for example a lock that another process holds.
        if connection_problem() or _is_migrated():
            raise
        raise CommandError(
            f"The database cannot be read: run `{PROGRAM} migrate` first, or see DATABASE_URL."
        ) from error


def _is_migrated() -> bool:
    try:
        return not unapplied_migrations()
    except DatabaseError:
        return False


@needs_database()
def workspace_from(options: dict[str, Any]) -> Workspace:
    """Return the workspace that the options name, or the only one.

    Raise ``CommandError`` if it is unknown, or if there are several and the options name none.
    """
    if slug := options.get("workspace"):
        workspace = Workspace.objects.filter(slug=slug).first()
        if workspace is None:
            raise CommandError(
                f"There is no workspace {slug!r}. {_known_slugs()} Create a new one in the admin."
            )
        return workspace
    workspaces = list(Workspace.objects.all()[:2])
    if len(workspaces) > 1:
        raise CommandError(
            f"There are several workspaces; name one with --workspace. {_known_slugs()}"
        )
    return workspaces[0] if workspaces else Workspace.objects.create(slug="default", name="default")


def _known_slugs() -> str:
    slugs = ", ".join(Workspace.objects.values_list("slug", flat=True))
    return f"Known: {slugs}." if slugs else "There is none yet."


def add_reader(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--as",
        dest="reader",
        metavar="USER",
        help="the account whose access rules apply; default: public channels only",
    )


@needs_database()
def reader_from(options: dict[str, Any]) -> Reader:
    name = options.get("reader")
    if not name:
        return Reader.public()
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise CommandError(f"There is no active user {name!r}.")
    return Reader.of(user)


def user_of(reader: Reader) -> User | None:
    """Return the user that a change is recorded for. None: the command line."""
    return User.objects.get(pk=reader.user_id) if reader.user_id else None


def editor_of(workspace: Workspace, reader: Reader) -> User | None:
    """Return the user of the reader. Raise ``CommandError`` if they may not edit on the pages."""
    user = user_of(reader)
    if user and workspace.role_of(reader) not in Member.EDITING:
        raise CommandError("This user may read the memory, but not change it.")
    return user


def get_channel(workspace: Workspace, reader: Reader, name: str) -> Channel:
    """Return a readable channel by its id or name. Raise ``CommandError`` if there is none."""
    channels = workspace.channels.visible_to(reader)
    try:
        channel: Channel = channels.get(slack_id=find_channel(channels.names(), name))
    except NoSuchChannel as error:
        raise CommandError(str(error)) from error
    return channel


def complete_until(workspace: Workspace) -> datetime:
    """Return now, or the last sync. Raise ``CommandError`` if the first sync is not complete."""
    moment = workspace.synced_until(timezone.now())
    if moment is None:
        raise CommandError("The workspace is connected to Slack but was never read completely.")
    return moment


def check_migrations() -> None:
    """Raise ``CommandError`` if the database lacks migrations, or is newer than the program."""
    refuse_newer_database()
    if missing := unapplied_migrations():
        raise CommandError(f"{missing} migrations are not applied: run `{PROGRAM} migrate` first.")


def refuse_newer_database() -> None:
    """Raise ``CommandError`` if the database has migrations that this program does not have."""
    if refusal := newer_database(migrations.unknown(migrations.applied())):
        raise CommandError(refusal)


@contextmanager
def refuse_busy() -> Iterator[None]:
    """Raise ``CommandError`` if another process holds the lock of the workspace."""
    try:
        yield
    except Busy as error:
        raise CommandError(
            "An import or a sync of this workspace is running; try again when it is done."
        ) from error


def parse_time(text: str, option: str) -> datetime:
    """Parse a time in ISO 8601, in UTC without an offset. Raise ``CommandError`` otherwise."""
    if moment := parse_utc(text):
        return moment
    raise CommandError(f"{option} must be ISO 8601, such as 2026-11-20T18:05:00Z, not {text!r}.")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document on stdout, and everything else on stderr",
    )


def table(rows: Iterable[Sequence[str]], *, right: bool = False) -> str:
    """Align the columns, the later ones ``right`` for numbers. Wide letters take two cells."""
    rows = list(rows)
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first + " " * (widths[0] - _width(first))]
        for cell, width in zip(others, widths[1:], strict=True):
            space = " " * (width - _width(cell))
            cells.append(space + cell if right else cell + space)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def document(data: Any) -> str:
    """Return the data as indented JSON, without escapes for letters."""
    return json.dumps(data, ensure_ascii=False, indent=2, default=str)
