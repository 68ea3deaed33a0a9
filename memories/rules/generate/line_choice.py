"""Choose the lines of a reply: add what a small model left out, and keep a limit of lines."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from memories.rules import salience
from memories.rules.generate import prompts
from memories.rules.generate.highlights import extract_highlights
from memories.rules.memory.figures import find_figures
from memories.rules.memory.kinds import Kind, kind_of
from memories.rules.summariser import Addition, MemoryLine, PromptForm, ReplyLine, Request
from memories.rules.tokens import estimate_tokens

_STATED_SHARE = 0.5  # of the words of a marked text, which a line that states it has
_SUBJECT_TOKENS = 16  # of the longest line that may only name the subject of its source
_TIMES_SUBJECT = 2  # the size of such a source, in sizes of the line


def forgotten_lines(lines: Sequence[ReplyLine], request: Request) -> Iterator[ReplyLine]:
    """Yield the lasting lines to add that no line of the reply rests on.

    A model that can only add lines often leaves out a date or a decision.
    """
    cited = {ref for line in lines for ref in line.refs}
    for line in (line for added in request.additions for line in added.lines):
        is_lasting = salience.is_lasting(line.text) and not salience.has_question(line.text)
        if line.ref not in cited and is_lasting:
            yield _repeat(line)


def forgotten_marked_lines(lines: Sequence[ReplyLine], request: Request) -> Iterator[ReplyLine]:
    """Yield highlights of the marked decisions and tasks that no line of the reply states.

    A reply with a limit of lines gets none.
    """
    if request.max_lines is not None:
        return
    marked_texts = {ref: text for ref, text in _texts(request) if salience.is_marked(text)}
    stated = salience.ChosenTexts()  # also without the repetition by a bot
    for ref, text in marked_texts.items():
        if any(_states(line, ref, text) for line in lines):
            stated.add(salience.content_words(text), 0)
    forgotten = {
        ref
        for ref, text in marked_texts.items()
        if not stated.has_duplicate_of(salience.content_words(text), 0)
    }
    yield from _highlights_of(request, forgotten)


def stated_lines(lines: Sequence[ReplyLine], request: Request) -> Iterator[ReplyLine]:
    """Yield the lines, with the highlights of a message for a line that only names its subject.

    A small model often writes who spoke about what, and not what they said.
    """
    texts = dict(_texts(request))
    pairs = [(line, fuller_sources(line, texts)) for line in lines]
    stated = {ref for line, fuller in pairs if not fuller for ref in line.refs}
    for line, fuller in pairs:
        if not fuller:
            yield line
        yield from _highlights_of(request, fuller - stated)
        stated |= fuller


def fuller_sources(line: ReplyLine, texts: Mapping[int, str]) -> set[int]:
    """Return the refs of much longer, salient sources with figures of a short line without any.

    ``texts`` are those of the sources to compare, by ref.
    """
    size = estimate_tokens(line.text)
    if size > _SUBJECT_TOKENS or kind_of(line.text) not in (Kind.EVENT, Kind.STATUS):
        return set()
    if find_figures(line.text) or salience.is_salient(line.text):
        return set()
    return {
        ref
        for ref in line.refs
        if ref in texts
        and estimate_tokens(texts[ref]) >= _TIMES_SUBJECT * size
        and find_figures(texts[ref])
        and salience.is_salient(texts[ref])
    }


def lines_after(lines: Sequence[ReplyLine], request: Request) -> Iterator[ReplyLine]:
    """Yield highlights of what is salient after the last source of a reply that was cut off."""
    last = max((ref for line in lines for ref in line.refs), default=0)
    salient = {ref for ref, text in _texts(request) if ref > last and salience.is_salient(text)}
    yield from _highlights_of(request, salient)


def _texts(request: Request) -> list[tuple[int, str]]:
    """Return the ref and the text of each message and each line of a memory."""
    texts = [(message.ref, message.text) for message in request.messages]
    return texts + [(line.ref, line.text) for line in request.memory_lines]


def _highlights_of(request: Request, refs: Set[int]) -> Iterator[ReplyLine]:
    """Yield the highlights of these messages and added lines."""
    chosen = replace(
        request,
        existing=(),
        messages=[message for message in request.messages if message.ref in refs],
        additions=[
            Addition(added.title, [line for line in added.lines if line.ref in refs])
            for added in request.additions
        ],
    )
    if chosen.is_empty:
        return
    memory_lines = {line.ref: line for line in chosen.memory_lines}
    for highlight in extract_highlights(chosen).lines:
        if highlight.refs[0] in memory_lines:
            yield _repeat(memory_lines[highlight.refs[0]])
        else:
            yield ReplyLine(highlight.line, highlight.refs, kind_of(highlight.body))


def most_salient(lines: Sequence[ReplyLine], request: Request) -> Sequence[ReplyLine]:
    """Return the lines within the limits of a request, in their order.

    The token limit applies to the simple form, which gets more room than that. The best line and marked
    decisions and tasks always stay.
    """
    max_lines = len(lines) if request.max_lines is None else request.max_lines
    sizes = [estimate_tokens(line.text) for line in lines]
    max_tokens = request.max_tokens if request.form is PromptForm.SIMPLE else sum(sizes)
    if len(lines) <= max_lines and sum(sizes) <= max_tokens:
        return lines
    words = [salience.content_words(line.text) for line in lines]
    worths = salience.word_worth(words)

    def value(n: int) -> tuple[bool, float]:
        text = lines[n].text
        worth = salience.worth_per_token(text, words[n], worths, sizes[n])
        return salience.is_marked(text), worth

    chosen: list[int] = []
    for n in sorted(range(len(lines)), key=value, reverse=True):
        fits = len(chosen) < max_lines and sizes[n] <= max_tokens
        if fits or not chosen or salience.is_marked(lines[n].text):
            chosen.append(n)
            max_tokens -= sizes[n]
    return [lines[n] for n in sorted(chosen)]


def _states(line: ReplyLine, ref: int, text: str) -> bool:
    """Return whether a verified line rests on a text and has half of its words.

    For a decision or a task, half of its own words are enough.
    """
    words, own = salience.content_words(text), salience.content_words(line.text)
    least = min(len(words), len(own)) if line.kind in (Kind.DECISION, Kind.TASK) else len(words)
    is_verified = ref in line.refs and not line.unverified
    return is_verified and len(words & own) >= _STATED_SHARE * least


def _repeat(line: MemoryLine) -> ReplyLine:
    text = prompts.to_one_line(line.text)
    return ReplyLine(text, (line.ref,), line.kind, unverified=(text,) if line.unverified else ())
