"""The token of a workspace and its check, with the real client over HTTP."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from django.conf import settings
from django.db import connection as database
from pytest_django import Settings

from memories.models import AuditEvent, Reader, SlackConnection, Workspace
from memories.pipeline.ingest.roster import store_people
from memories.pipeline.sync.connecting import (
    TokenSource,
    check_client,
    check_connection,
    client_for,
    connect,
    has_usable_token,
    selectable_channels,
    token_source,
    update_followed,
)
from memories.rules.safety.encryption import DecryptionError, new_key
from memories.slack.web import SlackError
from tests.documentation import ROOT
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    store_token,
)
from tests.slack.fake_slack import REQUIRED_SCOPES, TEAM_ID, TOKEN, FakeSlack, Fault

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
State = SlackConnection.State


@pytest.fixture
def workspace() -> Workspace:
    return WorkspaceFactory(slug="team")


def audit_events() -> list[tuple[str, str, str]]:
    rows = AuditEvent.objects.order_by("pk")
    return [(event.action, event.actor, event.workspace) for event in rows]


class TestToken:
    def test_a_stored_token_overrides_the_environment(
        self, workspace: Workspace, bare_slack: FakeSlack, settings: Settings
    ) -> None:
        assert token_source(workspace) is TokenSource.NONE
        with pytest.raises(SlackError) as none:
            client_for(workspace)
        assert none.value.code == "no_token" and not has_usable_token(workspace)
        settings.SLACK_BOT_TOKEN = TOKEN
        assert token_source(workspace) is TokenSource.ENVIRONMENT and has_usable_token(workspace)
        assert client_for(workspace).identity().team_id == TEAM_ID
        store_token(workspace, "xoxb-another-one")
        assert token_source(workspace) is TokenSource.STORED
        with pytest.raises(SlackError) as refused:
            client_for(workspace).identity()
        assert refused.value.code == "invalid_auth"

    def test_a_token_is_stored_encrypted_and_only_its_end_is_shown(
        self, workspace: Workspace
    ) -> None:
        user = UserFactory(username="ada")
        connection = SlackConnection.objects.of(workspace)
        connection.set_token(TOKEN, by=user)
        connection = SlackConnection.objects.get()
        assert connection.decrypt_token() == TOKEN
        assert connection.token_end == TOKEN[-4:]
        with database.cursor() as cursor:
            cursor.execute("SELECT * FROM memories_slackconnection")
            assert TOKEN not in str(cursor.fetchall())
        assert TOKEN not in f"{connection} {connection!r}"
        assert connection.remove_token(by=user) and not connection.remove_token(by=user)
        connection.refresh_from_db()
        assert (connection.decrypt_token(), connection.token_end) == ("", "")
        assert audit_events() == [
            ("slack_token_set", "ada", "team"),
            ("slack_token_removed", "ada", "team"),
        ]
        assert TOKEN[-6:] not in str(list(AuditEvent.objects.values()))

    def test_without_its_key_a_token_is_not_replaced_by_another(
        self, workspace: Workspace, bare_slack: FakeSlack, settings: Settings
    ) -> None:
        connection = store_token(workspace)
        settings.MEMORYHUB_KEYS = [new_key()]
        settings.SLACK_BOT_TOKEN = TOKEN
        with pytest.raises(DecryptionError):
            connection.decrypt_token()
        with pytest.raises(SlackError, match="MEMORYHUB_KEYS") as refused:
            client_for(workspace)
        assert refused.value.refuses_token
        findings = check_connection(workspace, NOW)
        assert (findings.code, findings.is_ok) == ("no_key", False)
        assert bare_slack.counts() == {}

    def test_a_token_is_reencrypted_once(self, workspace: Workspace, settings: Settings) -> None:
        old, new = new_key(), new_key()
        settings.MEMORYHUB_KEYS = [old]
        connection = store_token(workspace)
        settings.MEMORYHUB_KEYS = [new, old]
        stale = SlackConnection.objects.get()
        assert connection.reencrypt()
        assert not stale.reencrypt(), "the token was reencrypted meanwhile"
        connection.refresh_from_db()
        assert not connection.reencrypt()
        settings.MEMORYHUB_KEYS = [new]
        assert connection.decrypt_token() == TOKEN


class TestCheck:
    def test_a_check_with_all_required_scopes_succeeds(
        self, workspace: Workspace, bare_slack: FakeSlack
    ) -> None:
        connection = store_token(workspace)
        findings = check_client(workspace, client_for(workspace), NOW)
        assert findings.is_ok and not findings.notes
        assert findings.scopes == tuple(sorted(REQUIRED_SCOPES))
        connection.refresh_from_db()
        assert connection.scopes == sorted(REQUIRED_SCOPES)
        assert connection.bot_id and connection.checked_at == NOW
        assert bare_slack.counts() == {"auth.test": 1}
        assert TOKEN not in str(findings) + str(findings.as_json())

    @pytest.mark.parametrize("scope", sorted(REQUIRED_SCOPES))
    def test_each_missing_scope_has_its_effect_and_remedy(
        self, workspace: Workspace, bare_slack: FakeSlack, scope: str
    ) -> None:
        store_token(workspace)
        bare_slack.scopes.discard(scope)
        findings = check_connection(workspace, NOW)
        assert not findings.is_ok and not findings.code
        [missing] = findings.missing
        assert missing.scope == scope and missing.effect
        assert scope in missing.remedy and "install it again" in missing.remedy

    def test_private_channels_and_emails_need_more_scopes(
        self, workspace: Workspace, bare_slack: FakeSlack
    ) -> None:
        store_token(workspace)
        assert check_connection(workspace, NOW).is_ok
        workspace.change_settings({"read_private_channels": True, "read_emails": True})
        missing = {each.scope: each.remedy for each in check_connection(workspace, NOW).missing}
        assert set(missing) == {"groups:history", "groups:read", "users:read.email"}
        assert "turn off “read_private_channels”" in missing["groups:read"]
        assert "turn off “read_emails”" in missing["users:read.email"]
        bare_slack.scopes |= set(missing)
        assert check_connection(workspace, NOW).is_ok
        workspace.change_settings({"read_private_channels": False, "read_emails": False})
        findings = check_connection(workspace, NOW)
        assert findings.is_ok
        assert findings.surplus == ("groups:history", "groups:read", "users:read.email")
        assert "users:read.email" in str(findings.notes[0])

    def test_another_teams_token_is_refused(self, bare_slack: FakeSlack) -> None:
        workspace = WorkspaceFactory(team_id="T0OTHER")
        connection = store_token(workspace)
        findings = check_connection(workspace, NOW)
        assert findings.code == "wrong_team" and not findings.is_ok
        assert "T0OTHER" in str(findings.error) and TEAM_ID in str(findings.error)
        connection.refresh_from_db()
        assert connection.scopes == [] and "T0OTHER" in connection.trouble
        assert not connect(workspace, findings, NOW)
        workspace.refresh_from_db()
        assert workspace.connected_at is None

    @pytest.mark.parametrize(
        ("identity", "code"),
        [
            pytest.param({"user_id": "U1"}, "not_a_bot", id="the token of a person"),
            pytest.param({"bot_id": "B1"}, "no_scopes", id="scopes are not assumed"),
        ],
    )
    def test_an_incomplete_identity_is_refused(
        self, workspace: Workspace, bare_slack: FakeSlack, identity: dict[str, str], code: str
    ) -> None:
        store_token(workspace)
        answer = {"ok": True, "team_id": TEAM_ID, "team": "Fake Team", **identity}
        bare_slack.inject_fault("auth.test", Fault.answer(answer))
        findings = check_connection(workspace, NOW)
        assert (findings.code, findings.scopes, findings.is_ok) == (code, None, False)

    @pytest.mark.parametrize(
        ("error", "state"),
        [
            ("token_revoked", State.REVOKED),
            ("token_expired", State.REVOKED),
            ("invalid_auth", State.REVOKED),
            ("account_inactive", State.UNINSTALLED),
        ],
    )
    def test_a_rejected_token_is_used_again_only_by_a_check(
        self, workspace: Workspace, bare_slack: FakeSlack, error: str, state: str
    ) -> None:
        connection = store_token(workspace)
        bare_slack.token_error = error
        findings = check_connection(workspace, NOW)
        assert findings.code == error and findings.error
        connection.refresh_from_db()
        assert (connection.state, bool(connection.trouble)) == (state, True)
        assert SlackConnection.objects.stopped().exists()
        with pytest.raises(SlackError) as stopped:
            client_for(workspace)
        assert stopped.value.refuses_token and not has_usable_token(workspace)
        assert bare_slack.count("auth.test") == 1
        check_connection(workspace, NOW)
        assert [event[0] for event in audit_events()].count("slack_stopped") == 1
        bare_slack.token_error = ""
        assert check_connection(workspace, NOW).is_ok and has_usable_token(workspace)

    def test_a_rejected_old_token_does_not_stop_a_new_one(
        self, workspace: Workspace, bare_slack: FakeSlack
    ) -> None:
        store_token(workspace, "xoxb-old-one-0000")
        old = client_for(workspace)
        connection = store_token(workspace)  # while a sync uses the old one
        assert check_client(workspace, old, NOW).code == "invalid_auth"
        connection.refresh_from_db()
        assert connection.is_live and check_connection(workspace, NOW).is_ok

    def test_a_stop_without_a_token_applies_to_the_environment(
        self, workspace: Workspace, bare_slack: FakeSlack, settings: Settings
    ) -> None:
        settings.SLACK_BOT_TOKEN = TOKEN
        SlackConnection.objects.of(workspace).stop(State.UNINSTALLED, "gone", NOW)
        assert not has_usable_token(workspace)
        settings.SLACK_BOT_TOKEN = "xoxb-a-new-one-1111"
        assert has_usable_token(workspace)

    @pytest.mark.parametrize("fault", [Fault.dropped(), Fault(502), Fault.error("internal_error")])
    def test_a_temporary_error_does_not_stop_the_connection(
        self, workspace: Workspace, bare_slack: FakeSlack, fault: Fault
    ) -> None:
        connection = store_token(workspace)
        bare_slack.inject_fault("auth.test", fault, times=9)
        findings = check_connection(workspace, NOW, pause=0.001)
        assert findings.code and not findings.is_ok
        connection.refresh_from_db()
        assert connection.is_live and connection.checked_at is None

    def test_a_new_token_of_the_environment_resets_the_state(
        self, workspace: Workspace, bare_slack: FakeSlack, settings: Settings
    ) -> None:
        settings.SLACK_BOT_TOKEN = "xoxb-revoked-one-0000"
        assert check_connection(workspace, NOW).code == "invalid_auth"
        assert not has_usable_token(workspace)
        settings.SLACK_BOT_TOKEN = TOKEN
        assert has_usable_token(workspace)
        connection = SlackConnection.objects.get()
        assert (connection.token_end, connection.has_token) == (TOKEN[-4:], False)
        assert connection.is_live

    def test_a_successful_check_allows_to_connect(
        self, workspace: Workspace, bare_slack: FakeSlack
    ) -> None:
        store_token(workspace)
        assert connect(workspace, check_connection(workspace, NOW), NOW)
        workspace.refresh_from_db()
        assert (workspace.team_id, workspace.connected_at) == (TEAM_ID, NOW)

    def test_the_slow_plan_is_a_note(self, workspace: Workspace, bare_slack: FakeSlack) -> None:
        store_token(workspace)
        SlackConnection.objects.update(slow_plan=True)
        findings = check_connection(workspace, NOW)
        assert findings.is_ok and findings.slow_plan
        assert "15 messages per minute" in str(findings.notes[-1])


@pytest.mark.parametrize("first", ["export", "live"])
def test_addresses_are_stored_only_if_the_setting_is_on(first: str) -> None:
    """This holds for both orders of export and sync."""
    profile = {"display_name": "ann", "email": "ann@example.com"}
    raw = {"id": "U1", "name": "ann", "profile": profile, "updated": 5}
    workspace = WorkspaceFactory(connected_at=None if first == "export" else NOW)

    def address() -> str:
        store_people(workspace, [raw], live=True)
        return workspace.people.get().email

    assert address() == ("ann@example.com" if first == "export" else "")
    workspace.connect(TEAM_ID, name="", domain="", now=NOW)
    assert address() == ""
    workspace.change_settings({"read_emails": True})
    assert address() == "ann@example.com"
    workspace.change_settings({"read_emails": False})
    assert address() == ""


@pytest.mark.slow
def test_the_token_is_in_no_log_task_or_table(
    workspace: Workspace,
    bare_slack: FakeSlack,
    process_environment: dict[str, str],
) -> None:
    """In a process of its own, with debug logs."""
    store_token(workspace)
    bare_slack.add_user("U1", "ann")
    bare_slack.add_channel("C1", "general", members=["U1"])
    code = (
        "import django; django.setup(); from django.utils import timezone;"
        "from memories.models import Workspace; from memories.pipeline.sync.connecting import *;"
        "import logging; logging.getLogger('slack_sdk').setLevel('DEBUG');"
        "w = Workspace.objects.get(); print(check_connection(w, timezone.now()));"
        "c = client_for(w); print(c, vars(SlackConnection.objects.get())['token_end']);"
        "list(c.people()); print(list(c.channels(private=False)))"
    )
    environment = process_environment | {
        "DJANGO_SETTINGS_MODULE": "memoryhub.settings",
        "MEMORYHUB_LOG_LEVEL": "DEBUG",
        "MEMORYHUB_KEYS": ",".join(settings.MEMORYHUB_KEYS),
        "SLACK_BASE_URL": bare_slack.url,
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "general" in done.stdout and "auth.test" in done.stderr
    assert TOKEN not in done.stdout + done.stderr
    with database.cursor() as cursor:
        for table in database.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {database.ops.quote_name(table)}")
            assert TOKEN not in str(cursor.fetchall()), table


class TestChoice:
    def test_only_changed_and_visible_channels_are_followed_or_unfollowed(
        self, workspace: Workspace
    ) -> None:
        admin, boss = UserFactory(username="ada"), UserFactory(username="boss")
        for user in (admin, boss):
            MemberFactory(workspace=workspace, user=user, role="admin")
        person = PersonFactory(workspace=workspace, user=admin)
        first, second, third = (
            ChannelFactory(workspace=workspace, slack_id=f"C{n}", is_followed=n == 2)
            for n in (1, 2, 3)
        )
        secret = ChannelFactory(
            workspace=workspace, slack_id="C4", kind="private", members=[person]
        )
        ChannelFactory(workspace=workspace, slack_id="D1", kind="im", members=[person])
        elsewhere = ChannelFactory(slack_id="C9")

        def follow(user: object, before: list[str], after: list[str]) -> tuple[int, int]:
            reader = Reader.of(user)
            return update_followed(workspace, reader, before=before, after=after, by=user)  # type: ignore[arg-type]

        assert [c.slack_id for c in selectable_channels(workspace, Reader.of(boss))] == [
            "C1",
            "C2",
            "C3",
        ]
        third.follow(by=boss, on=True)  # after the page was shown
        assert follow(boss, before=["C2"], after=["C1", "C4", "C9"]) == (1, 1)
        assert follow(admin, before=[], after=["C4", "D1"]) == (1, 0)
        rows = [first, second, third, secret, elsewhere]
        for row in rows:
            row.refresh_from_db()
        assert [row.is_followed for row in rows] == [True, False, True, True, False]
        assert follow(boss, before=[], after=["C1"]) == (0, 0), "it is followed already"
        assert audit_events() == [
            ("channel_follow", "boss", "team"),
            ("channel_follow", "boss", "team"),
            ("channel_unfollow", "boss", "team"),
            ("channel_follow", "ada", "team"),
        ]
        assert "channel " in AuditEvent.objects.last().subject
        assert secret.name not in str(list(AuditEvent.objects.values()))
