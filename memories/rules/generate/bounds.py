"""The most that a request can use when it is asked in a given way: what is reserved for it.

True by construction: the calls are made in the shapes that are counted here, and a combination
that would be longer than was counted is not asked.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import nlargest

from memories.rules.generate import prompts
from memories.rules.generate.parts import combination, halves
from memories.rules.generate.summary import Bound, MemoryLine, ParsedReply, Request, RequestStrategy
from memories.rules.generate.tokens import estimate
from memories.rules.memory.identity import MemoryType

MERGE_LIMIT = 12_000  # tokens of short-term versions that one merge takes in
INPUT_LIMIT = 24_000  # estimated prompt tokens; a longer request is split and combined (rule 11)
MOST_HALVINGS = 3  # for an endpoint that takes less: parts of an eighth at most
MOST_CALLS = 16  # in search of what is refused, their combination included
_LONGEST_PART = 2  # times the limit: honest replies overrun it, by our estimate, but not so far
_SMALLEST_PART = 40  # tokens
_BESIDE_A_LINE = 3  # tokens: its number, a mark, the end of the line


def prompt_tokens(request: Request) -> int:
    """Our estimate of the prompt, whatever its key will be."""
    system, user = prompts.system_text(request), prompts.user_text(request, "0" * 8)
    return estimate(system) + estimate(user)


def bound(request: Request, way: RequestStrategy, limit: int = INPUT_LIMIT) -> Bound:
    """The most tokens, by our estimate, and charged calls. What an endpoint turns down with an
    error costs nothing, so calls that only ever end so are not counted."""
    most = (
        _isolated(request, limit) if way is RequestStrategy.ISOLATE else _asked(request, way, limit)
    )
    if most.parts > 1:
        both = _Most(combination_tokens(request, most.parts), request.completion_limit, 1)
        most = _sum((most, both))
    return Bound(most.prompt, most.completion, most.calls)


def combination_tokens(request: Request, parts: int) -> int:
    """The most that the request which combines so many parts may take."""
    shell = combination(request, [ParsedReply()] * parts)
    if request.memory_type is MemoryType.LONG_TERM:
        person = any(line.by_person for line in request.existing)
        shell = replace(shell, existing=[MemoryLine(1, "", by_person=person)])
    conversation = request.language == "conversation"
    languages = [replace(shell, language="ja"), shell] if conversation else [shell]
    lines = parts * _LONGEST_PART * max(request.max_tokens, _SMALLEST_PART)
    # What people wrote is repeated, and what nothing is added to stays as it is.
    carried = sum(estimate(line.text) + _BESIDE_A_LINE for line in request.existing)
    return max(map(prompt_tokens, languages)) + lines + carried


@dataclass(frozen=True)
class _Most:
    prompt: int = 0
    completion: int = 0
    calls: int = 0
    parts: int = 0  # that are combined in the end


def _sum(all_of: Iterable[_Most]) -> _Most:
    rows = list(all_of)
    return _Most(
        sum(row.prompt for row in rows),
        sum(row.completion for row in rows),
        sum(row.calls for row in rows),
        sum(row.parts for row in rows),
    )


def _asked(request: Request, way: RequestStrategy, limit: int) -> _Most:
    parts = halves(request) if way is RequestStrategy.SPLIT else ()
    if parts:
        return _sum(_read(part, limit, MOST_HALVINGS - 1) for part in parts)
    return _read(request, limit, 0)


def _read(request: Request, limit: int, halvings: int) -> _Most:
    """In one call, or in parts when it is too long: by our limit, or by the endpoint's word."""
    if request.is_empty:
        return _Most(parts=1)
    whole = _Most(prompt_tokens(request), request.completion_limit, 1, 1)
    too_long = whole.prompt > limit
    parts = halves(request) if too_long or halvings else ()
    if not parts:
        return whole
    split = _sum(_read(part, limit, halvings - (not too_long)) for part in parts)
    if too_long:
        return split
    return _Most(
        max(whole.prompt, split.prompt),
        max(whole.completion, split.completion),
        max(whole.calls, split.calls),
        max(whole.parts, split.parts),
    )


def _isolated(request: Request, limit: int) -> _Most:
    """The largest of the requests that the search may come to."""
    found = list(_searched(halves(request) or (request,), limit))
    sizes = nlargest(MOST_CALLS - 1, (size for each in found for size in each.sizes))
    parts = min(sum(each.is_last for each in found), len(sizes) + bool(request.existing))
    return _Most(sum(sizes), len(sizes) * request.completion_limit, len(sizes), parts)


@dataclass(frozen=True)
class _Step:
    sizes: tuple[int, ...]  # of its calls
    is_last: bool  # nothing to halve


def _searched(requests: Iterable[Request], limit: int) -> Iterator[_Step]:
    """All that may be asked; what cannot be halved is asked twice before it is left out."""
    for request in requests:
        if request.is_empty:
            yield _Step((), is_last=True)
            continue
        size, parts = prompt_tokens(request), halves(request)
        sizes = (size,) if size <= limit else ()
        yield _Step(sizes if parts else (size, size), is_last=not parts)
        yield from _searched(parts, limit)
