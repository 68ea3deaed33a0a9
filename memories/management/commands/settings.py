"""Show or change the settings of a workspace (rule 9)."""

import argparse
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memories.management import arguments
from memories.models import Workspace
from memories.rules.settings import InvalidSetting, MemorySettings


class Command(BaseCommand):
    help = "Show the settings of a workspace, or change several of them, all or none."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_workspace(parser)
        arguments.add_json(parser)
        parser.add_argument(
            "assignments",
            nargs="*",
            metavar="KEY=VALUE",
            help="set this value; default: show all settings",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = arguments.workspace_from(options)
        values = _parse(options["assignments"])
        try:
            changed = workspace.change_settings(values) if values else {}
        except InvalidSetting as error:
            raise CommandError(f"{error} Nothing was changed.") from error
        if options["json"]:
            changes = {key: {"before": a, "after": b} for key, (a, b) in changed.items()}
            report = {
                "workspace": workspace.slug,
                "settings": asdict(workspace.memory_settings),
                "changed": changes,
            }
            self.stdout.write(arguments.document(report))
        elif values:
            for key, (before, after) in changed.items():
                self.stdout.write(f"{key}: {_format(before)} → {_format(after)}")
            if not changed:
                self.stdout.write("Nothing changed.")
        else:
            self._show(workspace)

    def _show(self, workspace: Workspace) -> None:
        defaults = asdict(MemorySettings())
        values = asdict(workspace.memory_settings)
        width = max(map(len, values))
        for key, value in values.items():
            default = _format(defaults[key])
            note = "(default)" if value == defaults[key] else f"(default: {default})"
            self.stdout.write(f"{key:<{width}}  {_format(value)}  {note}")


def _parse(assignments: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for assignment in assignments:
        key, sign, value = assignment.partition("=")
        if not sign:
            raise CommandError(f"Settings are given as KEY=VALUE, not {assignment!r}.")
        if key in values:
            raise CommandError(f"{key} is given twice.")
        values[key] = value
    return values


def _format(value: object) -> str:
    """Format a value as the command accepts it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
