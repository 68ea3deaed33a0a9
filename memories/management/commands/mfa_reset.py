"""Remove the second factors of an account that has lost them."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memories.management import arguments
from memories.models.access.users import find_by_username
from memories.pipeline.access import second_factors


class Command(BaseCommand):
    help = (
        "Remove all second factors of an account: app, security keys and recovery codes. The account"
        " then signs in with its password alone. First verify the identity of the person. The audit log"
        " records the change."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("username", help="the account")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["username"]
        with arguments.needs_database():
            user = find_by_username(name)
        if user is None:
            raise CommandError(f"There is no account {name!r}.")
        kinds = second_factors.reset(user, by=None)
        if kinds:
            self.stdout.write(f"Removed of {name}: {', '.join(kinds)}.")
        else:
            self.stdout.write(f"{name} has no second factor. Nothing was changed.")
