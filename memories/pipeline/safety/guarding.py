"""reading → the lines that may enter a memory, and those that are held back for a person.

Every scope comes through here, a proposal that a person accepts too, and the offline summariser's
lines as a model's. What a person wrote or pinned is never looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memories.models import Job, Message, QuarantinedLine
from memories.pipeline.generate.requests import JobRequest
from memories.rules.generate.prompts import clean_for_model
from memories.rules.generate.summariser import MAX_SOURCES, ParsedReply, ReplyLine
from memories.rules.memory.lines import words_of
from memories.rules.safety import guard
from memories.rules.safety.secrets import redacted


@dataclass(frozen=True)
class Held:
    """A line that did not enter, and the keys of the messages it is traced to."""

    text: str
    rule: str
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Judged:
    """``reading`` has only the lines that may enter."""

    reading: ParsedReply
    held: Sequence[Held] = ()

    @property
    def is_empty(self) -> bool:
        return bool(self.held) and not self.reading.lines


class NothingLeft(Exception):
    """All lines of a merge are held back: there is nothing to write in the old text's place."""

    def __init__(self, held: Sequence[Held]) -> None:
        super().__init__("Every line was held back.")
        self.held = held


def judge(job: Job, question: JobRequest, reading: ParsedReply) -> Judged:
    """Hold each line against the rules (`rules.guard`). Nothing is written.

    Lines that a merge by operations leaves alone were judged when they came in. A line that would
    have been superseded by one that is held back stays.
    """
    if not reading.lines:
        return Judged(reading)
    sources = guard.Sources.of(question.request)
    own = {
        clean_for_model(words_of(line.text)): line
        for line in question.base_lines
        if line.is_protected
    }
    request = question.request
    existing = {line.text for line in request.existing}
    untouched = existing if reading.uses_operations else set()
    stays = {line.ref: line for line in request.memory_lines}
    superseded = dict(reading.superseded)
    lines: list[ReplyLine] = []
    held: list[Held] = []
    for line in reading.lines:
        replaces = [ref for ref, text in reading.superseded.items() if text == line.text]
        if (person := own.get(line.text)) is not None:  # as it was shown, without its secrets
            lines.append(replace(line, text=words_of(person.text)))
            continue
        if line.text in untouched:
            lines.append(line)
            continue
        finding = guard.check(line.text, line.refs, sources)
        if finding is not None:
            keys = _traced(job, line, sources)
            held.append(Held(redacted(line.text), str(finding.rule), keys))
            for ref in replaces:
                lines.append(ReplyLine(stays[ref].text, (ref,), stays[ref].kind))
                del superseded[ref]
        else:
            refs = guard.rests_on(line.text, line.refs, sources)[:MAX_SOURCES]
            lines.append(replace(line, text=redacted(line.text), refs=refs))
            superseded |= dict.fromkeys(replaces, redacted(line.text))
    return Judged(replace(reading, lines=lines, superseded=superseded), held)


def keep(job: Job, held: Sequence[Held]) -> None:
    """Write down what was held back, once: not again what waits, or what a person rejected."""
    memory = job.memory
    decided = QuarantinedLine.objects.not_accepted().filter(memory=memory)
    known = set(decided.filter(text__in=[one.text for one in held]).values_list("text", flat=True))
    for one in held:
        if one.text in known:
            continue
        known.add(one.text)
        row = QuarantinedLine.objects.create(memory=memory, job=job, text=one.text, rule=one.rule)
        row.sources.add(*Message.objects.filter(pk__in=one.sources))


def _keys(job: Job, refs: Sequence[int]) -> list[int]:
    """The messages that these refs stand for, as the reply's own request counted them."""
    cites = job.cites
    return [key for ref in refs if ref <= len(cites) for key in cites[ref - 1]]


def _traced(job: Job, line: ReplyLine, sources: guard.Sources) -> tuple[int, ...]:
    """Where the line comes from: what it cites, for as much as that is worth, and what it resembles
    most; where orders to a model were shown, these first. Else everything that was shown."""
    refs = list(line.refs)
    refs += guard.traced(line.text, sources)
    if sources.orders.keys().isdisjoint(refs):
        refs += sorted(sources.orders)
    refs.sort(key=lambda ref: ref not in sources.orders)
    keys = _keys(job, refs) or _keys(job, [source.ref for source in sources.texts])
    return tuple(dict.fromkeys(keys))[: MAX_SOURCES + len(sources.orders) + 1]
