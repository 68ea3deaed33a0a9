"""What a summariser's reply is worth (rule 8): lines with sources, nothing, or a named fault."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from memories.rules.generate import prompts
from memories.rules.generate.language import detect_language
from memories.rules.generate.prompt_texts import PERSON_MARK, TEXTS
from memories.rules.generate.reply_statements import (
    REMARK,
    Statement,
    is_nothing,
    parse_statements,
    split_refs,
    strip_thinking,
)
from memories.rules.generate.summariser import (
    MAX_SOURCES,
    OFFLINE,
    MemoryLine,
    ParsedReply,
    PromptForm,
    Reply,
    ReplyLine,
    Request,
)
from memories.rules.generate.tokens import estimate_tokens
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.kinds import kind_of
from memories.rules.memory.operations import (
    Change,
    DropReason,
    Operation,
    apply_operations,
    order_lines,
    parse_operations,
)
from memories.rules.memory.sources import ENOUGH, SourceFinder, significant_words, words_of
from memories.rules.memory.superseding import find_superseded


class Fault(StrEnum):
    """Why a reply is not saved."""

    LENGTH = "length"  # cut off at the token limit
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    UNKNOWN_FINISH = "unknown_finish"
    BLANK = "blank"
    PROMPT_ECHOED = "prompt_echoed"
    TOO_LONG = "too_long"
    TOO_SHORT = "too_short"
    WRONG_LANGUAGE = "wrong_language"
    NO_OPERATION = "no_operation"  # none of the changes that a merge asked for can be carried out
    NOTHING = "nothing"  # "nothing worth keeping", where messages say something (rule 8)
    NO_ROOM = "no_room"  # a reasoning model thought until the limit and said nothing


REFUSALS = frozenset({Fault.CONTENT_FILTER, Fault.REFUSAL})  # some of the input, or all of it
# The fault of a part stands for the finish of the whole.
_FINISH = {fault.value: fault for fault in Fault} | {"max_tokens": Fault.LENGTH}
_LONGER_THAN_ASKED = 3  # times the limit is not a summary any more
_SMALLEST_LIMIT = 40  # tokens: below it one honest line may be several times the limit
_MUCH = 1_000  # tokens of input that cannot come down to …
_NEXT_TO_NOTHING = 3  # … so few tokens
_OURS = 0.75  # of a line's words: a line made of the prompt's words states nothing
_KNOWN = 0.9  # of a new line's words: it stands in the existing memory already

_BULLET = re.compile(r"\s*(?:[-*•・–—]|\d{1,3}[.)])")
_REFUSAL = re.compile(
    r"(?:i(?:'|’)?m (?:very )?sorry|sorry, (?:but )?i|i can(?:no|'|’)t|i(?:'m| am) (?:unable|not able)|"
    r"as an ai|申し訳(?:ありません|ございません)|(?:要約|お答え|対応)(?:は|することは)?できません)",
    re.IGNORECASE,
)
_MARK = re.compile(rf"^(?:{PERSON_MARK}|{prompts.THREAD}[a-z]*) ")
_STAMP = re.compile(rf"^(?:L\d{{1,6}} )?(?:{PERSON_MARK} )?\[\d{{4}}-\d\d-\d\d(?: \d\d:\d\d)?\] ")


def parse_reply(reply: Reply, request: Request) -> ParsedReply:
    """Lines of a good reply with their sources; never raises, whatever the text is."""
    text = strip_thinking(prompts.visible_text(reply.text))
    if reply.finish_reason != "stop":
        finish = _FINISH.get(reply.finish_reason, Fault.UNKNOWN_FINISH)
        return ParsedReply(fault=Fault.NO_ROOM if finish is Fault.LENGTH and not text else finish)
    request = replace(request, form=PromptForm(reply.form))
    if not text:
        return ParsedReply(fault=Fault.BLANK)
    if is_nothing(text):
        return _nothing(reply, request)
    if request.uses_operations:
        return _read_changes(text, reply, request)
    if prompts.FENCE.search(text):
        return ParsedReply(fault=Fault.PROMPT_ECHOED)
    reader = _Reader(request, is_offline=reply.model == OFFLINE)
    found = parse_statements(text)
    lines = reader.lines(found)
    fault = _fault(text, found, lines, request)
    if not fault and reply.model != OFFLINE and _is_in_wrong_language(lines, request):
        fault = Fault.WRONG_LANGUAGE  # highlights speak as their sources do
    if fault:
        return ParsedReply(fault=fault)
    if reply.model == OFFLINE:
        return _read_highlights(lines, reply, request)
    if request.only_adds:
        return apply_operations(request, list(_additions(lines, request)), _says)
    if request.begins_text:
        return apply_operations(request, [Change(line, (), line.refs) for line in lines], _says)
    return ParsedReply(lines)


def _read_changes(text: str, reply: Reply, request: Request) -> ParsedReply:
    """The whole text after the operations of a reply. A fault where none of them is carried out,
    though what they say is not known yet."""
    if prompts.FENCE.search(text):
        return ParsedReply(fault=Fault.PROMPT_ECHOED)
    reader = _Reader(request, is_offline=reply.model == OFFLINE)
    if reply.model == OFFLINE:
        return _read_highlights(reader.lines(parse_statements(text)), reply, request)
    changes = list(reader.changes(parse_operations(text)))
    new = [change.line for change in changes if change.line is not None]
    fault = _fault(text, [], new, request) if new or not changes else None
    if not fault and _is_in_wrong_language(new, request):
        fault = Fault.WRONG_LANGUAGE
    if fault:
        return ParsedReply(fault=fault)
    reading = apply_operations(request, changes, _says)
    is_known = all(reason == DropReason.KNOWN for _, reason in reading.dropped)
    if not reading.lines or (len(reading.dropped) == len(changes) and not is_known):
        return ParsedReply(fault=Fault.NO_OPERATION)
    return reading


def _read_highlights(lines: Sequence[ReplyLine], reply: Reply, request: Request) -> ParsedReply:
    """What the offline summariser kept of all lines. What it left out is superseded, said by another
    line, or goes to the archive where a merge has one."""
    kept = {line.text for line in lines}
    known = {line.ref: prompts.to_one_line(line.text) for line in request.memory_lines}
    pairs = reply.superseded if request.additions else ()
    superseded = {old: known[new] for old, new in pairs}
    gone = [
        line
        for line in (request.existing if request.uses_operations else ())
        if line.text not in kept and not line.by_person
    ]
    for old in gone:
        repeats = [line.text for line in lines if _says(line.text, old.text)]
        if repeats:
            superseded.setdefault(old.ref, repeats[0])
    archived = [
        ReplyLine(line.text, (line.ref,), line.kind) for line in gone if line.ref not in superseded
    ]
    return ParsedReply(
        lines,
        superseded=superseded,
        archived=tuple(archived),
        is_of_operations=request.uses_operations,
    )


def _says(text: str, other: str) -> bool:
    """Whether nine of ten words of the other text, and all of its figures, stand in this one."""
    words = frozenset(words_of(other))
    shared = words & frozenset(words_of(text))
    figures = {word for word in words if any(map(str.isdigit, word))}
    return len(shared) >= _KNOWN * len(words) and figures <= shared


def _nothing(reply: Reply, request: Request) -> ParsedReply:
    """The answer that there is nothing to keep: true where code agrees, or where each message was
    refused; a merge by operations keeps its text then, any other merge must say something."""
    if request.uses_operations:
        return apply_operations(request, [], _says)
    is_short = request.memory_type is MemoryType.SHORT_TERM
    is_right = prompts.may_keep_nothing(request) or (
        is_short and (reply.model == OFFLINE or bool(reply.left_out))
    )
    return ParsedReply(nothing=True) if is_right else ParsedReply(fault=Fault.NOTHING)


def format_content(lines: Iterable[ReplyLine]) -> str:
    """The lines as a memory's text: one ``- text`` each, without references."""
    return "\n".join(f"- {line.text}" for line in lines)


def format_with_refs(lines: Iterable[ReplyLine]) -> str:
    """The lines as a summariser writes them: ``- text [3, 7]`` each."""
    rows = []
    for line in lines:
        kind = f"{line.kind}: " if line.kind else ""
        refs = f" [{', '.join(map(str, line.refs))}]" if line.refs else ""
        rows.append(f"- {kind}{line.text}{refs}")
    return "\n".join(rows)


def _fault(
    text: str, found: Sequence[Statement], lines: Sequence[ReplyLine], request: Request
) -> Fault | None:
    if found and not lines:
        return Fault.PROMPT_ECHOED  # all of it is ours
    if not any(character.isalnum() for line in lines for character in line.text):
        return Fault.BLANK
    if _is_refusal(text, lines):
        return Fault.REFUSAL
    # A merge repeats what people wrote, however long that is.
    kept = sum(estimate_tokens(line.text) for line in request.existing if line.by_person)
    size = estimate_tokens(text)
    if size > _LONGER_THAN_ASKED * max(request.max_tokens, _SMALLEST_LIMIT) + kept:
        return Fault.TOO_LONG
    if size <= _NEXT_TO_NOTHING and _input_tokens(request) >= _MUCH:
        return Fault.TOO_SHORT
    return None


def _is_refusal(text: str, lines: Sequence[ReplyLine]) -> bool:
    """An apology where a list was asked for. Only at the start: members apologise in messages."""
    plain = not _BULLET.match(text) and not any(line.refs for line in lines)
    return plain and len(lines) <= 2 and bool(_REFUSAL.match(text))


def _is_in_wrong_language(lines: Sequence[ReplyLine], request: Request) -> bool:
    """Clearly in another language than was asked for, or than its sources clearly are in. What a
    person wrote is repeated word for word and proves nothing."""
    people = {line.text for line in request.existing if line.by_person}
    spoken = detect_language([line.text for line in lines if line.text not in people])
    if spoken is None or spoken == request.language:
        return False
    if request.language != "conversation":
        return True
    return detect_language(list(_inputs(request))) not in (None, spoken)


def _input_tokens(request: Request) -> int:
    return sum(map(estimate_tokens, _sources(request)))


def _sources(request: Request) -> Iterator[str]:
    yield from _inputs(request)
    yield from (reference.text for reference in request.references)


def _inputs(request: Request) -> Iterator[str]:
    yield from (message.text for message in request.messages)
    yield from (line.text for line in request.existing)
    yield from (line.text for addition in request.additions for line in addition.lines)


@dataclass(frozen=True)
class _Reader:
    """Makes lines of a reply's statements. ``is_offline``: the offline summariser wrote it, so the
    sources are right as they are."""

    request: Request
    is_offline: bool

    @cached_property
    def _finder(self) -> SourceFinder:
        return SourceFinder.of(self.request)

    @cached_property
    def _our_words(self) -> frozenset[str]:
        texts = TEXTS[prompts.instruction_language(self.request)].values()
        return frozenset(words_of(prompts.fill_limits(" ".join(texts), self.request)))

    @cached_property
    def _known_lines(self) -> dict[int, MemoryLine]:
        return {line.ref: line for line in self.request.memory_lines}

    @cached_property
    def _known(self) -> list[int]:
        return _refs(self.request)

    def lines(self, found: Sequence[Statement]) -> tuple[ReplyLine, ...]:
        """One line for each thing that is said, with its kind and sources."""
        if self.is_offline:
            highlights = [*map(self._highlight, _merged(map(self._line, found)))]
            return tuple(order_lines(highlights, lambda line: 0))  # they stand in the order of time
        said = (self._line(statement) for statement in found)
        merged = _merged(line for line in said if not self._is_ours(line.text))
        return tuple(self._traced(line) for line in merged)

    def _highlight(self, line: ReplyLine) -> ReplyLine:
        """A line of the offline summariser: one of a memory stays as it is, with its kind."""
        known = self._known_lines.get(line.refs[0]) if line.refs else None
        if known is None:
            return replace(line, kind=kind_of(line.text))
        return replace(
            line, text=prompts.to_one_line(known.text), kind=known.kind or kind_of(known.text)
        )

    def changes(self, operations: Iterable[Operation]) -> Iterator[Change]:
        """The operations with their lines and sources. Rows that state nothing are left out."""
        own = {line.ref for line in self.request.existing}
        for operation in operations:
            if operation.removes:
                _, spans = split_refs(operation.text)
                refs = [n for first, last in spans for n in self._known if first <= n <= last]
                yield Change(None, operation.targets, tuple(n for n in refs if n not in own))
                continue
            bullet = f"- {operation.text}" if operation.targets else operation.text
            for line in self.lines(parse_statements(bullet)):
                yield Change(line, operation.targets, line.refs)

    def _line(self, statement: Statement) -> ReplyLine:
        text, known = statement.text, self._known
        refs = list(
            dict.fromkeys(n for first, last in statement.spans for n in known if first <= n <= last)
        )
        if copied := self._copied(text):
            text, refs = copied[0], refs or [copied[1]]
        if len(known) > MAX_SOURCES and set(known) <= set(refs):
            refs = []  # a whole segment says no more than no reference
        if self.request.form is PromptForm.SIMPLE:
            refs = []  # it was shown no numbers
        if not self.is_offline:
            text = _without_marks(text)
        return ReplyLine(text, tuple(refs[:MAX_SOURCES]), statement.kind)

    def _copied(self, text: str) -> tuple[str, int] | None:
        """A line that came back as it was sent, number in front: its text, and the number as its
        ref."""
        number = re.match(r"L?(\d{1,6}) ", text)
        if not number:
            return None
        ref, said = int(number[1]), _without_marks(text[number.end() :])
        for line in _sent(self.request, ref):
            if said and _without_marks(line.removeprefix(f"{ref} ")).startswith(said):
                return said, ref
        return None

    def _is_ours(self, text: str) -> bool:
        """Whether a line is made of the prompt's words and says less of the messages than of it, or
        is a remark about the answer itself."""
        words = significant_words(text) or frozenset(words_of(text))
        if not words:
            return False
        share = len(words & self._our_words) / len(words)
        said = self._finder.best(text)
        return (share >= _OURS and said < share) or (
            said < 2 * ENOUGH and REMARK.match(text) is not None
        )

    def _traced(self, line: ReplyLine) -> ReplyLine:
        return replace(self._finder.trace(line), kind=line.kind or kind_of(line.text))


def _additions(lines: Iterable[ReplyLine], request: Request) -> Iterator[Change]:
    """New lines as changes. Which lines they supersede is found by code."""
    at_us = {line.ref: line.at_us for added in request.additions for line in added.lines}
    old = {line.ref: line for line in request.existing if not line.by_person}
    for line in lines:
        newest = max((at_us.get(ref, 0) for ref in line.refs), default=0)
        targets = find_superseded(line.text, newest, list(old.values()))
        if any(_says(old[ref].text, line.text) for ref in targets):
            targets = []  # it says no more
        yield Change(line, tuple(targets), line.refs)
        for ref in targets:
            del old[ref]


def _without_marks(text: str) -> str:
    """A line as a prompt shows it, without what stands in front of its words."""
    return _STAMP.sub("", _MARK.sub("", text))


def _sent(request: Request, ref: int) -> Iterator[str]:
    yield from (
        prompts.format_memory_line(line, request)
        for line in request.memory_lines
        if line.ref == ref
    )
    if any(message.ref == ref for message in request.messages):
        yield from (line for line in prompts.format_messages(request) if line.startswith(f"{ref} "))


def _refs(request: Request) -> list[int]:
    refs = {m.ref for m in request.messages} | {line.ref for line in request.memory_lines}
    return sorted(refs)


def _merged(lines: Iterable[ReplyLine]) -> Iterator[ReplyLine]:
    """Lines that say the same become one, with the sources of all."""
    by_text: dict[str, ReplyLine] = {}
    for line in lines:
        if not line.text:
            continue
        key = unicodedata.normalize("NFKC", line.text).casefold()
        first = by_text.get(key, replace(line, refs=()))
        refs = tuple(dict.fromkeys(first.refs + line.refs))[:MAX_SOURCES]
        by_text[key] = replace(first, refs=refs)
    yield from by_text.values()
