"""`manage.py slack_manifest`: print the manifest of the Slack app for the settings of a workspace."""

import argparse
import json
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand

from memories.management import arguments
from memories.rules.slack_app.manifest import build_manifest


class Command(BaseCommand):
    help = (
        "Print the manifest of the Slack app as JSON: the scopes, events and features that the"
        " settings of the workspace need, and no others."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_workspace(parser)
        parser.add_argument(
            "--http",
            action="store_true",
            help="Slack sends requests to MEMORYHUB_URL, instead of Socket Mode.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = arguments.workspace_from(options)
        manifest = build_manifest(
            workspace.memory_settings,
            settings.MEMORYHUB_URL,
            socket_mode=not options["http"],
            has_sign_in=bool(settings.SLACK_CLIENT_ID),
        )
        self.stdout.write(json.dumps(manifest, indent=2))
