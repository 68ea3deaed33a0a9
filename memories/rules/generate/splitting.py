"""Split a long request, combine its parts, and bound the tokens of all calls (rule 11).

`upper_bound` counts the calls that `llm.request_runner` makes. The runner refuses a combination that is
longer than its bound.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from typing import NamedTuple, TypeVar

from memories.rules.generate import prompts
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import (
    MAX_SOURCES,
    Addition,
    MemoryLine,
    ParsedReply,
    ReplyLine,
    Request,
    RequestStrategy,
    Usage,
)
from memories.rules.tokens import estimate_tokens

MERGE_LIMIT = 12_000  # tokens of short-term versions that one merge takes in
INPUT_LIMIT = 24_000  # estimated prompt tokens; a longer request is split and combined (rule 11)
MAX_HALVINGS = 3  # for an endpoint with a shorter context: parts of an eighth at most
MAX_CALLS = 16  # of an isolating run, its combination included
_MAX_PART_RATIO = 2  # times the limit: valid replies exceed it by our estimate, but not by more
_MIN_PART_TOKENS = 40
_LINE_OVERHEAD = 3  # tokens: the number of a line, a mark, the line break
_MIN_SPLIT_LENGTH = 3_000  # characters: a shorter message stays whole

T = TypeVar("T")


def split_request(request: Request) -> tuple[Request, ...]:
    """Split a request into two of about the same length, in order of time.

    Both get the references. The existing memory goes with the earlier half. A long message becomes two of
    the same author, time and ref. Returns () when there is nothing to split.
    """
    if not request.messages:
        return _split_merge(request)
    messages = request.messages
    if len(messages) == 1 and len(text := messages[0].text) > _MIN_SPLIT_LENGTH:
        first, *_ = prompts.split_long_text(text, (len(text) + 1) // 2)
        messages = [replace(messages[0], text=part) for part in (first, text[len(first) :])]
    middle = _find_middle(
        messages, lambda m: estimate_tokens(m.text) + estimate_tokens(m.author) + 8
    )
    if not middle:
        return ()
    return (
        replace(request, messages=messages[:middle]),
        replace(request, messages=messages[middle:], existing=()),
    )


def _split_merge(request: Request) -> tuple[Request, ...]:
    """Split all lines of a merge in two. Existing lines stay existing, added lines stay added."""
    lines = [(None, line) for line in request.existing] + [
        (number, line) for number, added in enumerate(request.additions) for line in added.lines
    ]
    middle = _find_middle(lines, lambda pair: estimate_tokens(pair[1].text) + 2)
    first, second = lines[:middle], lines[middle:]
    if not first or all(number is None for number, _ in second):
        return ()

    def build_half(pairs: Sequence[tuple[int | None, MemoryLine]]) -> Request:
        additions = [
            Addition(added.title, [line for n, line in pairs if n == number])
            for number, added in enumerate(request.additions)
        ]
        return replace(
            request,
            existing=[line for n, line in pairs if n is None],
            additions=[added for added in additions if added.lines],
        )

    return build_half(first), build_half(second)


def _find_middle(items: Sequence[T], size: Callable[[T], int]) -> int:
    """Return the index nearest to half of the total size; 0 for fewer than two items."""
    half, so_far = sum(map(size, items)) / 2, 0
    for index, item in enumerate(items):
        so_far += size(item)
        if so_far >= half:
            return min(index + 1, len(items) - 1)
    return 0


def build_combination(request: Request, parts: Sequence[ParsedReply]) -> Request:
    """Build the request that makes one memory of the parts' lines. The lines are numbered anew."""
    numbers = iter(range(1, 1 + sum(len(part.lines) for part in parts)))
    by_person = {line.text for line in request.existing if line.by_person}
    groups = [
        [MemoryLine(next(numbers), line.text, line.text in by_person) for line in part.lines]
        for part in parts
    ]
    is_merge = request.memory_type is MemoryType.LONG_TERM
    return replace(
        request,
        messages=(),
        existing=groups[0] if is_merge else [],
        additions=[
            Addition(f"part {n}", lines)
            for n, lines in enumerate(groups[1:] if is_merge else groups, 1)
        ],
    )


def restore_refs(combined: ParsedReply, parts: Sequence[ParsedReply]) -> Iterator[ReplyLine]:
    """Yield the combined lines with the refs of the whole request in place of the new numbers."""
    sources = [line.refs for part in parts for line in part.lines]
    for line in combined.lines:
        refs = dict.fromkeys(ref for number in line.refs for ref in sources[number - 1])
        yield replace(line, refs=tuple(refs)[:MAX_SOURCES])


def estimate_prompt_tokens(request: Request) -> int:
    """Estimate the tokens of a request's prompt. Every key has the same length."""
    system, user = prompts.system_text(request), prompts.user_text(request, "0" * 8)
    return estimate_tokens(system) + estimate_tokens(user)


class _CallBound(NamedTuple):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0
    parts: int = 0  # replies to combine


def _sum(usages: Iterable[_CallBound]) -> _CallBound:
    return _CallBound(*map(sum, zip(*usages, strict=True)))


def upper_bound(request: Request, strategy: RequestStrategy, limit: int = INPUT_LIMIT) -> Usage:
    """Return the most that a request can use, by our estimate of tokens.

    An endpoint charges nothing for a call that it rejects as too long. So calls that can only end in
    that error are not counted.
    """
    if strategy is RequestStrategy.ISOLATE:
        usage = _bound_isolating(request, limit)
    elif strategy is RequestStrategy.SPLIT and (halves := split_request(request)):
        usage = _sum(_bound_reading(half, limit, MAX_HALVINGS - 1) for half in halves)
    else:
        usage = _bound_reading(request, limit, 0)
    if usage.parts > 1:
        tokens = combination_bound(request, usage.parts)
        usage = _sum([usage, _CallBound(tokens, request.completion_limit, 1)])
    return Usage(usage.prompt_tokens, usage.completion_tokens, usage.calls)


def combination_bound(request: Request, parts: int) -> int:
    """Return the most prompt tokens of the request that combines so many parts."""
    shell = build_combination(request, [ParsedReply()] * parts)
    if request.memory_type is MemoryType.LONG_TERM:
        by_person = any(line.by_person for line in request.existing)
        shell = replace(shell, existing=[MemoryLine(1, "", by_person=by_person)])
    is_open = request.language == "conversation"
    shells = [replace(shell, language="ja"), shell] if is_open else [shell]
    lines = parts * _MAX_PART_RATIO * max(request.max_tokens, _MIN_PART_TOKENS)
    # A part repeats the lines of people, and an existing memory that gets no additions.
    repeated = sum(estimate_tokens(line.text) + _LINE_OVERHEAD for line in request.existing)
    return max(map(estimate_prompt_tokens, shells)) + lines + repeated


def _bound_reading(request: Request, limit: int, halvings: int) -> _CallBound:
    """Usage a request that is split when it exceeds ``limit``, or when the endpoint rejects it.

    ``halvings`` is how many rejections may still lead to a split.
    """
    if request.is_empty:
        return _CallBound(parts=1)
    whole = _CallBound(estimate_prompt_tokens(request), request.completion_limit, 1, 1)
    is_too_long = whole.prompt_tokens > limit
    halves = split_request(request) if is_too_long or halvings else ()
    if not halves:
        return whole
    split = _sum(_bound_reading(half, limit, halvings - (not is_too_long)) for half in halves)
    return split if is_too_long else _CallBound(*map(max, zip(whole, split, strict=True)))


def _bound_isolating(request: Request, limit: int) -> _CallBound:
    """Usage a search for refused input by the largest requests that it may send."""
    steps = list(_isolating_steps(split_request(request) or (request,), limit))
    sizes = nlargest(MAX_CALLS - 1, (size for step_sizes, _ in steps for size in step_sizes))
    parts = min(sum(is_last for _, is_last in steps), len(sizes) + bool(request.existing))
    return _CallBound(sum(sizes), len(sizes) * request.completion_limit, len(sizes), parts)


def _isolating_steps(requests: Iterable[Request], limit: int) -> Iterator[tuple[list[int], bool]]:
    """Yield the prompt sizes of each request's calls, and whether it cannot be split.

    A request that cannot be split is sent twice before it is left out.
    """
    for request in requests:
        if request.is_empty:
            yield [], True
            continue
        size, halves = estimate_prompt_tokens(request), split_request(request)
        if halves:
            yield [size] if size <= limit else [], False
            yield from _isolating_steps(halves, limit)
        else:
            yield [size, size], True
