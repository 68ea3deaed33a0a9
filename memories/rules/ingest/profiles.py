"""Removal of one person's names from the objects that Slack sent. Their id stays."""

import json
import re
from typing import Any

_NAMES = frozenset(
    [
        *("user_profile", "profile", "username", "name", "real_name", "display_name", "email"),
        *("author_name", "author_subname", "author_icon", "author_link", "fallback", "icons"),
    ]
)
_OWNERS = ("user", "id", "user_id", "author_id")  # keys that hold an object's owner


def strip_names(raw: str, slack_id: str) -> str:
    """Return a message (JSON) without this person's names, "" when it is not JSON.

    Profiles, names beside shared messages and labels of mentions are removed. A message without such
    names is returned unchanged.
    """
    if slack_id not in raw:
        return raw
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        return ""
    cleaned = _cleaned(message, slack_id)
    return raw if cleaned == message else json.dumps(cleaned)


def strip_mention_labels(text: str, slack_id: str) -> str:
    """Turn ``<@U1|their name>`` into ``<@U1>``."""
    return re.sub(rf"<@{re.escape(slack_id)}\|[^<>]*>", f"<@{slack_id}>", text)


def _cleaned(value: Any, slack_id: str) -> Any:
    if isinstance(value, str):
        return strip_mention_labels(value, slack_id)
    if isinstance(value, list):
        return [_cleaned(item, slack_id) for item in value]
    if isinstance(value, dict):
        is_theirs = any(value.get(name) == slack_id for name in _OWNERS)
        return {
            key: _cleaned(item, slack_id)
            for key, item in value.items()
            if not (is_theirs and key in _NAMES)
        }
    return value
