"""The app's manifest asks for what the code uses: no scope and no event more, none less."""

import re

import pytest

from memories.rules.ingest.events import SUBSCRIBED
from memories.rules.sync import scopes
from tests.documentation import ROOT, prose

MANIFEST = (ROOT / "slack-app-manifest.yaml").read_text()
FOR_PRIVATE = set(scopes.FOR_PRIVATE_CHANNELS)


def asked(key: str, *, commented: bool) -> list[str]:
    """The items of a list in the manifest; those that are commented out, or those that are not."""
    found = re.search(rf"^( *){key}:\n((?:\1 .*\n)+)", MANIFEST, re.MULTILINE)
    assert found
    lines = [line.strip() for line in found[2].splitlines()]
    start = "# - " if commented else "- "
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


def test_as_it_stands_it_asks_for_the_least() -> None:
    assert asked("bot", commented=False) == sorted(scopes.ALWAYS)
    granted = {"", *scopes.ALWAYS}
    expected = sorted(event for event, scope in SUBSCRIBED.items() if scope in granted)
    assert asked("bot_events", commented=False) == expected


def test_the_rest_is_what_may_be_switched_on() -> None:
    more = scopes.FOR_PRIVATE_CHANNELS | scopes.FOR_EMAILS
    assert asked("bot", commented=True) == sorted(more)
    expected = sorted(event for event, scope in SUBSCRIBED.items() if scope in FOR_PRIVATE)
    assert asked("bot_events", commented=True) == expected


def test_every_event_has_a_scope_that_the_app_asks_for() -> None:
    everything = scopes.required_scopes(private_channels=True, emails=True)
    assert set(SUBSCRIBED.values()) - {""} <= set(everything)


@pytest.mark.parametrize(
    "line",
    ["socket_mode_enabled: true", "token_rotation_enabled: false", "org_deploy_enabled: false"],
)
def test_how_it_is_run(line: str) -> None:
    assert f"\n  {line}\n" in MANIFEST


def test_the_guide_names_every_scope() -> None:
    guide = prose(ROOT / "docs" / "slack.md")
    for scope in scopes.required_scopes(private_channels=True, emails=True):
        assert f"`{scope}`" in guide
