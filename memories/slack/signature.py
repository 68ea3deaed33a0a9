"""Check the signature of Slack's requests with slack_sdk's verifier, for any input."""

import re

from slack_sdk.signature import Clock, SignatureVerifier

TIMESTAMP = "X-Slack-Request-Timestamp"
SIGNATURE = "X-Slack-Signature"

# The verifier accepts everything that `int` accepts, and raises on other text.
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


class _FixedClock(Clock):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> float:
        return self._seconds


def is_signed(
    secret: str, timestamp: str | None, signature: str | None, body: bytes, *, now: float
) -> bool:
    """Return whether Slack signed this body within five minutes of ``now`` (seconds since 1970).

    It never raises. It returns False for a missing or malformed header, a body that is not UTF-8
    and an empty secret.
    """
    if timestamp is None or signature is None or not secret.strip():
        return False
    if not (_TIMESTAMP.fullmatch(timestamp) and _SIGNATURE.fullmatch(signature)):
        return False
    try:
        return SignatureVerifier(secret, _FixedClock(now)).is_valid(body, timestamp, signature)
    except ValueError:  # the body or the secret is not UTF-8
        return False
