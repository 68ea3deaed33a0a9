"""Options that commands share: which workspace, and on whose behalf."""

import argparse
import json
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from memories.models import Member, Reader, User, Workspace


def add_workspace_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workspace",
        metavar="SLUG",
        help="which workspace; without it the only one, and `default` is made when there is none",
    )


def workspace_from(options: dict[str, Any]) -> Workspace:
    """The workspace a command works on. CommandError when unknown, or when several could be."""
    try:
        return _workspace(options.get("workspace"))
    except DatabaseError as error:
        raise CommandError(
            "The database cannot be read: run `manage.py migrate` first, or see DATABASE_URL."
        ) from error


def _workspace(slug: str | None) -> Workspace:
    if slug:
        workspace = Workspace.objects.filter(slug=slug).first()
        if workspace is None:
            raise CommandError(
                f"There is no workspace {slug!r}. {_known_slugs()} A new one is made in the admin."
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


def add_reader_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--as",
        dest="reader",
        metavar="USER",
        help="what this user may read; without it a reader of public channels only",
    )


def reader_from(options: dict[str, Any]) -> Reader:
    name = options.get("reader")
    if not name:
        return Reader.public()
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise CommandError(f"There is no active user {name!r}.")
    return Reader.of(user)


def person_of(reader: Reader) -> User | None:
    """Whom a change is recorded for; None: whoever sits at the command line."""
    return User.objects.get(pk=reader.user_id) if reader.user_id else None


def editor_of(workspace: Workspace, reader: Reader) -> User | None:
    """The same of a change to a memory: nobody edits here who may not on the pages."""
    by = person_of(reader)
    if by and workspace.role_of(reader) not in Member.EDITING:
        raise CommandError("This user may read the memory, but not change it.")
    return by


def moment(text: str, option: str) -> datetime:
    """What an option says of time: UTC where no zone is said."""
    try:
        parsed = parse_datetime(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error
    if parsed is None:
        raise CommandError(f"{option} wants ISO 8601, such as 2026-11-20T18:05:00Z, not {text!r}.")
    if timezone.is_aware(parsed):
        return parsed
    return timezone.make_aware(parsed, timezone.get_default_timezone())


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="one JSON document on stdout, all else on stderr"
    )


def document(data: Any) -> str:
    """One JSON document, readable and with its letters as they are."""
    return json.dumps(data, ensure_ascii=False, indent=2, default=str)
