"""The costs page: calls for readable memories, with unpriced tokens."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from memories.models import Budget
from tests.factories import ChannelFactory, make_thread_memory
from tests.views.conftest import Cast, assert_same_queries
from tests.views.generate.test_jobs import call, job

pytestmark = pytest.mark.slow


@pytest.fixture
def spent(cast: Cast) -> Cast:
    """Dollars in the public channel, tokens without a price in the private one."""
    call(job(cast.public, "done"), micros=2_500_000)
    call(
        job(cast.private, "done"),
        model="other",
        tokens=4000,
        prompt_tokens=3333,
        completion_tokens=667,
    )
    return cast


def page(cast: Cast, name: str = "member") -> str:
    response = cast.clients[name].get(cast.path("jobs/cost/"))
    assert response.status_code == 200
    content: str = response.content.decode()
    return content


def test_without_a_call(cast: Cast) -> None:
    text = page(cast)
    assert "No model usage this month." in text and "No budget is set." in text
    assert "$0" not in text and "Last 30 days" not in text


def test_a_member_sees_only_visible_costs(spent: Cast) -> None:
    text = page(spent)
    assert "$2.50" in text and "100 tokens in, 20 out" in text
    assert "#launch" in text and "tiny" in text
    main = text.split("<main")[1].split("</main>")[0]
    for hidden in ("other", "3,333", "salaries", "4,000", "unpriced", "private"):
        assert hidden not in main, hidden


def test_an_unpriced_total_is_marked(spent: Cast) -> None:
    text = page(spent, "insider")
    assert "$2.50, 4,000 tokens without a price" in text and "$0" not in text
    assert "#salaries" in text and "3,333" in text


def test_an_operator_sees_private_costs_without_names(spent: Cast) -> None:
    text = page(spent, "operator").split("<main")[1]
    assert "3,333" in text and ">private<" in text and "salaries" not in text


def test_bars_beside_their_table(spent: Cast) -> None:
    text = page(spent, "insider")
    bars = re.findall(r'<rect class="series-(\d)" x="(\d+)" y="([\d.]+)"[^>]*><title>([^<]*)', text)
    assert [(bar[0], bar[1], bar[3].split(", ", 1)[1]) for bar in bars] == [
        ("1", "580", "other: 4,000"),
        ("2", "580", "tiny: 120"),
    ]
    assert "style=" not in text and "The tallest bar: 4,120." in text
    assert text.count('<th scope="row">') >= 5


def test_each_day_lists_its_models(spent: Cast) -> None:
    text = page(spent, "insider")
    by_day = re.search(r"<main.*?(<details.*?</details>)", text, re.S)[1]
    rows = re.findall(r"</svg> (\w+)</td><td>([\d,]+)</td>", by_day)
    assert rows == [("other", "3,333"), ("tiny", "100")]


def test_older_days_are_not_of_this_month(spent: Cast) -> None:
    long_ago = timezone.now() - timedelta(days=40)
    call(job(spent.public, "done"), model="ancient", day=long_ago.date(), micros=9_000_000)
    text = page(spent)
    assert "ancient" not in text and "$9" not in text and "$11" not in text


def test_budgets(spent: Cast) -> None:
    Budget.objects.change(spent.workspace, "month", tokens=10_000, money=Decimal(5), by=None)
    Budget.objects.change(None, "day", tokens=1_000_000, money=None, by=None)
    text = page(spent)
    assert "120 of 10,000 tokens" in text and "$2.50 of $5.00" in text
    assert "120 of 1,000,000 tokens" in text and 'value="50"' in text
    assert "only what you can access" in text
    operators_page = page(spent, "operator")
    assert "4,120 of 10,000 tokens" in operators_page
    assert "only what you can access" not in operators_page


def test_a_running_call_is_not_a_cost(cast: Cast) -> None:
    later = timezone.now() + timedelta(minutes=5)
    made = job(cast.public, "claimed", lease_until=later, fence=1)
    call(made, ended_at=None, prompt_tokens=0, completion_tokens=0, tokens=5000)
    text = page(cast)
    assert "up to 5,000 tokens in progress" in text and "$0" not in text


def test_queries_do_not_grow_with_rows(cast: Cast) -> None:
    """Days, models and channels."""

    def grow(size: int) -> None:
        for n in range(size):
            channel = ChannelFactory(workspace=cast.workspace)
            day = timezone.now().date() - timedelta(days=n % 28)
            call(job(channel, "done"), model=f"model {n}", day=day, micros=n)

    def look() -> None:
        assert "model 9" in page(cast)

    assert_same_queries(grow, look, sizes=(10, 60))


def test_the_page_in_japanese(spent: Cast) -> None:
    client: Any = spent.clients["insider"]
    assert (
        client.get(spent.path("jobs/cost/"), headers={"accept-language": "ja"}).status_code == 200
    )


@pytest.mark.nightly("quicker tests run the same lines")
def test_each_memory_page_shows_its_cost(spent: Cast) -> None:
    """A workspace memory shows it to readers of the cost page, a thread memory to readers of its
    calls.
    """
    for name, sums in (
        ("member", "<dd>100</dd>"),
        ("insider", "<dd>3,433</dd>"),
        ("operator", "<dd>3,433</dd>"),
        ("guest", ""),
    ):
        text = spent.clients[name].get(spent.path()).content.decode()
        assert ("Cost this month" in text) is bool(sums) and sums in text, name
    thread = make_thread_memory(channel=spent.public, thread_ts=spent.messages[0].ts)
    address = spent.path(f"c/C0PUBLIC/t/{spent.messages[0].ts}/")
    assert "Cost this month" not in spent.clients["member"].get(address).content.decode()
    spent_job = job(spent.public, "done", memory=thread)
    call(spent_job, micros=40_000)
    for name, sees in (("member", True), ("guest", False)):
        text = spent.clients[name].get(address).content.decode()
        assert ("Cost this month" in text) is sees and ("$0.04" in text) is sees, name
