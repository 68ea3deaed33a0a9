"""A long request in two halves, and the request that combines what they gave (rule 11)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from memories.rules.generate.prompts import split_text
from memories.rules.generate.summary import (
    MOST_SOURCES,
    Addition,
    MemoryLine,
    MessageLine,
    ParsedReply,
    ReadLine,
    Request,
)
from memories.rules.generate.tokens import estimate
from memories.rules.memory.identity import MemoryType

_SHORTEST_CUT = 3_000  # characters: a shorter message stays whole

T = TypeVar("T")


def halves(request: Request) -> tuple[Request, ...]:
    """Two requests of about the same length in the order of time, each with the references; ()
    when there is nothing to cut. A memory that is carried on goes with the earlier half."""
    if request.messages:
        messages = request.messages
        if len(messages) == 1:
            messages = _message_halves(messages[0])
        cut = _cut(messages, lambda m: estimate(m.text) + estimate(m.author) + 8)
        first, second = messages[:cut], messages[cut:]
        if not first:
            return ()
        return (replace(request, messages=first), replace(request, messages=second, existing=()))
    return _merge_halves(request)


def _message_halves(message: MessageLine) -> list[MessageLine]:
    """A long message as two of the same speaker, time and number."""
    if len(message.text) <= _SHORTEST_CUT:
        return [message]
    first, *_ = split_text(message.text, (len(message.text) + 1) // 2)
    return [replace(message, text=first), replace(message, text=message.text[len(first) :])]


def combination(request: Request, readings: Sequence[ParsedReply]) -> Request:
    """The request that makes one memory of the halves' lines, which are numbered anew."""
    numbers = iter(range(1, 1 + sum(len(reading.lines) for reading in readings)))
    people = {line.text for line in request.existing if line.by_person}
    parts = [
        [MemoryLine(next(numbers), line.text, line.text in people) for line in reading.lines]
        for reading in readings
    ]
    if request.memory_type is MemoryType.LONG_TERM:
        existing, added = parts[0], parts[1:]
    else:
        existing, added = [], parts
    return replace(
        request,
        messages=(),
        existing=existing,
        additions=[Addition(f"part {n}", lines) for n, lines in enumerate(added, 1)],
    )


def restored(reading: ParsedReply, parts: Sequence[ParsedReply]) -> Iterator[ReadLine]:
    """The combined lines with the references that the lines they cite had in the whole request."""
    sources = [line.refs for part in parts for line in part.lines]
    for line in reading.lines:
        refs = dict.fromkeys(ref for number in line.refs for ref in sources[number - 1])
        yield replace(line, refs=tuple(refs)[:MOST_SOURCES])


def _merge_halves(request: Request) -> tuple[Request, ...]:
    """All lines in their order, cut in two; what was existing or added stays so."""
    lines = [(None, line) for line in request.existing] + [
        (number, line) for number, added in enumerate(request.additions) for line in added.lines
    ]
    cut = _cut(lines, lambda pair: estimate(pair[1].text) + 2)
    first, second = lines[:cut], lines[cut:]
    if not first or not any(number is not None for number, _ in second):
        return ()

    def part(pairs: Sequence[tuple[int | None, MemoryLine]]) -> Request:
        additions = [
            Addition(added.title, [line for place, line in pairs if place == number])
            for number, added in enumerate(request.additions)
        ]
        return replace(
            request,
            existing=[line for place, line in pairs if place is None],
            additions=[added for added in additions if added.lines],
        )

    return part(first), part(second)


def _cut(items: Sequence[T], size: Callable[[T], int]) -> int:
    """Where the items are nearest to half of their whole size; 0 when they cannot be cut."""
    half, so_far = sum(map(size, items)) / 2, 0
    for index, item in enumerate(items):
        so_far += size(item)
        if so_far >= half:
            return min(index + 1, len(items) - 1)
    return 0
