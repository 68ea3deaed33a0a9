"""Addresses in Slack."""

import pytest

from memories.rules.ingest.permalinks import find_domains, permalink

TS = "1700000000.123456"


@pytest.mark.parametrize(
    ("domain", "thread_ts", "address"),
    [
        pytest.param("", "", "", id="unknown domain"),
        pytest.param(
            "acme", "", "https://acme.slack.com/archives/C1/p1700000000123456", id="plain"
        ),
        pytest.param(
            "acme", TS, "https://acme.slack.com/archives/C1/p1700000000123456", id="a root"
        ),
        pytest.param(
            "acme",
            "1600000000.000001",
            "https://acme.slack.com/archives/C1/p1700000000123456"
            "?thread_ts=1600000000.000001&cid=C1",
            id="a reply",
        ),
    ],
)
def test_permalink(domain: str, thread_ts: str, address: str) -> None:
    assert permalink(domain, "C1", TS, thread_ts) == address


@pytest.mark.parametrize(
    ("raw", "domains"),
    [
        ({"files": [{"permalink": "https://acme.slack.com/files/U1/F1/plan.pdf"}]}, ["acme"]),
        ({"attachments": [{"from_url": "https://acme.slack.com/archives/C1/p17"}]}, ["acme"]),
        ({"text": "<https://evil.slack.com/archives/C1/p17>"}, []),
        ({"files": [{"permalink": "https://acme.slack.com.evil.example/files/1"}]}, []),
        ({"files": [{"permalink": "https://slack.com/files/1"}, None, "x"]}, []),
        ({"files": {"permalink": "https://acme.slack.com/files/1"}, "attachments": 3}, []),
        ("not a message", []),
    ],
)
def test_domains_in(raw: object, domains: list[str]) -> None:
    assert list(find_domains(raw)) == domains
