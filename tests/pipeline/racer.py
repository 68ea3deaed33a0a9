"""A process for races: it prints ``ready``, waits for a line on stdin, and begins.

    python -m tests.pipeline.racer pass NOW …     passes as of these moments, one after the other
    python -m tests.pipeline.racer edit MARK      revise all memories, until a line on stdin

The last line on stdout is a JSON list: the errors of the passes, or the saved texts.
"""

import json
import os
import select
import sys
from datetime import datetime

TURNS = 40  # of edits, at most


def main(what: str, *arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    import django

    django.setup()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    result = _edit(*arguments) if what == "edit" else _passes(arguments)
    sys.stdout.write(json.dumps(result) + "\n")


def _passes(moments: tuple[str, ...]) -> list[str]:
    from memories.models import Workspace
    from memories.pipeline.generate.passes import run_pass

    errors: list[str] = []
    for moment in moments:
        for workspace in Workspace.objects.all():
            errors += run_pass(workspace, datetime.fromisoformat(moment)).errors
    return errors


def _edit(mark: str) -> list[str]:
    """Return the saved texts. A stale save is refused; the next one reads the newer text."""
    from memories.models import Memory, StaleBase

    saved: list[str] = []
    for turn in range(TURNS):
        for memory in Memory.objects.with_current().exclude(scope="workspace"):
            current, text = memory.current, f"- {mark} {memory.pk}.{turn}"
            try:
                memory.revise(
                    text,
                    by=None,
                    based_on=current.number if current else 0,
                    revision=current.revision if current else None,
                )
            except StaleBase:
                continue
            saved.append(text)
        if select.select([sys.stdin], [], [], 0.02)[0]:
            break
    return saved


if __name__ == "__main__":
    main(*sys.argv[1:])
