"""What a summariser's reply is worth (rule 8): lines with sources, nothing, or a named fault."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from memories.rules import prompts
from memories.rules.language import clear_language
from memories.rules.memory import MemoryType
from memories.rules.prompt_texts import PERSON
from memories.rules.summary import (
    MOST_SOURCES,
    NOTHING,
    OFFLINE,
    Reading,
    ReadLine,
    Reply,
    Request,
)
from memories.rules.tokens import estimate


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


REFUSED = frozenset({Fault.CONTENT_FILTER, Fault.REFUSAL})  # some of the input, or all of it
# The fault of a part stands for the finish of the whole.
_FINISH = {fault.value: fault for fault in Fault} | {"max_tokens": Fault.LENGTH}
_LONGER_THAN_ASKED = 3  # times the limit is not a summary any more
_SMALLEST_LIMIT = 40  # tokens: below it one honest line may be several times the limit
_MUCH = 1_000  # tokens of input that cannot come down to …
_NEXT_TO_NOTHING = 3  # … so few tokens
_MOST_BRACKETS = 20  # at the end of one line
_OWN_WORDS = 25  # characters of one of our sentences that make an echo

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_BULLET = re.compile(r"\s*(?:[-*•‣◦・–—]\s+|[・•]|-(?=[^\s\d\-])|\d{1,3}[.)]\s+)")
_NOT_A_LINE = re.compile(r"\s*(?:#{1,6}\s.*|```.*|[-*_=\s]*)")
_BRACKET = re.compile(r"\s?[\[［]([^\[\]［］]{1,200})[\]］]\s?[,、]?$")
_NUMBERS = re.compile(r"\s*(?:refs?\b\s*:?)?[\s\d,、;#~〜–\-]*", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d?(?:-\d\d?)?")
_RANGE = re.compile(r"(\d{1,9})(?:\s*[~〜–\-]\s*#?(\d{1,9}))?")
_REFUSAL = re.compile(
    r"(?:i(?:'|’)?m (?:very )?sorry|sorry, (?:but )?i|i can(?:no|'|’)t|i(?:'m| am) (?:unable|not able)|"
    r"as an ai|申し訳(?:ありません|ございません)|(?:要約|お答え|対応)(?:は|することは)?できません)",
    re.IGNORECASE,
)
_MARK = re.compile(rf"^(?:{PERSON}|{prompts.THREAD}[a-z]*) ")
_SENTENCES = re.compile(r"[\n。]|(?<=[.:])\s")


def read_reply(reply: Reply, request: Request) -> Reading:
    """Lines of a good reply with the refs they cite; never raises, whatever the text is."""
    if reply.finish_reason != "stop":
        return Reading(fault=_FINISH.get(reply.finish_reason, Fault.UNKNOWN_FINISH))
    text = _THINKING.sub("", prompts.visible(reply.text)).strip()
    if not text:
        return Reading(fault=Fault.BLANK)
    if _is_nothing(text):
        short = request.memory_type is MemoryType.SHORT_TERM
        return Reading(nothing=True) if short else Reading(fault=Fault.BLANK)
    lines = tuple(_merged(_read_line(line, request) for line in _statements(text)))
    fault = _fault(text, lines, request)
    if not fault and reply.model != OFFLINE and _is_in_wrong_language(lines, request):
        fault = Fault.WRONG_LANGUAGE  # an extract speaks as its sources do
    return Reading(fault=fault) if fault else Reading(lines)


def content(lines: Iterable[ReadLine]) -> str:
    """The lines as a memory's text: one ``- text`` each, without references."""
    return "\n".join(f"- {line.text}" for line in lines)


def with_refs(lines: Iterable[ReadLine]) -> str:
    """The lines as a summariser writes them: ``- text [3, 7]`` each."""
    return "\n".join(
        f"- {line.text} [{', '.join(map(str, line.refs))}]" if line.refs else f"- {line.text}"
        for line in lines
    )


def _fault(text: str, lines: Sequence[ReadLine], request: Request) -> Fault | None:
    if not any(character.isalnum() for line in lines for character in line.text):
        return Fault.BLANK
    if _is_refusal(text, lines):
        return Fault.REFUSAL
    if _echoes(text, request):
        return Fault.PROMPT_ECHOED
    # A merge repeats what people wrote, however long that is.
    kept = sum(estimate(line.text) for line in request.existing if line.by_person)
    size = estimate(text)
    if size > _LONGER_THAN_ASKED * max(request.max_tokens, _SMALLEST_LIMIT) + kept:
        return Fault.TOO_LONG
    if size <= _NEXT_TO_NOTHING and _input_tokens(request) >= _MUCH:
        return Fault.TOO_SHORT
    return None


def _is_nothing(text: str) -> bool:
    return re.sub(r"[\W_]+", "", text).upper() == NOTHING


def _is_refusal(text: str, lines: Sequence[ReadLine]) -> bool:
    """An apology where a list was asked for. Only at the start: members apologise in messages."""
    plain = not _BULLET.match(text) and not any(line.refs for line in lines)
    return plain and len(lines) <= 2 and bool(_REFUSAL.match(text))


def _echoes(text: str, request: Request) -> bool:
    """Whether our fences or one of our sentences came back. Our sentences may also stand in a
    message (of a team that talks about its prompts): then they prove nothing."""
    if prompts.FENCE.search(text):
        return True
    own = _SENTENCES.split(prompts.system_text(request))
    echoed = [s for s in map(str.strip, own) if len(s) >= _OWN_WORDS and s in text]
    return bool(echoed) and not any(
        sentence in prompts.visible(source) for sentence in echoed for source in _sources(request)
    )


def _is_in_wrong_language(lines: Sequence[ReadLine], request: Request) -> bool:
    """Clearly in another language than was asked for, or than its sources clearly are in. What a
    person wrote is repeated word for word and proves nothing."""
    people = {line.text for line in request.existing if line.by_person}
    spoken = clear_language([line.text for line in lines if line.text not in people])
    if spoken is None or spoken == request.language:
        return False
    if request.language != "conversation":
        return True
    return clear_language(list(_inputs(request))) not in (None, spoken)


def _input_tokens(request: Request) -> int:
    return sum(map(estimate, _sources(request)))


def _sources(request: Request) -> Iterator[str]:
    yield from _inputs(request)
    yield from (reference.text for reference in request.references)


def _inputs(request: Request) -> Iterator[str]:
    yield from (message.text for message in request.messages)
    yield from (line.text for line in request.existing)
    yield from (line.text for addition in request.additions for line in addition.lines)


def _statements(text: str) -> list[str]:
    """The bullets of a list; an indented line goes on with the bullet before it. Headings, fences
    and the words before a list are no statements. Text without bullets: each of its lines."""
    rows = [row for row in text.split("\n") if not _NOT_A_LINE.fullmatch(row)]
    bulleted = any(_BULLET.match(row) for row in rows)
    statements: list[str] = []
    for row in rows:
        if bullet := _BULLET.match(row):
            statements.append(row[bullet.end() :])
        elif bulleted and statements and row[:1].isspace():
            statements[-1] += f" {row.strip()}"
        elif not (bulleted and row.rstrip().endswith((":", "："))):
            statements.append(row)
    return [s.strip() for s in statements if s.strip() and not _is_nothing(s)]


def _read_line(statement: str, request: Request) -> ReadLine:
    known = _known(request)
    text, refs = _without_refs(re.sub(r"\s+", " ", statement), known)
    if copied := _copied(text, request):
        text, refs = copied[0], refs or [copied[1]]
    if len(known) > MOST_SOURCES and set(known) <= set(refs):
        refs = []  # a whole segment says no more than no reference
    return ReadLine(text, tuple(refs[:MOST_SOURCES]))


def _without_refs(text: str, known: Sequence[int]) -> tuple[str, list[int]]:
    """The text before its closing brackets, and the known numbers in them in their order."""
    body = text.rstrip()
    stop = body[-1:] if body[-2:-1] in ("]", "］") and body[-1:] in (".", "。") else ""
    body = body.removesuffix(stop)
    brackets: list[str] = []
    while (
        len(brackets) < _MOST_BRACKETS
        and (found := _BRACKET.search(body))
        and _are_numbers(inside := unicodedata.normalize("NFKC", found[1]))
    ):
        brackets.insert(0, inside)
        body = body[: found.start()]
        if found[0].startswith(" ") and not body.endswith((",", "、")):
            break  # "[3][7]" and "[3], [7]" are two; in "note [3] [7]" the first is the line's own
    if not brackets:
        return text.strip(), []
    spans = [(int(a), int(b or a)) for inside in brackets for a, b in _RANGE.findall(inside)]
    cited = (n for first, last in spans for n in known if first <= n <= last)
    return (body + stop).strip(), list(dict.fromkeys(cited))


def _are_numbers(inside: str) -> bool:
    digits = any(character.isdigit() for character in inside)
    return digits and bool(_NUMBERS.fullmatch(inside)) and not _DATE.fullmatch(inside.strip())


def _copied(text: str, request: Request) -> tuple[str, int] | None:
    """A line that came back as it was sent, number in front: its text, and the number as its ref."""
    number = re.match(r"(\d{1,6}) ", text)
    if not number:
        return None
    ref = int(number[1])
    for line in _sent(request, ref):
        if line.startswith(text) and text != number[0].strip():
            return _MARK.sub("", text[number.end() :]), ref
    return None


def _sent(request: Request, ref: int) -> Iterator[str]:
    groups = [request.existing, *(addition.lines for addition in request.additions)]
    yield from (prompts.memory_line(line) for group in groups for line in group if line.ref == ref)
    if any(message.ref == ref for message in request.messages):
        yield from (line for line in prompts.message_lines(request) if line.startswith(f"{ref} "))


def _known(request: Request) -> list[int]:
    groups = [request.existing, *(addition.lines for addition in request.additions)]
    refs = {m.ref for m in request.messages} | {line.ref for group in groups for line in group}
    return sorted(refs)


def _merged(lines: Iterable[ReadLine]) -> Iterator[ReadLine]:
    """Lines that say the same become one, with the sources of all."""
    by_text: dict[str, ReadLine] = {}
    for line in lines:
        if not line.text:
            continue
        key = unicodedata.normalize("NFKC", line.text).casefold()
        first = by_text.get(key, ReadLine(line.text))
        refs = tuple(dict.fromkeys(first.refs + line.refs))[:MOST_SOURCES]
        by_text[key] = ReadLine(first.text, refs)
    yield from by_text.values()
