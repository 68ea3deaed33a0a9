"""`manage.py slack_test`: the rights of the token, and remedies for missing ones."""

import json

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from tests.factories import WorkspaceFactory
from tests.slack.fake_slack import TOKEN, FakeSlack

pytestmark = pytest.mark.django_db


@pytest.fixture
def slack(bare_slack: FakeSlack, settings: Settings) -> FakeSlack:
    settings.SLACK_BOT_TOKEN = TOKEN
    return bare_slack


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run it; returns stdout and why it failed, "" when it did not."""

    def run(*arguments: str) -> tuple[str, str]:
        capsys.readouterr()
        refused = ""
        try:
            call_command("slack_test", *arguments)
        except CommandError as error:
            assert error.returncode == 1
            refused = str(error)
        output = capsys.readouterr().out
        assert TOKEN not in output + refused
        return output, refused

    return run


def test_all_is_well(run, slack: FakeSlack) -> None:
    WorkspaceFactory()
    output, refused = run()
    assert not refused
    assert output.splitlines()[0] == f"token: SLACK_BOT_TOKEN (ends in {TOKEN[-4:]})"
    assert "scopes: channels:history, channels:read, users:read" in output
    assert "missing" not in output and "Everything" in output


def test_each_missing_scope_with_its_fix(run, slack: FakeSlack) -> None:
    WorkspaceFactory(settings={"read_private_channels": True})
    slack.scopes -= {"users:read"}
    output, refused = run()
    assert refused == "Missing: users:read, groups:history, groups:read."
    lines = [line for line in output.splitlines() if line.startswith("missing: ")]
    assert [line.split()[1] for line in lines] == ["users:read.", "groups:history.", "groups:read."]
    assert all("install it again" in line for line in lines)
    assert "read_private_channels" in lines[1] and "read_private" not in lines[0]


def test_fatal_errors_of_slack_test(run, slack: FakeSlack, settings: Settings) -> None:
    WorkspaceFactory(team_id="T0OTHER")
    assert "T0OTHER" in run()[1]
    settings.SLACK_BOT_TOKEN = "xoxb-unknown-to-slack"
    output, refused = run("--json")
    assert "Slack does not recognize this token" in refused
    results = json.loads(output)
    assert (results["ok"], results["code"]) == (False, "invalid_auth")
    settings.SLACK_BOT_TOKEN = ""
    output, refused = run("--json")
    assert json.loads(output)["code"] == "no_token" and "No token is set" in refused
