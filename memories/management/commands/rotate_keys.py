"""Encrypt stored secrets again with the first of MEMORYHUB_KEYS."""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memories.management import arguments
from memories.models import ModelServer, SlackConnection
from memories.pipeline.access import second_factors
from memories.rules.safety.encryption import DecryptionError, new_key
from memoryhub.env import PROGRAM

STEPS = """\
This is a new key. It is not stored anywhere.
1. Put it before the others: MEMORYHUB_KEYS=THIS,THE_OTHERS in the environment, or, where that is
   unset, as the first line of {file}.
2. Start web and worker again, on every machine.
3. Run `manage.py rotate_keys`.
4. After that succeeds, remove the other keys and restart. Old backups still need them."""


class Command(BaseCommand):
    help = (
        "Encrypt all stored tokens, keys and second factors with the first of MEMORYHUB_KEYS, so that you can"
        " remove the other keys. You may run it again. Exit status 1: no key decrypts some of them."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--new",
            action="store_true",
            help="only print a new key on stdout, and the next steps on stderr",
        )

    @arguments.needs_database()
    def handle(self, *args: Any, **options: Any) -> None:
        if options["new"]:
            self.stdout.write(new_key())
            self.stderr.write(STEPS.format(file=settings.MEMORYHUB_VAR / "keys"))
            return
        changed, unchanged, failures = 0, 0, []
        for name, reencrypt in self._secrets():
            try:
                if reencrypt():
                    changed += 1
                else:
                    unchanged += 1
            except DecryptionError:
                failures.append(name)
        self.stdout.write(
            f"{changed} encrypted again, {unchanged} already encrypted with the first key"
        )
        if failures:
            raise CommandError(
                f"None of the keys decrypts the {', the '.join(failures)}: add the key that it was"
                f" encrypted with, or set it again (a second factor: `{PROGRAM} mfa_reset USER`)."
            )

    def _secrets(self) -> Iterator[tuple[str, Callable[[], bool]]]:
        """Yield the name of each secret, and a function that encrypts it and returns if it changed."""
        for connection in SlackConnection.objects.with_token().select_related("workspace"):
            yield f"token of {connection.workspace.slug}", connection.reencrypt
        for server in ModelServer.objects.exclude(encrypted_key=""):
            yield "key of the model", server.reencrypt
        for factor in second_factors.with_secrets():
            yield (
                f"second factor of {factor.user.get_username()}",
                partial(second_factors.reencrypt, factor),
            )
