"""The audit log is append-only, and contains no text of messages or memories."""

import json
from decimal import Decimal

import pytest
from django.contrib.auth import authenticate
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from memories.models import AppendOnly, AuditEvent, Budget, Job, Memory, Price, Reader
from memories.models.ingest.people import BY_SLACK
from memories.rules.memory.identity import MemoryType
from memories.rules.settings import InvalidSetting
from tests.factories import (
    PASSWORD,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_job,
    make_version,
)

pytestmark = pytest.mark.django_db


def recorded() -> list[tuple[str, str, str, str]]:
    """Actor, action, workspace and subject of all events, oldest first."""
    rows = AuditEvent.objects.order_by("pk")
    return list(rows.values_list("actor", "action", "workspace", "subject"))


class TestAppendOnly:
    @pytest.fixture
    def event(self):
        return AuditEvent.objects.record("settings", by=None, subject="as it was")

    @pytest.mark.parametrize(
        "change",
        [
            lambda event: event.delete(),
            lambda event: event.save(),
            lambda event: event.save(force_update=True),
            lambda event: AuditEvent(pk=event.pk, action="other").save(),
            lambda event: AuditEvent.objects.all().delete(),
            lambda event: AuditEvent.objects.filter(pk=event.pk).update(subject="other"),
            lambda event: AuditEvent.objects.update(subject="other"),
            lambda event: AuditEvent.objects.bulk_update([event], ["subject"]),
            lambda event: AuditEvent.objects.bulk_create([AuditEvent(action="other")]),
            lambda event: AuditEvent.objects.bulk_create(
                [event],
                update_conflicts=True,
                update_fields=["subject"],
                unique_fields=["id"],
            ),
            lambda event: AuditEvent.objects.update_or_create(
                pk=event.pk, defaults={"subject": "other"}
            ),
            lambda event: AuditEvent.objects.all()._raw_delete("default"),
        ],
    )
    def test_an_event_cannot_be_changed_or_deleted(self, event, change):
        event.subject = "other"
        with pytest.raises(AppendOnly):
            change(event)
        assert recorded() == [("", "settings", "", "as it was")]

    def test_an_event_outlives_its_user_and_workspace(self):
        user, workspace = UserFactory(username="anna"), WorkspaceFactory(slug="team")
        AuditEvent.objects.record("settings", by=user, workspace=workspace)
        user.delete()
        workspace.delete()
        assert recorded() == [("anna", "settings", "team", "")]


class TestWhoSees:
    def test_operators_see_all_events_and_admins_their_own(self):
        ours, theirs = WorkspaceFactory(slug="ours"), WorkspaceFactory(slug="theirs")
        for workspace in (ours, theirs, None):
            AuditEvent.objects.record("settings", by=None, workspace=workspace)
        users = {role: UserFactory() for role in ("admin", "editor", "member", "guest")}
        for role, user in users.items():
            MemberFactory(workspace=ours, user=user, role=role)

        def seen(reader):
            return sorted(e.workspace for e in AuditEvent.objects.visible_to(reader))

        assert seen(Reader.of(UserFactory(is_superuser=True))) == ["", "ours", "theirs"]
        assert seen(Reader.of(users["admin"])) == ["ours"]
        for reader in (*map(Reader.of, list(users.values())[1:]), Reader.public(), Reader()):
            assert seen(reader) == []

    @pytest.mark.parametrize("what", ["is_deleted", "is_guest", "is_external", "is_placeholder"])
    def test_an_admin_whom_slack_restricts_sees_none(self, what):
        ours, user = WorkspaceFactory(slug="ours"), UserFactory()
        AuditEvent.objects.record("settings", by=None, workspace=ours)
        MemberFactory(workspace=ours, user=user, role="admin")
        person = PersonFactory(workspace=ours)
        person.link(user, BY_SLACK)
        events = AuditEvent.objects.filter(action="settings")
        assert events.visible_to(Reader.of(user)).exists()
        setattr(person, what, True)
        person.save()
        assert not events.visible_to(Reader.of(user)).exists()


class TestLogins:
    def test_sign_ins_and_sign_outs_are_recorded(self):
        UserFactory(username="anna")
        client = Client()
        client.post("/login/", {"username": "anna", "password": PASSWORD})
        client.post("/logout/")
        assert recorded() == [("anna", "login", "", ""), ("anna", "logout", "", "")]

    def test_failed_sign_ins_are_recorded_without_typed_text(self):
        UserFactory(username="anna")
        for name in ("anna", "MyPassword1"):
            assert authenticate(username=name, password="not that one") is None
        assert recorded() == [("", "login_failed", "", name) for name in ("anna", "")]
        kept = json.dumps(list(AuditEvent.objects.values("subject", "details", "actor")))
        assert "not that one" not in kept and "MyPassword1" not in kept

    def test_a_sign_out_without_a_session_is_not_recorded(self):
        Client().post("/logout/")
        assert recorded() == []


class TestSettings:
    def test_a_change_is_recorded_with_old_and_new_values(self):
        user, workspace = UserFactory(username="anna"), WorkspaceFactory(slug="team")
        workspace.change_settings({"message_threshold": 10, "notes_enabled": True}, by=user)
        assert recorded() == [("anna", "settings", "team", "")]
        assert AuditEvent.objects.get().details == {"changed": {"message_threshold": [50, 10]}}

    def test_an_unchanged_setting_is_not_recorded(self):
        workspace = WorkspaceFactory()
        workspace.change_settings({"message_threshold": 50})
        with pytest.raises(InvalidSetting):
            workspace.change_settings({"message_threshold": 10, "max_history_count": 0})
        assert recorded() == []


class TestPrices:
    def test_a_change_is_recorded_with_old_and_new_values(self):
        user = UserFactory(username="anna")
        Price.objects.change("tiny", Decimal("0.25"), Decimal("2"), by=None)
        price = Price.objects.change("tiny", Decimal("0.3"), Decimal("2"), by=user)
        Price.objects.change("tiny", Decimal("0.30"), Decimal("2"), by=user)
        price.remove(by=user)
        assert recorded() == [
            ("", "price", "", "tiny"),
            ("anna", "price", "", "tiny"),
            ("anna", "price", "", "tiny"),
        ]
        details = [event.details for event in AuditEvent.objects.order_by("pk")]
        first, second = ["0.250000", "2.000000"], ["0.300000", "2.000000"]
        assert [(d["before"], d["after"]) for d in details] == [
            (None, first),
            (first, second),
            (second, None),
        ]
        assert not Price.objects.exists()

    def test_an_invalid_value_saves_nothing(self):
        with pytest.raises(ValidationError):
            Price.objects.change("tiny", Decimal("-1"), Decimal("2"), by=None)
        assert (Price.objects.count(), recorded()) == (0, [])


class TestBudgets:
    def waiting(self, workspace, **given):
        memory = Memory.objects.of_channel(
            ChannelFactory(workspace=workspace), MemoryType.SHORT_TERM
        )
        values = {"fault": "over_budget", "retry_at": timezone.now(), "state": "waiting"} | given
        return make_job(memory=memory, **values)

    def waiting_ids(self):
        return set(Job.objects.exclude(retry_at=None).values_list("pk", flat=True))

    def test_a_change_releases_only_the_jobs_that_wait_for_it(self):
        ours, theirs = WorkspaceFactory(), WorkspaceFactory()
        over_budget = self.waiting(ours)
        others = {
            self.waiting(theirs).pk,
            self.waiting(ours, fault="timeout").pk,
            self.waiting(ours, state="dead").pk,
        }
        assert self.waiting_ids() == {over_budget.pk, *others}
        Budget.objects.change(ours, "day", tokens=10, by=None)
        assert self.waiting_ids() == others
        Budget.objects.change(None, "month", tokens=10, by=None)
        assert len(self.waiting_ids()) == 2

    def test_a_price_releases_jobs_that_had_no_price(self):
        self.waiting(WorkspaceFactory())
        Price.objects.change("tiny", Decimal(1), Decimal(1), by=None)
        assert self.waiting_ids() == set()

    def test_omitted_limits_stay_and_a_budget_without_limits_is_removed(self):
        user, workspace = UserFactory(username="anna"), WorkspaceFactory(slug="team")

        def change(**limits):
            budget = Budget.objects.change(workspace, "day", by=user, **limits)
            return budget and budget.limits

        assert change(tokens=1000) == {"tokens": 1000, "money": None}
        assert change(money=Decimal("2.5")) == {"tokens": 1000, "money": "2.50"}
        assert change(money=Decimal("2.50")) == {"tokens": 1000, "money": "2.50"}
        assert change(tokens=None) == {"tokens": None, "money": "2.50"}
        assert change(money=None) is None
        assert change(tokens=None, money=None) is None
        assert not Budget.objects.exists()
        assert recorded() == [("anna", "cap", "team", "day")] * 4
        last = AuditEvent.objects.first()
        assert last.details == {
            "before": {"tokens": None, "money": "2.50"},
            "after": {"tokens": None, "money": None},
        }

    @pytest.mark.parametrize(
        ("period", "limits"),
        [
            ("day", {"tokens": -1}),
            ("day", {"money": Decimal("0.001")}),
            ("day", {"money": Decimal("-1")}),
            ("day", {"tokens": 10**30}),
            ("week", {"tokens": 1}),
        ],
    )
    def test_an_invalid_value_saves_nothing(self, period, limits):
        with pytest.raises(ValidationError):
            Budget.objects.change(None, period, by=None, **limits)
        assert (Budget.objects.count(), recorded()) == (0, [])


def test_no_text_of_messages_or_memories_is_in_it():
    word = "canaryyellow"
    user = UserFactory(username="anna")
    channel = ChannelFactory(name=f"{word}-channel", slack_id="GYELLOW1", kind="private")
    message = MessageFactory(channel=channel, text=f"{word} text")
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    make_version(memory=memory, text=f"- {word} old", sources=[message])
    memory.revise(f"- {word} new", by=user, based_on=1)
    memory.restore(memory.versions.get(number=1), by=user, based_on=2)
    job = make_job(memory=memory, state="dead", fault_text=f"{word} fault", reply={"text": word})
    job.retry(user)
    job.cancel(user)
    assert len(recorded()) == 4
    kept = json.dumps(list(AuditEvent.objects.values("subject", "details", "action", "workspace")))
    assert word not in kept
