"""Set, show or remove the bot token of a workspace."""

import argparse
import getpass
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memories.management import arguments
from memories.models import SlackConnection, Workspace
from memories.pipeline.sync.connecting import TokenSource, token_source
from memories.rules.sync.bot_token import InvalidBotToken, parse_bot_token
from memoryhub.env import PROGRAM


class Command(BaseCommand):
    help = (
        "Store the bot token (xoxb-…) of a workspace's app, encrypted with MEMORYHUB_KEYS. It overrides"
        " SLACK_BOT_TOKEN. The token comes from stdin or the terminal, because other users of the"
        " machine can see command lines."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        for name, summary in (
            ("set", "Store a token from stdin or the terminal, in place of the previous one."),
            ("show", "Show the source and the last four characters of the token in use."),
            ("remove", "Remove the stored token. Slack still accepts it: revoke it there."),
        ):
            arguments.add_workspace(arguments.add_action(actions, name, summary))

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(arguments.workspace_from(options))

    def _set(self, workspace: Workspace) -> None:
        try:
            token = parse_bot_token(_read_token())
        except InvalidBotToken as error:
            raise CommandError(str(error)) from error
        connection = SlackConnection.objects.of(workspace)
        connection.set_token(token, by=None)
        self.stdout.write(
            f"{workspace.slug}: stored the token that ends in {connection.token_end}."
        )
        self.stdout.write(f"Next: `{PROGRAM} slack_test`.")

    def _show(self, workspace: Workspace) -> None:
        connection = SlackConnection.objects.filter(workspace=workspace).first()
        source = token_source(workspace)
        if source is TokenSource.NONE:
            self.stdout.write(
                f"{workspace.slug}: no token. `{PROGRAM} slack_token set` stores one."
            )
            return
        token = token_words(source, connection.token_end if connection else "")
        self.stdout.write(f"{workspace.slug}: {token}")
        if connection and not connection.is_live:
            self.stdout.write(f"{connection.get_state_display()}: {connection.trouble}")

    def _remove(self, workspace: Workspace) -> None:
        if not SlackConnection.objects.of(workspace).remove_token(by=None):
            raise CommandError(f"No token is stored for {workspace.slug}.")
        self.stdout.write(
            f"{workspace.slug}: the token is removed here. Slack still accepts it: revoke it there."
        )


def token_words(source: TokenSource, token_end: str) -> str:
    where = "kept here" if source is TokenSource.STORED else "SLACK_BOT_TOKEN"
    return f"{where} (ends in {token_end})" if token_end else where


def _read_token() -> str:
    return getpass.getpass("Bot token (xoxb-…): ") if sys.stdin.isatty() else sys.stdin.read(1000)
