"""The calls that remembering older messages takes, and their tokens by our estimate.

The very calls that a pass would make: one for each segment and thread, merges of what they give,
one merge of the workspace.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from memories.rules import prompts
from memories.rules.memory import MemoryScope, MemoryType
from memories.rules.settings import MemorySettings
from memories.rules.slacktime import EPOCH
from memories.rules.summary import Addition, MemoryLine, MessageLine, Reference, Request
from memories.rules.tokens import WIDE, estimate

CHAT = 8  # tokens that two messages take besides their texts
BLOCK = 14  # the two lines around a block of data
TITLED = 21  # the same around an added memory, which names its period
OUT_SHARE, OUT_LEAST = 0.25, 15  # of what it reads, a model gives back about so much …
OUT_OF_LIMIT = 0.85  # … and seldom all that it may
LINE = len("[2026-01-05 09:00] : \n")
REPLY = len("↳a ")  # its mark, in a channel's prompt

Size = tuple[int, int, bool]  # wide characters, others, and whether there is any text


@dataclass(frozen=True)
class Text:
    """The messages of one summary: how many there are, and what their lines take in a prompt."""

    messages: int
    tokens: int
    japanese: bool = False


@dataclass
class Lines:
    """Messages added up to a `Text`, none of them kept."""

    messages: int = 0
    wide: int = 0
    narrow: int = 0
    has_text: bool = False

    def add(self, size: Size) -> None:
        wide, narrow, has_text = size
        self.messages += 1
        self.wide += wide
        self.narrow += narrow + len(str(self.messages)) + 1
        self.has_text |= has_text

    @property
    def text(self) -> Text:
        japanese = 2 * self.wide > self.narrow - self.messages * LINE
        return Text(self.messages, self.wide + math.ceil(self.narrow / 4), japanese=japanese)


def line_size(text: str, author: str) -> Size:
    """Of a message's lines in a prompt, without its ref and the mark of a reply."""
    lines = len(text) // prompts.LONGEST_LINE + 1
    said = f"{author * lines}{text}"
    narrow = len(said) if said.isascii() else len(WIDE.sub("", said))
    breaks = 2 * text.count("\n")  # each is shown as a sign between spaces
    wide = len(said) - narrow
    return wide, narrow + breaks + LINE * lines, bool(text.strip())


@dataclass(frozen=True)
class Load:
    """What of one channel is to be remembered, and what is known of it already, in tokens."""

    key: str
    name: str
    segments: Sequence[Text] = ()
    threads: Sequence[Text] = ()
    is_public: bool = True
    background: int = 0  # the workspace's memory, where its readers may read it
    short_term: int = 0
    long_term: int = 0
    is_recent: bool = False  # reaches into the window of the workspace's short-term memory

    @property
    def messages(self) -> int:
        return sum(text.messages for text in self.segments)


@dataclass(frozen=True)
class Limits:
    """What bounds a call and how many go side by side."""

    prompt: int  # estimated tokens; a longer one is split
    merge: int  # tokens that one merge takes in
    side_by_side: int


@dataclass(frozen=True)
class Expected:
    """Calls and their tokens, by our estimate."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: "Expected") -> "Expected":
        return Expected(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
        )


def expected_output(limit: int, tokens_in: int) -> int:
    """Tokens of an answer that may take ``limit``, to data of so many tokens."""
    return int(min(OUT_OF_LIMIT * limit, OUT_SHARE * tokens_in + OUT_LEAST))


def answer_length(limit: int, tokens_in: int, rate: float) -> int:
    """What such an answer adds to the calls that read it; ``rate``: how much longer than expected
    this model's answers are."""
    return min(limit, round(rate * expected_output(limit, tokens_in)))


def expect(instructions: int, data: int, limit: int, longest: int) -> Expected:
    """The calls of one request: one, or halves of halves and what combines them (rule 11)."""
    if instructions + data <= longest or data < 2:
        out = expected_output(limit, data)
        return Expected(1, CHAT + instructions + data, out)
    half = expect(instructions, data // 2, limit, longest)
    out = expected_output(limit, 10 * limit)
    return half + half + Expected(1, CHAT + instructions + 2 * (out + TITLED), out)


@cache
def instructions(
    scope: MemoryScope,
    memory_type: MemoryType,
    settings: MemorySettings,
    *,
    japanese: bool,
    background: bool,
) -> int:
    """Tokens of our words in such a request; ``background``: it has references."""
    # Of news, as most segments hold: then "nothing" is not offered.
    word = "1番目の作業が終わりました。次は明日です。" if japanese else "step 1 of it is done"
    of_messages = memory_type is MemoryType.SHORT_TERM and scope is not MemoryScope.WORKSPACE
    line = MemoryLine(1, word)
    long_term = memory_type is MemoryType.LONG_TERM
    request = Request(
        scope=scope,
        memory_type=memory_type,
        max_tokens=settings.long_term_max_tokens if long_term else settings.short_term_max_tokens,
        language=settings.output_language,
        zone=settings.time_zone,
        place="",
        messages=[MessageLine(n, EPOCH, "", word) for n in range(1, 4)] if of_messages else (),
        additions=() if of_messages else [Addition("", [line])],
        references=[Reference("", word)] if background else (),
    )
    return estimate(prompts.instructions(request))


@dataclass
class Part:
    """A channel's share of the work, or the workspace's own (key "")."""

    key: str
    name: str
    messages: int = 0
    segments: int = 0
    threads: int = 0
    first: Expected = Expected()  # of messages
    merges: Expected = Expected()  # of what those gave


def first_calls(
    load: Load, settings: MemorySettings, limits: Limits, begun: int, rate: float = 1.0
) -> tuple[Part, list[int]]:
    """Summaries of segments and threads, and the lengths of the former. What was answered before a
    call begins goes along with it; so many begin together."""
    part = Part(load.key, load.name, load.messages, len(load.segments), len(load.threads))
    background = load.background + BLOCK if load.background else 0
    limit, side = settings.short_term_max_tokens, limits.side_by_side
    outputs: list[int] = []
    for n, text in enumerate(load.segments):
        known = load.short_term
        if not known:
            # The round right after the channel's first begins while that one is being saved.
            rounds = (begun + n) // side - begun // side
            known = outputs[max(0, n - 2 * side)] * min(rounds, 2) // 2 if rounds else 0
        above = background + (known + BLOCK if known else 0)
        cost = _of_messages(MemoryScope.CHANNEL, text, above, settings, limits)
        data = text.tokens + BLOCK + above
        part.first += cost
        outputs.append(answer_length(limit, data, rate))
    known = load.short_term or (outputs[-1] if outputs else 0)
    above = background + sum(tokens + BLOCK for tokens in (known, load.long_term) if tokens)
    for text in load.threads:
        part.first += _of_messages(MemoryScope.THREAD, text, above, settings, limits)
    return part, outputs


def _of_messages(
    scope: MemoryScope, text: Text, above: int, settings: MemorySettings, limits: Limits
) -> Expected:
    """The summary of a segment or a thread; ``above``: tokens of its references."""
    system = instructions(
        scope,
        MemoryType.SHORT_TERM,
        settings,
        japanese=text.japanese,
        background=above > 0,
    )
    data = text.tokens + BLOCK + above
    return expect(system, data, settings.short_term_max_tokens, limits.prompt)


def channel_merges(
    load: Load,
    outputs: Sequence[int],
    settings: MemorySettings,
    limits: Limits,
    rate: float = 1.0,
) -> tuple[Expected, int]:
    """Of a channel's summaries into its long-term memory, and how long that gets."""
    cost, grown = Expected(), load.long_term
    limit = settings.long_term_max_tokens
    japanese = sum(text.japanese for text in load.segments) * 2 > len(load.segments)
    system = instructions(
        MemoryScope.CHANNEL,
        MemoryType.LONG_TERM,
        settings,
        japanese=japanese,
        background=load.background > 0,
    )
    for batch in batches(outputs, limits.merge):
        data = sum(tokens + TITLED for tokens in batch)
        data += sum(tokens + BLOCK for tokens in (grown, load.background) if tokens)
        cost += expect(system, data, limit, limits.prompt)
        grown = answer_length(limit, data, rate)
    return cost, grown


def batches(outputs: Sequence[int], most: int) -> Iterable[list[int]]:
    """As many at a time as one merge takes in, at least one."""
    batch: list[int] = []
    for tokens in outputs:
        if batch and sum(batch) + tokens > most:
            yield batch
            batch = []
        batch.append(tokens)
    if batch:
        yield batch
