"""A person's own words about themselves, out of the objects that Slack sent: ids stay, names go."""

import json
import re
from typing import Any

_NAMES = frozenset(
    [
        *("user_profile", "profile", "username", "name", "real_name", "display_name", "email"),
        *("author_name", "author_subname", "author_icon", "author_link", "fallback", "icons"),
    ]
)
_OWNERS = ("user", "id", "user_id", "author_id")  # where an object says whose it is


def without_names(raw: str, slack_id: str) -> str:
    """A message as received (JSON) without what it tells of this person but for the id: profiles,
    names beside their words where somebody shared them, labels of mentions. The very same when
    there is nothing of the kind."""
    if slack_id not in raw:
        return raw
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        return ""
    cleaned = _cleaned(told, slack_id)
    return raw if cleaned == told else json.dumps(cleaned)


def without_labels(text: str, slack_id: str) -> str:
    """``<@U1|their name>`` as ``<@U1>``."""
    return re.sub(rf"<@{re.escape(slack_id)}\|[^<>]*>", f"<@{slack_id}>", text)


def _cleaned(value: Any, slack_id: str) -> Any:
    if isinstance(value, str):
        return without_labels(value, slack_id)
    if isinstance(value, list):
        return [_cleaned(one, slack_id) for one in value]
    if isinstance(value, dict):
        is_theirs = any(value.get(name) == slack_id for name in _OWNERS)
        return {
            key: _cleaned(one, slack_id)
            for key, one in value.items()
            if not (is_theirs and key in _NAMES)
        }
    return value
