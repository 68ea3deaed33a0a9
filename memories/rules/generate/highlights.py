"""The offline summary: lines and messages of a request, copied word for word.

Candidates are messages, questions with their answers, and lines of memories. Lines that people wrote or
pinned come first, then marked decisions and tasks, then the highest score for the length (`salience`).
A newer line about the same subject replaces an older one. A line is ``name: text``, and its time is in
``at_us``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memories.rules import salience
from memories.rules.generate.prompts import speaker_name, to_one_line
from memories.rules.ingest.names import MAX_NAME_LENGTH
from memories.rules.ingest.timestamps import micros, to_micros
from memories.rules.memory.superseding import Statement, find_successors
from memories.rules.salience import Words
from memories.rules.summariser import MessageLine, Request
from memories.rules.tokens import estimate_tokens

_MAX_BODY_TOKENS = 120  # a longer message is shortened to its first sentences
_ANSWER_WITHIN = 6  # messages after a question
_FALLBACK_LINES = 3  # of a conversation without a salient message
_ANSWER = " → "  # between a question and its answer
_MERGE_HALF_WORTH_AFTER = 40  # newer lines: worth / (1 + newer / 40)
_DUPLICATE_SHARE = 0.85  # of a line's words, by rarity, in a chosen line: a duplicate
_DATE_PREFIX = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d ")  # of lines of earlier releases
_SPEAKER = re.compile(rf"^[^:：]{{1,{MAX_NAME_LENGTH}}}[:：] ")
# Channels for small talk. A merge takes only marked decisions and tasks from them.
_SOCIAL = re.compile(
    r"#(?:random|off-?topic|water-?cooler|social|fun|pets?|memes?|jokes?|雑談)(?![a-z0-9])", re.I
)
# A Japanese full stop ends a sentence; a Latin one needs a space after it (v1.2, example.org).
SENTENCE_END = re.compile(r"\n+|(?<=[。！？])(?![。！？」』）)])|(?<=[.!?])\s+")


@dataclass(frozen=True)
class Candidate:
    """A possible highlight. ``at_us`` is the time of its newest message in microseconds."""

    refs: tuple[int, ...]
    line: str
    body: str  # the line without its speaker
    at_us: int
    is_protected: bool = False  # a person wrote or pinned it
    is_salient: bool = True
    is_bot: bool = False
    thread_us: int = 0  # when its thread began
    words: Words = field(default_factory=frozenset)

    @property
    def cost(self) -> int:
        return estimate_tokens(f"- {self.line} [{', '.join(map(str, self.refs))}]\n")


@dataclass(frozen=True)
class Highlights:
    """The chosen lines in order of time, and pairs of refs: a replaced line and its successor."""

    lines: list[Candidate]
    superseded: tuple[tuple[int, int], ...] = ()


def extract_highlights(request: Request) -> Highlights:
    """Return the highlights of a request.

    Without a salient message, these are the best three messages of people. Without a lasting line, a
    merge has no highlights.
    """
    pool = [*_from_memories(request), *_from_messages(request.messages)]
    pool = [candidate for candidate in pool if any(map(str.isalnum, candidate.body))]
    pool.sort(key=lambda candidate: candidate.at_us)
    salient = [candidate for candidate in pool if candidate.is_salient or candidate.is_protected]
    if not salient and not request.messages:
        return Highlights([])
    if not salient:
        people = [candidate for candidate in pool if not candidate.is_bot]
        chosen = _choose(people, request.max_tokens, is_merge=False)[:_FALLBACK_LINES]
        return Highlights(sorted(chosen[: request.max_lines], key=pool.index))
    successors = _find_last_successors(salient)
    current = [candidate for n, candidate in enumerate(salient) if n not in successors]
    is_merge = bool(request.existing or request.additions)
    chosen = _choose(current, request.max_tokens, is_merge=is_merge)
    pairs = ((salient[old].refs[0], salient[new].refs[0]) for old, new in successors.items())
    return Highlights(sorted(chosen[: request.max_lines], key=pool.index), tuple(pairs))


def _choose(pool: Sequence[Candidate], max_tokens: int, *, is_merge: bool) -> list[Candidate]:
    """Return the best candidates that fit, without near-duplicates, and all protected lines.

    If nothing fits, the best candidate is returned.

    Protected lines come first, then marked ones, messages of people, and the others by value.

    A bot often repeats the marked message of a person, whose own message comes first.
    """
    worths = salience.word_worth([candidate.words for candidate in pool])

    def value(index: int) -> float:
        candidate = pool[index]
        worth = salience.worth_per_token(candidate.body, candidate.words, worths, candidate.cost)
        return (
            worth / (1 + (len(pool) - 1 - index) / _MERGE_HALF_WORTH_AFTER) if is_merge else worth
        )

    order = sorted(
        range(len(pool)),
        key=lambda i: (
            pool[i].is_protected,
            salience.is_marked(pool[i].body),
            not pool[i].is_bot,
            value(i),
        ),
        reverse=True,
    )
    rarity = salience.word_rarity([candidate.words for candidate in pool])
    chosen_texts = salience.ChosenTexts(_DUPLICATE_SHARE, rarity)
    chosen: list[Candidate] = []
    for index in order:
        candidate = pool[index]
        if not candidate.is_protected and (
            candidate.cost > max_tokens or chosen_texts.has_duplicate_of(candidate.words, index)
        ):
            continue
        chosen_texts.add(candidate.words, index)
        chosen.append(candidate)
        max_tokens -= candidate.cost
    return chosen or [pool[index] for index in order[:1]]  # the limit is below the shortest line


def _find_last_successors(pool: Sequence[Candidate]) -> dict[int, int]:
    """Return the last successor of each replaced line, by index. Protected lines have none."""
    statements = [Statement(c.body, c.at_us, c.words, c.thread_us) for c in pool]
    successors = {
        old: new for old, new in find_successors(statements).items() if not pool[old].is_protected
    }
    for index in sorted(successors, reverse=True):
        successors[index] = successors.get(successors[index], successors[index])
    return successors


def _from_messages(messages: Sequence[MessageLine]) -> Iterator[Candidate]:
    """Yield a candidate for each message. A question and its answer are one candidate.

    A question without an answer is salient only if another sentence of the message is.
    """
    words = [salience.content_words(message.text) for message in messages]
    answers: set[int] = set()
    for index, message in enumerate(messages):
        if index in answers:
            continue
        answer = _find_answer(index, messages, words)
        body = _body_of(message.text)
        refs: tuple[int, ...] = (message.ref,)
        # Bots repeat themselves, so only their marked messages are salient.
        is_salient = _has_salient_statement(message.text) and (
            not message.is_bot or salience.is_marked(body)
        )
        if answer is not None:
            answers.add(answer)
            reply = messages[answer]
            is_salient = salience.is_salient(f"{message.text} {reply.text}")
            body = f"{body}{_ANSWER}{speaker_name(reply.author)}: {_body_of(reply.text)}"
            refs = (message.ref, reply.ref)
        yield Candidate(
            refs,
            f"{speaker_name(message.author)}: {body}",
            body,
            to_micros(message.at if answer is None else messages[answer].at),
            is_salient=is_salient,
            is_bot=message.is_bot,
            thread_us=micros(message.thread) if message.thread else to_micros(message.at),
            words=salience.words_without_mark(body),
        )


def _statements_of(text: str) -> str:
    """Return the sentences of a text that are not questions."""
    sentences = (part for part in SENTENCE_END.split(text) if part.strip())
    return " ".join(part for part in sentences if not salience.has_question(part))


def _has_salient_statement(text: str) -> bool:
    """Return whether a text is salient without its questions."""
    return salience.is_marked(text) or salience.is_salient(_statements_of(text))


def _find_answer(index: int, messages: Sequence[MessageLine], words: Sequence[Words]) -> int | None:
    """Return the index of the answer to a question, or None.

    Another person wrote it, and it is no question. It is in the question's thread, or it is the next
    message, or it comes soon and contains a word of the question or the name of its author.
    """
    question = messages[index]
    question_us = to_micros(question.at)
    if (
        question.is_bot
        or not salience.has_question(question.text)
        or _has_salient_statement(question.text)
    ):
        return None
    for n in range(index + 1, len(messages)):
        reply = messages[n]
        is_in_thread = reply.thread and (
            reply.thread == question.thread or micros(reply.thread) == question_us
        )
        if n > index + _ANSWER_WITHIN and not is_in_thread:
            continue
        if reply.author == question.author or reply.is_bot or salience.has_question(reply.text):
            continue
        has_name = question.author.lower() in reply.text.lower()
        if not has_name and reply.text.startswith(tuple(m for m in reply.mentions if m[0] == "@")):
            continue  # it is for somebody else
        if is_in_thread or has_name or words[n] & words[index] or n == index + 1:
            return n if words[n] else None
    return None


def _body_of(text: str) -> str:
    """Return a message as one line. A long message is cut after a sentence, and ends with "…"."""
    whole = to_one_line(" ".join(text.split()))
    if estimate_tokens(whole) <= _MAX_BODY_TOKENS:
        return whole
    kept = ""
    for sentence in SENTENCE_END.split(text):
        if kept and estimate_tokens(kept + sentence) > _MAX_BODY_TOKENS:
            break
        kept = f"{kept} {sentence.strip()}".strip()
    while estimate_tokens(kept) > _MAX_BODY_TOKENS:
        kept = kept[: len(kept) * 3 // 4]
    return f"{to_one_line(' '.join(kept.split()))} …"


def _from_memories(request: Request) -> Iterator[Candidate]:
    """Yield a candidate for each line of a memory. In a merge only lasting lines are salient."""
    texts = [(request.scope_name, request.existing)]
    texts += [(f"{request.scope_name} {added.title}", added.lines) for added in request.additions]
    for title, lines in texts:
        if request.messages:
            is_salient = salience.is_salient
        else:
            is_salient = salience.is_marked if _SOCIAL.search(title) else _is_lasting
        for line in lines:
            text = to_one_line(line.text)
            body = _SPEAKER.sub("", _DATE_PREFIX.sub("", text)) or text
            yield Candidate(
                (line.ref,),
                text,
                body,
                line.at_us,
                line.by_person,
                is_salient=is_salient(body),
                words=salience.words_without_mark(body),
            )


def _is_lasting(text: str) -> bool:
    """Return whether a line of a memory is worth keeping. A question needs an answer or a decision."""
    if not salience.is_lasting(text):
        return False
    is_open = salience.has_question(text) and _ANSWER not in text
    return not is_open or salience.has_decision(_statements_of(text))
