"""The settings of a workspace, for its admins."""

import html
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone
from django_q.models import OrmQ
from pytest_django import Settings

from memories.models import AuditEvent, Budget, Endpoint, Job, Memory, Price, Workspace
from memories.pipeline.generate.probing import configured_model
from memories.rules.generate.probe import ProbeResult
from memories.rules.memory.identity import MemoryType
from memories.rules.settings import PRESETS
from memoryhub.task_guard import check_package
from tests.factories import WorkspaceFactory, make_thread_memory
from tests.test_forms import shown
from tests.views.conftest import Cast
from tests.views.generate.test_jobs import call, job

pytestmark = pytest.mark.slow


def given(cast: Cast, **changes: object) -> dict[str, object]:
    """Return the data of the form, without switches that are off."""
    values = shown(cast.workspace.memory_settings) | changes
    return {key: value for key, value in values.items() if value is not False}


def test_an_admin_changes_settings(cast: Cast) -> None:
    data = given(cast, message_threshold=20, history_enabled=False, time_zone="Asia/Tokyo")
    response = cast.clients["insider"].post(cast.path("settings/"), data)
    assert response.status_code == 302
    workspace = Workspace.objects.get(pk=cast.workspace.pk)
    assert workspace.settings == {
        "message_threshold": 20,
        "history_enabled": False,
        "time_zone": "Asia/Tokyo",
    }
    assert "Settings saved." in cast.clients["insider"].get(response["Location"]).content.decode()
    event = AuditEvent.objects.get(action="settings")
    assert (event.actor, event.workspace) == ("insider", "team")
    assert event.details["changed"]["message_threshold"] == [50, 20]


def drawn(page: str) -> dict[str, str]:
    """Return the hidden initial values of the form."""
    return dict(re.findall(r'name="(initial-\w+)" value="([^"]*)"', page))


def test_an_older_form_keeps_newer_values(cast: Cast) -> None:
    client, path = cast.clients["insider"], cast.path("settings/")
    old = given(cast, message_threshold=20) | drawn(client.get(path).content.decode())
    assert len(old) > 30
    cast.workspace.change_settings({"max_history_count": 7, "history_enabled": False})
    assert client.post(path, old).status_code == 302
    workspace = Workspace.objects.get(pk=cast.workspace.pk)
    assert workspace.settings == {
        "max_history_count": 7,
        "history_enabled": False,
        "message_threshold": 20,
    }
    switched = given(cast, notes_enabled=False) | drawn(client.get(path).content.decode())
    assert client.post(path, switched).status_code == 302
    assert not Workspace.objects.get(pk=cast.workspace.pk).memory_settings.notes_enabled


@pytest.mark.parametrize(
    ("before", "after", "asks"), [(0, 30, True), (30, 7, True), (7, 30, False), (7, 0, False)]
)
def test_a_shorter_retention_needs_a_confirmation(
    cast: Cast, before: int, after: int, asks: bool
) -> None:
    client, path = cast.clients["insider"], cast.path("settings/")
    cast.workspace.change_settings({"retention_days": before})
    form = drawn(client.get(path).content.decode())
    data = given(cast, retention_days=after) | form
    response = client.post(path, data)
    assert response.status_code == (422 if asks else 302)
    if asks:
        page = response.content.decode()
        assert f"Messages older than {after} days are deleted permanently" in page
        assert f'name="retention_days" value="{after}"' in page
        kept = Workspace.objects.get(pk=cast.workspace.pk).memory_settings.retention_days
        assert kept == before
        assert client.post(path, data | drawn(page) | {"remove": "1"}).status_code == 422
        assert client.post(path, data | drawn(page) | {"remove": str(after)}).status_code == 302
    assert Workspace.objects.get(pk=cast.workspace.pk).memory_settings.retention_days == after


def test_a_wrong_value_is_shown_in_place_and_nothing_is_saved(cast: Cast) -> None:
    data = given(cast, message_threshold=0, max_history_count=9)
    response = cast.clients["insider"].post(cast.path("settings/"), data)
    page = response.content.decode()
    assert response.status_code == 422
    assert "Nothing was saved" in page
    assert 'name="message_threshold" value="0"' in page
    assert Workspace.objects.get(pk=cast.workspace.pk).settings == {}


def test_changes_are_listed(cast: Cast) -> None:
    path = cast.path("settings/")
    assert "No changes yet" in cast.clients["insider"].get(path).content.decode()
    data = given(cast, message_threshold=20, history_enabled=False, notes_inject="none")
    cast.clients["insider"].post(path, data)
    Workspace.objects.get(pk=cast.workspace.pk).change_settings({"message_threshold": 30})
    WorkspaceFactory().change_settings({"message_threshold": 77})
    AuditEvent.objects.record(
        "settings", by=None, workspace=cast.workspace, changed={"gone_since": [1, None]}
    )
    page = cast.clients["insider"].get(path).content.decode()
    report = page[page.index('id="saves-title"') :]
    arguments = [re.sub(r"<[^>]+>", "", line) for line in re.findall(r"<li><b>.*?</li>", report)]
    assert arguments == [
        "gone_since before: 1 after: None",
        "Messages per conversation before: 20 after: 30",
        "Keep a history before: on after: off",
        "Messages per conversation before: 50 after: 20",
        "Notes in contexts before: always after: not at all",
    ]
    assert report.count("on the command line") == 2 and report.count("· insider") == 1


def test_changes_of_the_name_and_the_budget_are_listed(cast: Cast) -> None:
    client, path = cast.clients["insider"], cast.path("settings/")
    for data in (
        {"do": "workspace", "workspace-name": "Acme", "workspace-domain": "acme"},
        {"do": "budget", "budget-money": "20", "budget-tokens": "1000000"},
        {"do": "budget", "budget-money": "", "budget-tokens": "1000000"},
    ):
        client.post(path, data)
    page = client.get(path).content.decode()
    report = page[page.index('id="saves-title"') :]
    changes = [re.sub(r"<[^>]+>", "", line) for line in re.findall(r"<li><b>.*?</li>", report)]
    assert changes == [
        "Dollars a month before: $20.00 after: no limit",
        "Dollars a month before: no limit after: $20.00",
        "Tokens a month before: no limit after: 1,000,000",
        "Slack domain before: team after: acme",
        "Name before: The team after: Acme",
    ]
    assert report.count("· insider") == 3


def test_a_huge_number_is_refused_in_the_language_of_the_reader(cast: Cast) -> None:
    client = cast.clients["insider"]
    client.post("/i18n/setlang/", {"language": "ja"})
    response = client.post(cast.path("settings/"), given(cast, message_threshold=10**9))
    page = response.content.decode()
    assert response.status_code == 422
    assert "must be" not in page and "10000000 以下" in page


def test_other_readers_cannot_change_settings(cast: Cast) -> None:
    for name, status in (("editor", 403), ("member", 403), ("guest", 403), ("outsider", 404)):
        data = given(cast, message_threshold=20)
        assert cast.clients[name].post(cast.path("settings/"), data).status_code == status
    assert Workspace.objects.get(pk=cast.workspace.pk).settings == {}


def test_times_are_in_the_zone_of_the_workspace(cast: Cast) -> None:
    cast.workspace.change_settings({"time_zone": "Asia/Tokyo"})
    page = cast.clients["member"].get(cast.path("c/C0PUBLIC/")).content.decode()
    assert "5 Jan 2026, 18:00" in page


@pytest.fixture
def spent(cast: Cast) -> Cast:
    """Calls of each kind: three of a trigger, of a thread, of a merge, and old ones."""
    for reason, micros in (("full", 1_500_000), ("idle", 20_000), ("idle", 30_000)):
        call(job(cast.public, "done", trigger={"reason": reason}), micros=micros)
    thread = make_thread_memory(channel=cast.public, thread_ts=cast.messages[0].ts)
    call(job(cast.public, "done", memory=thread, trigger={"reason": "idle"}))
    merged = Memory.objects.of_channel(cast.public, MemoryType.LONG_TERM)
    call(job(cast.public, "done", memory=merged, trigger={"reason": "merge"}), micros=7_000_000)
    call(job(cast.private, "done", trigger={"reason": "full"}), micros=500_000)
    long_ago = (timezone.now() - timedelta(days=30)).date()
    call(job(cast.public, "done", trigger={"reason": "full"}), micros=9_000_000, day=long_ago)
    return cast


def helps(page: str) -> dict[str, str]:
    results = re.findall(r'<p class="hint" id="id_(\w+)_helptext">(.*?)</p>', page)
    return {key: html.unescape(arguments) for key, arguments in results}


def test_each_trigger_shows_its_recent_cost(spent: Cast) -> None:
    client = spent.clients["insider"]
    page = client.get(spent.path("settings/")).content.decode()
    report = {
        "message_threshold": "each with less to read. Last 30 days: 2 calls, $2.00.",
        "conversation_idle_seconds": "Last 30 days: 3 calls, $0.0500, 120 tokens without a price.",
        "thread_memories": "Last 30 days: 1 call, 120 tokens without a price.",
        "long_term_max_tokens": "Last 30 days: 1 call, $7.00.",
        "workspace_short_term": "Last 30 days: no calls.",
    }
    results = helps(page)
    assert {
        key: arguments for key, arguments in report.items() if not results[key].endswith(arguments)
    } == {}
    assert 'aria-describedby="id_message_threshold_helptext"' in page
    assert "days: " not in results["time_zone"]
    Job.objects.filter(memory__channel=spent.private).delete()
    page = client.get(spent.path("settings/")).content.decode()
    assert helps(page)["message_threshold"].endswith("1 call, $1.50.")


def test_the_model_its_price_and_budgets(spent: Cast, settings: Settings) -> None:
    def card() -> str:
        page = spent.clients["insider"].get(spent.path("settings/")).content.decode()
        return page[page.index('id="costs-title"') : page.index('id="saves-title"')]

    text = card()
    assert "none: highlights" in text and "No budget is set." in text
    settings.MEMORYHUB_MODEL = "tiny"
    assert re.search("input and output</dt><dd>unpriced<", card())
    Price.objects.change("tiny", Decimal("2.5"), Decimal(10), by=None)
    Budget.objects.change(spent.workspace, "month", tokens=None, money=Decimal(20), by=None)
    text = card()
    assert "<dd>tiny</dd>" in text and "<dd>$2.50, $10.00</dd>" in text
    assert " of $20.00" in text and 'name="budget-money" value="20.00"' in text
    assert "$9.05, 120 tokens without a price" in text


def test_costs_of_other_workspaces_are_not_shown(spent: Cast) -> None:
    spent.workspace.members.update(role="admin")
    page = spent.clients["editor"].get(spent.path("settings/")).content.decode()
    assert helps(page)["message_threshold"].endswith("1 call, $1.50.")


def test_an_operator_probes_the_model(
    cast: Cast, settings: Settings, django_capture_on_commit_callbacks: Any
) -> None:
    client, path = cast.clients["operator"], cast.path("settings/")
    assert "Check now" not in client.get(path).content.decode(), "no model is named"
    settings.MEMORYHUB_MODEL, settings.OPENAI_API_KEY = "tiny", "sk-secret"
    page = client.get(path).content.decode()
    assert "Not checked yet." in page and cast.path("settings/probe/") in page
    assert "Check now" not in cast.clients["insider"].get(path).content.decode(), "no operator"
    assert cast.clients["insider"].post(cast.path("settings/probe/")).status_code == 403
    assert client.get(cast.path("settings/probe/")).status_code == 405
    with django_capture_on_commit_callbacks(execute=True):
        response = client.post(cast.path("settings/probe/"), follow=True)
    assert "The check is queued." in response.content.decode()
    row = OrmQ.objects.get()
    check_package(row.payload)  # a worker runs it
    assert (row.task["func"], row.task["args"]) == (
        "memories.tasks.probe",
        (cast.users["operator"].pk,),
    )
    assert AuditEvent.objects.get(action="endpoint_probe").actor == "operator"
    model = configured_model()
    assert model is not None
    endpoint = Endpoint.objects.get_or_create_for(model.endpoint, model.endpoint_name)
    findings = ProbeResult(
        gives_sources=True,
        writes_operations=False,
        keeps_language=True,
        reasons=False,
        context_tokens=1_018,
        tokens_per_second=None,
    )
    endpoint.record_probe(findings, timezone.now())
    page = client.get(path).content.decode()
    shown = re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page.split("Last checked")[1])
    assert dict(shown[:7]) == {
        "prompt form": "full",
        "gives sources": "yes",
        "keeps the language": "yes",
        "writes operations": "no",
        "reasoning model": "no",
        "input limit in tokens": "1018",
        "tokens per second": "unknown",
    }
    assert "sk-secret" not in page and endpoint.fingerprint not in page


def test_the_name_and_the_slack_domain_are_changed(cast: Cast) -> None:
    client, path = cast.clients["insider"], cast.path("settings/")
    data = {
        "do": "workspace",
        "workspace-name": "Acme",
        "workspace-domain": "https://acme.slack.com/",
    }
    assert client.post(path, data).status_code == 302
    workspace = Workspace.objects.get(pk=cast.workspace.pk)
    assert (workspace.name, workspace.domain) == ("Acme", "acme")
    assert "Acme" in client.get(path).content.decode()
    event = AuditEvent.objects.get(action="workspace")
    assert (event.actor, event.details["changed"]) == (
        "insider",
        {"name": ["The team", "Acme"], "domain": ["team", "acme"]},
    )
    refused = client.post(path, data | {"workspace-domain": "a b"})
    assert refused.status_code == 422 and "such as acme" in refused.content.decode()


def test_a_budget_is_set_and_removed(cast: Cast) -> None:
    client, path = cast.clients["insider"], cast.path("settings/")
    client.post(path, {"do": "budget", "budget-money": "20", "budget-tokens": ""})
    budget = Budget.objects.get(workspace=cast.workspace)
    assert (budget.period, budget.money, budget.tokens) == ("month", Decimal(20), None)
    assert client.post(path, {"do": "budget", "budget-money": "-1"}).status_code == 422
    client.post(path, {"do": "budget", "budget-money": "", "budget-tokens": ""})
    assert not Budget.objects.exists()
    assert AuditEvent.objects.filter(action="cap", actor="insider").count() == 2


def test_a_preset_is_chosen_and_advanced_is_closed(cast: Cast) -> None:
    client, path = cast.clients["insider"], cast.path("settings/")
    page = client.get(path).content.decode()
    assert re.search(r'value="busy"[^>]* checked', page) and "<details><summary>Advanced" in page
    data = given(cast, preset="quiet") | drawn(page)
    assert client.post(path, data).status_code == 302
    workspace = Workspace.objects.get(pk=cast.workspace.pk)
    assert workspace.memory_settings.message_threshold == PRESETS["quiet"]["message_threshold"]
    page = client.get(path).content.decode()
    assert re.search(r'value="quiet"[^>]* checked', page)
    assert "before: 2" in re.sub("<[^>]+>", "", page), "the history is in hours too"


@pytest.mark.nightly("quicker tests run the same lines")
@pytest.mark.parametrize("zone", ["Tokyo", "Mars/Base", "../etc/passwd"])
def test_an_unknown_time_zone_is_an_error(cast: Cast, zone: str) -> None:
    for name, path in (("insider", cast.path("settings/")), ("member", "/settings/")):
        page = cast.clients[name].get(path).content.decode()
        assert 'list="zones"' in page and '<option value="Asia/Tokyo">' in page
        data = given(cast) | {"theme": "dark", "density": "compact"} | {"time_zone": zone}
        response = cast.clients[name].post(path, data)
        assert response.status_code == 422
        assert "Choose a time zone from the list" in response.content.decode()
