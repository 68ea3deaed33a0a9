"""Import an export into an empty database, run passes over its time, and print a summary.

    DATABASE_URL=… python -m tests.pipeline.replay EXPORT SECONDS

SECONDS are between two passes; 0 is one pass at the end. The summary (JSON) has each segment of a
channel with its bounds, its messages, and the sources of each line of its version.
"""

import json
import os
import sys
from datetime import timedelta
from typing import Any


def main(export: str, seconds: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    import django

    django.setup()
    sys.stdout.write(json.dumps(replay(export, seconds)))


def replay(export: str, seconds: int) -> list[Any]:
    """Import the export, run the passes, and return the summary."""
    from django.core.management import call_command
    from django.db.models import Max, Min

    from memories.models import Message, Workspace
    from memories.pipeline.generate.passes import run_pass
    from memories.rules.ingest.timestamps import from_micros

    call_command("import_slack", export, backfill="all", stdout=sys.stderr)
    workspace = Workspace.objects.get()
    span = Message.objects.aggregate(first=Min("micros"), last=Max("micros"))
    end = from_micros(span["last"]) + timedelta(hours=3)
    now = from_micros(span["first"]) if seconds else end
    while now < end:
        run_pass(workspace, now)
        now += timedelta(seconds=seconds)
    run_pass(workspace, end)
    return summary()


def summary() -> list[Any]:
    from memories.models import MemoryVersion, Segment

    return [
        [
            segment.channel.slack_id,
            segment.number,
            segment.first_us,
            segment.last_us,
            segment.closed_us,
            segment.reason,
            segment.outcome,
            list(segment.messages.order_by("micros").values_list("ts", flat=True)),
            [
                [line.text, sorted(line.sources.values_list("ts", flat=True))]
                for version in MemoryVersion.objects.filter(segment=segment, number__gt=0)
                for line in version.lines.all()
            ],
        ]
        for segment in Segment.objects.of_channel()
        .select_related("channel")
        .order_by("channel__slack_id", "number")
    ]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
