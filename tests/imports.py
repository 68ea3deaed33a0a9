"""Small exports through the real command, and what comes of them."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command

from memories.models import Channel, Message, Person
from memories.rules.ingest.markup import render_plain
from tests.slackexports import export_files, write_zip


class Import:
    """Import an export and keep what the command said of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.arguments: list[str] = []
        self._number = 0

    def __call__(self, *messages: Any, **lists: Any) -> "Import":
        """One day of #general."""
        return self.days({"general/2023-11-14": list(messages)}, **lists)

    def days(self, days: dict[str, Any], **lists: Any) -> "Import":
        return self.files(export_files(days, **lists))

    def files(self, files: dict[str, bytes]) -> "Import":
        self._number += 1
        return self.path(write_zip(self.folder / f"export-{self._number}.zip", files))

    def path(self, path: Path, *arguments: str) -> "Import":
        """``refused`` is why nothing was read, "" when it was."""
        out = io.StringIO()
        self.status, self.refused = 0, ""
        command = ["import_slack", str(path), "--json", *self.arguments, *arguments]
        try:
            call_command(*command, stdout=out, stderr=io.StringIO())
        except CommandError as error:
            self.status = error.returncode
            if not out.getvalue():
                self.refused = str(error)
                return self
        self.report = json.loads(out.getvalue())
        for thing in ("people", "channels", "messages", "files"):
            counts = self.report[thing]
            ended = sum(
                counts[r] for r in ("stored", "updated", "duplicate", "skipped", "quarantined")
            )
            assert ended == counts["seen"], thing
        return self

    def outcomes(self, objects: str = "messages") -> dict[str, int]:
        """Count by outcome, such as ``{"stored": 1, "quarantined: no ts": 2}``, without zeros."""
        counts = dict(self.report[objects])
        reasons: dict[str, int] = counts.pop("reasons")
        for outcome, count in reasons.items():
            counts[outcome.partition(":")[0]] -= count
        del counts["seen"]
        return {outcome: count for outcome, count in (counts | reasons).items() if count}

    @property
    def broken(self) -> dict[str, str]:
        """File → why it was left out from where it breaks."""
        return {file["file"]: file["reason"] for file in self.report["quarantined_files"]}


@dataclass
class Names:
    """As a page or a model sees them, by Slack id."""

    people: Mapping[str, str]
    channels: Mapping[str, str]

    def person(self, slack_id: str) -> str | None:
        return self.people.get(slack_id)

    def channel(self, slack_id: str) -> str | None:
        return self.channels.get(slack_id)


def readable() -> list[str]:
    names = Names(Person.objects.names(), Channel.objects.public().names())
    return [render_plain(message.text, names) for message in Message.objects.in_order()]
