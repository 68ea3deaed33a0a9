"""`/metrics`: its key, its format and cost, and the alerts of docs/operate.md."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
import yaml
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_q.models import OrmQ, Task
from prometheus_client.parser import text_string_to_metric_families

from memories import tasks
from memories.models import Heartbeat, Job, Workspace
from memories.models.generate.endpoints import Endpoint
from tests.factories import (
    ChannelFactory,
    UserFactory,
    WorkspaceFactory,
    make_call,
    make_channel_memory,
    make_job,
    set_sync,
)

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("sums, and the order of timestamps")]

KEY = "key-of-prometheus"
GUIDE = (Path(__file__).resolve().parent.parent / "docs" / "operate.md").read_text()
ALERTS = {
    rule["alert"]: rule["expr"]
    for block in re.findall(r"^```yaml\n(groups:.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    for rule in yaml.safe_load(block)["groups"][0]["rules"]
}
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(autouse=True)
def with_key(settings: Any) -> None:
    settings.MEMORYHUB_METRICS_KEY = KEY


def scrape(client: Client) -> Samples:
    response = client.get("/metrics", headers={"Authorization": f"Bearer {KEY}"})
    assert response.status_code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize("value", ["", "Bearer", f"Bearer {KEY}x", KEY, f"Basic {KEY}"])
def test_it_needs_the_key(client: Client, value: str) -> None:
    response = client.get("/metrics", headers={"Authorization": value} if value else {})
    assert response.status_code == 401
    assert b"memoryhub_" not in response.content


def test_metrics_are_404_without_a_key(client: Client, settings: Any) -> None:
    settings.MEMORYHUB_METRICS_KEY = ""
    assert client.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 404


def test_the_guide_lists_every_metric(client: Client) -> None:
    team = connected()
    make_dead(team)
    make_call(job=None)
    Heartbeat.objects.beat("worker", timezone.now())
    client.get("/login/")
    names = {re.sub(r"_(bucket|count|sum)$", "", name) for name, _ in scrape(client)}
    table = GUIDE.partition("| metric | labels |")[2].partition("\n\n")[0]
    listed = {name for row in table.splitlines() for name in re.findall(r"`(memoryhub_\w+)`", row)}
    assert names - {"memoryhub_http_request_duration_seconds_created"} <= listed
    assert listed - names <= {"memoryhub_tasks_last_hour", "memoryhub_endpoint_blocked"}


def test_the_queries_do_not_grow(client: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            scrape(client)
        return len(captured)

    make_dead(connected())
    before = queries()
    for slug in ("a", "b", "c"):
        make_dead(connected(slug))
    assert queries() == before <= 12


def test_sums_of_today(client: Client) -> None:
    now = timezone.now()
    for day, fault in ((now, ""), (now, "timeout"), (now - timedelta(days=1), "")):
        used = {"tokens": 30, "micros": 250_000, "prompt_tokens": 20, "completion_tokens": 10}
        make_call(job=None, model="gpt", day=day.date(), fault=fault, **used)
    samples = scrape(client)
    model = (("model", "gpt"),)
    assert samples["memoryhub_model_calls_today", model] == 2
    assert samples["memoryhub_failed_model_calls_today", model] == 1
    assert samples["memoryhub_model_dollars_today", model] == 0.5
    assert samples["memoryhub_model_tokens_today", (("direction", "in"), *model)] == 40


# -- alerts


def connected(slug: str = "team", **values: Any) -> Workspace:
    now = timezone.now()
    values = {"connected_at": now, "synced_at": now, **values}
    workspace: Workspace = WorkspaceFactory(slug=slug, **values)
    channel = ChannelFactory(workspace=workspace, is_followed=True, bot_is_in=True)
    set_sync(channel, synced_ts="1700000000.000100", synced_at=now)
    return workspace


def make_dead(workspace: Workspace, **values: Any) -> Job:
    memory = make_channel_memory(channel=workspace.channels.get())
    return make_job(memory=memory, **{"state": "dead", **values})


def queue_tasks() -> None:
    OrmQ.objects.bulk_create(
        OrmQ(key="memoryhub", payload="", lock=ago(days=1)) for _ in range(101)
    )


def end_task(*, success: bool) -> None:
    now = timezone.now()
    Task.objects.create(
        **{"id": "1", "name": "1", "func": "memories.tasks.remember", "success": success},
        **{"started": now, "stopped": now},
    )


def lose_passes() -> None:
    """Queue a pass, and queue it again and again, because no worker begins it."""
    for minute in range(12):
        with time_machine.travel(ago(minutes=11 - minute)):
            tasks.tick()


def stop_worker() -> None:
    Heartbeat.objects.update(at=timezone.now() - timedelta(days=1))


def ago(**span: float) -> Any:
    return timezone.now() - timedelta(**span)


SITUATIONS: dict[str, Callable[[Client, Workspace], object]] = {
    "NoWorker": lambda client, team: stop_worker(),
    "QueueGrows": lambda client, team: queue_tasks(),
    "PassWaits": lambda client, team: lose_passes(),
    "TasksFail": lambda client, team: end_task(success=False),
    "JobsFailed": lambda client, team: make_dead(team),
    "BudgetUsedUp": lambda client, team: make_dead(team, state="waiting", fault="over_budget"),
    "ModelBlocked": lambda client, team: Endpoint.objects.create(
        fingerprint="f", name="gpt", needs_person=True
    ),
    "SyncLate": lambda client, team: Workspace.objects.update(synced_at=ago(minutes=16)),
    "ChannelsNotRead": lambda client, team: team.channels.update(bot_is_in=False),
    "MessagesUnread": lambda client, team: set_sync(
        team.channels.get(), history_reached_ts="1700000009.000100"
    ),
    "ServerErrors": lambda client, team: fail(client),
}


def fail(client: Client) -> None:
    UserFactory()
    client.raise_request_exception = False
    assert client.get("/login/").status_code == 500


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_fires(alert: str, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    team = connected()
    Heartbeat.objects.beat("worker", timezone.now())
    end_task(success=True)
    if alert == "ServerErrors":
        monkeypatch.setattr("allauth.account.views.LoginView.dispatch", None)
    client.get("/livez")
    before = scrape(client)
    assert not fires(ALERTS[alert], before, before)
    if alert == "TasksFail":
        Task.objects.all().delete()
    SITUATIONS[alert](client, team)
    assert fires(ALERTS[alert], before, scrape(client))


def fires(expression: str, before: Samples, now: Samples) -> bool:
    """Evaluate `metric{label="value"} > number`, or the same over the `increase` of a counter."""
    pattern = r'(increase\()?(\w+)(?:\{(\w+)="(\w+)"\})?(?:\[\w+\]\))? ([<>]) (\d+)'
    match = re.fullmatch(pattern, expression)
    assert match, f"extend this evaluator: {expression}"
    increase, name, label, value, sign, limit = match.groups()
    for (sample, labels), number in now.items():
        if sample == name and (not label or (label, value) in labels):
            if increase and (sample, labels) not in before:
                continue  # Prometheus sees no increase in the first sample
            number -= before[sample, labels] if increase else 0
            if number > int(limit) if sign == ">" else number < int(limit):
                return True
    return False


def test_every_alert_has_a_situation() -> None:
    assert SITUATIONS.keys() == ALERTS.keys()
