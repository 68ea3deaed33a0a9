"""Answers to the response URL of a command, a shortcut or a button."""

from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from slack_sdk import WebhookClient

from memories.slack.web import SlackError

TIMEOUT = 10  # seconds
_HOST = "slack.com"


def respond(url: str, answer: dict[str, Any], base_url: str = "") -> None:
    """Post an answer; raise SlackError. ``base_url`` is the address of another Slack API."""
    if not _is_slacks(url, base_url):
        raise SlackError("invalid_url", "This response URL is not Slack's.", permanent=True)
    try:
        response = WebhookClient(url, timeout=TIMEOUT).send_dict(answer)
    except (OSError, HTTPException, ValueError) as error:
        text = f"A response URL cannot be reached ({type(error).__name__})."
        raise SlackError("unreachable", text, permanent=False) from error
    if response.status_code != 200:
        text = f"A response URL answers with status {response.status_code}."
        is_final = 400 <= response.status_code < 500 and response.status_code != 429
        raise SlackError("refused", text, permanent=is_final)


def _is_slacks(url: str, base_url: str) -> bool:
    try:
        parts, base = urlsplit(url), urlsplit(base_url)
    except ValueError:
        return False
    if base.netloc:
        return (parts.scheme, parts.netloc) == (base.scheme, base.netloc)
    host = parts.hostname or ""
    return parts.scheme == "https" and (host == _HOST or host.endswith(f".{_HOST}"))
