"""Reservations of model calls under budgets, and their settlement."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.conf import settings

from memories.models import (
    Backfill,
    Budget,
    Channel,
    Endpoint,
    Job,
    Memory,
    ModelCall,
    Price,
    Workspace,
)
from memories.pipeline.costs.spending import CallLedger, Refused
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import SummariserError, Usage
from tests.factories import ChannelFactory, make_call, make_job

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("reservations under row locks")]

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LEASE = timedelta(seconds=180)
BOUND = Usage(1_000, 300, 1)  # reserved as 1,300 + 300
RESERVED = 1_600


class NamedSummariser:
    name = "tiny-2026-07-18"
    endpoint = "f" * 64
    endpoint_name = "localhost tiny"


@pytest.fixture
def channel() -> Channel:
    return ChannelFactory()


def ledger_of(workspace: Workspace) -> CallLedger:
    return CallLedger(workspace, NamedSummariser())  # type: ignore[arg-type]


def claimed(channel: Channel, now: datetime = NOON, **values: object) -> Job:
    memory = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    job = make_job(memory=memory, **values)
    assert job.claim(now, LEASE)
    return job


def reserve(channel: Channel, now: datetime = NOON, **values: object) -> ModelCall | Refused | None:
    return ledger_of(channel.workspace).reserve(claimed(channel, now, **values), BOUND, now)


def test_the_upper_bound_is_counted_before_the_call(channel: Channel) -> None:
    Price.objects.create(model="tiny", input_price=2, output_price=Decimal("8.5"))
    call = reserve(channel)
    assert isinstance(call, ModelCall)
    assert (call.tokens, call.micros) == (RESERVED, 1_300 * 2 + 300 * 8.5)
    assert (call.day, call.ended_at) == (NOON.date(), None)
    assert ModelCall.objects.committed() == (RESERVED, 5_150)


def test_a_call_is_settled_once_with_its_usage(channel: Channel) -> None:
    Price.objects.create(model="tiny", input_price=2, output_price=8)
    call = reserve(channel)
    ledger = ledger_of(channel.workspace)
    ledger.settle(call, Usage(900, 50, 1), BOUND, NOON)
    ledger.settle(call, Usage(1, 1, 1), BOUND, NOON)
    call.refresh_from_db()
    assert (call.tokens, call.micros, call.requests) == (950, 2_200, 1)
    assert ModelCall.objects.committed() == (950, 2_200)


def test_a_model_without_a_price_has_unpriced_tokens(channel: Channel) -> None:
    call = reserve(channel)
    assert call.micros is None
    ledger_of(channel.workspace).settle(call, Usage(900, 50, 1), BOUND, NOON)
    assert ModelCall.objects.get().micros is None


def test_the_worst_ratio_is_the_factor_of_the_next_bound(channel: Channel) -> None:
    call = reserve(channel)
    ledger_of(channel.workspace).settle(call, Usage(2_000, 50, 1), BOUND, NOON)
    assert Endpoint.objects.get().worst_ratio == 2.0
    assert reserve(channel).tokens == 2_300
    ledger_of(channel.workspace).settle(reserve(channel), Usage(10, 5, 1), BOUND, NOON)
    assert Endpoint.objects.get().worst_ratio == 2.0, "the worst, not the last"


@pytest.mark.parametrize("scope", ["workspace", "installation"])
@pytest.mark.parametrize("limit", [{"tokens": 2 * RESERVED}, {"money": Decimal("0.01")}])
def test_a_budget_is_never_exceeded(channel: Channel, scope: str, limit: dict[str, object]) -> None:
    Price.objects.create(model="tiny", input_price=2, output_price=8)  # $0.005 each
    workspace = channel.workspace if scope == "workspace" else None
    Budget.objects.create(workspace=workspace, period="day", **limit)
    for _ in range(2):
        call = reserve(channel)
        assert isinstance(call, ModelCall)
        lose_reply(call)
    refused = reserve(channel)
    assert isinstance(refused, Refused)
    assert (refused.why, refused.stops_pass) == ("over_budget", False)
    assert refused.until == datetime(2026, 2, 1, tzinfo=UTC)
    elsewhere = reserve(ChannelFactory())
    assert isinstance(elsewhere, ModelCall if workspace else Refused)


def test_unused_tokens_are_free_again(channel: Channel) -> None:
    Budget.objects.create(workspace=channel.workspace, period="day", tokens=RESERVED)
    call = reserve(channel)
    assert isinstance(reserve(channel), Refused)
    error = SummariserError("server_error", "no")
    ledger_of(channel.workspace).record_failure(call, error, NOON)
    assert isinstance(reserve(channel), ModelCall)


def lose_reply(call: ModelCall) -> None:
    assert call.workspace is not None
    error = SummariserError("timeout", "no", may_be_charged=True)
    ledger_of(call.workspace).record_failure(call, error, NOON)


def test_a_lost_reply_still_counts(channel: Channel) -> None:
    Budget.objects.create(workspace=channel.workspace, period="day", tokens=RESERVED)
    call = reserve(channel)
    assert isinstance(call, ModelCall)
    lose_reply(call)
    assert isinstance(reserve(channel), Refused)


@pytest.mark.parametrize("period", ["day", "month"])
def test_a_job_behind_a_running_call_waits_for_the_call_and_not_for_the_period(
    channel: Channel, period: str
) -> None:
    """The running call may use a part of its reservation. A call whose worker died keeps it all."""
    Budget.objects.create(workspace=channel.workspace, period=period, tokens=2 * RESERVED - 1)
    running, job = reserve(channel), claimed(channel)
    assert isinstance(running, ModelCall)
    refused = ledger_of(channel.workspace).reserve(job, BOUND, NOON)
    soon = NOON + timedelta(seconds=settings.MEMORYHUB_BACK_OFF)
    assert isinstance(refused, Refused) and refused.until == soon
    job.refresh_from_db()
    assert (job.state, job.fault, job.retry_at) == ("waiting", "over_budget", soon)
    after_lease = NOON + LEASE + timedelta(seconds=1)
    refused = reserve(channel, after_lease)
    assert isinstance(refused, Refused) and refused.until == datetime(2026, 2, 1, tzinfo=UTC)
    ledger_of(channel.workspace).settle(running, Usage(900, 100, 1), BOUND, after_lease)
    assert isinstance(reserve(channel, after_lease), ModelCall)


@pytest.mark.parametrize("scope", ["workspace", "installation"])
def test_a_job_behind_a_running_call_without_a_job_waits_for_the_call(
    channel: Channel, scope: str
) -> None:
    """A question or a probe has no lease, so it counts as running for the time of one."""
    workspace = channel.workspace if scope == "workspace" else None
    Budget.objects.create(workspace=workspace, period="month", tokens=2 * RESERVED - 1)
    at = {"began_at": NOON, "day": NOON.date()}
    call = make_call(job=None, workspace=workspace, fence=0, tokens=RESERVED, **at)
    after_lease = NOON + LEASE + timedelta(seconds=1)
    soon = NOON + timedelta(seconds=settings.MEMORYHUB_BACK_OFF)
    for now, until in ((NOON, soon), (after_lease, datetime(2026, 2, 1, tzinfo=UTC))):
        refused = reserve(channel, now)
        assert isinstance(refused, Refused) and refused.until == until
    call.settle(NOON, tokens=RESERVED)
    refused = reserve(channel)
    assert isinstance(refused, Refused) and refused.until == datetime(2026, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("period", "free_from"),
    [("day", datetime(2026, 2, 1, tzinfo=UTC)), ("month", datetime(2026, 2, 1, tzinfo=UTC))],
)
def test_a_new_period_begins_at_zero(channel: Channel, period: str, free_from: datetime) -> None:
    Budget.objects.create(workspace=channel.workspace, period=period, tokens=RESERVED)
    reserve(channel)
    refused = reserve(channel, free_from - timedelta(seconds=1))
    assert isinstance(refused, Refused)
    assert refused.until == free_from
    assert isinstance(reserve(channel, free_from), ModelCall)


def test_a_month_counts_its_earlier_days(channel: Channel) -> None:
    Budget.objects.create(workspace=channel.workspace, period="month", tokens=RESERVED)
    reserve(channel, NOON - timedelta(days=20))
    assert isinstance(reserve(channel), Refused)


def test_a_budget_in_dollars_refuses_a_model_without_a_price(channel: Channel) -> None:
    Budget.objects.create(workspace=None, period="month", money=1_000)
    refused = reserve(channel)
    assert isinstance(refused, Refused)
    assert "price" in refused.text


def test_a_backfill_has_a_cap_of_its_own(channel: Channel) -> None:
    backfill = Backfill.objects.create(
        workspace=channel.workspace, since_us=0, until_us=1, cap_tokens=RESERVED
    )
    assert isinstance(reserve(channel, backfill=backfill), ModelCall)
    refused = reserve(channel, backfill=backfill)
    assert isinstance(refused, Refused)
    assert refused.why == "over_backfill_cap"
    assert isinstance(reserve(channel), ModelCall), "everyday work goes on"


def test_a_worker_that_lost_its_lease_reserves_nothing(channel: Channel) -> None:
    job = claimed(channel)
    later = NOON + LEASE + timedelta(seconds=1)
    assert Job.objects.get(pk=job.pk).claim(later, LEASE)
    refused = ledger_of(channel.workspace).reserve(job, BOUND, later)
    assert isinstance(refused, Refused)
    assert refused.why == "lost"
    assert not ModelCall.objects.exists()


def test_the_offline_summariser_reserves_nothing(channel: Channel) -> None:
    from memories.llm import OfflineSummariser

    Budget.objects.create(workspace=None, period="day", tokens=0)
    ledger = CallLedger(channel.workspace, OfflineSummariser())
    assert ledger.reserve(claimed(channel), BOUND, NOON) is None
    assert ledger.find_breaker_refusal(NOON) is None
    assert not Endpoint.objects.exists()


def test_an_open_call_keeps_its_price_after_the_price_is_removed(channel: Channel) -> None:
    price = Price.objects.create(model="tiny", input_price=2, output_price=8)
    call = reserve(channel)
    price.remove(by=None)
    ledger_of(channel.workspace).settle(call, Usage(900, 50, 1), BOUND, NOON)
    assert ModelCall.objects.committed()[1] >= 2_200


def test_another_model_of_the_family_has_no_price() -> None:
    Price.objects.create(model="big-5", input_price=1, output_price=10)
    assert Price.objects.of_model("big-5-2026-07-18") is not None
    assert Price.objects.of_model("big-5-pro") is None


def test_a_reply_to_an_earlier_call_does_not_end_a_rate_limit(channel: Channel) -> None:
    earlier, limited = reserve(channel), reserve(channel)
    ledger = ledger_of(channel.workspace)
    error = SummariserError("rate_limited", "wait", retry_after=90)
    ledger.record_failure(limited, error, NOON)
    ledger.settle(earlier, Usage(900, 50, 1), BOUND, NOON)
    assert ledger.find_breaker_refusal(NOON + timedelta(seconds=60)) is not None
