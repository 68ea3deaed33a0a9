"""Create the demo workspace with its memories, print its address, and serve it."""

import logging
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, call_command
from django.utils import timezone

from memories.demo.create import SLUG, create_demo
from memories.demo.workspace import DEMO_OPERATOR, DEMO_PASSWORD, DEMO_USER
from memories.models import User, Workspace
from memories.pipeline.access.first_account import is_new_installation
from memories.pipeline.access.operators import appoint


class Command(BaseCommand):
    help = (
        "Create the demo workspace with its memories and an account, without a model or network."
        " Change nothing in an existing one. Create the database if there is none."
        " Then run web and worker."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--no-serve", dest="serve", action="store_false", help="do not run web and worker"
        )

    def handle(self, *args: Any, serve: bool, **options: Any) -> None:
        if serve:
            call_command("serve", try_port=True)  # fail at once if the port is taken
        call_command("migrate", verbosity=0)
        if not Workspace.objects.filter(slug=SLUG).exists():
            self.stderr.write("Making the demo workspace; this takes less than half a minute.")
            nobody_can_sign_in = is_new_installation()
            logging.disable(logging.INFO)
            try:
                create_demo(timezone.now(), password=DEMO_PASSWORD)
            finally:
                logging.disable(logging.NOTSET)
            if nobody_can_sign_in:  # nobody else relies on this installation
                appoint(User.objects.create_user(DEMO_OPERATOR, password=DEMO_PASSWORD), by=None)
        self.stdout.write(f"The demo: {settings.MEMORYHUB_URL}")
        user = User.objects.filter(username=DEMO_USER).first()
        if user is not None and user.has_usable_password():  # one from the setup page has none
            self.stdout.write(f"Sign in as {DEMO_USER}, password {DEMO_PASSWORD}")
        operator = User.objects.filter(username=DEMO_OPERATOR, is_superuser=True).first()
        if operator is not None and operator.check_password(DEMO_PASSWORD):
            self.stdout.write(
                f"For settings, people and Slack: {DEMO_OPERATOR}, password {DEMO_PASSWORD}"
            )
        self.stdout.flush()
        if serve:
            call_command("serve")
