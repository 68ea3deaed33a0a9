"""Workspaces: settings through their one accessor, roles, and rows that exist once."""

from dataclasses import asdict

import pytest
from django.db import IntegrityError, transaction

from memories.models import Member, Reader, Workspace
from memories.rules.settings import InvalidSetting, MemorySettings
from tests.factories import (
    ChannelFactory,
    ChannelMemberFactory,
    MemberFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
)

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("constraints and conditional updates")]


class TestSettings:
    def test_unset_means_default(self):
        assert WorkspaceFactory().memory_settings == MemorySettings()

    def test_a_change_is_returned_and_saved(self):
        workspace = WorkspaceFactory()
        changed = workspace.change_settings({"message_threshold": "10", "history_enabled": "true"})
        assert changed == {"message_threshold": (50, 10)}
        assert workspace.memory_settings.message_threshold == 10
        assert Workspace.objects.get().memory_settings == MemorySettings(message_threshold=10)

    def test_a_default_is_forgotten(self):
        workspace = WorkspaceFactory(settings={"message_threshold": 10, "time_zone": "Asia/Tokyo"})
        assert workspace.change_settings({"message_threshold": 50}) == {
            "message_threshold": (10, 50)
        }
        assert Workspace.objects.get().settings == {"time_zone": "Asia/Tokyo"}

    def test_an_invalid_value_saves_no_setting(self):
        workspace = WorkspaceFactory()
        with pytest.raises(InvalidSetting, match="max_history_count"):
            workspace.change_settings({"message_threshold": 10, "max_history_count": 0})
        assert workspace.memory_settings == MemorySettings()
        assert Workspace.objects.get().settings == {}

    def test_every_setting_can_be_changed_back(self):
        workspace = WorkspaceFactory()
        workspace.change_settings({"notes_inject": "none", "workspace_short_term": False})
        workspace.change_settings(asdict(MemorySettings()))
        assert Workspace.objects.get().settings == {}


class TestRole:
    @pytest.fixture
    def workspace(self):
        return WorkspaceFactory()

    @pytest.mark.parametrize(
        ("person", "member", "expected"),
        [
            pytest.param(None, None, "", id="outsider"),
            pytest.param({}, None, "member", id="a person of it"),
            pytest.param({"is_guest": True}, None, "guest", id="a guest in Slack"),
            pytest.param({"is_external": True}, None, "guest", id="from another team"),
            pytest.param({"is_deleted": True}, None, "", id="deactivated in Slack"),
            pytest.param(None, "guest", "guest", id="added as guest"),
            pytest.param(None, "editor", "editor", id="added as editor"),
            pytest.param({}, "admin", "admin", id="a row wins over the person"),
            pytest.param({"is_deleted": True}, "admin", "", id="left, whatever the row says"),
            pytest.param({"is_guest": True}, "admin", "guest", id="a guest, whatever the row says"),
            pytest.param({"is_placeholder": True}, "editor", "guest", id="in no list any more"),
            pytest.param({}, "guest", "guest", id="a guest by the row alone"),
        ],
    )
    def test_of_a_user(self, workspace, person, member, expected):
        user = UserFactory()
        if person is not None:
            PersonFactory(workspace=workspace, user=user, **person)
        if member is not None:
            MemberFactory(workspace=workspace, user=user, role=member)
        assert workspace.role_of(Reader.of(user)) == expected

    def test_of_an_operator(self, workspace):
        assert workspace.role_of(Reader.of(UserFactory(is_superuser=True))) == Member.Role.ADMIN

    @pytest.mark.parametrize("reader", [Reader(), Reader.public()], ids=["nobody", "public"])
    def test_of_no_user(self, workspace, reader):
        assert workspace.role_of(reader) == ""

    def test_elsewhere(self, workspace):
        user = UserFactory()
        PersonFactory(user=user)
        MemberFactory(user=user)
        assert workspace.role_of(Reader.of(user)) == ""


def test_each_row_exists_once():
    membership = ChannelMemberFactory()
    channel, person = membership.channel, membership.person
    member = MemberFactory(workspace=channel.workspace)
    for again in (
        lambda: WorkspaceFactory(slug=channel.workspace.slug),
        lambda: ChannelFactory(workspace=channel.workspace, slack_id=channel.slack_id),
        lambda: PersonFactory(workspace=channel.workspace, slack_id=person.slack_id),
        lambda: ChannelMemberFactory(channel=channel, person=person),
        lambda: MemberFactory(workspace=channel.workspace, user=member.user),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            again()
    # Another workspace may know the same ids.
    ChannelFactory(slack_id=channel.slack_id)
    PersonFactory(slack_id=person.slack_id)


def test_a_start_mark_moves_back_and_never_forward():
    channel = ChannelFactory()
    assert channel.remember_from(2_000) is True
    assert channel.remember_from(3_000) is False
    assert channel.start_us == 2_000
    assert channel.remember_from(1_000) is True
    assert channel.start_us == 1_000
