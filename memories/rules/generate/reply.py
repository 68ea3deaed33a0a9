"""Parse a summariser's reply into lines with sources, or name its fault (rule 8)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from memories.rules.generate import prompts
from memories.rules.generate.faults import Fault
from memories.rules.generate.line_choice import (
    forgotten_lines,
    forgotten_marked_lines,
    lines_after,
    most_salient,
    stated_lines,
)
from memories.rules.generate.reply_faults import BULLET, find_fault, is_in_wrong_language
from memories.rules.generate.reply_lines import LineReader
from memories.rules.generate.reply_statements import (
    parse_highlights,
    parse_statements,
    says_nothing,
    strip_thinking,
)
from memories.rules.memory.operations import (
    Change,
    DropReason,
    apply_additions,
    apply_operations,
)
from memories.rules.memory.repetition import repeats
from memories.rules.summariser import (
    OFFLINE,
    ParsedReply,
    PromptForm,
    Reply,
    ReplyLine,
    Request,
)

# `llm.request_runner` puts the fault of a part in the place of the finish reason.
_FAULT_OF_FINISH = {fault.value: fault for fault in Fault} | {"max_tokens": Fault.LENGTH}


def parse_reply(reply: Reply, request: Request) -> ParsedReply:
    """Return the lines of a reply with their sources, or its fault; never raise."""
    text = readable_text(reply)
    request = replace(request, form=PromptForm(reply.form))
    is_cut = _is_cut_off(reply)
    if is_cut and not text:
        return ParsedReply(fault=Fault.NO_ROOM)
    if reply.finish_reason != "stop" and not (is_cut and _has_whole_bullets(text, request)):
        finish = _FAULT_OF_FINISH.get(reply.finish_reason, Fault.UNKNOWN_FINISH)
        return ParsedReply(fault=finish)
    if not text:
        return ParsedReply(fault=Fault.BLANK)
    if says_nothing(text):
        return _parse_nothing(reply, request)
    if prompts.FENCE.search(text):
        return ParsedReply(fault=Fault.PROMPT_ECHOED)
    is_offline = reply.model == OFFLINE
    reader = LineReader(request, is_offline)
    if request.uses_operations and not is_offline:
        return _parse_operations(text, reader, reply)
    statements = parse_highlights(text) if is_offline else parse_statements(text)
    lines: Sequence[ReplyLine] = reader.read(statements)
    if request.uses_operations:
        return _parse_highlights(lines, reply, request)
    calls = reply.calls if request.only_adds else 1
    if fault := find_fault(text, lines, request, calls=calls, has_statements=bool(statements)):
        return ParsedReply(fault=fault)
    if is_offline:
        return _parse_highlights(lines, reply, request)
    if is_in_wrong_language(lines, request):
        return ParsedReply(fault=Fault.WRONG_LANGUAGE)
    if request.form is PromptForm.SIMPLE and is_cut:
        lines = [*lines, *lines_after(lines, request)]
    lines = most_salient(lines, request)
    if request.only_adds:
        forgotten = _unrepeated_forgotten_lines(lines, request)
        return apply_additions(request, [*lines, *forgotten], repeats)
    if request.form is PromptForm.SIMPLE:
        lines = list(stated_lines(lines, request))
        lines += forgotten_marked_lines(lines, request)
    if not request.begins_text:
        return ParsedReply(lines)
    if request.form is PromptForm.SIMPLE:
        return apply_additions(request, lines, repeats)
    return apply_operations(request, [Change(line, (), line.refs) for line in lines], repeats)


def readable_text(reply: Reply) -> str:
    """Return the text of a reply without its thinking, invisible characters and a row that was cut off."""
    text = prompts.visible_text(reply.text)
    if reply.model != OFFLINE:  # there </think> is a word of a message
        text = strip_thinking(text)
    rows, _, _ = text.rpartition("\n")
    return rows.rstrip() if rows and _is_cut_off(reply) else text


def _is_cut_off(reply: Reply) -> bool:
    return _FAULT_OF_FINISH.get(reply.finish_reason) is Fault.LENGTH


def _has_whole_bullets(text: str, request: Request) -> bool:
    """Return whether a text in the simple form is useful although its end was cut off.

    A small model often repeats its bullets up to the token limit.
    """
    bullets = [row for row in text.split("\n") if BULLET.match(row)]
    return request.form is PromptForm.SIMPLE and len(bullets) > 1


def _unrepeated_forgotten_lines(
    lines: Sequence[ReplyLine], request: Request
) -> Iterator[ReplyLine]:
    """Yield the lasting lines to add that no line of the reply rests on or repeats."""
    for forgotten in forgotten_lines(lines, request):
        if not any(repeats(line.text, forgotten.text) for line in lines):
            yield forgotten


def _parse_operations(text: str, reader: LineReader, reply: Reply) -> ParsedReply:
    """Return the whole text after the operations of a reply.

    A reply of which no operation applies is a fault, unless the text already contains all of them.
    """
    request = reader.request
    changes = list(reader.read_operations(text))
    new_lines = [change.line for change in changes if change.line is not None]
    if new_lines or not changes:
        if fault := find_fault(text, new_lines, request, calls=reply.calls):
            return ParsedReply(fault=fault)
        if is_in_wrong_language(new_lines, request):
            return ParsedReply(fault=Fault.WRONG_LANGUAGE)
    parsed = apply_operations(request, changes, repeats)
    is_repetition = all(reason == DropReason.DUPLICATE for _, reason in parsed.dropped)
    if not parsed.lines or (len(parsed.dropped) == len(changes) and not is_repetition):
        return ParsedReply(fault=Fault.NO_OPERATION)
    return parsed


def _parse_highlights(lines: Sequence[ReplyLine], reply: Reply, request: Request) -> ParsedReply:
    """Return the lines of the offline summariser, with what became of the others.

    A missing line is superseded, or repeated by another line, or archived if the memory has an archive.
    """
    kept = {line.text for line in lines}
    texts = {line.ref: prompts.to_one_line(line.text) for line in request.memory_lines}
    pairs = reply.superseded if request.additions else ()
    superseded = {old: texts[new] for old, new in pairs}
    missing = [
        line
        for line in (request.existing if request.uses_operations else ())
        if line.text not in kept and not line.by_person
    ]
    for old in missing:
        if repetition := next((line for line in lines if repeats(line.text, old.text)), None):
            superseded.setdefault(old.ref, repetition.text)
    archived = [
        ReplyLine(line.text, (line.ref,), line.kind)
        for line in missing
        if line.ref not in superseded
    ]
    return ParsedReply(
        lines,
        superseded=superseded,
        archived=tuple(archived),
        uses_operations=request.uses_operations,
    )


def _parse_nothing(reply: Reply, request: Request) -> ParsedReply:
    """Return the result of NOTHING: no change by a merge, no memory, or a fault.

    Code must agree that the messages that the model did not refuse have no content.
    """
    refused = set(reply.left_out)
    inputs = [line.ref for added in request.additions for line in added.lines]
    inputs += [message.ref for message in request.messages]
    if refused and refused.issuperset(inputs):
        return ParsedReply(fault=Fault.CONTENT_FILTER)
    if request.uses_operations:
        return apply_operations(request, [], repeats)
    if request.only_adds:
        return apply_additions(request, forgotten_lines((), request), repeats)
    messages = [message for message in request.messages if message.ref not in refused]
    is_right = reply.model == OFFLINE or prompts.may_keep_nothing(
        replace(request, messages=messages)
    )
    return ParsedReply(is_nothing=True) if is_right else ParsedReply(fault=Fault.NOTHING)


def format_with_refs(lines: Iterable[ReplyLine]) -> str:
    """Return lines in the form of a reply: one ``- kind: text [3, 7]`` for each."""
    rows = []
    for line in lines:
        kind = f"{line.kind}: " if line.kind else ""
        refs = f" [{', '.join(map(str, line.refs))}]" if line.refs else ""
        rows.append(f"- {kind}{line.text}{refs}")
    return "\n".join(rows)
