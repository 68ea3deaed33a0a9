"""Proposals: a long-term text that waits for a person's word. A merge that would shrink it (rule 8), or
a rebuild."""

from django.db import transaction
from django.utils import timezone

from memories.models import AuditEvent, Generation, Memory, MemoryVersion, StaleBase, User
from memories.pipeline import guarding, owe
from memories.pipeline.ask import Asker
from memories.pipeline.close import hold_readers, made_lines, supersede, write
from memories.rules.drift import Drift, find_drift
from memories.rules.lines import Line, merged
from memories.rules.reply import read_reply
from memories.rules.tokens import estimate


def of(memory: Memory) -> Generation | None:
    """The proposal that waits for this memory, the newest if there are several. One that read what
    the memory's readers may not read any more is none."""
    found = memory.generations.proposed().with_memory().order_by("-pk").first()
    return found if found is not None and owe.may_flow(found) else None


def base_of(generation: Generation) -> MemoryVersion | None:
    """The text that the proposal would replace. A rebuild rests on no other text, so it stands beside
    the current one, also after merges."""
    return generation.memory.current if generation.is_rebuild else generation.base


def sizes(generation: Generation) -> tuple[int, int] | None:
    """Tokens of the text as it is and as it is proposed; None when nothing is proposed."""
    is_proposed = generation.state == Generation.State.PROPOSED
    reply = generation.saved_reply if is_proposed else None
    if reply is None:
        return None
    base = base_of(generation)
    return estimate(base.content) if base else 0, estimate(reply.text)


def lines(generation: Generation) -> list[Line]:
    """The lines that the memory would have: what people hold is put back here too."""
    question = Asker(generation.memory.workspace).question(generation)
    reply = generation.saved_reply
    if reply is None:
        return []
    reading = read_reply(reply, question.request)
    made = made_lines(generation.cites, guarding.judge(generation, question, reading).reading)
    base = base_of(generation)
    return merged(base.line_values() if base else [], made).lines


def drift(generation: Generation) -> list[Drift]:
    """What a rebuilt text says and the current one lacks, and the other way round."""
    memory, base = generation.memory, base_of(generation)
    old = base.line_values() if base else []
    new = lines(generation)
    return find_drift(
        [line.text for line in old],
        [line.text for line in new],
        people=memory.workspace.people.all().names().values(),
        pinned=[line.text for line in (*old, *new) if line.pinned],
    )


def accept(generation: Generation, *, by: User | None) -> MemoryVersion | None:
    """Make it the next version. Raises StaleBase when the memory or what it reads moved on: then
    the proposal is gone, and the merge is made again. None: somebody was faster."""
    now = timezone.now()
    reply = generation.saved_reply
    if generation.state != Generation.State.PROPOSED or reply is None:
        return None
    generation.rebase(base_of(generation))
    question = Asker(generation.memory.workspace).question(generation)
    try:
        if not owe.is_as_owed(generation):
            raise StaleBase(generation.memory.current)
        with transaction.atomic():
            hold_readers(generation)
            if not generation.close(Generation.State.DONE, now):
                return None
            reading = read_reply(reply, question.request)
            if reading.fault:
                raise guarding.NothingLeft(())
            closed = write(generation, question, reading, accepted=True)
            if generation.is_rebuild:
                owe.merge_again_since(generation)
            owe.follow_ups(generation)
            AuditEvent.objects.record(
                "proposal_accept",
                by=by,
                workspace=generation.memory.workspace,
                subject=str(generation),
            )
            # A rebuild may say what a person has written meanwhile.
            return closed.version or generation.memory.current
    except guarding.NothingLeft as left:  # the rules have grown since
        guarding.keep(generation, left.held)
        supersede(generation, now)
        raise StaleBase(generation.memory.current) from left
    except StaleBase:
        supersede(generation, now)
        raise


def reject(generation: Generation, *, by: User | None) -> bool:
    """Keep the text as it is; what the merge read stays owed to the next one. False: it did not
    wait any more."""
    with transaction.atomic():
        rejected = generation.reject(by)
        if rejected:
            owe.follow_ups(generation)
    return rejected
