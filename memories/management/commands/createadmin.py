"""Create an operator, or make an existing account one."""

import argparse
import getpass
import sys
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_email
from django.db import transaction

from memories.management import arguments
from memories.models import User
from memories.models.access.users import find_by_username
from memories.pipeline.access import operators
from memoryhub.env import env


class Command(BaseCommand):
    help = (
        "Create an operator, or make an existing account an operator. A second run changes nothing,"
        " and an existing password stays. The password comes from MEMORYHUB_ADMIN_PASSWORD, from the"
        " file MEMORYHUB_ADMIN_PASSWORD_FILE, or from the terminal."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "username", nargs="?", default="admin", help="the user name; default: %(default)s"
        )
        parser.add_argument("--email", default="", help="the e-mail address of a new account")

    def handle(self, *args: Any, **options: Any) -> None:
        name, email = options["username"].strip(), options["email"].strip()
        with arguments.needs_database():
            user = find_by_username(name)
        is_new = user is None
        user = user or _valid_account(User(username=name, email=email))
        needs_password = is_new or not user.has_usable_password()
        if needs_password:
            user.set_password(_valid_password(self._password(user), user))
        with transaction.atomic():
            if needs_password:
                user.save()
            changed = operators.appoint(user, by=None)
        if is_new:
            self.stdout.write(f"Created the operator {name}.")
        else:
            done = "is an operator now" if changed else "is an operator already"
            self.stdout.write(
                f"{user.username} {done}." + (" It has a password." if needs_password else "")
            )

    def _password(self, user: User) -> str:
        if password := env.str("MEMORYHUB_ADMIN_PASSWORD", default=""):
            return str(password)
        if not sys.stdin.isatty():
            raise CommandError(
                "No password was given. Set MEMORYHUB_ADMIN_PASSWORD, or run this in a terminal."
            )
        password = getpass.getpass(f"Password for {user.get_username()}: ")
        if getpass.getpass("Repeat the password: ") != password:
            raise CommandError("The passwords differ. Nothing was changed.")
        return password


def _valid_account(user: User) -> User:
    """Return the account, or raise ``CommandError`` if its name or address is invalid."""
    try:
        User._meta.get_field("username").clean(user.username, user)
        if user.email:
            validate_email(user.email)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from error
    return user


def _valid_password(password: str, user: User) -> str:
    """Return the password, or raise ``CommandError`` if a validator refuses it."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from error
    return password
