"""The app's manifest requests exactly the scopes and events that the settings need."""

import json
from dataclasses import replace
from io import StringIO
from itertools import chain
from typing import Any

import pytest
import yaml
from django.core.management import call_command

from memories.models import Workspace
from memories.rules.ingest.events import SUBSCRIBED
from memories.rules.settings import MemorySettings
from memories.rules.slack_app.manifest import build_manifest
from memories.rules.sync import scopes
from tests.documentation import ROOT, prose
from tests.factories import WorkspaceFactory

HUB = "https://memory.example.com"
EVERYTHING: dict[str, Any] = dict.fromkeys([*scopes.FOR_SETTING, "slack_home"], True)


def test_the_file_is_the_manifest_of_the_defaults() -> None:
    assert yaml.safe_load((ROOT / "slack-app-manifest.yaml").read_text()) == build_manifest(
        MemorySettings(), HUB
    )


def test_the_commented_sign_in_of_the_file_is_in_the_manifest_with_a_client_id(
    settings: Any, db: None
) -> None:
    text = (ROOT / "slack-app-manifest.yaml").read_text()
    for line in (
        "redirect_urls:",
        "  - https://",
        "user:",
        "  - email",
        "  - openid",
        "  - profile",
    ):
        text = text.replace(f"# {line}", line)
    settings.SLACK_CLIENT_ID, settings.MEMORYHUB_URL = "1.2", HUB
    WorkspaceFactory()
    out = StringIO()
    call_command("slack_manifest", stdout=out)
    assert yaml.safe_load(text)["oauth_config"] == json.loads(out.getvalue())["oauth_config"]


def test_the_defaults_only_read() -> None:
    manifest = build_manifest(MemorySettings(), HUB)
    assert manifest["oauth_config"]["scopes"]["bot"] == sorted(scopes.ALWAYS)
    assert set(manifest["features"]) == {"bot_user"}
    assert "interactivity" not in manifest["settings"]


@pytest.mark.parametrize(
    ("setting", "requested", "events", "features"),
    [
        ("slack_commands", {"commands"}, set(), {"slash_commands"}),
        ("slack_shortcuts", {"commands"}, set(), {"shortcuts"}),
        ("slack_home", set(), {"app_home_opened"}, {"app_home"}),
        ("slack_reaction", {"chat:write", "reactions:read"}, {"reaction_added"}, set()),
        ("slack_unfurls", {"links:read", "links:write"}, {"link_shared"}, {"unfurl_domains"}),
        ("slack_digests", {"chat:write"}, set(), {"app_home"}),
        ("slack_mcp", {"mcp:connect"}, set(), set()),
        ("read_emails", {"users:read.email"}, set(), set()),
    ],
)
def test_a_setting_adds_its_scopes_and_events(
    setting: str, requested: set[str], events: set[str], features: set[str]
) -> None:
    before = build_manifest(MemorySettings(), HUB)
    after = build_manifest(replace(MemorySettings(), **{setting: True}), HUB)

    def added(*path: str) -> set[str]:
        values: list[Any] = [before, after]
        for key in path:
            values = [value[key] for value in values]
        return set(values[1]) - set(values[0])

    assert added("oauth_config", "scopes", "bot") == requested
    assert added("settings", "event_subscriptions", "bot_events") == events
    assert added("features") == features


def test_slackbot_finds_the_server_in_the_manifest() -> None:
    manifest = build_manifest(MemorySettings(slack_mcp=True), HUB)
    server = {"url": f"{HUB}/mcp", "auth_type": "slack_identity_auth"}
    assert manifest["mcp_servers"] == {"memory-hub": server}
    assert "mcp_servers" not in build_manifest(MemorySettings(), HUB)


def test_every_event_has_a_requested_scope() -> None:
    everything = scopes.required_scopes(MemorySettings(**EVERYTHING))
    assert set(SUBSCRIBED.values()) - {""} <= set(everything)


@pytest.mark.django_db
def test_the_command_prints_the_manifest_of_a_workspace() -> None:
    workspace: Workspace = WorkspaceFactory(settings={"slack_commands": True})
    printed = StringIO()
    call_command("slack_manifest", "--workspace", workspace.slug, "--http", stdout=printed)
    manifest = json.loads(printed.getvalue())
    [command] = manifest["features"]["slash_commands"]
    assert command["url"].endswith("/slack/commands/")
    assert manifest["settings"]["interactivity"]["request_url"].endswith("/slack/interactivity/")
    assert not manifest["settings"]["socket_mode_enabled"]


def test_the_guide_names_every_scope_and_setting() -> None:
    guide = prose(ROOT / "docs" / "slack.md")
    for name in chain(scopes.required_scopes(MemorySettings(**EVERYTHING)), EVERYTHING):
        assert f"`{name}`" in guide
