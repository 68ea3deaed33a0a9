"""`manage.py slack_token` and `rotate_keys`: tokens are stored encrypted and never printed."""

import io
import sys

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from memories.models import AuditEvent, SlackConnection, Workspace
from memories.rules.safety.encryption import decrypt, new_key
from tests.factories import WorkspaceFactory

pytestmark = pytest.mark.django_db

SECRET = "xoxb-1-2-VERYsecret"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Run a command with a text on stdin, and return its stdout and stderr."""

    def run(*arguments: str, given: str = "") -> tuple[str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        call_command(*arguments)
        output = capsys.readouterr()
        assert "VERY" not in output.out + output.err
        return output.out, output.err

    return run


def test_a_token_is_set_shown_and_removed(run, workspace: Workspace, settings: Settings) -> None:
    assert "no token" in run("slack_token", "show")[0]
    output, _ = run("slack_token", "set", given=f"{SECRET}\n")
    assert "cret" in output
    assert SlackConnection.objects.get().decrypt_token() == SECRET
    settings.SLACK_BOT_TOKEN = "xoxb-9-9-environment"
    assert run("slack_token", "show")[0] == "team: kept here (ends in cret)\n"
    run("slack_token", "remove")
    assert run("slack_token", "show")[0] == "team: SLACK_BOT_TOKEN\n"
    with pytest.raises(CommandError, match="No token is stored for team"):
        run("slack_token", "remove")
    rows = AuditEvent.objects.order_by("pk").values_list("action", "actor", "workspace")
    assert list(rows) == [("slack_token_set", "", "team"), ("slack_token_removed", "", "team")]


@pytest.mark.parametrize("given", ["", "xoxp-1-VERYsecret", "VERYsecret"])
def test_invalid_tokens_are_refused(run, workspace: Workspace, given: str) -> None:
    with pytest.raises(CommandError) as refused:
        run("slack_token", "set", given=given)
    assert "VERY" not in str(refused.value)
    assert not SlackConnection.objects.exists()


def test_a_token_on_the_command_line_is_wrong_usage(run, workspace: Workspace) -> None:
    with pytest.raises(CommandError, match="unrecognized arguments"):
        run("slack_token", "set", SECRET)


class TestRotation:
    def test_a_new_key_encrypts_everything(self, run, settings: Settings) -> None:
        old = settings.MEMORYHUB_KEYS = [new_key()]
        for slug in ("one", "two"):
            run("slack_token", "set", "--workspace", WorkspaceFactory(slug=slug).slug, given=SECRET)
        new, report = run("rotate_keys", "--new")
        assert "MEMORYHUB_KEYS" in report and new.strip() not in report
        settings.MEMORYHUB_KEYS = [new.strip(), *old]
        run("slack_token", "set", "--workspace", WorkspaceFactory(slug="new").slug, given=SECRET)
        output = "2 encrypted again, 1 already encrypted with the first key\n"
        assert run("rotate_keys")[0] == output
        before = list(
            SlackConnection.objects.order_by("pk").values_list("encrypted_token", flat=True)
        )
        assert (
            run("rotate_keys")[0] == "0 encrypted again, 3 already encrypted with the first key\n"
        )
        after = list(
            SlackConnection.objects.order_by("pk").values_list("encrypted_token", flat=True)
        )
        assert before == after
        assert {decrypt(row, [new.strip()]) for row in after} == {SECRET}

    def test_a_token_without_its_key_is_reported_during_rotation(
        self, run, settings: Settings
    ) -> None:
        old, lost = new_key(), new_key()
        for slug, key in (("one", lost), ("two", old)):
            settings.MEMORYHUB_KEYS = [key]
            run("slack_token", "set", "--workspace", WorkspaceFactory(slug=slug).slug, given=SECRET)
        new = new_key()
        settings.MEMORYHUB_KEYS = [new, old]
        with pytest.raises(CommandError, match="token of one:"):
            run("rotate_keys")
        assert SlackConnection.objects.get(workspace__slug="two").reencrypt() is False

    def test_there_is_no_token(self, run) -> None:
        assert run("rotate_keys")[0].startswith("0 encrypted again")
