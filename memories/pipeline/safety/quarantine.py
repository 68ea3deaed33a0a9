"""Quarantine: stop the lines of a reply that break a safety rule (`rules.safety.guard`).

All scopes pass through here, and so do approved proposals and the offline summariser. Lines that a
person wrote or pinned are never stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memories.models import Job, Message, QuarantinedLine
from memories.pipeline.generate.requests import JobRequest
from memories.rules.generate.prompts import clean_for_model
from memories.rules.memory.lines import strip_bullet
from memories.rules.safety import guard
from memories.rules.safety.secrets import redact
from memories.rules.summariser import MAX_SOURCES, ParsedReply, ReplyLine


@dataclass(frozen=True)
class StoppedLine:
    """A line that broke a rule, with the keys of the messages that it probably rests on."""

    text: str
    rule: str
    sources: tuple[int, ...]


@dataclass(frozen=True)
class CheckedReply:
    """A reply with the lines that broke no rule, and the lines that were stopped."""

    parsed: ParsedReply
    stopped: Sequence[StoppedLine] = ()

    @property
    def is_all_stopped(self) -> bool:
        return bool(self.stopped) and not self.parsed.lines


class AllLinesStopped(Exception):
    """Every line of a merge was stopped, so there is no text to replace the old one."""

    def __init__(self, stopped: Sequence[StoppedLine]) -> None:
        super().__init__("Every line was stopped by a safety rule.")
        self.stopped = stopped


def check_reply(job: Job, job_request: JobRequest, parsed: ParsedReply) -> CheckedReply:
    """Check each line of a reply against the rules. Nothing is written.

    Lines that a merge by operations does not touch were checked before. If the replacement of an
    existing line is stopped, the existing line stays.
    """
    if not parsed.lines:
        return CheckedReply(parsed)
    request = job_request.request
    sources = guard.Sources.of(request)
    protected = {
        clean_for_model(strip_bullet(line.text)): line
        for line in job_request.base_lines
        if line.is_protected
    }
    untouched = {line.text for line in request.existing} if parsed.uses_operations else set()
    existing = {line.ref: line for line in request.existing}
    superseded = dict(parsed.superseded)
    lines: list[ReplyLine] = []
    stopped: list[StoppedLine] = []
    for line in parsed.lines:
        replaced_refs = [ref for ref, text in parsed.superseded.items() if text == line.text]
        if (protected_line := protected.get(line.text)) is not None:
            # The model saw the line without its secrets.
            lines.append(replace(line, text=strip_bullet(protected_line.text)))
        elif line.text in untouched:
            lines.append(line)
        elif (finding := guard.check(line.text, line.refs, sources)) is not None:
            keys = _probable_sources(job, line, sources)
            stopped.append(StoppedLine(redact(line.text), str(finding.rule), keys))
            for ref in replaced_refs:
                del superseded[ref]
                if ref in existing:
                    lines.append(ReplyLine(existing[ref].text, (ref,), existing[ref].kind))
        else:
            refs = guard.rests_on(line.text, line.refs, sources)[:MAX_SOURCES]
            lines.append(replace(line, text=redact(line.text), refs=refs))
            superseded |= dict.fromkeys(replaced_refs, redact(line.text))
    return CheckedReply(replace(parsed, lines=lines, superseded=superseded), stopped)


def quarantine_lines(job: Job, stopped: Sequence[StoppedLine]) -> None:
    """Save stopped lines, except those that already wait or that a person rejected."""
    memory = job.memory
    rows = QuarantinedLine.objects.not_approved().filter(memory=memory)
    rows = rows.filter(text__in=[line.text for line in stopped])
    saved = set(rows.values_list("text", flat=True))
    for line in stopped:
        if line.text in saved:
            continue
        saved.add(line.text)
        row = QuarantinedLine.objects.create(memory=memory, job=job, text=line.text, rule=line.rule)
        row.sources.add(*Message.objects.filter(pk__in=line.sources))


def _probable_sources(job: Job, line: ReplyLine, sources: guard.Sources) -> tuple[int, ...]:
    """Return the keys of the messages that a stopped line probably comes from.

    These are messages with orders to a model first, then its sources and the most similar
    message, or else all messages of the request.
    """
    refs = list(line.refs)
    refs += guard.most_similar(line.text, sources)
    if sources.orders.keys().isdisjoint(refs):
        refs += sorted(sources.orders)
    refs.sort(key=lambda ref: ref not in sources.orders)
    keys = _message_keys(job, refs)
    keys = keys or _message_keys(job, [source.ref for source in sources.texts])
    return tuple(dict.fromkeys(keys))[: MAX_SOURCES + len(sources.orders) + 1]


def _message_keys(job: Job, refs: Sequence[int]) -> list[int]:
    sources = job.reply_sources
    return [key for ref in refs if ref <= len(sources) for key in sources[ref - 1]]
