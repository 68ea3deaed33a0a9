"""Long-term memories made anew from what they were merged from; each becomes a proposal."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.management.arguments import (
    add_json_argument,
    add_reader_argument,
    add_workspace_argument,
    document,
    editor_of,
    reader_from,
    workspace_from,
)
from memories.models import Job, Memory, Reader, Workspace
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.update_now import rebuild
from memories.pipeline.memory import proposals
from memories.rules.context.contents import NoSuchChannel, find_channel
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.memory.compare import ChangeKind, DiffRow, compare_lines
from memories.rules.memory.identity import MemoryScope, MemoryType

SIGNS = {ChangeKind.SAME: " ", ChangeKind.ADDED: "+", ChangeKind.REMOVED: "-"}
MADE = (Job.State.PROPOSED, Job.State.DONE)  # done: it came out the same


class Command(BaseCommand):
    help = (
        "Make long-term memories anew: a channel's from its short-term versions, the workspace's from "
        "the long-term memories of its channels. The memory stays as it is; the new text waits as a "
        "proposal, shown with what it changes and with the dates, numbers, names, links and pinned "
        "lines that only one of the texts has. `jobs accept` makes it the next version."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_workspace_argument(parser)
        add_reader_argument(parser)
        parser.add_argument(
            "--memory",
            metavar="SCOPE",
            nargs="+",
            required=True,
            help="`workspace`, or a channel by its id or name",
        )
        add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        workspace, reader = workspace_from(options), reader_from(options)
        by = editor_of(workspace, reader)
        now = timezone.now()
        as_of = workspace.known_until(now)
        if as_of is None:
            raise CommandError("The workspace is connected to Slack but was never read to the end.")
        memories = [_memory(workspace, reader, scope) for scope in options["memory"]]
        jobs = []
        for scope, memory in zip(options["memory"], memories, strict=True):
            job = rebuild(memory, by, now)
            if job is None:
                raise CommandError(f"{scope}: there is nothing to make it from.")
            jobs.append(job)
        run_pass(workspace, as_of)
        outcomes = [
            _outcome(scope, Job.objects.with_memory().get(pk=job.pk))
            for scope, job in zip(options["memory"], jobs, strict=True)
        ]
        if options["json"]:
            self.stdout.write(document({"rebuilds": outcomes}))
        else:
            self.stdout.write("\n\n".join(map(in_words, outcomes)))
        if late := [outcome for outcome in outcomes if outcome["state"] not in MADE]:
            numbers = ", ".join(str(outcome["job"]) for outcome in late)
            raise CommandError(f"Not done yet: see `jobs show` of {numbers}.")


def _memory(workspace: Workspace, reader: Reader, scope: str) -> Memory:
    """The long-term memory of this scope, among those that the reader may read."""
    memories = (
        Memory.objects.visible_to(reader)
        .with_current()
        .filter(workspace=workspace, memory_type=MemoryType.LONG_TERM, current__isnull=False)
    )
    if scope == MemoryScope.WORKSPACE:
        memory = memories.filter(scope=MemoryScope.WORKSPACE).first()
    else:
        names = workspace.channels.visible_to(reader).names()
        try:
            memory = memories.filter(channel__slack_id=find_channel(names, scope)).first()
        except NoSuchChannel as error:
            raise CommandError(str(error)) from error
    if memory is None:
        raise CommandError(f"{scope} has no long-term memory yet: a pass makes the first text.")
    return memory


def _outcome(scope: str, job: Job) -> dict[str, Any]:
    """What became of a job; of a proposal its text, the lines that change and its drift."""
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
    return [f"{SIGNS[row.kind]} {row.before or row.after}"]


def in_words(outcome: dict[str, Any]) -> str:
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
    rows.append(f"To make it the next version: manage.py jobs accept {outcome['job']}")
    return "\n".join(rows)
