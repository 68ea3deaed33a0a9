"""The fake model: good answers, faults, and a ledger of all requests."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memories.llm import ModelSummariser
from memories.rules.generate.reply import parse_reply
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.summariser import (
    Addition,
    MemoryLine,
    MessageLine,
    Reference,
    Request,
    SummariserError,
)
from tests.hard.fake_model import FAULTS, FREE, WORD
from tests.hard.model_client import FakeModel, fake_model
from tests.processes import wait_until

pytestmark = pytest.mark.nightly("a tool of the hard tests that run whole there")

SEGMENT = Request(
    scope=MemoryScope.CHANNEL,
    memory_type=MemoryType.SHORT_TERM,
    max_tokens=200,
    language="conversation",
    zone="UTC",
    scope_name="#general",
    messages=[
        MessageLine(
            n, datetime(2026, 1, 5, 9, n, tzinfo=UTC), "mika", f"uq00000{n}x is settled: [go] on"
        )
        for n in range(1, 4)
    ],
    references=[Reference("previous memory", "- uq000009x was before")],
)
MERGE = Request(
    scope=MemoryScope.CHANNEL,
    memory_type=MemoryType.LONG_TERM,
    max_tokens=500,
    language="conversation",
    zone="UTC",
    scope_name="#general",
    existing=[MemoryLine(1, "an000007x uq000001x is old"), MemoryLine(2, "my own word", True)],
    additions=[Addition("monday", [MemoryLine(n, f"uq0001{n:02d}x is new") for n in range(3, 30)])],
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeModel]:
    with fake_model(tmp_path_factory.mktemp("fake")) as model:
        yield model


@pytest.fixture
def model(running: FakeModel) -> FakeModel:
    running.configure(seed=0, latency=(0, 0), faults={}, script=[], words={}, token_ratio=1.0)
    running.reset()
    return running


def summariser(model: FakeModel, timeout: float = 30.0) -> ModelSummariser:
    return ModelSummariser(api_key="", base_url=model.url, model="fake", timeout=timeout)


@pytest.mark.parametrize("request_", [SEGMENT, MERGE], ids=["segment", "merge"])
def test_a_good_answer_has_every_word_and_cites_its_line(
    model: FakeModel, request_: Request
) -> None:
    reading = parse_reply(summariser(model).summarise(request_), request_)
    assert not reading.fault
    words = {word for line in reading.lines for word in WORD.findall(line.text)}
    texts = [m.text for m in request_.messages] + [line.text for line in request_.existing]
    texts += [line.text for added in request_.additions for line in added.lines]
    assert words == set(WORD.findall(" ".join(texts)))
    assert all(line.refs for line in reading.lines)
    assert "an000001x" in reading.lines[0].text
    assert not any("an000007x" in line.text for line in reading.lines)  # whose text it was before


def test_operations_change_only_the_lines_they_name(model: FakeModel) -> None:
    merge = replace(MERGE, operations=True)
    text = summariser(model).summarise(merge).text
    assert all(row.startswith("+ ") for row in text.split("\n"))
    reading = parse_reply(replace(summariser(model).summarise(merge), text=text), merge)
    assert [line.text for line in reading.lines[:2]] == [line.text for line in merge.existing]
    words = {word for line in reading.lines for word in WORD.findall(line.text)}
    assert words == {"uq000001x", *(f"uq0001{n:02d}x" for n in range(3, 30))}
    model.configure(script=["shrink"])
    grown = replace(GROWN, operations=True)
    [line] = parse_reply(summariser(model).summarise(grown), grown).lines
    assert line.text == "uq000201x is old"


def test_lines_of_people_are_repeated_word_for_word(model: FakeModel) -> None:
    reading = parse_reply(summariser(model).summarise(MERGE), MERGE)
    assert "my own word" in [line.text for line in reading.lines]


def test_the_ledger_records_requests_without_references(model: FakeModel) -> None:
    reply = summariser(model).summarise(SEGMENT)
    wait_until(lambda: model.rows()[0].answered_at is not None, "noted once the answer was taken")
    [row] = model.rows()
    assert row.words == ("uq000001x", "uq000002x", "uq000003x")
    assert (row.messages, row.existing, row.fault) == (True, 0, "")
    assert row.answered_at is not None
    assert row.answered_at >= row.at
    assert (row.prompt_tokens, row.completion_tokens) == (
        reply.prompt_tokens,
        reply.completion_tokens,
    )
    assert model.stats()["prompt_tokens"] == row.prompt_tokens


def test_the_same_question_has_the_same_hash_under_another_key(model: FakeModel) -> None:
    for request in (SEGMENT, SEGMENT, MERGE):
        summariser(model).summarise(request)
    first, second, third = (row.prompt_hash for row in model.rows())
    assert first == second != third


FAULT_OF = {
    "rate_limited": "rate_limited",
    "rate_limited_plain": "rate_limited",
    "out_of_credit": "out_of_credit",
    "unauthorised": "unauthorised",
    "forbidden": "forbidden",
    "server_error": "server_error",
    "overloaded": "server_error",
    "drop": "connection",
    "hang": "timeout",
    "context_too_long": "context_too_long",
}
BAD = {
    "empty": "blank",
    "length": "length",
    "content_filter": "content_filter",
    "refusal": "refusal",
    "unknown_finish": "unknown_finish",
    "echo": "prompt_echoed",
    "too_long": "too_long",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULT_OF)
def test_a_refused_call_is_an_error_of_its_kind(model: FakeModel, kind: str) -> None:
    model.configure(script=[kind])
    single = replace(SEGMENT, messages=SEGMENT.messages[:1], references=())
    with pytest.raises(SummariserError) as caught:
        summariser(model, 1.0 if kind == "hang" else 30.0).summarise(single)
    assert caught.value.code == FAULT_OF[kind]
    [row] = model.rows()
    assert row.fault == kind
    assert bool(row.prompt_tokens) is (kind not in FREE)


def test_a_plain_rate_limit_has_no_retry_after(model: FakeModel) -> None:
    model.configure(script=["rate_limited", "rate_limited_plain"], retry_after=7)
    waits = []
    for _ in range(2):
        with pytest.raises(SummariserError) as caught:
            summariser(model).summarise(SEGMENT)
        waits.append(caught.value.retry_after)
    assert waits == [7, None]


@pytest.mark.parametrize("kind", BAD)
def test_a_spoilt_answer_is_no_good(model: FakeModel, kind: str) -> None:
    model.configure(script=[kind])
    assert parse_reply(summariser(model).summarise(SEGMENT), SEGMENT).fault == BAD[kind]


def test_where_references_are_malformed_code_finds_the_sources(model: FakeModel) -> None:
    model.configure(script=["malformed_refs"])
    reading = parse_reply(summariser(model).summarise(SEGMENT), SEGMENT)
    assert all(line.refs for line in reading.lines)


GROWN = replace(
    MERGE,
    existing=[MemoryLine(n, f"uq0002{n:02d}x is old") for n in range(1, 40)],
    additions=[Addition("monday", [MemoryLine(40, "uq000301x is new")])],
)


@pytest.mark.parametrize("kind", ["wrong_language", "shrink"])
def test_faults_of_the_text_have_no_known_word(model: FakeModel, kind: str) -> None:
    model.configure(script=[kind])
    assert not WORD.search(summariser(model).summarise(GROWN).text)


def test_only_a_memory_that_has_grown_can_shrink(model: FakeModel) -> None:
    model.configure(script=["shrink"])
    assert WORD.search(summariser(model).summarise(SEGMENT).text)
    assert model.rows()[0].fault == ""


def test_every_kind_of_fault_is_tried_here() -> None:
    assert {*FAULT_OF, *BAD, "malformed_refs", "wrong_language", "shrink"} == set(FAULTS)


@pytest.mark.slow
def test_chance_hangs_on_the_seed_and_the_question_alone(model: FakeModel) -> None:
    def faults(seed: int) -> list[str]:
        model.reset()
        model.configure(seed=seed, faults={"empty": 0.3, "length": 0.3})
        for _ in range(20):
            summariser(model).summarise(SEGMENT)
        return [row.fault for row in model.rows()]

    first = faults(1)
    assert faults(1) == first != faults(2)
    assert {"", "empty", "length"} == set(first)


def test_a_word_brings_its_fault_each_time(model: FakeModel) -> None:
    model.configure(words={"uq000002x": "refusal"})
    for request in (SEGMENT, MERGE, SEGMENT):
        summariser(model).summarise(request)
    assert [row.fault for row in model.rows()] == ["refusal", "", "refusal"]


def test_an_unknown_fault_is_refused(model: FakeModel) -> None:
    with pytest.raises(OSError, match="400"):
        model.configure(faults={"earthquake": 1.0})


@pytest.mark.slow
def test_the_ledger_outlives_the_server(tmp_path: Path) -> None:
    with fake_model(tmp_path) as model:
        summariser(model).summarise(SEGMENT)
    assert len(model.rows()) == 1
