"""Prices, budgets, calls, endpoints and the audit log in the admin."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from memories.models import (
    AuditEvent,
    Budget,
    Endpoint,
    Job,
    Memory,
    ModelCall,
    Price,
    User,
    Workspace,
)
from memories.pipeline.generate.probing import configured_model
from memories.rules.memory.identity import MemoryType
from memoryhub.task_guard import check_package
from tests.admin.conftest import act, change_page, page_of, sent_data, staff
from tests.factories import (
    ChannelFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_call,
    make_job,
)

pytestmark = pytest.mark.django_db


def audit_log():
    """Return the audit log without logins, oldest first."""
    rows = AuditEvent.objects.exclude(action="login").order_by("pk")
    return [(e.actor, e.action, e.workspace, e.subject, e.details) for e in rows]


class TestPrices:
    def test_a_price_is_added_changed_and_deleted(self, client, operator):
        add = page_of(Price, "add")
        client.post(add, {"model": "tiny", "input_price": "0.25", "output_price": "2"})
        price = Price.objects.get()
        changes = {"model": "other", "input_price": "0.3", "output_price": "2"}
        assert client.post(change_page(price), changes).status_code == 302
        price.refresh_from_db()
        assert (price.model, price.input_price) == ("tiny", Decimal("0.3"))
        delete = page_of(Price, "delete", price.pk)
        assert client.post(delete, {"post": "yes"}).status_code == 302
        assert not Price.objects.exists()
        first, second = ["0.250000", "2.000000"], ["0.300000", "2.000000"]
        assert audit_log() == [
            ("boss", "price", "", "tiny", {"before": None, "after": first}),
            ("boss", "price", "", "tiny", {"before": first, "after": second}),
            ("boss", "price", "", "tiny", {"before": second, "after": None}),
        ]

    def test_several_prices_are_deleted_at_once(self, client, operator):
        for name in ("tiny", "big"):
            Price.objects.change(name, Decimal(1), Decimal(1), by=None)
        data = {
            "action": "delete_selected",
            "_selected_action": [p.pk for p in Price.objects.all()],
        }
        client.post(page_of(Price), data | {"post": "yes"})
        assert not Price.objects.exists()
        assert [event[0] for event in audit_log()] == ["", "", "boss", "boss"]

    def test_a_wrong_value_is_refused(self, client, operator):
        add = page_of(Price, "add")
        data = {"model": "tiny", "input_price": "-1", "output_price": "2"}
        assert client.post(add, data).status_code == 200
        assert not Price.objects.exists()


class TestBudgets:
    def test_a_budget_is_set_raised_and_deleted(self, client, operator):
        workspace = WorkspaceFactory(slug="team")
        memory = Memory.objects.of_channel(
            ChannelFactory(workspace=workspace), MemoryType.SHORT_TERM
        )
        waiting = make_job(
            memory=memory, fault="over_budget", retry_at=timezone.now() + timedelta(hours=3)
        )
        add = page_of(Budget, "add")
        data = {"workspace": workspace.pk, "period": "day", "tokens": "1000", "money": ""}
        assert client.post(add, data).status_code == 302
        budget = Budget.objects.get()
        Job.objects.update(retry_at=timezone.now() + timedelta(hours=3))
        changes = {"tokens": "2000", "money": "1.5", "period": "month"}
        assert client.post(change_page(budget), changes).status_code == 302
        waiting.refresh_from_db()
        assert waiting.retry_at is None
        delete = page_of(Budget, "delete", budget.pk)
        assert client.post(delete, {"post": "yes"}).status_code == 302
        assert not Budget.objects.exists()
        none = {"tokens": None, "money": None}
        first, second = {"tokens": 1000, "money": None}, {"tokens": 2000, "money": "1.50"}
        assert audit_log() == [
            ("boss", "cap", "team", "day", {"before": none, "after": first}),
            ("boss", "cap", "team", "day", {"before": first, "after": second}),
            ("boss", "cap", "team", "day", {"before": second, "after": none}),
        ]

    @pytest.mark.parametrize(
        "data",
        [
            {"period": "day"},
            {"period": "day", "tokens": "-1"},
            {"period": "day", "tokens": "5"},  # there is one
            {"period": "week", "tokens": "5"},
        ],
    )
    def test_a_wrong_value_is_refused(self, client, operator, data):
        Budget.objects.change(None, "day", tokens=10, by=None)
        before = audit_log()
        assert client.post(page_of(Budget, "add"), data).status_code == 200
        assert (Budget.objects.count(), audit_log()) == (1, before)

    def test_staff_set_only_budgets_of_their_workspace(self, client):
        workspace, foreign = WorkspaceFactory(), WorkspaceFactory()
        of_all = Budget.objects.change(None, "day", tokens=10, by=None)
        rights = ("view_budget", "add_budget", "change_budget", "delete_budget")
        staff(client, *rights, workspace=workspace, role="admin")
        add = page_of(Budget, "add")
        for given, status in ((workspace.pk, 302), (foreign.pk, 200), ("", 200)):
            data = {"workspace": given, "period": "month", "tokens": "5"}
            assert client.post(add, data).status_code == status
        assert client.post(change_page(of_all), {"tokens": "99"}).status_code == 302
        of_all.refresh_from_db()
        assert of_all.tokens == 10
        assert Budget.objects.exclude(workspace=None).get().workspace == workspace


def test_a_probe_is_queued(client, operator, settings, django_capture_on_commit_callbacks):
    settings.MEMORYHUB_MODEL, settings.OPENAI_API_KEY = "tiny", "secret"
    model = configured_model()
    named = Endpoint.objects.get_or_create_for(model.endpoint, model.endpoint_name)
    another = Endpoint.objects.create(fingerprint="f", name="other", needs_person=True)
    assert b"needs a person" in client.get(page_of(Endpoint)).content
    with django_capture_on_commit_callbacks(execute=True):
        assert act(client, "probe", another) == ["The settings name another model."]
        assert not OrmQ.objects.exists() and audit_log() == []
        [text] = act(client, "probe", named)
    assert text.startswith("The check is queued.")
    row = OrmQ.objects.get()
    check_package(row.payload)  # a worker runs it
    assert (row.task["func"], row.task["args"]) == ("memories.tasks.probe", (operator.pk,))
    assert audit_log() == [("boss", "endpoint_probe", "", model.endpoint_name, {})]


def test_calls_are_shown_with_their_job_and_in_a_list(client, operator):
    memory = Memory.objects.of_channel(ChannelFactory(), MemoryType.LONG_TERM)
    job = make_job(memory=memory, state="done")
    make_call(job=job, tokens=54321)
    assert b"54321" in client.get(change_page(job)).content
    alone = client.get(page_of(ModelCall)).content.decode()
    assert "54321" in alone and "unpriced" in alone


class TestAuditLog:
    def test_an_admin_sees_the_events_of_the_workspace(self, client):
        workspace = WorkspaceFactory()
        staff(client, "view_auditevent", workspace=workspace, role="admin")
        for name, where in (("ours", workspace), ("theirs", WorkspaceFactory()), ("all", None)):
            AuditEvent.objects.record("settings", by=None, workspace=where, subject=f"{name}-x")
        shown = client.get(page_of(AuditEvent)).content.decode()
        assert "ours-x" in shown
        assert "theirs-x" not in shown and "all-x" not in shown

    def test_changed_settings_are_recorded(self, client, operator):
        workspace = WorkspaceFactory(slug="team")
        form = client.get(change_page(workspace)).context["adminform"].form
        data = sent_data(form) | {"members-TOTAL_FORMS": "0", "members-INITIAL_FORMS": "0"}
        data["message_threshold"] = 20
        assert client.post(change_page(workspace), data).status_code == 302
        changed = {"message_threshold": [50, 20]}
        assert audit_log() == [("boss", "settings", "team", "", {"changed": changed})]
        assert Workspace.objects.get().memory_settings.message_threshold == 20

    def test_links_and_rights_are_recorded(self, client, operator):
        person, user = PersonFactory(slack_id="U1"), UserFactory(username="mika")
        client.post(change_page(person), {"user": user.pk})
        data = sent_data(client.get(change_page(user)).context["adminform"].form)
        data |= {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0", "is_staff": "on"}
        response = client.post(change_page(user), data)
        assert response.status_code == 302
        assert [(e[1], e[3], e[4]) for e in audit_log()] == [
            ("person_link", "U1", {"account": "mika", "how": "operator"}),
            ("account", "mika", {"is_staff": True}),
            ("admin_change", f"user {user.pk}", {"fields": ["Staff status"]}),
        ]
        user.delete()

    def test_new_and_deleted_accounts_and_changed_channels_are_recorded(self, client, operator):
        data = {"username": "mika", "password1": "a long word 7", "password2": "a long word 7"}
        add = page_of(User, "add")
        client.post(add, {**data, "usable_password": "true"})
        user = User.objects.get(username="mika")
        client.post(page_of(User, "delete", user.pk), {"post": "yes"})
        channel = ChannelFactory(remember_bots=True)
        client.post(change_page(channel), {})
        assert [(e[1], e[3], e[4]) for e in audit_log()] == [
            ("admin_add", f"user {user.pk}", {}),
            ("admin_delete", f"user {user.pk}", {}),
            ("admin_change", f"channel {channel.pk}", {"fields": ["Remember bots"]}),
        ]
