"""The offline summary: highlights of a request, whole and in their own words, within its token limit.

Candidates are messages, a question together with its answer, and lines of memories. What calls
itself a decision or a task comes first, then what says most for its length (`salience`); newer news
about the same subject supersedes older. A line is ``name: text``; when it was said is beside it, in
``at_us``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memories.rules.generate import salience
from memories.rules.generate.prompts import speaker_name, to_one_line
from memories.rules.generate.salience import Words
from memories.rules.generate.summariser import MemoryLine, MessageLine, Request
from memories.rules.generate.tokens import estimate_tokens
from memories.rules.ingest.names import MAX_NAME_LENGTH
from memories.rules.ingest.timestamps import micros, to_micros
from memories.rules.memory.superseding import Statement, find_successors

_LONGEST = 120  # tokens of a message; of a longer one the first sentences are kept
_ANSWER_WITHIN = 6  # messages after a question
_FALLBACK = 3  # lines of a conversation in which nothing is salient
_MERGED_HALF = 40  # newer lines beside which a line of a memory is worth half as much
_SAME = 0.85  # of the worth of the words of a line: it says nothing that another does not
_DATED = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d ")  # as lines once began
_SPEAKER = re.compile(rf"^[^:：]{{1,{MAX_NAME_LENGTH}}}[:：] ")
# After a Japanese stop at once, after a Latin one only before a space (v1.2, example.org).
_SENTENCE = re.compile(r"\n+|(?<=[。！？])(?![。！？」』）)])|(?<=[.!?])\s+")


@dataclass(frozen=True)
class Candidate:
    """A line that may be kept; ``at_us`` is the time of its newest message, in microseconds."""

    refs: tuple[int, ...]
    line: str
    body: str  # the line without its speaker
    at_us: int
    by_person: bool = False
    is_salient: bool = True
    is_bot: bool = False
    thread_us: int = 0  # when its thread began
    words: Words = field(default_factory=frozenset)

    @property
    def cost(self) -> int:
        return estimate_tokens(f"- {self.line} [{', '.join(map(str, self.refs))}]\n")


@dataclass(frozen=True)
class Highlights:
    """The lines worth keeping, in order of time, and for each line that a newer one replaces the
    numbers of both."""

    lines: list[Candidate]
    superseded: tuple[tuple[int, int], ...] = ()


def extract_highlights(request: Request) -> Highlights:
    """At least one line wherever a person wrote a word. Where nothing is salient, a few of the lines
    that say most are kept, but none of a bot."""
    pool = _pool(request)
    if not pool:
        return Highlights([])
    salient = [candidate for candidate in pool if candidate.is_salient or candidate.by_person]
    replaced = _superseded(salient)
    if salient:
        current = [candidate for n, candidate in enumerate(salient) if n not in replaced]
        is_merge = bool(request.existing or request.additions)
        chosen = _choose(current, request.max_tokens, merging=is_merge)
    else:
        people = [candidate for candidate in pool if not candidate.is_bot]
        chosen = _choose(people, request.max_tokens, merging=False)[:_FALLBACK] if people else []
    pairs = ((salient[old].refs[0], salient[new].refs[0]) for old, new in replaced.items())
    return Highlights(sorted(chosen[: request.most_lines], key=pool.index), tuple(pairs))


def _pool(request: Request) -> list[Candidate]:
    """All that has a word, in order of time."""
    pool = [*_from_memories(request.memory_lines), *_from_messages(request.messages)]
    pool = [candidate for candidate in pool if any(map(str.isalnum, candidate.body))]
    return sorted(pool, key=lambda candidate: candidate.at_us)


def _choose(pool: Sequence[Candidate], budget: int, *, merging: bool) -> list[Candidate]:
    """The best that fit, the best first: what people wrote, what is marked, then by value."""
    worths = salience.word_worth([candidate.words for candidate in pool])

    def value(index: int) -> float:
        candidate = pool[index]
        worth = salience.worth_per_token(candidate.body, candidate.words, worths, candidate.cost)
        return worth / (1 + (len(pool) - 1 - index) / _MERGED_HALF) if merging else worth

    order = sorted(
        range(len(pool)),
        key=lambda i: (pool[i].by_person, salience.is_marked(pool[i].body), value(i)),
        reverse=True,
    )
    covered = salience.ChosenTexts(_SAME, salience.word_rarity([c.words for c in pool]))
    chosen: list[Candidate] = []
    for index in order:
        candidate = pool[index]
        fits = candidate.cost <= budget or candidate.by_person
        if fits and (candidate.by_person or not covered.holds(candidate.words, index)):
            covered.add(candidate.words, index)
            chosen.append(candidate)
            budget -= candidate.cost
    return chosen or [pool[order[0]]]  # a limit too small for any line


def _superseded(pool: Sequence[Candidate]) -> dict[int, int]:
    """By the place of a line, that of the last one in the chain which replaces it. A person's line
    is never replaced."""
    found = find_successors([Statement(c.body, c.at_us, c.words, c.thread_us) for c in pool])
    found = {index: other for index, other in found.items() if not pool[index].by_person}
    for index in sorted(found, reverse=True):
        found[index] = found.get(found[index], found[index])
    return found


def _from_messages(messages: Sequence[MessageLine]) -> Iterator[Candidate]:
    """Each message, and behind a question its answer; a question that nobody answers is not
    salient unless it tells something besides."""
    words = [salience.content_words(message.text) for message in messages]
    answers: set[int] = set()
    for index, message in enumerate(messages):
        if index in answers:
            continue
        answer = _answer_to(index, messages, words)
        body = _body(message.text)
        refs: tuple[int, ...] = (message.ref,)
        # Bots repeat themselves: of theirs only what calls itself a decision or a task is kept.
        is_salient = _tells(message.text) and (not message.is_bot or salience.is_marked(body))
        if answer is not None:
            answers.add(answer)
            reply = messages[answer]
            is_salient = salience.is_salient(f"{message.text} {reply.text}")
            body = f"{body} → {speaker_name(reply.author)}: {_body(reply.text)}"
            refs = (message.ref, reply.ref)
        yield Candidate(
            refs,
            f"{speaker_name(message.author)}: {body}",
            body,
            to_micros(message.at if answer is None else messages[answer].at),
            is_salient=is_salient,
            is_bot=message.is_bot,
            thread_us=micros(message.thread) if message.thread else to_micros(message.at),
            words=salience.content_words(body),
        )


def _tells(text: str) -> bool:
    """Whether something in it is salient that is no question."""
    if salience.is_marked(text):
        return True
    sentences = [part for part in _SENTENCE.split(text) if part.strip()]
    return salience.is_salient(
        " ".join(part for part in sentences if not salience.has_question(part))
    )


def _answer_to(index: int, messages: Sequence[MessageLine], words: Sequence[Words]) -> int | None:
    """The message in which somebody else soon takes up a question: in its thread, with the name of
    who asked, with its words, or as the very next one."""
    asked = messages[index]
    if asked.is_bot or not salience.has_question(asked.text) or _tells(asked.text):
        return None
    for other in range(index + 1, min(len(messages), index + 1 + _ANSWER_WITHIN)):
        reply = messages[other]
        if reply.author == asked.author or reply.is_bot or salience.has_question(reply.text):
            continue
        root = asked.thread and reply.thread == asked.thread
        named = asked.author.lower() in reply.text.lower()
        if root or named or words[other] & words[index] or other == index + 1:
            return other if words[other] else None
    return None


def _body(text: str) -> str:
    """A message as one line; of a very long one as many of its sentences as fit, and a mark."""
    whole = to_one_line(" ".join(text.split()))
    if estimate_tokens(whole) <= _LONGEST:
        return whole
    kept = ""
    for sentence in _SENTENCE.split(text):
        if kept and estimate_tokens(kept + sentence) > _LONGEST:
            break
        kept = f"{kept} {sentence.strip()}".strip()
    while estimate_tokens(kept) > _LONGEST:
        kept = kept[: len(kept) * 3 // 4]
    return f"{to_one_line(' '.join(kept.split()))} …"


def _from_memories(lines: Sequence[MemoryLine]) -> Iterator[Candidate]:
    for line in lines:
        text = to_one_line(line.text)
        body = _SPEAKER.sub("", _DATED.sub("", text)) or text
        yield Candidate(
            (line.ref,),
            text,
            body,
            line.at_us,
            line.by_person,
            is_salient=salience.is_salient(body),
            words=salience.content_words(body),
        )
