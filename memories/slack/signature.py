"""Whether a request comes from Slack: its own verifier, made safe for whatever else comes in."""

import re

from slack_sdk.signature import Clock, SignatureVerifier

TIMESTAMP = "X-Slack-Request-Timestamp"
SIGNATURE = "X-Slack-Signature"

# The verifier takes all that `int` does and raises on the rest; Slack sends just these.
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


class _At(Clock):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> float:
        return self._seconds


def is_signed(
    secret: str, timestamp: str | None, signature: str | None, body: bytes, *, now: float
) -> bool:
    """Whether Slack signed this body, at most five minutes from ``now`` (seconds since 1970).

    Never raises: a header that is missing or odd, a body that is no UTF-8 and an empty secret are
    all False.
    """
    if timestamp is None or signature is None or not secret.strip():
        return False
    if not (_TIMESTAMP.fullmatch(timestamp) and _SIGNATURE.fullmatch(signature)):
        return False
    try:
        return SignatureVerifier(secret, _At(now)).is_valid(body, timestamp, signature)
    except ValueError:  # the body, or the secret, is no UTF-8
        return False
