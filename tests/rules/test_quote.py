"""What older history will cost: calls, tokens, money and time as ranges."""

from dataclasses import replace

import pytest

from memories.rules import prompts
from memories.rules.memory import MemoryScope, MemoryType
from memories.rules.quote import OFFLINE_RATES, Rates, Sample, measured_rates, quote_of, time_left
from memories.rules.settings import MemorySettings
from memories.rules.slacktime import EPOCH
from memories.rules.summary import MessageLine, Request
from memories.rules.tokens import estimate
from memories.rules.workload import (
    BLOCK,
    Expected,
    Limits,
    Lines,
    Load,
    Text,
    expect,
    expected_output,
    instructions,
    line_size,
)

SETTINGS = MemorySettings()
LIMITS = Limits(prompt=24_000, merge=12_000, side_by_side=8)
SEGMENT = Text(messages=50, tokens=1500)


def loads(**segments: int) -> list[Load]:
    return [Load(name.upper(), name, [SEGMENT] * n) for name, n in segments.items()]


@pytest.mark.parametrize(
    ("author", "said"),
    [
        ("mika", "Step {n} is done.\nAll of it."),
        ("佐藤", "{n}番目の作業が終わりました。次は明日です。"),
        ("a", "we ship at 5 " + "x" * 7000),
    ],
)
def test_lines_are_counted_as_the_prompt_has_them(author: str, said: str) -> None:
    lines = Lines()
    messages = []
    for n in range(1, 21):
        text = said.format(n=n)
        lines.add(line_size(text, author))
        messages.append(MessageLine(n, EPOCH, author, text))
    request = Request(
        scope=MemoryScope.CHANNEL,
        memory_type=MemoryType.SHORT_TERM,
        max_tokens=300,
        language="conversation",
        zone="UTC",
        place="#launch",
        messages=messages,
    )
    data = estimate(prompts.data_text(request, "0" * 8))
    assert lines.text.tokens + BLOCK == pytest.approx(data, rel=0.02)
    words = estimate(prompts.instructions(request))
    japanese = lines.text.japanese
    counted = instructions(
        MemoryScope.CHANNEL,
        MemoryType.SHORT_TERM,
        SETTINGS,
        japanese=japanese,
        background=False,
    )
    assert counted == words
    assert japanese == (author == "佐藤")


def test_one_call_or_halves_and_what_combines_them() -> None:
    whole = expect(300, 2000, 300, 24_000)
    assert whole.calls == 1 and whole.tokens_in > 2300
    assert expect(300, 30_000, 300, 24_000).calls == 3
    assert expect(300, 60_000, 300, 24_000).calls == 7
    assert expect(300, 30_000, 300, 24_000).tokens_in > 30_600


def test_an_answer_is_a_part_of_what_was_read_up_to_its_limit() -> None:
    assert expected_output(300, 100) < expected_output(300, 500) <= 300
    assert expected_output(300, 10_000) == expected_output(300, 100_000)


def test_a_quote_counts_every_call() -> None:
    quote = quote_of(loads(a=5, b=1), SETTINGS, LIMITS, Rates(), None).as_json()
    a, b = quote["channels"]
    assert (a["messages"], a["segments"], a["calls"]["low"]) == (250, 5, 6)
    assert (b["segments"], b["calls"]["low"]) == (1, 2)
    assert quote["workspace"]["calls"]["low"] == 1
    assert quote["total"]["calls"]["low"] == 9
    for unit in ("tokens", "tokens_in", "minutes"):
        low, middle, high = quote["total"][unit].values()
        assert low < middle < high
    assert quote["total"]["dollars"] is None and not quote["priced"]


def test_threads_and_many_merges() -> None:
    [load] = loads(a=100)
    quote = quote_of([replace(load, threads=[Text(6, 200)] * 3)], SETTINGS, LIMITS, Rates(), None)
    [part] = quote.parts
    assert part.first.calls == 103
    assert part.merges.calls == 3, "25,000 tokens of summaries, at most 12,000 a merge"


def test_private_channels_take_no_part_in_the_workspaces_memory() -> None:
    [load] = loads(a=1)
    quote = quote_of([replace(load, is_public=False)], SETTINGS, LIMITS, Rates(), None)
    assert quote.workspace.merges == Expected()


def test_what_is_known_already_goes_along_and_costs() -> None:
    [load] = loads(a=3)
    fresh = quote_of([load], SETTINGS, LIMITS, Rates(), None).parts[0]
    known = replace(load, background=400, short_term=200, long_term=500)
    later = quote_of([known], SETTINGS, LIMITS, Rates(), None).parts[0]
    assert later.first.tokens_in >= fresh.first.tokens_in + 3 * 600
    assert later.merges.tokens_in >= fresh.merges.tokens_in + 900


def test_nothing_costs_nothing() -> None:
    total = quote_of(loads(a=0), SETTINGS, LIMITS, Rates(), lambda i, o: i + o).as_json()["total"]
    assert total["calls"]["high"] == total["tokens"]["high"] == total["dollars"]["high"] == 0


def test_money_is_a_range_too() -> None:
    quote = quote_of(loads(a=2), SETTINGS, LIMITS, Rates(), lambda i, o: i + 4 * o).as_json()
    total = quote["total"]
    for end in ("low", "middle", "high"):
        micros = total["tokens_in"][end] + 4 * total["tokens_out"][end]
        assert total["dollars"][end] == pytest.approx(micros / 1e6, abs=1e-5)


def test_the_offline_summariser_costs_nothing() -> None:
    quote = quote_of(loads(a=2), SETTINGS, LIMITS, OFFLINE_RATES, None, is_free=True).as_json()
    total = quote["total"]
    assert quote["free"] and total["segments"] == 2
    assert total["calls"]["high"] == total["tokens"]["high"] == 0 and total["dollars"] is None


def sample(ratio: float = 1.0, seconds: float = 2.0) -> Sample:
    return Sample(1000, round(1000 * ratio), 200, round(200 * ratio), seconds)


def test_rates_are_measured() -> None:
    assert measured_rates([]) == Rates() and Rates().measured == 0
    rates = measured_rates([sample(1.4), sample(1.6), sample(1.5), sample(1.5)])
    assert rates.measured == 4
    assert rates.tokens_in.middle == pytest.approx(1.5)
    assert rates.tokens_in.low < 1.5 < rates.tokens_in.high
    assert rates.seconds.low < 2 < rates.seconds.high


def test_the_more_calls_agree_the_narrower_the_range() -> None:
    few = measured_rates([sample(0.5), sample(1.5), sample(1.0)]).tokens_in
    many = measured_rates([sample(0.9), sample(1.1)] * 10).tokens_in
    assert few.high - few.low > many.high - many.low > 0


def test_minutes_go_by_rounds_then_merges() -> None:
    rates = measured_rates([sample(seconds=60.0)] * 5)
    quote = quote_of(loads(a=16), SETTINGS, LIMITS, rates, None)
    assert quote.as_json()["total"]["minutes"]["middle"] == 2 + 1 + 1
    one_by_one = quote_of(loads(a=16), SETTINGS, replace(LIMITS, side_by_side=1), rates, None)
    assert one_by_one.as_json()["total"]["minutes"]["middle"] == 16 + 1 + 1


@pytest.mark.parametrize(
    ("done", "seconds", "told"), [(0, 100, False), (4, 100, False), (20, 29, False), (20, 40, True)]
)
def test_no_time_is_told_before_there_is_a_rate(done: int, seconds: int, told: bool) -> None:
    assert (time_left(done, 10, seconds) is not None) is told


def test_the_time_that_is_left_is_a_range() -> None:
    left = time_left(done=10, left=30, seconds=60)
    assert left is not None and left.low < 180 == left.middle < left.high
