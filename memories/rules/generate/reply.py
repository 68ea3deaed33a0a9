"""Parse a summariser's reply into lines with sources, or name its fault (rule 8)."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from memories.rules.generate import prompts
from memories.rules.generate.faults import Fault
from memories.rules.generate.line_choice import (
    forgotten_lines,
    forgotten_marked_lines,
    lines_after,
    most_salient,
)
from memories.rules.generate.prompt_texts import PERSON_MARK, TEXTS
from memories.rules.generate.reply_faults import BULLET, find_fault, is_in_wrong_language
from memories.rules.generate.reply_operations import parse_operations
from memories.rules.generate.reply_statements import (
    REMARK,
    Spans,
    Statement,
    parse_highlights,
    parse_statements,
    says_nothing,
    strip_thinking,
)
from memories.rules.memory.kinds import kind_of
from memories.rules.memory.operations import (
    Change,
    DropReason,
    apply_additions,
    apply_operations,
    order_lines,
)
from memories.rules.memory.repetition import brings_news, repeats
from memories.rules.memory.sources import MIN_SCORE, SourceFinder, search_words, significant_words
from memories.rules.salience import content_words, is_salient
from memories.rules.summariser import (
    MAX_SOURCES,
    OFFLINE,
    MemoryLine,
    ParsedReply,
    PromptForm,
    Reply,
    ReplyLine,
    Request,
)

# `llm.request_runner` puts the fault of a part in the place of the finish reason.
_FAULT_OF_FINISH = {fault.value: fault for fault in Fault} | {"max_tokens": Fault.LENGTH}
_PROMPT_SHARE = 0.75  # of a line's words: the line repeats the prompt
_SAME_SCORE = 0.7  # of a source: the line of a small model says the same
_MIN_QUOTED_WORDS = 3  # of a message that a small model may copy

# A remark of the model at the end of a sentence.
_COMMENT = re.compile(
    r",\s(?:which |thus |thereby )?(?:indicat|suggest|highlight|demonstrat|reflect|emphasi[sz]|underscor|showcas|impl[iy]|signall?)"
    r"(?:es|s|ing|ying)\b[^.]*(?=\.?$)",
    re.IGNORECASE,
)
_TIME_AT_END = re.compile(r"\s*[\[(](\d{4}-\d\d-\d\d(?: \d\d:\d\d)?)[\])](?=[.。]?$)")
_MARK = re.compile(rf"^(?:{PERSON_MARK}|{prompts.THREAD}[a-z]*) ")
_STAMP = re.compile(rf"^(?:L\d{{1,6}} )?(?:{PERSON_MARK} )?\[\d{{4}}-\d\d-\d\d(?: \d\d:\d\d)?\] ")


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
    reader = _LineReader(request, is_offline)
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
        lines = [*lines, *forgotten_marked_lines(lines, request)]
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


def _parse_operations(text: str, reader: "_LineReader", reply: Reply) -> ParsedReply:
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


@dataclass(frozen=True)
class _LineReader:
    """Make lines of a reply's statements.

    ``is_offline``: the offline summariser wrote the reply, so its sources are right.
    """

    request: Request
    is_offline: bool

    @cached_property
    def _finder(self) -> SourceFinder:
        return SourceFinder.of(self.request)

    @cached_property
    def _prompt_words(self) -> frozenset[str]:
        texts = TEXTS[prompts.instruction_language(self.request)].values()
        return frozenset(search_words(prompts.fill_limits(" ".join(texts), self.request)))

    @cached_property
    def _memory_lines(self) -> dict[int, MemoryLine]:
        return {line.ref: line for line in self.request.memory_lines}

    @cached_property
    def _valid_refs(self) -> list[int]:
        return sorted({*self._memory_lines, *(message.ref for message in self.request.messages)})

    def read(self, statements: Sequence[Statement]) -> tuple[ReplyLine, ...]:
        """Return one line for each distinct statement, with its kind and sources."""
        lines = map(self._line_of, statements)
        if self.is_offline:
            highlights = [self._highlight(line) for line in _merge_equal(lines)]
            return tuple(order_lines(highlights, lambda line: 0))  # they are in order of time
        merged = _merge_equal(line for line in lines if not self._repeats_prompt(line.text))
        sourced = list(map(self._finder.add_sources, merged))
        if self.request.form is PromptForm.SIMPLE:
            sourced = self._choose_supported(sourced)
        return tuple(replace(line, kind=line.kind or kind_of(line.text)) for line in sourced)

    def _choose_supported(self, lines: Sequence[ReplyLine]) -> list[ReplyLine]:
        """Return the lines of a small model that their sources state.

        Such a model invents names and facts, and changes the words of a memory. A line that repeats a
        line of a memory gets its words.
        """
        lines = list(_merge_equal(map(self._in_words_of_memory, lines)))
        sourced = [x for x in lines if x.refs or not self._finder.has_script_of(x.text)]
        texts = {prompts.to_one_line(line.text) for line in self.request.memory_lines}
        verified = [x for x in sourced if not x.unverified or x.text in texts]
        useful = [x for x in verified if not (x.is_quote and self._rests_on_little(x))]
        return useful or verified or sourced or lines

    def _rests_on_little(self, line: ReplyLine) -> bool:
        """Return whether the sources are messages of a few words, such as "yes, grand"."""
        texts = [m.text for m in self.request.messages if m.ref in line.refs]
        return not any(is_salient(x) or len(content_words(x)) >= _MIN_QUOTED_WORDS for x in texts)

    def _in_words_of_memory(self, line: ReplyLine) -> ReplyLine:
        source = self._memory_lines.get(line.refs[0]) if line.refs else None
        if source is None or self._finder.score(line.text, source.ref) < _SAME_SCORE:
            return line
        if brings_news(line.text, source.text):
            return line
        return self._highlight(replace(line, refs=(source.ref,)))

    def _highlight(self, line: ReplyLine) -> ReplyLine:
        """Return a line with the text and kind of the memory line that is its first source, if any."""
        memory_line = self._memory_lines.get(line.refs[0]) if line.refs else None
        if memory_line is None:
            return replace(line, kind=line.kind or kind_of(self._without_speakers(line)))
        text = prompts.to_one_line(memory_line.text)
        unverified = (text,) if memory_line.unverified else ()
        return replace(
            line, text=text, kind=memory_line.kind or kind_of(text), unverified=unverified
        )

    def _without_speakers(self, line: ReplyLine) -> str:
        """Return the text without the names of its authors: somebody may be called Will."""
        text = line.text
        for message in self.request.messages:
            if message.ref in line.refs:
                text = text.replace(f"{prompts.speaker_name(message.author)}: ", "", 1)
        return text

    def read_operations(self, text: str) -> Iterator[Change]:
        """Yield the operations with their lines and sources."""
        existing = {line.ref for line in self.request.existing}
        for operation in parse_operations(text):
            if operation.removes:
                refs = self._expand(operation.statement.spans)
                sources = tuple(ref for ref in refs if ref not in existing)
                yield Change(None, operation.targets, sources)
                continue
            for line in self.read([operation.statement]):
                yield Change(line, operation.targets, line.refs)

    def _expand(self, spans: Spans) -> list[int]:
        """Return the valid refs within spans, without duplicates."""
        refs = (ref for a, b in spans for ref in self._valid_refs if a <= ref <= b)
        return list(dict.fromkeys(refs))

    def _line_of(self, statement: Statement) -> ReplyLine:
        text, refs = statement.text, self._expand(statement.spans)
        if copied := self._find_copied(text):
            text, refs = copied[0], refs or [copied[1]]
        cites_all = len(self._valid_refs) > MAX_SOURCES and len(refs) == len(self._valid_refs)
        if cites_all or self.request.form is PromptForm.SIMPLE:
            refs = []  # refs to everything say nothing, and the simple form shows no numbers
        if not self.is_offline:
            text = self._without_additions(_without_marks(text))
        return ReplyLine(text, tuple(refs[:MAX_SOURCES]), statement.kind)

    def _without_additions(self, text: str) -> str:
        """Return a text without the model's own remark and, in the simple form, a message's time.

        A small model also puts names in backticks.
        """
        if self.request.form is PromptForm.SIMPLE:
            for author in self._finder.authors:
                text = text.replace(f"`{author}`", author)
            time = _TIME_AT_END.search(text)
            if time and not any(time[1] in source for source in self.request.source_texts):
                text = text[: time.start()] + text[time.end() :]
        comment = _COMMENT.search(text)
        if comment is None or self._finder.best_score(comment[0]) >= MIN_SCORE:
            return text
        return text[: comment.start()] + text[comment.end() :]

    def _find_copied(self, text: str) -> tuple[str, int] | None:
        """Return text and ref of a line that repeats a row of the prompt with its number."""
        number = re.match(r"L?(\d{1,6}) ", text)
        if not number:
            return None
        ref, words = int(number[1]), _without_marks(text[number.end() :])
        for row in self._prompt_rows(ref):
            if words and _without_marks(row.removeprefix(f"{ref} ")).startswith(words):
                return words, ref
        return None

    def _prompt_rows(self, ref: int) -> Iterator[str]:
        for line in self.request.memory_lines:
            if line.ref == ref:
                yield prompts.format_memory_line(line, self.request)
        if any(message.ref == ref for message in self.request.messages):
            rows = prompts.format_messages(self.request)
            yield from (row for row in rows if row.startswith(f"{ref} "))

    def _repeats_prompt(self, text: str) -> bool:
        """Return whether a line repeats the prompt more than its sources, or comments the reply."""
        words = significant_words(text) or frozenset(search_words(text))
        if not words:
            return False
        share = len(words & self._prompt_words) / len(words)
        score = self._finder.best_score(text)
        return (share >= _PROMPT_SHARE and score < share) or (
            score < 2 * MIN_SCORE and REMARK.match(text) is not None
        )


def _without_marks(text: str) -> str:
    """Return a row of a prompt without its mark, date and line number."""
    return _STAMP.sub("", _MARK.sub("", text))


def _merge_equal(lines: Iterable[ReplyLine]) -> Iterator[ReplyLine]:
    """Merge lines of equal text into one with the sources of all. Lines without text are dropped."""
    by_text: dict[str, ReplyLine] = {}
    for line in lines:
        if not line.text:
            continue
        key = unicodedata.normalize("NFKC", line.text).casefold()
        first = by_text.get(key, replace(line, refs=()))
        refs = tuple(dict.fromkeys(first.refs + line.refs))[:MAX_SOURCES]
        by_text[key] = replace(first, refs=refs)
    yield from by_text.values()
