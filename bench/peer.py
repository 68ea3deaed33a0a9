"""The bookmark list of linkding, a kept Django project, for `python -m bench.pages --peer FOLDER`.

FOLDER has the files of linkding 1.42. They are copied to a temporary folder with a virtual environment, into
which `pip install` puts its packages. It stores texts of our generator as bookmarks with three tags, and
runs on the same server as our pages. A page has as many rows as our longest lists.
"""

import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.talk import MessageGenerator
from tests.processes import free_port, wait_until

ROWS = 50  # of a page
PATH = "/bookmarks"
_BOOKMARKS = 1_000
_START_SECONDS = 60
_PACKAGES = (
    "Django>=5.2,<5.3",
    "beautifulsoup4",
    "bleach",
    "bleach-allowlist",
    "django-registration",
    "django-widget-tweaks",
    "djangorestframework",
    "huey",
    "markdown",
    "mozilla-django-oidc",
    "python-dateutil",
    "requests",
    "waitress",
    "waybackpy",
)
# Reads texts from stdin, and prints the cookie of a session.
_MAKE = f"""
import json, sys
import django
django.setup()
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from bookmarks.models import Bookmark, Tag
user = User.objects.create_user("bench")
user.profile.items_per_page = {ROWS}
user.profile.save()
now = timezone.now()
tags = [Tag.objects.create(name=f"tag-{{n}}", owner=user, date_added=now) for n in range(30)]
for n, text in enumerate(json.load(sys.stdin)):
    bookmark = Bookmark.objects.create(
        url=f"https://example.com/{{n}}", title=text[:80], description=text, owner=user,
        date_added=now, date_modified=now,
    )
    bookmark.tags.add(*(tags[(n + step) % 30] for step in (0, 7, 13)))
client = Client()
client.force_login(user)
print(f"{{settings.SESSION_COOKIE_NAME}}={{client.session.session_key}}")
"""


@contextmanager
def serve_linkding(source: Path) -> Iterator[tuple[int, str]]:
    """Install linkding, and yield the port of its server and the cookie of a session."""
    with TemporaryDirectory(prefix="memoryhub-bench-") as name:
        folder = Path(name) / "linkding"
        shutil.copytree(source, folder)
        (folder / "data").mkdir(exist_ok=True)
        (folder / "data" / "secretkey.txt").write_text(secrets.token_hex())
        (folder / "bookmarks" / "settings" / "dev.py").unlink()  # else it is used, with DEBUG
        python = Path(name) / "venv" / "bin" / "python"
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "bookmarks.settings",
            "LD_DISABLE_BACKGROUND_TASKS": "True",
            "PYTHONPATH": str(folder),
        }
        environment.pop("DATABASE_URL", None)

        def run(*command: str, texts: str = "") -> str:
            return subprocess.run(
                [str(python), *command],
                cwd=folder,
                env=environment,
                input=texts,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout

        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
        run("-m", "pip", "install", "--quiet", *_PACKAGES)
        run("manage.py", "migrate", "--verbosity", "0")
        talk = MessageGenerator(random.Random(1))
        texts = json.dumps([talk.message() for _ in range(_BOOKMARKS)])
        cookie = run("-c", _MAKE, texts=texts).strip()
        port = free_port()
        server = subprocess.Popen(
            [
                str(python),
                "-m",
                "waitress",
                f"--listen=127.0.0.1:{port}",
                "bookmarks.wsgi:application",
            ],
            cwd=folder,
            env=environment,
        )
        try:
            wait_until(lambda: _is_open(port), "linkding to listen", _START_SECONDS)
            yield port, cookie
        finally:
            server.terminate()
            server.wait()


def _is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
