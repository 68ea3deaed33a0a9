"""Posting of events as Slack does: signed, with a timeout of three seconds, and with retries."""

import hashlib
import hmac
import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
TIMEOUT = 3.0  # seconds
WAITS = (0.0, 60.0, 300.0)  # seconds before the second, third and fourth send


def signed_event(
    body: Any, secret: str = SIGNING_SECRET, *, at: float | None = None
) -> tuple[bytes, dict[str, str]]:
    """Return the raw body and its headers. ``body`` is an object, or bytes that are signed as they are."""
    raw = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    stamp = str(int(time.time() if at is None else at))
    signature = hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + raw, hashlib.sha256)
    return raw, {
        "Content-Type": "application/json",
        "User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
        "X-Slack-Request-Timestamp": stamp,
        "X-Slack-Signature": f"v0={signature.hexdigest()}",
    }


@dataclass
class Delivery:
    """The attempts of one event: a status for each, 0 for no answer in time."""

    statuses: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # until each answer
    body: str = ""  # of the last answer

    @property
    def is_accepted(self) -> bool:
        return bool(self.statuses) and 200 <= self.statuses[-1] < 300


def send_event(
    url: str,
    body: Any,
    secret: str = SIGNING_SECRET,
    *,
    clock: Callable[[], float] = time.time,
    wait: Callable[[float], None] = lambda seconds: None,
    sends: int = 1 + len(WAITS),
    headers: dict[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> Delivery:
    """Post an event as Slack does: up to four times, each with a new signature, until it is accepted.

    ``wait`` is called with the seconds that Slack would wait; the default does not wait. An answer
    with X-Slack-No-Retry: 1 ends the retries. Redirects count as refusals.
    """
    delivery = Delivery()
    reason = ""
    for number in range(sends):
        if number:
            wait(WAITS[number - 1])
        raw, signed = signed_event(body, secret, at=clock())
        if number:
            signed |= {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": reason}
        answer = _post(url, raw, signed | (headers or {}), delivery, timeout)
        if delivery.is_accepted or answer.get("x-slack-no-retry") == "1":
            break
        reason = "http_error" if delivery.statuses[-1] else "http_timeout"
    return delivery


def url_verification(challenge: str = "3eZbrw1aBm2rZgRNFdxV2595E9CY") -> dict[str, str]:
    return {"type": "url_verification", "token": "out of use", "challenge": challenge}


def rate_limited(team_id: str, minute: int, app_id: str = "A0FAKE") -> dict[str, Any]:
    """Return the notice that Slack drops the events of a minute, after 30,000 in an hour."""
    return {
        "token": "out of use",
        "type": "app_rate_limited",
        "team_id": team_id,
        "minute_rate_limited": minute,
        "api_app_id": app_id,
    }


def _post(
    url: str, raw: bytes, headers: dict[str, str], delivery: Delivery, timeout: float
) -> dict[str, str]:
    parts = urlsplit(url)
    began = time.monotonic()
    connection = http.client.HTTPConnection(parts.netloc, timeout=timeout)
    try:
        connection.request("POST", parts.path or "/", body=raw, headers=headers)
        answer = connection.getresponse()
        delivery.body = answer.read().decode(errors="replace")
        delivery.statuses.append(answer.status)
        received = {name.lower(): value for name, value in answer.getheaders()}
    except (OSError, http.client.HTTPException):
        delivery.statuses.append(0)
        received = {}
    finally:
        connection.close()
    delivery.seconds.append(time.monotonic() - began)
    return received
