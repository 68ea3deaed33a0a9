"""The check of signatures returns a boolean for any input."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.signature import SignatureVerifier

from memories.slack.signature import is_signed
from tests.slack.fake_events import SIGNING_SECRET, signed_event

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp()
BODY = '{"text": "お知らせ"}'.encode()


def signature(body: bytes = BODY, secret: str = SIGNING_SECRET, at: float = NOW) -> tuple[str, str]:
    _, headers = signed_event(body, secret, at=at)
    return headers["X-Slack-Request-Timestamp"], headers["X-Slack-Signature"]


def test_a_signature_of_slack() -> None:
    assert is_signed(SIGNING_SECRET, *signature(), BODY, now=NOW)


@pytest.mark.parametrize(
    ("seconds", "is_valid"), [(0, True), (300, True), (-300, True), (301, False), (-301, False)]
)
def test_a_timestamp_may_differ_by_five_minutes(seconds: int, is_valid: bool) -> None:
    assert is_signed(SIGNING_SECRET, *signature(at=NOW + seconds), BODY, now=NOW) is is_valid


STAMP, GOOD = signature()


@pytest.mark.parametrize(
    ("timestamp", "given"),
    [
        (None, GOOD),
        (STAMP, None),
        ("", GOOD),
        (STAMP, ""),
        ("soon", GOOD),
        (f" {STAMP}", GOOD),
        (f"+{STAMP}", GOOD),
        (f"-{STAMP}", GOOD),
        (f"{STAMP}.0", GOOD),
        (f"{STAMP[:3]}_{STAMP[3:]}", GOOD),
        ("٣" * 10, GOOD),
        ("9" * 400, GOOD),
        ("9" * 5000, GOOD),
        ("-" + "9" * 400, GOOD),
        ("nan", GOOD),
        (f"{STAMP}\n", GOOD),
        (STAMP, GOOD.upper()),
        (STAMP, GOOD.removeprefix("v0=")),
        (STAMP, GOOD.replace("v0", "v1")),
        (STAMP, GOOD[:-1]),
        (STAMP, f"{GOOD}0"),
        (STAMP, f"{GOOD}\n"),
        (STAMP, f"{GOOD},{GOOD}"),
        (STAMP, "v0=" + "é" * 64),
        (STAMP, "v0=" + "\udcff" * 64),
        (STAMP, "v0=" + "0" * 64),
    ],
)
def test_malformed_headers_are_refused(timestamp: str | None, given: str | None) -> None:
    assert is_signed(SIGNING_SECRET, timestamp, given, BODY, now=NOW) is False


@pytest.mark.parametrize(
    ("secret", "body"),
    [
        ("", BODY),
        ("   ", BODY),
        ("another", BODY),
        ("\udcff", BODY),
        (SIGNING_SECRET, BODY + b" "),
        (SIGNING_SECRET, b""),
        (SIGNING_SECRET, b"\xff\xfe"),
    ],
)
def test_a_wrong_secret_or_body_is_refused(secret: str, body: bytes) -> None:
    assert is_signed(secret, *signature(), body, now=NOW) is False


def test_a_signed_body_that_is_not_utf8_is_refused() -> None:
    """Slack's verifier raises here."""
    body = b"\xff\xfe{}"
    stamp, given = signature(body)
    with pytest.raises(UnicodeDecodeError):
        SignatureVerifier(SIGNING_SECRET).is_valid(
            body, str(int(datetime.now(UTC).timestamp())), given
        )
    assert is_signed(SIGNING_SECRET, stamp, given, body, now=NOW) is False


@given(
    secret=st.text(max_size=40),
    timestamp=st.none() | st.text(max_size=30) | st.integers().map(str),
    given=st.none() | st.text(max_size=80) | st.from_regex(r"v0=[0-9a-f]{64}", fullmatch=True),
    body=st.binary(max_size=200),
)
def test_any_input_is_refused_without_an_error(
    secret: str, timestamp: str | None, given: str | None, body: bytes
) -> None:
    assert is_signed(secret, timestamp, given, body, now=NOW) is False
