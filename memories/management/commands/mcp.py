"""Serve MCP on standard input and output, for agents on the same machine."""

from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.api.auth import usable_key
from memories.api.mcp import build_server
from memories.models import ApiKey
from memoryhub.env import PROGRAM


class Command(BaseCommand):
    help = "Serve MCP on standard input and output, with the key in MEMORYHUB_KEY."
    requires_system_checks: list[str] = []  # their output would break the protocol

    def handle(self, *args: Any, **options: Any) -> None:
        key = ApiKey.objects.find(settings.MEMORYHUB_KEY, timezone.now())
        if key is None:
            raise CommandError(f"MEMORYHUB_KEY holds no usable key: see `{PROGRAM} api_key`.")
        load_key = partial(usable_key, key.pk)
        build_server(load_key, key.scopes).run("stdio")
