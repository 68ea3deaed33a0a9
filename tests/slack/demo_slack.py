"""`make demo-slack`: a hub with the demo's team in a fake Slack, and new messages while it runs.

Each run has a new folder (var/demo-slack) and database. The hub is connected to a fake Slack on
loopback, syncs all channels, and makes their memories with the offline summariser. Then the web
server and the worker run, and new messages arrive as signed events. A sync finds lost events.
Ctrl-C stops everything.
"""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from memories.rules.slack_app.payloads import SETTINGS
from tests.slack.demo_life import build_demo_export, fill_workspace, post_messages
from tests.slack.fake_app import APP_SCOPES
from tests.slack.fake_events import SIGNING_SECRET, send_event
from tests.slack.fake_slack import TOKEN, FakeSlack

if TYPE_CHECKING:
    from memories.models import User, Workspace

ROOT = Path(__file__).resolve().parent.parent.parent
SLUG = "kazoe"
IDLE_SECONDS, MESSAGE_THRESHOLD = 30, 8  # short: a spectator does not wait two hours
FEATURES = (*SETTINGS.values(), "slack_digests")
DAYS = 24  # of passes, one a day, as `manage.py demo` makes them
# Settings of the environment that do not apply: it calls no model and only the fake Slack.
REMOVED_PREFIXES = ("MEMORYHUB_", "OPENAI_", "SLACK_", "DATABASE_URL", "SECRET_KEY")
BLANK = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "MEMORYHUB_MODEL", "SLACK_BOT_TOKEN")


def main() -> None:
    options = _options()
    var = options.var.resolve()
    _make_folder(var)
    with FakeSlack() as slack:
        slack.scopes |= APP_SCOPES
        _settings(var, options.port, slack.url)
        from django.core.management import CommandError, call_command
        from django.utils import timezone

        try:
            call_command("serve", try_port=True)
            say("Moving the demo's team into a Slack of its own; this takes about a minute.")
            later = fill_workspace(slack, build_demo_export(timezone.now(), var / "export"))
            shutil.rmtree(var / "export")
            call_command("migrate", verbosity=0)
            _connect_and_remember(timezone.now(), options.days)
            slack.send_digests = send_digests
            slack.hub_url = f"http://localhost:{options.port}"
            _print_addresses(slack)
            over = threading.Event()
            url = f"http://127.0.0.1:{options.port}/slack/events/"
            talk = threading.Thread(target=_post, args=(slack, later, url, options.every, over))
            talk.start()
            if options.limit:
                stop = threading.Timer(options.limit, os.kill, (os.getpid(), signal.SIGTERM))
                stop.daemon = True
                stop.start()
            try:
                call_command("serve")
            finally:
                over.set()
                talk.join()
        except CommandError as error:
            sys.exit(str(error))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _options() -> Any:
    parser = argparse.ArgumentParser(prog="make demo-slack", description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT") or 8000))
    parser.add_argument("--every", type=float, default=8.0, help="seconds between two acts")
    parser.add_argument("--limit", type=float, default=0.0, help="stop after so many seconds")
    parser.add_argument("--days", type=int, default=DAYS, help="passes over the past, one a day")
    parser.add_argument("--var", type=Path, default=ROOT / "var" / "demo-slack")
    return parser.parse_args()


def _make_folder(var: Path) -> None:
    """Create the folder; replace only a folder of an earlier run."""
    mark = var / "made-by-demo-slack"
    if mark.exists():
        shutil.rmtree(var)
    elif var.exists() and any(var.iterdir()):
        sys.exit(f"{var} holds something else; give another folder with --var.")
    var.mkdir(parents=True, exist_ok=True)
    mark.touch()


def _settings(var: Path, port: int, slack_url: str) -> None:
    for name in list(os.environ):
        if name.startswith(REMOVED_PREFIXES):
            del os.environ[name]
    os.environ |= dict.fromkeys(BLANK, "")  # these override .env
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "memoryhub.settings",
        "MEMORYHUB_VAR": str(var),
        "DATABASE_URL": f"sqlite:///{var / 'memoryhub.sqlite3'}",
        "MEMORYHUB_LOG_LEVEL": "WARNING",
        "MEMORYHUB_LOG_FORMAT": "plain",
        "PORT": str(port),
        "MEMORYHUB_URL": f"http://localhost:{port}",
        "SLACK_BASE_URL": slack_url,
        "SLACK_SIGNING_SECRET": SIGNING_SECRET,
    }
    import django

    django.setup()


def _connect_and_remember(now: datetime, days: int) -> None:
    from memories.llm.offline import OfflineSummariser
    from memories.models import SlackConnection, Workspace
    from memories.pipeline.generate.passes import run_pass
    from memories.pipeline.sync.connecting import check_connection, connect

    workspace = Workspace.objects.create(slug=SLUG, name="Kazoe")
    features = dict.fromkeys(FEATURES, True)
    workspace.change_settings(
        {"time_zone": "Asia/Tokyo", "read_private_channels": True, **features}
    )
    SlackConnection.objects.of(workspace).set_token(TOKEN, by=None)
    findings = check_connection(workspace, now)
    if not connect(workspace, findings, now):
        sys.exit(f"The fake Slack refuses: {findings.error}")
    _sync(workspace, now)
    user = _sign_up(workspace)
    for channel in workspace.channels.all():
        channel.follow(by=user, on=True)
    _sync(workspace, now)
    for channel in workspace.channels.followed():
        first = channel.messages.rememberable().in_order().first()
        if first is not None:
            channel.remember_from(first.micros)
    for days_ago in range(days, -1, -1):
        run_pass(workspace, now - timedelta(days=days_ago), OfflineSummariser())
    # New messages are summarized within two minutes.
    workspace.change_settings(
        {"conversation_idle_seconds": IDLE_SECONDS, "message_threshold": MESSAGE_THRESHOLD}
    )


def _sync(workspace: "Workspace", now: datetime) -> None:
    """Sync without the rate limits that the workers share."""
    from django.conf import settings

    from memories.pipeline.sync.sync import sync_workspace
    from memories.slack.web import SlackClient

    report = sync_workspace(workspace, SlackClient(TOKEN, settings.SLACK_BASE_URL), now)
    if report.error:
        sys.exit(report.error)


def _sign_up(workspace: "Workspace") -> "User":
    """Create an admin who is linked to a person of the team."""
    from memories.demo.ids import person_id
    from memories.demo.workspace import DEMO_PASSWORD, DEMO_PERSON, DEMO_USER
    from memories.models import Member, User

    user = User.objects.create_user(DEMO_USER, password=DEMO_PASSWORD)
    Member.objects.create(workspace=workspace, user=user, role=Member.Role.ADMIN)
    person = workspace.people.get(slack_id=person_id(DEMO_PERSON))
    person.link(user, "demo")
    return user


def _print_addresses(slack: FakeSlack) -> None:
    from django.conf import settings

    from memories.demo.workspace import DEMO_PASSWORD, DEMO_USER

    say(f"The team's Slack: {slack.url.removesuffix('api/')}")
    say(f"The demo: {settings.MEMORYHUB_URL}/w/{SLUG}/")
    say(f"Sign in as {DEMO_USER}, password {DEMO_PASSWORD}")


def _post(
    slack: FakeSlack,
    later: list[tuple[str, dict[str, Any]]],
    url: str,
    every: float,
    over: threading.Event,
) -> None:
    """Post messages, and send the events of each step."""
    while not _is_up(url):
        if over.wait(0.5):
            return
    for step in post_messages(slack, later):
        say(step)
        for body in slack.take_events():
            send_event(url, body, sends=2)
        _request_sync()
        if over.wait(every):
            return
    say("Everybody has said what there was to say. Ctrl-C stops web and worker.")
    while not over.wait(every):
        _request_sync()


def send_digests() -> int:
    """Send all chosen digests for their last period. Return their number."""
    from django.utils import timezone

    from memories.models import SlackDigest
    from memories.slack_app.digests import send_due

    SlackDigest.objects.exclude(frequency="").update(next_at=timezone.now())
    return send_due(timezone.now())


def _request_sync() -> None:
    """Let the next tick read all channels, because a pass ends at the last complete read.

    The usual five minutes are long for a spectator.
    """
    from django.utils import timezone

    from memories.models import ChannelSync, Workspace
    from memories.rules.sync.resync_schedule import FRESH_FOR

    Workspace.objects.filter(slug=SLUG).update(next_sync_at=None)
    stale = timezone.now() - FRESH_FOR
    ChannelSync.objects.filter(synced_at__gt=stale).update(synced_at=stale)


def _is_up(url: str) -> bool:
    with (
        contextlib.suppress(OSError),
        socket.create_connection(
            (urlsplit(url).hostname or "", urlsplit(url).port or 80), timeout=5
        ),
    ):
        return True
    return False


if __name__ == "__main__":
    main()
