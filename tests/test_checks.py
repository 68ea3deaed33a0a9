"""System checks on options that must fit each other, and the checks for production."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("timeout", "lease", "ids"),
    [
        pytest.param(60.0, 180.0, [], id="the defaults"),
        pytest.param(180.0, 180.0, ["memories.E001"], id="equal"),
        pytest.param(200.0, 180.0, ["memories.E001"], id="longer"),
    ],
)
def test_a_model_call_must_end_before_its_lease(
    settings: Settings, timeout: float, lease: float, ids: list[str]
) -> None:
    settings.MEMORYHUB_LLM_TIMEOUT = timeout
    settings.MEMORYHUB_LEASE = lease
    assert [message.id for message in run_checks()] == ids


@pytest.mark.parametrize(("calls", "ids"), [(1, []), (0, ["memories.E002"])])
def test_concurrency_is_positive(settings: Settings, calls: int, ids: list[str]) -> None:
    settings.MEMORYHUB_LLM_CONCURRENCY = calls
    assert [message.id for message in run_checks()] == ids


@pytest.mark.parametrize(("seconds", "ids"), [(0.1, []), (0.0, ["memories.E005"])])
def test_the_poll_interval_is_positive(settings: Settings, seconds: float, ids: list[str]) -> None:
    settings.MEMORYHUB_POLL = seconds
    assert [message.id for message in run_checks()] == ids


@pytest.mark.parametrize(
    ("issuer", "client", "ids"),
    [("", "", []), ("https://x.org", "id", []), ("https://x.org", "", ["memories.W004"])],
)
def test_single_sign_on_is_complete(
    settings: Settings, issuer: str, client: str, ids: list[str]
) -> None:
    settings.MEMORYHUB_OIDC_ISSUER, settings.MEMORYHUB_OIDC_CLIENT_ID = issuer, client
    assert [message.id for message in run_checks()] == ids


@pytest.mark.parametrize(
    ("heartbeat", "silence", "workers", "ids"),
    [
        pytest.param(60.0, 300.0, 2, [], id="the defaults"),
        pytest.param(0.0, 300.0, 2, ["memories.E003"], id="no heartbeat"),
        pytest.param(-1.0, 300.0, 2, ["memories.E003"], id="a backward one"),
        pytest.param(60.0, 300.0, 0, ["memories.E004"], id="nobody works"),
        pytest.param(160.0, 300.0, 1, ["memories.W002"], id="less than two beats"),
    ],
)
def test_the_worker_can_be_watched(
    settings: Settings, heartbeat: float, silence: float, workers: int, ids: list[str]
) -> None:
    settings.MEMORYHUB_HEARTBEAT, settings.MEMORYHUB_HEARTBEAT_MAX = heartbeat, silence
    settings.MEMORYHUB_WORKERS = workers
    assert [message.id for message in run_checks()] == ids


def checked(url: str, var: Path) -> subprocess.CompletedProcess[str]:
    # Browser tests use settings that Django refuses in production.
    inherited = {k: v for k, v in os.environ.items() if k != "DJANGO_ALLOW_ASYNC_UNSAFE"}
    return subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env=inherited | {"MEMORYHUB_URL": url, "MEMORYHUB_VAR": str(var), "SECRET_KEY": ""},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_production_is_clean(tmp_path: Path) -> None:
    done = checked("https://memory.example.com", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_production_without_https_is_not(tmp_path: Path) -> None:
    done = checked("http://memory.example.com", tmp_path)
    assert done.returncode == 1
    assert "SECURE_SSL_REDIRECT" in done.stderr


@pytest.mark.parametrize("url", ["memory.example.com", "https://example.com/memory", "ftp://x"])
def test_an_address_that_cannot_be_is_refused(url: str, tmp_path: Path) -> None:
    done = checked(url, tmp_path)
    assert done.returncode == 1
    assert "MEMORYHUB_URL" in done.stderr


@pytest.mark.parametrize(
    ("model", "key", "address", "warned"),
    [
        ("", "", "", False),
        ("m-1", "k", "", False),
        ("m-1", "", "http://localhost:11434/v1", False),
        ("m-1", "", "", True),
    ],
)
def test_a_model_needs_a_key_or_an_address(
    settings: Settings, model: str, key: str, address: str, warned: bool
) -> None:
    settings.MEMORYHUB_MODEL = model
    settings.OPENAI_API_KEY, settings.OPENAI_BASE_URL = key, address
    assert ("memories.W001" in {message.id for message in run_checks()}) is warned
