"""The settings of a workspace (rule 9): show all, or set several at once."""

import argparse
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memories.management.arguments import (
    add_json_argument,
    add_workspace_argument,
    document,
    workspace_from,
)
from memories.models import Workspace
from memories.rules.settings import InvalidSetting, MemorySettings


class Command(BaseCommand):
    help = "Show the settings of a workspace, or set them: all that are given, or none."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_workspace_argument(parser)
        add_json_argument(parser)
        parser.add_argument(
            "assignments",
            nargs="*",
            metavar="KEY=VALUE",
            help="set this; without any all settings are shown",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = workspace_from(options)
        given = _read(options["assignments"])
        try:
            changed = workspace.change_settings(given) if given else {}
        except InvalidSetting as error:
            raise CommandError(f"{error} Nothing was changed.") from error
        if options["json"]:
            changes = {key: {"before": a, "after": b} for key, (a, b) in changed.items()}
            report = {
                "workspace": workspace.slug,
                "settings": asdict(workspace.memory_settings),
                "changed": changes,
            }
            self.stdout.write(document(report))
        elif given:
            for key, (before, after) in changed.items():
                self.stdout.write(f"{key}: {_word(before)} → {_word(after)}")
            if not changed:
                self.stdout.write("Nothing was different.")
        else:
            self._show(workspace)

    def _show(self, workspace: Workspace) -> None:
        defaults = asdict(MemorySettings())
        values = asdict(workspace.memory_settings)
        width = max(map(len, values))
        for key, value in values.items():
            default = _word(defaults[key])
            note = "(default)" if value == defaults[key] else f"(default: {default})"
            self.stdout.write(f"{key:<{width}}  {_word(value)}  {note}")


def _read(assignments: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for assignment in assignments:
        key, sign, value = assignment.partition("=")
        if not sign:
            raise CommandError(f"Settings are given as KEY=VALUE, not {assignment!r}.")
        if key in given:
            raise CommandError(f"{key} is given twice.")
        given[key] = value
    return given


def _word(value: object) -> str:
    """A value as it can be typed again."""
    return str(value).lower() if isinstance(value, bool) else str(value)
