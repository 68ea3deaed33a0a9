"""Parse a summariser's reply into lines with sources, or name its fault (rule 8)."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from memories.rules.generate import prompts
from memories.rules.generate.faults import Fault
from memories.rules.generate.line_choice import (
    forgotten_lines,
    forgotten_marked_lines,
    most_salient,
)
from memories.rules.generate.prompt_texts import PERSON_MARK, TEXTS
from memories.rules.generate.reply_operations import parse_operations
from memories.rules.generate.reply_statements import (
    REMARK,
    Spans,
    Statement,
    parse_statements,
    says_nothing,
    strip_thinking,
)
from memories.rules.language import detect_language
from memories.rules.memory.kinds import kind_of
from memories.rules.memory.operations import (
    Change,
    DropReason,
    apply_additions,
    apply_operations,
    order_lines,
)
from memories.rules.memory.sources import MIN_SCORE, SourceFinder, search_words, significant_words
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
from memories.rules.tokens import estimate_tokens

# `llm.request_runner` puts the fault of a part in the place of the finish reason.
_FAULT_OF_FINISH = {fault.value: fault for fault in Fault} | {"max_tokens": Fault.LENGTH}
_TOO_LONG = 3  # times the token limit
_SMALLEST_LIMIT = 40  # tokens: one valid line may be several times a lower limit
_LONG_INPUT = 1_000  # tokens: such an input needs more than …
_SHORTEST_REPLY = 3  # … so many tokens
_PROMPT_SHARE = 0.75  # of a line's words: the line repeats the prompt
_REPEATED_SHARE = 0.9  # of a new line's words: the line repeats an existing one
_TEXTS = 5_000  # whose words a process keeps: each new line is compared with the same lines

_BULLET = re.compile(r"\s*(?:[-*•・–—]|\d{1,3}[.)])")
_REFUSAL = re.compile(
    r"(?:i(?:'|’)?m (?:very )?sorry|sorry, (?:but )?i|i can(?:no|'|’)t|i(?:'m| am) (?:unable|not able)|"
    r"as an ai|申し訳(?:ありません|ございません)|(?:要約|お答え|対応)(?:は|することは)?できません)",
    re.IGNORECASE,
)
# A remark of the model at the end of a sentence.
_COMMENT = re.compile(
    r",\s(?:which |thus |thereby )?(?:indicat|suggest|highlight|demonstrat|reflect|emphasi[sz]|underscor|showcas|impl[iy]|signall?)"
    r"(?:es|s|ing|ying)\b[^.]*(?=\.?$)",
    re.IGNORECASE,
)
_MARK = re.compile(rf"^(?:{PERSON_MARK}|{prompts.THREAD}[a-z]*) ")
_STAMP = re.compile(rf"^(?:L\d{{1,6}} )?(?:{PERSON_MARK} )?\[\d{{4}}-\d\d-\d\d(?: \d\d:\d\d)?\] ")


def parse_reply(reply: Reply, request: Request) -> ParsedReply:
    """Return the lines of a reply with their sources, or its fault; never raise."""
    text = readable_text(reply)
    if reply.finish_reason != "stop":
        finish = _FAULT_OF_FINISH.get(reply.finish_reason, Fault.UNKNOWN_FINISH)
        return ParsedReply(fault=Fault.NO_ROOM if finish is Fault.LENGTH and not text else finish)
    if not text:
        return ParsedReply(fault=Fault.BLANK)
    request = replace(request, form=PromptForm(reply.form))
    if says_nothing(text):
        return _parse_nothing(reply, request)
    if prompts.FENCE.search(text):
        return ParsedReply(fault=Fault.PROMPT_ECHOED)
    is_offline = reply.model == OFFLINE
    reader = _LineReader(request, is_offline)
    if request.uses_operations and not is_offline:
        return _parse_operations(text, reader, reply)
    statements = parse_statements(text)
    lines = reader.read(statements)
    if request.uses_operations:
        return _parse_highlights(lines, reply, request)
    calls = reply.calls if request.only_adds else 1
    if fault := _find_fault(text, lines, request, calls=calls, has_statements=bool(statements)):
        return ParsedReply(fault=fault)
    if is_offline:
        return _parse_highlights(lines, reply, request)
    if _is_in_wrong_language(lines, request):
        return ParsedReply(fault=Fault.WRONG_LANGUAGE)
    if request.only_adds:
        lines = (*lines, *_unrepeated_forgotten_lines(lines, request))
        return apply_additions(request, lines, _repeats)
    if request.form is PromptForm.SIMPLE:
        lines = (*lines, *forgotten_marked_lines(lines, request))
    if not request.begins_text:
        return ParsedReply(most_salient(lines, request.max_lines))
    if request.form is PromptForm.SIMPLE:
        return apply_additions(request, lines, _repeats)
    return apply_operations(request, [Change(line, (), line.refs) for line in lines], _repeats)


def readable_text(reply: Reply) -> str:
    """Return the text of a reply without its thinking and invisible characters."""
    return strip_thinking(prompts.visible_text(reply.text))


def _unrepeated_forgotten_lines(
    lines: Sequence[ReplyLine], request: Request
) -> Iterator[ReplyLine]:
    """Yield the lasting lines to add that no line of the reply rests on or repeats."""
    for forgotten in forgotten_lines(lines, request):
        if not any(_repeats(line.text, forgotten.text) for line in lines):
            yield forgotten


def _parse_operations(text: str, reader: "_LineReader", reply: Reply) -> ParsedReply:
    """Return the whole text after the operations of a reply.

    A reply of which no operation applies is a fault, unless the text already contains all of them.
    """
    request = reader.request
    changes = list(reader.read_operations(text))
    new_lines = [change.line for change in changes if change.line is not None]
    if new_lines or not changes:
        if fault := _find_fault(text, new_lines, request, calls=reply.calls):
            return ParsedReply(fault=fault)
        if _is_in_wrong_language(new_lines, request):
            return ParsedReply(fault=Fault.WRONG_LANGUAGE)
    parsed = apply_operations(request, changes, _repeats)
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
        if repetition := next((line for line in lines if _repeats(line.text, old.text)), None):
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


def _repeats(text: str, earlier: str) -> bool:
    """Return whether a text contains nine of ten words, and all figures, of an earlier text."""
    words = _words_of(earlier)
    shared = words & _words_of(text)
    figures = {word for word in words if any(map(str.isdigit, word))}
    return len(shared) >= _REPEATED_SHARE * len(words) and figures <= shared


@lru_cache(maxsize=_TEXTS)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(search_words(text))


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
        return apply_operations(request, [], _repeats)
    if request.only_adds:
        return apply_additions(request, forgotten_lines((), request), _repeats)
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


def _find_fault(
    text: str,
    lines: Sequence[ReplyLine],
    request: Request,
    *,
    calls: int,
    has_statements: bool = False,
) -> Fault | None:
    """Return why the text or its lines are a bad reply.

    ``calls``: how many replies the text joins.
    """
    if has_statements and not lines:
        return Fault.PROMPT_ECHOED  # each statement repeats the prompt
    if not any(character.isalnum() for line in lines for character in line.text):
        return Fault.BLANK
    # Only at the start: a message may contain an apology.
    is_plain = not _BULLET.match(text) and not any(line.refs for line in lines)
    if is_plain and len(lines) <= 2 and _REFUSAL.match(text):
        return Fault.REFUSAL
    # A merge repeats the lines of people, whatever their length.
    repeated = sum(estimate_tokens(line.text) for line in request.existing if line.by_person)
    size = estimate_tokens(text)
    limit = _TOO_LONG * max(calls, 1) * max(request.max_tokens, _SMALLEST_LIMIT)
    if size > limit + repeated:
        return Fault.TOO_LONG
    inputs = [*request.source_texts, *(reference.text for reference in request.references)]
    if size <= _SHORTEST_REPLY and sum(map(estimate_tokens, inputs)) >= _LONG_INPUT:
        return Fault.TOO_SHORT
    return None


def _is_in_wrong_language(lines: Sequence[ReplyLine], request: Request) -> bool:
    """Return whether lines are clearly not in the requested language, or not in their sources' one.

    Lines of people are repeated word for word and do not count.
    """
    by_person = {line.text for line in request.existing if line.by_person}
    language = detect_language([line.text for line in lines if line.text not in by_person])
    if language is None or language == request.language:
        return False
    if request.language != "conversation":
        return True
    return detect_language(request.source_texts) not in (None, language)


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
        if self.request.form is PromptForm.SIMPLE and any(line.refs for line in sourced):
            # A weak model invents what no message says.
            sourced = [x for x in sourced if x.refs or not self._finder.has_script_of(x.text)]
        return tuple(replace(line, kind=line.kind or kind_of(line.text)) for line in sourced)

    def _highlight(self, line: ReplyLine) -> ReplyLine:
        """Return a line of the offline summariser. A line of a memory keeps its text and kind."""
        memory_line = self._memory_lines.get(line.refs[0]) if line.refs else None
        if memory_line is None:
            return replace(line, kind=kind_of(line.text))
        text = prompts.to_one_line(memory_line.text)
        unverified = (text,) if memory_line.unverified else ()
        return replace(
            line, text=text, kind=memory_line.kind or kind_of(text), unverified=unverified
        )

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
            text = self._without_comment(_without_marks(text))
        return ReplyLine(text, tuple(refs[:MAX_SOURCES]), statement.kind)

    def _without_comment(self, text: str) -> str:
        """Return a text without the model's own remark at its end."""
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
