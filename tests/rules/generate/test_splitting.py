"""Halves of a request, their combination, and the bound of all calls."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.llm.request_runner import RequestRunner
from memories.rules.generate import prompts
from memories.rules.generate.splitting import (
    MAX_CALLS,
    build_combination,
    estimate_prompt_tokens,
    restore_refs,
    split_request,
    upper_bound,
)
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.summariser import (
    Addition,
    MemoryLine,
    ParsedReply,
    Reference,
    Reply,
    ReplyLine,
    Request,
    RequestStrategy,
    SummariserError,
    Usage,
)
from memories.rules.tokens import estimate_tokens
from tests.llm.requests import added, long, make_request, memory, messages, short

LIMIT = 1000  # tokens: shorter than a few of the messages below


@given(st.lists(st.text(min_size=1, max_size=300), min_size=2, max_size=20))
def test_the_halves_contain_every_message_once_and_in_order(texts: list[str]) -> None:
    whole = short(messages(*texts), references=[Reference("r", "x")])
    first, second = split_request(whole)
    assert [*first.messages, *second.messages] == list(whole.messages)
    assert first.messages and second.messages
    assert first.references == second.references == whole.references


def test_the_halves_have_about_the_same_number_of_tokens() -> None:
    first, second = split_request(short(messages("a" * 4000, *["b" * 100] * 40)))
    sizes = [sum(estimate_tokens(m.text) for m in half.messages) for half in (first, second)]
    assert len(first.messages) < 12 < len(second.messages)
    assert max(sizes) < 1.5 * min(sizes)


def test_a_long_message_becomes_two_of_the_same_number() -> None:
    [message] = messages("word " * 1_000)
    first, second = (half.messages[0] for half in split_request(short([message])))
    assert first.text + second.text == message.text
    assert replace(first, text="") == replace(second, text="") == replace(message, text="")
    assert split_request(short([replace(message, text=message.text[:3_000])])) == ()


def test_an_existing_memory_goes_with_the_earlier_half() -> None:
    first, second = split_request(short(messages("a", "b", first=2), existing=memory("was")))
    assert list(first.existing) == memory("was")
    assert list(second.existing) == []


def test_a_merge_is_split_between_or_within_additions() -> None:
    whole = long(
        existing=memory("was"),
        additions=[*added("a", "b", title="one", first=2), *added("c", "d", title="two", first=4)],
    )
    first, second = split_request(whole)
    assert [line.text for line in first.existing] == ["was"]
    assert [(a.title, [line.ref for line in a.lines]) for a in first.additions] == [("one", [2, 3])]
    assert [(a.title, [line.ref for line in a.lines]) for a in second.additions] == [
        ("two", [4, 5])
    ]
    assert list(second.existing) == []


@pytest.mark.parametrize(
    "whole",
    [short(messages("one")), short(), long(existing=memory("a", "b")), long(additions=added("a"))],
    ids=["one message", "no message", "nothing added", "one line"],
)
def test_a_request_that_cannot_be_split(whole: object) -> None:
    assert split_request(whole) == ()  # type: ignore[arg-type]


PARTS = [
    ParsedReply([ReplyLine("early", (1, 2)), ReplyLine("unmarked")]),
    ParsedReply(is_nothing=True),
    ParsedReply([ReplyLine("late", (40, 41, 42, 43, 44))]),
]


def test_a_short_combination_has_the_parts_as_additions() -> None:
    whole = build_combination(short(messages("x"), existing=memory("was")), PARTS)
    assert not whole.messages and not whole.existing
    assert whole.additions == [
        Addition("part 1", [MemoryLine(1, "early"), MemoryLine(2, "unmarked")]),
        Addition("part 2", []),
        Addition("part 3", [MemoryLine(3, "late")]),
    ]


def test_a_long_combination_extends_the_first_part() -> None:
    own = [MemoryLine(1, "early", by_person=True)]
    whole = build_combination(long(existing=own, additions=added("x", first=2)), PARTS)
    assert whole.existing == [MemoryLine(1, "early", by_person=True), MemoryLine(2, "unmarked")]
    assert [line.ref for addition in whole.additions for line in addition.lines] == [3]


@pytest.mark.parametrize(
    ("cited", "refs"),
    [
        ((1,), (1, 2)),
        ((2,), ()),
        ((3, 1), (40, 41, 42, 43, 44)),
        ((1, 3), (1, 2, 40, 41, 42)),
        ((), ()),
    ],
)
def test_restored_refs_are_those_of_the_whole_request(
    cited: tuple[int, ...], refs: tuple[int, ...]
) -> None:
    [line] = restore_refs(ParsedReply([ReplyLine("all", cited)]), PARTS)
    assert (line.text, line.refs) == ("all", refs)


def test_the_bound_of_one_call_is_its_size() -> None:
    whole = short(messages("hello", "今日は"), references=[Reference("r", "background " * 9)])
    prompt = prompts.build_prompt(whole, "0123abcd")
    sent = estimate_tokens(prompt.system) + estimate_tokens(prompt.user)
    assert upper_bound(whole, RequestStrategy.WHOLE) == Usage(sent, 300, 1)


@pytest.mark.parametrize("strategy", RequestStrategy)
def test_the_bound_includes_thinking_tokens_of_each_call(strategy: RequestStrategy) -> None:
    whole = short(messages(*["word"] * 8))
    thinking = replace(whole, thinking_tokens=1_000)
    assert upper_bound(thinking, strategy).calls == upper_bound(whole, strategy).calls
    more = (
        upper_bound(thinking, strategy).completion_tokens
        - upper_bound(whole, strategy).completion_tokens
    )
    assert more == 1_000 * upper_bound(whole, strategy).calls


@pytest.mark.parametrize("strategy", RequestStrategy)
def test_an_empty_request_costs_nothing(strategy: RequestStrategy) -> None:
    assert upper_bound(short(), strategy) == Usage(0, 0, 0)


@pytest.mark.parametrize(
    ("whole", "strategy", "calls"),
    [
        (short(messages("one")), RequestStrategy.SPLIT, 1),
        (short(messages("one", "two")), RequestStrategy.SPLIT, 3),
        (short(messages(*["word"] * 50)), RequestStrategy.SPLIT, 9),
        (short(messages("one")), RequestStrategy.ISOLATE, 2),
        (short(messages("one", "two")), RequestStrategy.ISOLATE, 5),
        (short(messages(*["word"] * 50)), RequestStrategy.ISOLATE, MAX_CALLS),
        (short(messages(*["word " * 40] * 50)), RequestStrategy.WHOLE, 5),
    ],
)
def test_the_bound_of_calls(whole: Request, strategy: RequestStrategy, calls: int) -> None:
    assert upper_bound(whole, strategy, LIMIT).calls == calls


def test_the_bound_of_a_split_is_below_six_times_the_whole() -> None:
    """A far larger bound would exceed budgets that the calls keep."""
    whole = short(messages(*["word " * 40] * 50))
    assert (
        upper_bound(whole, RequestStrategy.SPLIT).tokens
        < 6 * upper_bound(whole, RequestStrategy.WHOLE).tokens
    )


TEXTS = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=40), st.sampled_from(["word " * 60, "記憶に残る。" * 30])
    ),
    min_size=1,
    max_size=24,
)


def build_request(
    texts: list[str], old: list[str], kind: str, language: str, by_person: bool, max_tokens: int
) -> Request:
    existing = [MemoryLine(n, text, by_person=by_person) for n, text in enumerate(old, 1)]
    first = len(old) + 1
    parts: dict[str, Any] = {
        "language": language,
        "max_tokens": max_tokens,
        "references": [Reference("r", "x " * 50)],
    }
    match kind:
        case "channel":
            return short(messages(*texts), **parts)
        case "thread":
            thread = (MemoryScope.THREAD, MemoryType.SHORT_TERM)
            lines = messages(*texts, first=first)
            return make_request(*thread, messages=lines, existing=existing, **parts)
        case "parts":
            return short(additions=[*added(*texts[::2]), *added(*texts[1::2], first=90)], **parts)
        case "long":
            return long(existing=existing, additions=added(*texts, first=first), **parts)
    workspace = (MemoryScope.WORKSPACE, MemoryType.LONG_TERM)
    return make_request(
        *workspace, existing=existing, additions=added(*texts, first=first), **parts
    )


REQUESTS = st.builds(
    build_request,
    TEXTS,
    st.lists(st.text(min_size=1, max_size=90), max_size=4),
    st.sampled_from(["channel", "thread", "parts", "long", "workspace"]),
    st.sampled_from(["ja", "en", "conversation"]),
    st.booleans(),
    st.sampled_from([30, 300]),
)


class Endpoint:
    """Counts what it charges. Its answers are random: long ones, refusals, errors."""

    def __init__(self, seed: int, answers: str) -> None:
        self.random = random.Random(seed)
        self.answers = answers
        self.max_messages = self.random.randint(1, 4)  # messages
        self.prompt = self.completion = self.calls = 0

    def ask(self, whole: Request) -> Reply:
        answer = self.random.choice(self.answers)
        if answer == "e" or (answer == "d" and len(whole.messages) > self.max_messages):
            raise SummariserError("context_too_long", "no")
        if answer == "f":
            raise SummariserError("content_filter", "no")
        size = estimate_prompt_tokens(whole)
        self.prompt, self.calls = self.prompt + size, self.calls + 1
        self.completion += whole.max_tokens
        text = {
            "n": lambda: "NOTHING",
            "r": lambda: "I'm sorry, but I can't help with that.",
            "s": lambda: "- one short line",
            "l": lambda: "- " + "x" * (whole.max_tokens * 4 - 2),
            "d": lambda: "- " + "x" * (whole.max_tokens * 4 - 2),
            # Lines that need more tokens with their new numbers than in the reply.
            "m": lambda: "\n".join(chr(0x4E00 + self.random.randrange(5000)) for _ in range(200)),
            "3": lambda: "- " + "word " * int(whole.max_tokens * 2.3),
        }[answer]()
        return Reply(text, "stop", "m", "p", size, whole.max_tokens, 1)


@pytest.mark.slow
@given(
    REQUESTS,
    st.sampled_from(RequestStrategy),
    st.integers(0, 10**6),
    st.sampled_from(
        ["l", "d", "3", "lm3", "m", "lllr", "lf", "lr", "rf", "r", "le", "e", "lnsm3rfed"]
    ),
)
def test_the_usage_is_within_the_bound(
    whole: Request, strategy: RequestStrategy, seed: int, answers: str
) -> None:
    if whole.is_empty:
        return
    endpoint = Endpoint(seed, answers)
    bound = upper_bound(whole, strategy, LIMIT)
    runner = RequestRunner(whole, endpoint.ask, "m", LIMIT)
    try:
        reply = runner.run(strategy)
        usage = reply.usage
    except SummariserError as error:
        usage = error.spent
    assert usage == Usage(endpoint.prompt, endpoint.completion, endpoint.calls)
    assert endpoint.calls <= bound.calls
    assert endpoint.prompt <= bound.prompt_tokens
    assert endpoint.completion <= bound.completion_tokens


def test_a_half_of_old_lines_alone_needs_no_call() -> None:
    whole = long(existing=memory("red " * 40, "green " * 40), additions=added("blue", first=3))
    sent: list[Request] = []

    def ask(part: Request) -> Reply:
        sent.append(part)
        return Reply("- blue [3]" if len(sent) == 1 else "- red, blue [1, 3]", "stop", "m", "p")

    reply = RequestRunner(whole, ask, "m", LIMIT).run(RequestStrategy.SPLIT)
    assert [len(part.existing) for part in sent] == [0, 2]
    assert reply.text == "- status: red, blue [1, 3]"
