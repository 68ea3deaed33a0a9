"""The manifest of the Slack app: it requests what the settings of a workspace need."""

from typing import Any
from urllib.parse import urlsplit

from memories.rules.ingest.events import SUBSCRIBED
from memories.rules.settings import MemorySettings
from memories.rules.slack_app.payloads import HOME, LINKS, REACTION, SETTINGS
from memories.rules.sync.scopes import required_scopes

REMEMBER, WRONG = "remember", "wrong"  # names of the message shortcuts
COMMAND_NAME = "/memory"
DESCRIPTION = "Remembers what the team said, in texts that people can read, correct and trust."


def build_manifest(
    settings: MemorySettings, hub_url: str, *, socket_mode: bool = True, has_sign_in: bool = False
) -> dict[str, Any]:
    """Return the manifest. Without ``socket_mode`` Slack sends requests to ``hub_url``.

    With ``has_sign_in`` people may sign in to the hub with Slack.
    """
    scopes = required_scopes(settings)
    events = [event for event, scope in SUBSCRIBED.items() if not scope or scope in scopes]
    events += [event for event in (HOME, REACTION, LINKS) if getattr(settings, SETTINGS[event])]
    subscriptions: dict[str, Any] = {"bot_events": sorted(events)}
    interactivity: dict[str, Any] = {"is_enabled": True}
    if not socket_mode:
        subscriptions["request_url"] = f"{hub_url}/slack/events/"
        interactivity["request_url"] = f"{hub_url}/slack/interactivity/"
    return {
        "display_information": {"name": "Memory Hub", "description": DESCRIPTION},
        "features": {
            "bot_user": {"display_name": "Memory Hub", "always_online": False},
            **_features(settings, hub_url, socket_mode=socket_mode),
        },
        "oauth_config": {
            **({"redirect_urls": [f"{hub_url}/login/slack/callback/"]} if has_sign_in else {}),
            "scopes": {
                "bot": sorted(scopes),
                **({"user": ["email", "openid", "profile"]} if has_sign_in else {}),
            },
        },
        "settings": {
            "event_subscriptions": subscriptions,
            **(
                {"interactivity": interactivity}
                if settings.slack_commands or settings.slack_shortcuts
                else {}
            ),
            "socket_mode_enabled": socket_mode,
            "org_deploy_enabled": False,
            "token_rotation_enabled": False,
        },
        **({"mcp_servers": {"memory-hub": _mcp_server(hub_url)}} if settings.slack_mcp else {}),
    }


def _mcp_server(hub_url: str) -> dict[str, str]:
    """Return the server for Slackbot. Slack signs its requests, and names the person in them."""
    return {"url": f"{hub_url}/mcp", "auth_type": "slack_identity_auth"}


def _features(settings: MemorySettings, hub_url: str, *, socket_mode: bool) -> dict[str, Any]:
    features: dict[str, Any] = {}
    if settings.slack_home or settings.slack_digests:
        features["app_home"] = {
            "home_tab_enabled": settings.slack_home,
            "messages_tab_enabled": settings.slack_digests,  # Slack refuses messages without it
            "messages_tab_read_only_enabled": True,
        }
    if settings.slack_commands:
        command = {
            "command": COMMAND_NAME,
            "description": "Catch up, ask a question, or keep a note",
            "usage_hint": "catch up | ask QUESTION | note TEXT | digest daily | help",
            "should_escape": False,
        }
        address = {} if socket_mode else {"url": f"{hub_url}/slack/commands/"}
        features["slash_commands"] = [command | address]
    if settings.slack_shortcuts:
        shortcuts = (
            (REMEMBER, "Remember this", "Keep this message as a note"),
            (WRONG, "This is wrong", "Propose a correction of what rests on this message"),
        )
        features["shortcuts"] = [
            {"name": name, "type": "message", "callback_id": callback, "description": description}
            for callback, name, description in shortcuts
        ]
    if settings.slack_unfurls:
        features["unfurl_domains"] = [urlsplit(hub_url).hostname or "localhost"]
    return features
