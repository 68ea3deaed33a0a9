"""Prices, budgets, calls, endpoints, jobs and the audit log in the admin."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone
from django_q.models import OrmQ

from memories.models import (
    AuditEvent,
    Backfill,
    Cap,
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
from memories.rules.summariser import Reply
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_version,
)

pytestmark = pytest.mark.django_db


def staff(client, *permissions, workspace=None):
    """Sign in staff with these permissions, as an admin of the workspace."""
    user = UserFactory(username="ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    if workspace:
        MemberFactory(workspace=workspace, user=user, role="admin")
    client.force_login(user)
    return user


def listed(name):
    return reverse(f"admin:memories_{name}_changelist")


def page(name, row):
    return reverse(f"admin:memories_{name}_change", args=[row.pk])


def act(client, name, action, *rows):
    keys = [row.pk for row in rows]
    response = client.post(listed(name), {"action": action, "_selected_action": keys}, follow=True)
    return [str(message) for message in response.context["messages"]]


def audit_log():
    """Return the audit log without logins, oldest first."""
    rows = AuditEvent.objects.exclude(action="login").order_by("pk")
    return [(e.actor, e.action, e.workspace, e.subject, e.details) for e in rows]


class TestPrices:
    def test_a_price_is_added_changed_and_deleted(self, client, operator):
        add = reverse("admin:memories_price_add")
        client.post(add, {"model": "tiny", "input_price": "0.25", "output_price": "2"})
        price = Price.objects.get()
        changes = {"model": "other", "input_price": "0.3", "output_price": "2"}
        assert client.post(page("price", price), changes).status_code == 302
        price.refresh_from_db()
        assert (price.model, price.input_price) == ("tiny", Decimal("0.3"))
        delete = reverse("admin:memories_price_delete", args=[price.pk])
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
        client.post(listed("price"), data | {"post": "yes"})
        assert not Price.objects.exists()
        assert [event[0] for event in audit_log()] == ["", "", "boss", "boss"]

    def test_a_wrong_value_is_refused(self, client, operator):
        add = reverse("admin:memories_price_add")
        data = {"model": "tiny", "input_price": "-1", "output_price": "2"}
        assert client.post(add, data).status_code == 200
        assert not Price.objects.exists()


class TestCaps:
    def test_a_budget_is_set_raised_and_deleted(self, client, operator):
        workspace = WorkspaceFactory(slug="team")
        memory = Memory.objects.of_channel(
            ChannelFactory(workspace=workspace), MemoryType.SHORT_TERM
        )
        waiting = Job.objects.create(
            memory=memory,
            as_of_us=0,
            input_key="k",
            fault="over_cap",
            not_before=timezone.now() + timedelta(hours=3),
        )
        add = reverse("admin:memories_cap_add")
        data = {"workspace": workspace.pk, "period": "day", "tokens": "1000", "money": ""}
        assert client.post(add, data).status_code == 302
        cap = Cap.objects.get()
        Job.objects.update(not_before=timezone.now() + timedelta(hours=3))
        changes = {"tokens": "2000", "money": "1.5", "period": "month"}
        assert client.post(page("cap", cap), changes).status_code == 302
        waiting.refresh_from_db()
        assert waiting.not_before is None
        delete = reverse("admin:memories_cap_delete", args=[cap.pk])
        assert client.post(delete, {"post": "yes"}).status_code == 302
        assert not Cap.objects.exists()
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
        Cap.objects.change(None, "day", tokens=10, by=None)
        before = audit_log()
        assert client.post(reverse("admin:memories_cap_add"), data).status_code == 200
        assert (Cap.objects.count(), audit_log()) == (1, before)

    def test_staff_set_only_budgets_of_their_workspace(self, client):
        workspace, foreign = WorkspaceFactory(), WorkspaceFactory()
        of_all = Cap.objects.change(None, "day", tokens=10, by=None)
        staff(client, "view_cap", "add_cap", "change_cap", "delete_cap", workspace=workspace)
        add = reverse("admin:memories_cap_add")
        for given, status in ((workspace.pk, 302), (foreign.pk, 200), ("", 200)):
            data = {"workspace": given, "period": "month", "tokens": "5"}
            assert client.post(add, data).status_code == status
        assert client.post(page("cap", of_all), {"tokens": "99"}).status_code == 302
        of_all.refresh_from_db()
        assert of_all.tokens == 10
        assert Cap.objects.exclude(workspace=None).get().workspace == workspace


class TestEndpoints:
    def test_an_endpoint_is_resumed(self, client, operator):
        closed = Endpoint.objects.create(
            fingerprint="f", name="tiny", needs_person=True, fault="out_of_credit"
        )
        assert b"needs a person" in client.get(listed("endpoint")).content
        assert act(client, "endpoint", "resume", closed) == ["Calls to 1 endpoint are resumed."]
        closed.refresh_from_db()
        assert not closed.needs_person
        assert act(client, "endpoint", "resume", closed) == ["Calls to 0 endpoints are resumed."]
        details = {"fault": "out_of_credit"}
        assert audit_log() == [("boss", "endpoint_resume", "", "tiny", details)]

    def test_a_probe_is_queued(
        self, client, operator, settings, django_capture_on_commit_callbacks
    ):
        settings.MEMORYHUB_MODEL, settings.OPENAI_API_KEY = "tiny", "secret"
        model = configured_model()
        named = Endpoint.objects.get_or_create_for(model.endpoint, model.endpoint_name)
        another = Endpoint.objects.create(fingerprint="f", name="other")
        with django_capture_on_commit_callbacks(execute=True):
            assert act(client, "endpoint", "probe", another) == ["The settings name another model."]
            assert not OrmQ.objects.exists() and audit_log() == []
            [text] = act(client, "endpoint", "probe", named)
        assert text.startswith("The check is queued.")
        task = OrmQ.objects.get().task
        assert (task["func"], task["kwargs"]) == ("memories.tasks.probe", {"by_person": True})
        assert audit_log() == [("boss", "endpoint_probe", "", model.endpoint_name, {})]

    def test_only_operators_see_endpoints(self, client):
        closed = Endpoint.objects.create(fingerprint="f", name="tiny", needs_person=True)
        staff(client, "view_endpoint", "change_endpoint", workspace=WorkspaceFactory())
        assert b"tiny" not in client.get(listed("endpoint")).content
        act(client, "endpoint", "resume", closed)
        closed.refresh_from_db()
        assert closed.needs_person


class TestJobs:
    def job(self, channel, state, **given):
        memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
        key = f"{Job.objects.count()}"
        values = {"memory": memory, "as_of_us": 0, "input_key": key, "state": state}
        return Job.objects.create(**values | given)

    def states(self):
        return list(Job.objects.order_by("pk").values_list("state", flat=True))

    @pytest.mark.slow
    def test_a_job_is_cancelled_and_retried(self, client, operator):
        waiting = self.job(ChannelFactory(), "waiting")
        assert act(client, "job", "cancel", waiting) == ["1 job was cancelled."]
        assert self.states() == ["cancelled"]
        act(client, "job", "retry", waiting)
        assert self.states() == ["waiting"]
        assert [event[:2] for event in audit_log()] == [
            ("boss", "job_cancel"),
            ("boss", "job_retry"),
        ]

    @pytest.mark.slow
    def test_only_readers_accept_or_reject_proposals(self, client, operator):
        person = PersonFactory()
        private = ChannelFactory(workspace=person.workspace, kind="private", members=[person])
        memory = Memory.objects.of_channel(private, MemoryType.LONG_TERM)
        base = make_version(memory=memory, text="- " + "x" * 398)
        reply = Reply("- " + "y" * 38, "stop", "tiny", "p").as_json()
        made = self.job(private, "proposed", base=base, reply=reply)
        assert "100 → 10" in client.get(listed("job")).content.decode()
        for action in ("accept", "reject"):
            act(client, "job", action, made)
        assert self.states() == ["proposed"]
        person.link(operator, "slack")
        assert act(client, "job", "reject", made) == ["1 proposal was rejected."]
        assert self.states() == ["rejected"]

    def test_a_stale_proposal_is_not_accepted(self, client, operator):
        channel = ChannelFactory()
        memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
        base = make_version(memory=memory, text="- old")
        reply = Reply("- new", "stop", "tiny", "p").as_json()
        made = self.job(channel, "proposed", base=base, reply=reply)
        memory.revise("- by hand", by=None, based_on=1)
        texts = act(client, "job", "accept", made)
        assert any("changed after its text" in text for text in texts)
        memory.refresh_from_db()
        assert memory.current.content == "- by hand"

    def test_calls_are_shown_with_their_job_and_in_a_list(self, client, operator):
        made = self.job(ChannelFactory(), "done")
        ModelCall.objects.create(
            job=made,
            fence=1,
            workspace=made.memory.workspace,
            model="tiny",
            day=timezone.now().date(),
            began_at=timezone.now(),
            tokens=54321,
        )
        assert b"54321" in client.get(page("job", made)).content
        alone = client.get(listed("modelcall")).content.decode()
        assert "54321" in alone and "unpriced" in alone


class TestBackfills:
    @pytest.mark.parametrize(
        ("actions", "state"),
        [
            (["pause"], "paused"),
            (["pause", "resume"], "running"),
            (["cancel"], "cancelled"),
            (["cancel", "resume"], "cancelled"),
        ],
    )
    def test_a_backfill_is_paused_resumed_and_cancelled(self, client, operator, actions, state):
        backfill = Backfill.objects.create(workspace=WorkspaceFactory(), since_us=0, until_us=1)
        for action in actions:
            act(client, "backfill", action, backfill)
        backfill.refresh_from_db()
        assert backfill.state == state
        assert {event[0] for event in audit_log()} == {"boss"}

    def test_a_viewer_cannot_cancel_a_backfill(self, client):
        workspace = WorkspaceFactory()
        backfill = Backfill.objects.create(workspace=workspace, since_us=0, until_us=1)
        staff(client, "view_backfill", workspace=workspace)
        assert client.get(page("backfill", backfill)).status_code == 200
        act(client, "backfill", "cancel", backfill)
        backfill.refresh_from_db()
        assert backfill.state == "running"


class TestAuditLog:
    def test_operators_cannot_change_the_audit_log(self, client, operator):
        event = AuditEvent.objects.record("settings", by=operator, subject="here")
        assert "here" in client.get(listed("auditevent")).content.decode()
        assert client.get(reverse("admin:memories_auditevent_add")).status_code == 403
        assert client.post(page("auditevent", event), {"subject": "x"}).status_code == 403
        delete = reverse("admin:memories_auditevent_delete", args=[event.pk])
        assert client.post(delete, {"post": "yes"}).status_code == 403
        data = {"action": "delete_selected", "_selected_action": [event.pk], "post": "yes"}
        client.post(listed("auditevent"), data)
        assert b"delete_selected" not in client.get(listed("auditevent")).content
        assert AuditEvent.objects.get(pk=event.pk).subject == "here"

    def test_an_admin_sees_the_events_of_the_workspace(self, client):
        workspace = WorkspaceFactory()
        staff(client, "view_auditevent", workspace=workspace)
        for name, where in (("ours", workspace), ("theirs", WorkspaceFactory()), ("all", None)):
            AuditEvent.objects.record("settings", by=None, workspace=where, subject=f"{name}-x")
        shown = client.get(listed("auditevent")).content.decode()
        assert "ours-x" in shown
        assert "theirs-x" not in shown and "all-x" not in shown

    def test_changed_settings_are_recorded(self, client, operator):
        workspace = WorkspaceFactory(slug="team")
        form = client.get(page("workspace", workspace)).context["adminform"].form
        data = {name: form[name].value() for name in form.fields}
        data |= {"members-TOTAL_FORMS": "0", "members-INITIAL_FORMS": "0", "message_threshold": 20}
        data = {
            name: value for name, value in data.items() if value is not None and value is not False
        }
        assert client.post(page("workspace", workspace), data).status_code == 302
        changed = {"message_threshold": [50, 20]}
        assert audit_log() == [("boss", "settings", "team", "", {"changed": changed})]
        assert Workspace.objects.get().memory_settings.message_threshold == 20

    def test_roles_are_read_only(self, client, operator):
        member = MemberFactory(workspace=WorkspaceFactory(slug="team"), role="editor")
        assert client.get(page("member", member)).status_code == 200
        assert client.get(reverse("admin:memories_member_add")).status_code == 403
        response = client.post(page("member", member), {"role": "admin"})
        assert response.status_code == 403
        member.refresh_from_db()
        assert member.role == "editor" and audit_log() == []

    def test_links_and_rights_are_recorded(self, client, operator):
        person, user = PersonFactory(slack_id="U1"), UserFactory(username="mika")
        client.post(page("person", person), {"user": user.pk})
        form = client.get(page("user", user)).context["adminform"].form
        data = {name: form[name].value() for name in form.fields}
        data = {
            name: value for name, value in data.items() if value is not None and value is not False
        }
        data |= {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0", "is_staff": "on"}
        response = client.post(page("user", user), data)
        assert response.status_code == 302
        assert [(e[1], e[3], e[4]) for e in audit_log()] == [
            ("person_link", "U1", {"account": "mika", "how": "operator"}),
            ("account", "mika", {"is_staff": True}),
            ("admin_change", f"user {user.pk}", {"fields": ["Staff status"]}),
        ]
        user.delete()

    def test_new_and_deleted_accounts_and_changed_channels_are_recorded(self, client, operator):
        data = {"username": "mika", "password1": "a long word 7", "password2": "a long word 7"}
        add = reverse("admin:memories_user_add")
        client.post(add, {**data, "usable_password": "true"})
        user = User.objects.get(username="mika")
        client.post(reverse("admin:memories_user_delete", args=[user.pk]), {"post": "yes"})
        channel = ChannelFactory(remember_bots=True)
        client.post(page("channel", channel), {})
        assert [(e[1], e[3], e[4]) for e in audit_log()] == [
            ("admin_add", f"user {user.pk}", {}),
            ("admin_delete", f"user {user.pk}", {}),
            ("admin_change", f"channel {channel.pk}", {"fields": ["Remember bots"]}),
        ]
