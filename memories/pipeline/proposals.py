"""Proposals: a reply that would shrink a long-term memory waits for a person's word (rule 8)."""

from django.db import transaction
from django.utils import timezone

from memories.models import AuditEvent, Generation, Memory, MemoryVersion, StaleBase, User
from memories.pipeline import guarding, owe
from memories.pipeline.ask import Asker
from memories.pipeline.close import hold_readers, made_lines, supersede, write
from memories.rules.lines import Line, merged
from memories.rules.reply import read_reply
from memories.rules.tokens import estimate


def of(memory: Memory) -> Generation | None:
    """The proposal that waits for this memory, the newest if there are several. One that read what
    the memory's readers may not read any more is none."""
    found = memory.generations.proposed().with_memory().order_by("-pk").first()
    return found if found is not None and owe.may_flow(found) else None


def sizes(generation: Generation) -> tuple[int, int] | None:
    """Tokens of the text as it is and as it is proposed; None when nothing is proposed."""
    is_proposed = generation.state == Generation.State.PROPOSED
    reply = generation.saved_reply if is_proposed else None
    if reply is None:
        return None
    return estimate(generation.base.content) if generation.base else 0, estimate(reply.text)


def lines(generation: Generation) -> list[Line]:
    """The lines that the memory would have: what people hold is put back here too."""
    question = Asker(generation.memory.workspace).question(generation)
    reply = generation.saved_reply
    if reply is None:
        return []
    reading = read_reply(reply, question.request)
    made = made_lines(generation.cites, guarding.judge(generation, question, reading).reading)
    return merged(generation.base.line_values() if generation.base else [], made).lines


def accept(generation: Generation, *, by: User | None) -> MemoryVersion | None:
    """Make it the next version. Raises StaleBase when the memory or what it reads moved on: then
    the proposal is gone, and the merge is made again. None: somebody was faster."""
    now = timezone.now()
    question = Asker(generation.memory.workspace).question(generation)
    reply = generation.saved_reply
    if generation.state != Generation.State.PROPOSED or reply is None:
        return None
    try:
        if not owe.is_as_owed(generation):
            raise StaleBase(generation.memory.current)
        with transaction.atomic():
            hold_readers(generation)
            if not generation.close(Generation.State.DONE, now):
                return None
            reading = read_reply(reply, question.request)
            closed = write(generation, question, reading, accepted=True)
            owe.follow_ups(generation)
            AuditEvent.objects.record(
                "proposal_accept",
                by=by,
                workspace=generation.memory.workspace,
                subject=str(generation),
            )
            return closed.version
    except guarding.NothingLeft as left:  # the rules have grown since
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
