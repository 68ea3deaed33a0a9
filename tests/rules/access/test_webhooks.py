"""Signatures, addresses and retries of webhooks."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest

from memories.rules.access.webhooks import host_of, is_public, next_try, sign

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)


def test_a_signature_is_verified_with_the_secret() -> None:
    signature = sign([b"new", b"old"], "msg_1", 1_700_000_000, '{"a":1}')
    expected = hmac.new(b"new", b'msg_1.1700000000.{"a":1}', hashlib.sha256).digest()
    first, second = signature.split(" ")
    assert first == f"v1,{base64.b64encode(expected).decode()}"
    assert second != first


@pytest.mark.parametrize(
    ("tries", "pause"),
    [(1, 30), (2, 300), (3, 1_800), (4, 7_200), (5, 21_600)],
)
def test_the_pause_grows(tries: int, pause: int) -> None:
    assert next_try(tries, NOW) == NOW + timedelta(seconds=pause)


def test_the_sixth_try_is_the_last() -> None:
    assert next_try(6, NOW) is None


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),  # the metadata of cloud machines
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("2002:7f00:1::", False),  # 127.0.0.1 in 6to4
        ("fe80::1", False),
        ("fd00::1", False),
    ],
)
def test_internal_addresses_are_not_public(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://a.example",
        "https://",
        "https://user@a.example",
        "https://a.example:99999",
        "a.example",
    ],
)
def test_invalid_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError):
        host_of(url)


def test_the_host_of_an_address() -> None:
    assert host_of("https://Bot.Example.com:8443/x?y=1") == "bot.example.com"
