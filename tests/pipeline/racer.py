"""A worker of its own for races: it says that it is ready, waits for a word, and begins.

    python -m tests.pipeline.racer pass NOW …     passes as of these moments, one after the other
    python -m tests.pipeline.racer edit MARK      revise all memories, until told to stop

The last line on stdout is one JSON value: the errors of the passes, or the texts that were saved.
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
    said = _edit(*arguments) if what == "edit" else _passes(arguments)
    sys.stdout.write(json.dumps(said) + "\n")


def _passes(moments: tuple[str, ...]) -> list[str]:
    from memories.models import Workspace
    from memories.pipeline.generate.passes import run_pass

    errors: list[str] = []
    for moment in moments:
        for workspace in Workspace.objects.all():
            errors += run_pass(workspace, datetime.fromisoformat(moment)).errors
    return errors


def _edit(mark: str) -> list[str]:
    """Each text that was saved; a stale save is refused, and the next one sees the newer text."""
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
        if select.select([sys.stdin], [], [], 0.02)[0]:  # told to stop
            break
    return saved


if __name__ == "__main__":
    main(*sys.argv[1:])
