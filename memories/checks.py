"""System checks of settings that exclude each other."""

import shlex
from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register

from memoryhub.private import find_open_paths


@register
def check_lease(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Another worker would repeat, and pay for, a call that outlasts its lease."""
    if settings.MEMORYHUB_LLM_TIMEOUT < settings.MEMORYHUB_LEASE:
        return []
    return [
        Error(
            f"MEMORYHUB_LLM_TIMEOUT ({settings.MEMORYHUB_LLM_TIMEOUT:g} s) must be below"
            f" MEMORYHUB_LEASE ({settings.MEMORYHUB_LEASE:g} s).",
            hint="Make the lease about three times as long as the time-out.",
            id="memories.E001",
        )
    ]


@register
def check_concurrency(
    app_configs: Sequence[AppConfig] | None, **options: Any
) -> list[CheckMessage]:
    if settings.MEMORYHUB_LLM_CONCURRENCY >= 1:
        return []
    return [Error("MEMORYHUB_LLM_CONCURRENCY must be at least 1.", id="memories.E002")]


@register
def check_worker_intervals(
    app_configs: Sequence[AppConfig] | None, **options: Any
) -> list[CheckMessage]:
    """The worker needs an interval for its heartbeat, and /readyz at least two intervals."""
    errors: list[CheckMessage] = []
    if settings.MEMORYHUB_HEARTBEAT <= 0:
        errors.append(Error("MEMORYHUB_HEARTBEAT must be above 0.", id="memories.E003"))
    if settings.MEMORYHUB_POLL <= 0:
        errors.append(Error("MEMORYHUB_POLL must be above 0.", id="memories.E005"))
    if settings.MEMORYHUB_WORKERS < 1:
        errors.append(Error("MEMORYHUB_WORKERS must be at least 1.", id="memories.E004"))
    if settings.MEMORYHUB_HEARTBEAT_MAX < 2 * settings.MEMORYHUB_HEARTBEAT:
        errors.append(
            Warning(
                f"MEMORYHUB_HEARTBEAT_MAX ({settings.MEMORYHUB_HEARTBEAT_MAX:g} s) is less than two"
                f" heartbeats ({settings.MEMORYHUB_HEARTBEAT:g} s each): /readyz will flicker.",
                hint="Leave it unset: it is five heartbeats then.",
                id="memories.W002",
            )
        )
    return errors


@register
def check_model_endpoint(
    app_configs: Sequence[AppConfig] | None, **options: Any
) -> list[CheckMessage]:
    """Without a key and an address, calls would go to OpenAI and fail."""
    if not settings.MEMORYHUB_MODEL or settings.OPENAI_API_KEY or settings.OPENAI_BASE_URL:
        return []
    return [
        Warning(
            "MEMORYHUB_MODEL names a model, but there is neither a key nor an address for it.",
            hint="Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own.",
            id="memories.W001",
        )
    ]


@register
def check_single_sign_on(
    app_configs: Sequence[AppConfig] | None, **options: Any
) -> list[CheckMessage]:
    """The sign-in page shows single sign-on only if both variables are set."""
    if bool(settings.MEMORYHUB_OIDC_ISSUER) == bool(settings.MEMORYHUB_OIDC_CLIENT_ID):
        return []
    return [
        Warning(
            "Single sign-on is off, because it needs both MEMORYHUB_OIDC_ISSUER and"
            " MEMORYHUB_OIDC_CLIENT_ID.",
            hint="Set the other one, or remove both.",
            id="memories.W004",
        )
    ]


@register
def check_private_files(
    app_configs: Sequence[AppConfig] | None, **options: Any
) -> list[CheckMessage]:
    """Each start restricts the files it owns. This check finds those of another owner."""
    return [
        Warning(
            f"Other users of this machine can reach {path}.",
            hint=f"Run as its owner: chmod go= {shlex.quote(str(path))}",
            id="memories.W003",
        )
        for path in find_open_paths()
    ]
