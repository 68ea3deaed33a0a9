"""The first operator, or one more: an account that runs the installation."""

import argparse
import getpass
import sys
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_email
from django.db import DatabaseError, transaction

from memories.models import User
from memories.pipeline.access import operators
from memoryhub.env import env


class Command(BaseCommand):
    help = (
        "Make an account that runs the installation, or make an existing one an operator. Run"
        " again it changes nothing: the password of who has one stays. A new password is asked"
        " for, or taken from MEMORYHUB_ADMIN_PASSWORD (or the file MEMORYHUB_ADMIN_PASSWORD_FILE)."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "username", nargs="?", default="admin", help="its user name; default: %(default)s"
        )
        parser.add_argument("--email", default="", help="its e-mail address, for a new account")

    def handle(self, *args: Any, **options: Any) -> None:
        name, email = options["username"].strip(), options["email"].strip()
        try:
            user = User.objects.filter(username=name).first()
        except DatabaseError as error:
            raise CommandError(
                "The database cannot be read: run `manage.py migrate` first, or see DATABASE_URL."
            ) from error
        is_new = user is None
        user = user or _checked(User(username=name, email=email))
        needs_password = is_new or not user.has_usable_password()
        if needs_password:
            user.set_password(_good(self._password(user), user))
        with transaction.atomic():
            if needs_password:
                user.save()
            changed = operators.appoint(user, by=None)
        if is_new:
            self.stdout.write(f"Made the operator {name}.")
        else:
            done = "is an operator now" if changed else "is an operator already"
            self.stdout.write(f"{name} {done}." + (" It has a password." if needs_password else ""))

    def _password(self, user: User) -> str:
        if given := env.str("MEMORYHUB_ADMIN_PASSWORD", default=""):
            return str(given)
        if not sys.stdin.isatty():
            raise CommandError(
                "There is nobody to ask for a password: set MEMORYHUB_ADMIN_PASSWORD, or run this"
                " in a terminal."
            )
        first = getpass.getpass(f"Password for {user.get_username()}: ")
        if getpass.getpass("The same again: ") != first:
            raise CommandError("These are two different passwords. Nothing was changed.")
        return first


def _checked(user: User) -> User:
    """A new account with this name and address. CommandError says what is wrong with them."""
    try:
        User._meta.get_field("username").clean(user.username, user)
        if user.email:
            validate_email(user.email)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from error
    return user


def _good(password: str, user: User) -> str:
    """What the rules for passwords take; an operator's is no weaker than anybody's."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from error
    return password
