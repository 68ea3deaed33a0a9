"""What is reserved is never less than what is used, whatever the endpoint answers."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.llm.asking import Asking
from memories.rules.generate import prompts
from memories.rules.generate.bounds import MOST_CALLS, bound, prompt_tokens
from memories.rules.generate.summary import (
    Bound,
    MemoryLine,
    Reference,
    Reply,
    Request,
    RequestStrategy,
    SummariserError,
    Usage,
)
from memories.rules.generate.tokens import estimate
from memories.rules.memory.identity import MemoryScope, MemoryType
from tests.llm.requests import added, long, memory, messages, request, short

LIMIT = 1000  # so that a few messages are more than one call takes


def test_one_call_is_bounded_by_itself() -> None:
    wanted = short(messages("hello", "今日は"), references=[Reference("r", "background " * 9)])
    prompt = prompts.build(wanted, "0123abcd")
    sent = estimate(prompt.system) + estimate(prompt.user)
    assert bound(wanted, RequestStrategy.WHOLE) == Bound(sent, 300, 1)


@pytest.mark.parametrize("way", RequestStrategy)
def test_each_call_has_room_for_thoughts(way: RequestStrategy) -> None:
    wanted = short(messages(*["word"] * 8))
    thinking = replace(wanted, thinking_tokens=1_000)
    assert bound(thinking, way).calls == bound(wanted, way).calls
    more = bound(thinking, way).completion_tokens - bound(wanted, way).completion_tokens
    assert more == 1_000 * bound(wanted, way).calls


@pytest.mark.parametrize("way", RequestStrategy)
def test_nothing_to_ask_costs_nothing(way: RequestStrategy) -> None:
    assert bound(short(), way) == Bound(0, 0, 0)


@pytest.mark.parametrize(
    ("wanted", "way", "calls"),
    [
        (short(messages("one")), RequestStrategy.SPLIT, 1),
        (short(messages("one", "two")), RequestStrategy.SPLIT, 3),
        (short(messages(*["word"] * 50)), RequestStrategy.SPLIT, 9),
        (short(messages("one")), RequestStrategy.ISOLATE, 2),
        (short(messages("one", "two")), RequestStrategy.ISOLATE, 5),
        (short(messages(*["word"] * 50)), RequestStrategy.ISOLATE, MOST_CALLS),
        (short(messages(*["word " * 40] * 50)), RequestStrategy.WHOLE, 5),
    ],
)
def test_calls(wanted: Request, way: RequestStrategy, calls: int) -> None:
    assert bound(wanted, way, LIMIT).calls == calls


def test_splitting_asks_for_no_fortune() -> None:
    """A cap should not refuse what would cost a quarter of it."""
    wanted = short(messages(*["word " * 40] * 50))
    assert (
        bound(wanted, RequestStrategy.SPLIT).tokens
        < 6 * bound(wanted, RequestStrategy.WHOLE).tokens
    )


TEXTS = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=40), st.sampled_from(["word " * 60, "記憶に残る。" * 30])
    ),
    min_size=1,
    max_size=24,
)
REQUESTS = st.builds(
    lambda texts, old, kind, language, person, most: _request(
        texts, old, kind, language, most, person=person
    ),
    TEXTS,
    st.lists(st.text(min_size=1, max_size=90), max_size=4),
    st.sampled_from(["channel", "thread", "parts", "long", "workspace"]),
    st.sampled_from(["ja", "en", "conversation"]),
    st.booleans(),
    st.sampled_from([30, 300]),
)


def _request(
    texts: list[str], old: list[str], kind: str, language: str, most: int, *, person: bool
) -> Request:
    existing = [MemoryLine(n, text, by_person=person) for n, text in enumerate(old, 1)]
    first = len(old) + 1
    parts = {"language": language, "max_tokens": most, "references": [Reference("r", "x " * 50)]}
    match kind:
        case "channel":
            return short(messages(*texts), **parts)
        case "thread":
            thread = (MemoryScope.THREAD, MemoryType.SHORT_TERM)
            lines = messages(*texts, first=first)
            return request(*thread, messages=lines, existing=existing, **parts)
        case "parts":
            return short(additions=[*added(*texts[::2]), *added(*texts[1::2], first=90)], **parts)
        case "long":
            return long(existing=existing, additions=added(*texts, first=first), **parts)
    workspace = (MemoryScope.WORKSPACE, MemoryType.LONG_TERM)
    return request(*workspace, existing=existing, additions=added(*texts, first=first), **parts)


class Endpoint:
    """Counts what it charges. Its answers are chosen by lot: long ones, refusals, errors."""

    def __init__(self, seed: int, answers: str) -> None:
        self.lot = random.Random(seed)
        self.answers = answers
        self.takes = self.lot.randint(1, 4)  # messages
        self.prompt = self.completion = self.calls = 0

    def ask(self, wanted: Request) -> Reply:
        answer = self.lot.choice(self.answers)
        if answer == "e" or (answer == "d" and len(wanted.messages) > self.takes):
            raise SummariserError("context_too_long", "no")
        if answer == "f":
            raise SummariserError("content_filter", "no")
        sent = prompt_tokens(wanted)
        self.prompt, self.calls = self.prompt + sent, self.calls + 1
        self.completion += wanted.max_tokens
        text = {
            "n": lambda: "NOTHING",
            "r": lambda: "I'm sorry, but I can't help with that.",
            "s": lambda: "- one short line",
            "l": lambda: "- " + "x" * (wanted.max_tokens * 4 - 2),
            "d": lambda: "- " + "x" * (wanted.max_tokens * 4 - 2),
            # Lines that take more room with their new numbers than they did in the reply.
            "m": lambda: "\n".join(chr(0x4E00 + self.lot.randrange(5000)) for _ in range(200)),
            "3": lambda: "- " + "word " * int(wanted.max_tokens * 2.3),
        }[answer]()
        return Reply(text, "stop", "m", "p", sent, wanted.max_tokens, 1)


@pytest.mark.slow
@given(
    REQUESTS,
    st.sampled_from(RequestStrategy),
    st.integers(0, 10**6),
    st.sampled_from(
        ["l", "d", "3", "lm3", "m", "lllr", "lf", "lr", "rf", "r", "le", "e", "lnsm3rfed"]
    ),
)
def test_what_is_used_is_within_the_bound(
    wanted: Request, way: RequestStrategy, seed: int, answers: str
) -> None:
    if wanted.is_empty:
        return
    endpoint = Endpoint(seed, answers)
    most = bound(wanted, way, LIMIT)
    asking = Asking(wanted, endpoint.ask, "m", LIMIT)
    try:
        reply = asking.reply(way)
        told = Usage(reply.prompt_tokens, reply.completion_tokens, reply.calls)
    except SummariserError as error:
        told = error.spent
    assert told == Usage(endpoint.prompt, endpoint.completion, endpoint.calls)
    assert endpoint.calls <= most.calls
    assert endpoint.prompt <= most.prompt_tokens
    assert endpoint.completion <= most.completion_tokens


def test_memory_that_nothing_is_added_to_is_not_asked_about() -> None:
    """The half of a merge that holds old lines alone stays as it is, without a call."""
    wanted = long(existing=memory("red " * 40, "green " * 40), additions=added("blue", first=3))
    asked: list[Request] = []

    def ask(part: Request) -> Reply:
        asked.append(part)
        return Reply("- blue [3]" if len(asked) == 1 else "- red, blue [1, 3]", "stop", "m", "p")

    reply = Asking(wanted, ask, "m", LIMIT).reply(RequestStrategy.SPLIT)
    assert [len(part.existing) for part in asked] == [0, 2]
    assert reply.text == "- status: red, blue [1, 3]"
