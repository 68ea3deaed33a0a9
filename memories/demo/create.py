"""Create the demo workspace with its memories, for the command and the setup page."""

import logging
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from django.conf import settings
from django.db import transaction

from memories.demo.ids import channel_id, person_id
from memories.demo.workspace import DEMO_PERSON, DEMO_USER, build_export
from memories.llm.offline import OfflineSummariser
from memories.models import Channel, Member, Memory, MemoryVersion, Note, Person, User, Workspace
from memories.models.ingest.people import IN_DEMO
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.ingest.importing import import_export
from memories.pipeline.locks import lock_preparation
from memories.pipeline.search import indexing
from memories.rules.memory.identity import MemoryType
from memories.slack.export import Export

logger = logging.getLogger(__name__)

SLUG = "demo"
DAYS = 24  # three weeks of work, which may begin on a weekend
DAYS_BETWEEN_PASSES = 2
EDIT_DAYS_AGO = 4  # the day of a pass

ADDED_LINE = (
    "- Nobody outside hears a date before it stands in #launch as decided"
    " (since the first launch was called off)."
)
TOO_SHORT = "- Minato: phase one is the CSV file, phase two the API. The rest is in the channel."
NOTES = (
    (
        "Counts are ordered by each device's own sequence, never by a clock. Device times are for"
        " display only: a tablet that was nine hours fast cost three shops 1,127 counts.",
        Note.Kind.ARCHITECTURE,
        ("sync", "clocks"),
        "dev",
    ),
    (
        "When a shop reports missing counts: ask for the names of the devices and a photo of each"
        " status bar, tell them not to sync, and call every day until it is solved.",
        Note.Kind.PATTERN,
        ("support",),
        "support",
    ),
    (
        "みなとレジのCSVは Shift_JIS(cp932)。文字コードを推測しない。JANコードは文字列として扱い、"
        "先頭のゼロを落とさない。",
        Note.Kind.SOLUTION,
        ("みなとレジ", "CSV"),
        "",
    ),
)


def create_demo(now: datetime, *, password: str | None) -> bool:
    """Create the demo workspace. Return False, and change nothing, if it exists.

    Without a ``password`` nobody can sign in as its editor. An installation that others can reach must
    not have an account with a known password.
    """
    # In one transaction, because a second attempt would have another `now`.
    with lock_preparation(logger.info), transaction.atomic():
        workspace, is_new = Workspace.objects.get_or_create(slug=SLUG, defaults={"name": "Kazoe"})
        if is_new:
            _fill(workspace, now, password)
    if is_new:
        indexing.index_pending()
    return is_new


def _fill(workspace: Workspace, now: datetime, password: str | None) -> None:
    workspace.change_settings({"time_zone": "Asia/Tokyo"})
    _import_messages(workspace, now)
    user = _create_editor(workspace, password)
    for days_ago in range(DAYS, -1, -DAYS_BETWEEN_PASSES):
        _remember(workspace, now - timedelta(days=days_ago))
        if days_ago == EDIT_DAYS_AGO:
            _edit_memory(workspace, user)
    _edit_and_restore_memory(workspace, user)
    for content, kind, tags, channel_name in NOTES:
        Note.objects.write(
            workspace,
            content,
            kind=kind,
            tags=tags,
            channel=_channel(workspace, channel_name) if channel_name else None,
            author=user,
            now=now,
        )
    _remember(workspace, now)


def _import_messages(workspace: Workspace, now: datetime) -> None:
    settings.MEMORYHUB_VAR.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="demo-", dir=settings.MEMORYHUB_VAR) as folder:
        build_export(Path(folder), now)
        with Export(Path(folder)) as export:
            import_export(workspace, export, now, backfill="all")


def _create_editor(workspace: Workspace, password: str | None) -> User:
    """Create an editor, and link it to a person who is in one of the private channels."""
    user = User.objects.filter(username=DEMO_USER).first()
    user = user or User.objects.create_user(DEMO_USER, password=password)
    Member.objects.create(workspace=workspace, user=user, role=Member.Role.EDITOR)
    person = Person.objects.get(workspace=workspace, slack_id=person_id(DEMO_PERSON))
    person.link(user, IN_DEMO)
    return user


def _remember(workspace: Workspace, as_of: datetime) -> None:
    """Run a pass with the offline summariser, also if a model is configured, to avoid costs."""
    run_pass(workspace, as_of, OfflineSummariser())


def _edit_memory(workspace: Workspace, user: User) -> None:
    """Delete the last line of a memory and add a line, so that later merges show both."""
    memory, current = _long_term_memory(workspace, "launch")
    lines = current.content.split("\n")[:-1]
    memory.revise("\n".join([*lines, ADDED_LINE]), by=user, based_on=current.number)


def _edit_and_restore_memory(workspace: Workspace, user: User) -> None:
    """Shorten a memory too much, and restore its older version."""
    memory, before = _long_term_memory(workspace, "みなと連携")
    short = memory.revise(TOO_SHORT, by=user, based_on=before.number)
    memory.restore(before, by=user, based_on=short.number)


def _channel(workspace: Workspace, name: str) -> Channel:
    return workspace.channels.get(slack_id=channel_id(name))


def _long_term_memory(workspace: Workspace, channel_name: str) -> tuple[Memory, MemoryVersion]:
    channel = _channel(workspace, channel_name)
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    if memory.current is None:
        raise LookupError(f"#{channel_name} has no long-term memory yet")
    return memory, memory.current
