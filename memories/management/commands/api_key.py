"""Create, list and revoke the API keys of agents."""

import argparse
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.management import arguments
from memories.models import ApiKey, Channel, Workspace


class Command(BaseCommand):
    help = "Create, list or revoke API keys. The token of a key is printed once and not stored."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = arguments.add_action(actions, "create", "Create a key, and print its token.")
        arguments.add_workspace(create)
        create.add_argument("name", help="the purpose of the key, such as `laptop` or `ci`")
        arguments.add_reader(create)
        create.add_argument(
            "--channel",
            metavar="ID_OR_NAME",
            action="append",
            default=[],
            help="read only this channel; may be repeated",
        )
        create.add_argument(
            "--scope",
            action="append",
            default=[],
            choices=ApiKey.Scope.values,
            help="a scope besides `read`; may be repeated",
        )
        create.add_argument("--days", type=int, metavar="N", help="the key expires after N days")
        create.add_argument(
            "--rate", type=int, default=120, metavar="N", help="requests in a minute; default: 120"
        )
        arguments.add_workspace(
            arguments.add_action(actions, "list", "List all keys, without their tokens.")
        )
        revoke = arguments.add_action(actions, "revoke", "Revoke a key at once.")
        arguments.add_workspace(revoke)
        revoke.add_argument("id", type=int, help="the number from `list`")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = arguments.workspace_from(options)
        {"create": self.create_key, "list": self.list_keys, "revoke": self.revoke_key}[
            options["action"]
        ](workspace, options)

    def create_key(self, workspace: Workspace, options: dict[str, Any]) -> None:
        user = arguments.user_of(arguments.reader_from(options))
        if options["days"] is not None and not 1 <= options["days"] <= 3650:
            raise CommandError("--days must be from 1 to 3650.")
        if not 1 <= options["rate"] <= 100_000:
            raise CommandError("--rate must be from 1 to 100000.")
        channels = [self.find_channel(workspace, name) for name in options["channel"]]
        days = options["days"]
        try:
            key, token = ApiKey.objects.issue(
                workspace,
                name=options["name"],
                by=None,
                user=user,
                scopes=options["scope"],
                channels=channels,
                expires_at=timezone.now() + timedelta(days=days) if days else None,
                requests_per_minute=options["rate"],
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(token)
        self.stderr.write(f"Key {key.pk}, {key}. The token is not shown again.")

    def find_channel(self, workspace: Workspace, name: str) -> Channel:
        matches = list(workspace.channels.named(name)[:2])
        if len(matches) != 1:
            raise CommandError(
                f"No channel, or more than one, is named {name!r}. Use a Slack id, such as C0123."
            )
        return matches[0]

    def list_keys(self, workspace: Workspace, options: dict[str, Any]) -> None:
        now = timezone.now()
        usable = set(ApiKey.objects.usable(now).values_list("pk", flat=True))
        keys = workspace.api_keys.select_related("user").prefetch_related("channels")
        for key in keys:
            state = "usable" if key.pk in usable else "revoked" if key.revoked_at else "expired"
            reader = key.user.get_username() if key.user else "public channels"
            channels = " ".join(str(channel) for channel in key.channels.all())
            used = f"{key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never"
            self.stdout.write(
                f"{key.pk}\t{key}\t{state}\t{reader}\t{' '.join(key.scopes)}\t{channels}\tused {used}"
            )
        if not keys:
            self.stdout.write("There is no API key.")

    def revoke_key(self, workspace: Workspace, options: dict[str, Any]) -> None:
        key = workspace.api_keys.filter(pk=options["id"]).first()
        if key is None:
            raise CommandError(f"There is no key {options['id']} in this workspace.")
        key.revoke(by=None, now=timezone.now())
        self.stdout.write(f"Revoked key {key.pk}, {key}.")
