"""Test the Slack token of a workspace and its scopes."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.management import arguments
from memories.management.commands.slack_token import token_words
from memories.pipeline.sync.connecting import Findings, TokenSource, check_connection


class Command(BaseCommand):
    help = (
        "Test the connection to Slack: the owner of the token, each missing scope, its effect and the"
        " remedy. Exit status 1: the token cannot read everything that the settings need."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_workspace(parser)
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        findings = check_connection(arguments.workspace_from(options), timezone.now())
        if options["json"]:
            self.stdout.write(arguments.document(findings.as_json()))
        else:
            self._print(findings)
        if findings.code:
            raise CommandError(str(findings.error))
        if findings.missing:
            names = ", ".join(missing.scope for missing in findings.missing)
            raise CommandError(f"Missing: {names}.")

    def _print(self, findings: Findings) -> None:
        write = self.stdout.write
        if findings.source is not TokenSource.NONE:
            write(f"token: {token_words(findings.source, findings.token_end)}")
        if identity := findings.identity:
            write(f"team: {identity.team_name} ({identity.team_id})")
            write(f"bot: {identity.bot_id or 'none'}")
        if findings.scopes is not None:
            write(f"scopes: {', '.join(findings.scopes) or 'none'}")
        for missing in findings.missing:
            write(f"missing: {missing.scope}. Without it: {missing.effect}. {missing.remedy}")
        for note in findings.notes:
            write(f"note: {note}")
        if findings.is_ok:
            write("Everything that the settings need can be read.")
