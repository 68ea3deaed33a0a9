"""Addresses of apps, and what an access token is for."""

import pytest

from memories.rules.access.oauth import covers, is_redirect_allowed, origin_of

HOSTS = ["claude.ai", "hub.example:8443"]
HUB = "https://memory.example.com"


@pytest.mark.parametrize(
    ("uri", "is_allowed"),
    [
        ("https://claude.ai/api/mcp/auth_callback", True),
        ("https://claude.ai/callback?a=b", True),
        ("https://hub.example:8443/", True),
        ("http://127.0.0.1:7777/callback", True),
        ("http://localhost/callback", True),
        ("http://[::1]:7777/", True),
        ("http://claude.ai/", False),
        ("https://claude.ai:8443/", False),
        ("https://evil.example/", False),
        ("https://evil.example/?claude.ai", False),
        ("https://claude.ai.evil.example/", False),
        ("https://claude.ai@evil.example/", False),
        ("https://claude.ai\\@evil.example/", False),
        ("https://*.ai/", False),
        ("https://claude.ai/#part", False),
        ("https://claude.ai/\nhttps://evil.example/", False),
        ("https://claude.ai/ ", False),
        ("http://localhost.evil.example/", False),
        ("http://localhost@evil.example/", False),
        ("http://localhost:no/", False),
        ("http://[::1/", False),
        ("javascript:alert(1)", False),
        ("cursor://callback", False),
        ("//claude.ai/", False),
        ("", False),
        (f"https://claude.ai/{'a' * 1_000}", False),
    ],
)
def test_apps_are_at_known_hosts_or_on_the_own_machine(uri: str, is_allowed: bool) -> None:
    assert is_redirect_allowed(uri, HOSTS) == is_allowed


@pytest.mark.parametrize(
    ("resources", "path", "is_covered"),
    [
        ([HUB], "/mcp", True),
        ([f"{HUB}/"], "/api/v1/status", True),
        ([f"{HUB}/mcp"], "/mcp", True),
        ([f"{HUB}/mcp"], "/mcp/x", True),
        ([f"{HUB}/mcp"], "/mcpx", False),
        ([f"{HUB}/mcp"], "/api/v1/status", False),
        ([f"{HUB}.evil.example"], "/mcp", False),
        (["https://other.example"], "/mcp", False),
        ([], "/mcp", False),
    ],
)
def test_a_token_is_for_its_resources(resources: list[str], path: str, is_covered: bool) -> None:
    assert covers(resources, f"{HUB}{path}") == is_covered


def test_the_origin_is_what_a_person_recognises() -> None:
    assert origin_of("https://claude.ai/api/callback?a=b") == "https://claude.ai"
    assert origin_of("http://127.0.0.1:7777/x") == "http://127.0.0.1:7777"
