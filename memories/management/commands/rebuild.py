"""Write long-term memories again from their inputs, as proposals."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from memories.management import arguments
from memories.models import Job, Memory, Reader, Workspace
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.update_now import rebuild
from memories.pipeline.memory import proposals
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.memory.compare import ChangeKind, DiffRow, compare_lines
from memories.rules.memory.identity import MemoryScope, MemoryType
from memoryhub.env import PROGRAM

DIFF_SIGNS = {ChangeKind.SAME: " ", ChangeKind.ADDED: "+", ChangeKind.REMOVED: "-"}
FINISHED = (Job.State.PROPOSED, Job.State.DONE)  # DONE: there is nothing to propose


class Command(BaseCommand):
    help = (
        "Write long-term memories again: of a channel from its short-term versions, of the"
        " workspace from the long-term memories of its channels. The new text is a proposal and"
        " changes no memory. The command shows its changed lines, and the dates, numbers, names,"
        " links and pinned lines that only one of the texts has. `jobs accept` makes it the next"
        " version."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_workspace(parser)
        arguments.add_reader(parser)
        parser.add_argument(
            "--memory",
            metavar="SCOPE",
            nargs="+",
            required=True,
            help="`workspace`, or a channel by its id or name",
        )
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        workspace, reader = arguments.workspace_from(options), arguments.reader_from(options)
        by = arguments.editor_of(workspace, reader)
        as_of = arguments.complete_until(workspace)
        memories = [_memory(workspace, reader, scope) for scope in options["memory"]]
        jobs = []
        with transaction.atomic():  # no job is left if one cannot be scheduled
            for scope, memory in zip(options["memory"], memories, strict=True):
                job = rebuild(memory, by, timezone.now())
                if job is None:
                    raise CommandError(f"{scope}: there is nothing to write it from.")
                jobs.append(job)
        run_pass(workspace, as_of)
        outcomes = [
            _outcome(scope, Job.objects.with_memory().get(pk=job.pk))
            for scope, job in zip(options["memory"], jobs, strict=True)
        ]
        if options["json"]:
            self.stdout.write(arguments.document({"rebuilds": outcomes}))
        else:
            self.stdout.write("\n\n".join(map(_summary, outcomes)))
        if unfinished := [outcome for outcome in outcomes if outcome["state"] not in FINISHED]:
            numbers = ", ".join(str(outcome["job"]) for outcome in unfinished)
            raise CommandError(f"Not finished yet: see `jobs show` of {numbers}.")


def _memory(workspace: Workspace, reader: Reader, scope: str) -> Memory:
    """Return the readable long-term memory of the workspace or of a channel."""
    memories = (
        Memory.objects.visible_to(reader)
        .with_current()
        .filter(workspace=workspace, memory_type=MemoryType.LONG_TERM, current__isnull=False)
    )
    if scope == MemoryScope.WORKSPACE:
        memory = memories.filter(scope=MemoryScope.WORKSPACE).first()
    else:
        memory = memories.filter(channel=arguments.get_channel(workspace, reader, scope)).first()
    if memory is None:
        raise CommandError(f"{scope} has no long-term memory yet. A pass writes the first one.")
    return memory


def _outcome(scope: str, job: Job) -> dict[str, Any]:
    """Return the state of a job. A proposal also has its text, changed lines and drift."""
    outcome: dict[str, Any] = {
        "memory": scope,
        "job": job.pk,
        "state": job.state,
        "fault": job.fault,
    }
    outcome |= dict.fromkeys(("based_on", "text", "diff", "drift"))
    base = proposals.get_base(job)
    if job.state != Job.State.PROPOSED or base is None:
        return outcome
    text = "\n".join(line.text for line in proposals.proposed_lines(job))
    drift = proposals.proposal_drift(job)
    return outcome | {
        "based_on": base.number,
        "text": text,
        "diff": [line for row in compare_lines(base.content, text) for line in _diff(row)],
        "drift": {str(d.kind): {"lost": d.lost, "gained": d.gained} for d in drift},
    }


def _diff(row: DiffRow) -> list[str]:
    if row.kind is ChangeKind.CHANGED:
        return [f"- {row.before}", f"+ {row.after}"]
    return [f"{DIFF_SIGNS[row.kind]} {row.before or row.after}"]


def _summary(outcome: dict[str, Any]) -> str:
    if outcome["diff"] is None:
        because = f" ({outcome['fault']})" if outcome["fault"] else ""
        return f"{outcome['memory']}: job {outcome['job']} is {outcome['state']}{because}"
    rows = [f"{outcome['memory']}: job {outcome['job']}, beside version {outcome['based_on']}"]
    rows += [f"  {mark_invisible(line)}" for line in outcome["diff"]]
    rows += [
        f"  {kind}, only the {which} text: {mark_invisible(', '.join(words))}"
        for kind, difference in outcome["drift"].items()
        for which, words in (("current", difference["lost"]), ("rebuilt", difference["gained"]))
        if words
    ]
    rows.append(f"To make it the next version: {PROGRAM} jobs accept {outcome['job']}")
    return "\n".join(rows)
