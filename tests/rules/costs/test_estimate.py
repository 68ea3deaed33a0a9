"""The estimate of a backfill: calls, tokens, money and time as ranges."""

from dataclasses import replace

import pytest

from memories.rules.costs.estimate import (
    INSTRUCTIONS,
    JAPANESE_INSTRUCTIONS,
    LINE,
    OFFLINE_STATISTICS,
    TOKENS,
    CallStatistics,
    Range,
    ScopeEstimate,
    Workload,
    estimate_costs,
    estimate_time_left,
    reply_tokens,
)
from memories.rules.generate import prompts
from memories.rules.ingest.timestamps import EPOCH
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.settings import MemorySettings
from memories.rules.summariser import Addition, MemoryLine, MessageLine, Request
from memories.rules.tokens import estimate_tokens

SETTINGS = MemorySettings(workspace_short_term=False)
SEGMENT = 1500  # tokens


def workloads(**segments: int) -> list[Workload]:
    return [Workload(name.upper(), name, 50 * n, [SEGMENT] * n) for name, n in segments.items()]


def document(*channels: Workload, statistics=None, price=None, **options):
    return estimate_costs(
        channels, SETTINGS, statistics or CallStatistics(), price, **options
    ).as_json()


@pytest.mark.parametrize(
    ("author", "text", "words"),
    [
        ("mika", "Step {n} is done.\nAll of it.", INSTRUCTIONS),
        ("佐藤", "{n}番目の作業が終わりました。次は明日です。", JAPANESE_INSTRUCTIONS),
    ],
)
@pytest.mark.parametrize("scope", MemoryScope)
@pytest.mark.parametrize("memory_type", MemoryType)
def test_requests_are_as_long_as_the_range_allows(
    author: str, text: str, words: int, scope: MemoryScope, memory_type: MemoryType
) -> None:
    texts = [text.format(n=n) for n in range(1, 21)]
    of_messages = memory_type is MemoryType.SHORT_TERM and scope is not MemoryScope.WORKSPACE
    lines = [MessageLine(n, EPOCH, author, each) for n, each in enumerate(texts, 1)]
    request = Request(
        scope=scope,
        memory_type=memory_type,
        max_tokens=300,
        language="conversation",
        zone="UTC",
        scope_name="#launch",
        messages=lines if of_messages else (),
        additions=() if of_messages else [Addition("", [MemoryLine(1, texts[0])])],
    )
    instructions = estimate_tokens(prompts.system_text(request) + prompts.request_text(request))
    assert TOKENS.low * words < instructions < TOKENS.high * words
    if of_messages:
        data = estimate_tokens(prompts.data_text(request, "0" * 8))
        assert sum(estimate_tokens(each) + LINE for each in texts) == pytest.approx(data, rel=0.15)


@pytest.mark.parametrize(("tokens", "calls"), [(2000, 1), (30_000, 3), (60_000, 7)])
def test_a_long_input_is_split_into_halves(tokens: int, calls: int) -> None:
    [channel] = estimate_costs(
        [Workload("A", "a", 9, [tokens])], SETTINGS, CallStatistics(), None
    ).channels
    assert channel.calls == calls and channel.tokens_in > tokens + calls * INSTRUCTIONS


def test_a_reply_is_a_share_of_its_input_below_its_limit() -> None:
    assert reply_tokens(300, 100) < reply_tokens(300, 500) <= 300
    assert reply_tokens(300, 10_000) == reply_tokens(300, 100_000)


def test_an_estimate_counts_every_call() -> None:
    estimate = document(*workloads(a=5, b=1))
    a, b = estimate["channels"]
    assert (a["messages"], a["segments"], a["calls"]["low"]) == (250, 5, 6)
    assert (b["segments"], b["calls"]["low"]) == (1, 2)
    assert estimate["workspace"]["calls"]["low"] == 1
    assert estimate["total"]["calls"]["low"] == 9
    for unit in ("tokens", "tokens_in", "minutes"):
        low, middle, high = estimate["total"][unit].values()
        assert low < middle < high
    assert estimate["total"]["dollars"] is None and not estimate["priced"]


def test_tokens_are_a_range_of_a_quarter_to_either_side() -> None:
    low, middle, high = document(*workloads(a=5))["total"]["tokens"].values()
    assert (low, high) == pytest.approx((0.75 * middle, 1.25 * middle), abs=1)


def test_threads_and_many_merges() -> None:
    [load] = workloads(a=100)
    [channel] = estimate_costs(
        [replace(load, threads=[200] * 3)], SETTINGS, CallStatistics(), None
    ).channels
    assert channel.calls == 103
    assert channel.merges == 3, "25,000 tokens of summaries, at most 12,000 a merge"


def test_private_channels_are_not_merged_into_the_workspaces_memory() -> None:
    [load] = workloads(a=1)
    estimate = estimate_costs([replace(load, is_public=False)], SETTINGS, CallStatistics(), None)
    assert estimate.workspace == ScopeEstimate()


def test_workspace_short_term_memory_is_one_merge_of_recent_channels() -> None:
    recent = [replace(load, latest_us=1) for load in workloads(a=1, b=1)]
    assert estimate_costs(recent, SETTINGS, CallStatistics(), None).workspace.merges == 1
    settings = replace(SETTINGS, workspace_short_term=True)
    assert estimate_costs(recent, settings, CallStatistics(), None).workspace.merges == 2


def test_existing_memories_are_part_of_the_input() -> None:
    [load] = workloads(a=3)
    with_memories = replace(load, background=400, short_term=200, long_term=500)
    before, after = (document(load, concurrency=8)["channels"][0] for load in (load, with_memories))
    references = 3 * (400 + 200) + 400 + 500
    assert after["tokens_in"]["middle"] >= before["tokens_in"]["middle"] + references


def test_no_messages_cost_nothing() -> None:
    total = document(*workloads(a=0), price=lambda i, o: i + o)["total"]
    assert total["calls"]["high"] == total["tokens"]["high"] == total["dollars"]["high"] == 0


def test_money_is_a_range_too() -> None:
    total = document(*workloads(a=2), price=lambda i, o: i + 4 * o)["total"]
    for end in ("low", "middle", "high"):
        micros = total["tokens_in"][end] + 4 * total["tokens_out"][end]
        assert total["dollars"][end] == pytest.approx(micros / 1e6, abs=1e-5)


def test_the_offline_summariser_costs_nothing() -> None:
    estimate = document(*workloads(a=2), statistics=OFFLINE_STATISTICS, is_free=True)
    total = estimate["total"]
    assert estimate["free"] and total["segments"] == 2
    assert total["calls"]["high"] == total["tokens"]["high"] == 0 and total["dollars"] is None
    minutes = document(*workloads(a=600), statistics=OFFLINE_STATISTICS, is_free=True)["total"][
        "minutes"
    ]
    assert 0 < minutes["low"] < 106 / 60 < minutes["high"], "600 segments took 106 seconds"


def test_measured_statistics_replace_the_defaults() -> None:
    statistics = CallStatistics(overhead=1000, reply_ratio=2.0, seconds=Range(1, 2, 3), sample=7)
    estimate = document(*workloads(a=4), statistics=statistics)
    channel = estimate_costs(workloads(a=4), SETTINGS, statistics, None).channels[0]
    assert estimate["measured"] == 7
    assert channel.tokens_in > 4 * (SEGMENT + 1000)
    assert channel.tokens_out > 4 * 2 * reply_tokens(300, SEGMENT)


def test_calls_that_are_repeated_cost_again() -> None:
    once = document(*workloads(a=4))["total"]
    twice = document(*workloads(a=4), statistics=CallStatistics(attempts=2.0))["total"]
    assert twice["calls"]["low"] == once["calls"]["low"] == 6
    assert twice["calls"]["high"] == 6 + 4 + 1
    assert twice["tokens"]["middle"] > 1.6 * once["tokens"]["middle"]


def test_minutes_go_by_rounds_then_merges() -> None:
    statistics = CallStatistics(seconds=Range(60, 60, 60), sample=5)
    total = document(*workloads(a=16), statistics=statistics, concurrency=8)["total"]
    assert total["minutes"]["middle"] == 2 + 1 + 1
    one_by_one = document(*workloads(a=16), statistics=statistics)["total"]
    assert one_by_one["minutes"]["middle"] == 16 + 1 + 1


@pytest.mark.parametrize(
    ("done", "seconds", "has_rate"),
    [(0, 100, False), (4, 100, False), (20, 29, False), (20, 40, True)],
)
def test_no_time_is_given_before_there_is_a_rate(done: int, seconds: int, has_rate: bool) -> None:
    assert (estimate_time_left(done, 10, seconds) is not None) is has_rate


def test_the_time_left_is_a_range() -> None:
    left = estimate_time_left(done=10, left=30, seconds=60)
    assert left is not None and left.low < 180 == left.middle < left.high
