"""The demo workspace with its memories, made once: by a command, or from the setup page."""

import logging
from dataclasses import dataclass
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
DAYS = 24  # of passes: three weeks of work may begin on a weekend
DAYS_APART = 2
EDIT_DAYS_AGO = 4  # a day of a pass, so that later merges show what becomes of a person's line

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


def make_demo(now: datetime, *, password: str | None) -> bool:
    """False: it is there already, and nothing is changed. Without a ``password`` nobody signs in as
    its editor: an installation that others can reach gets no login that everybody knows."""
    # All of it or nothing: stopped half way it starts anew, as of another moment.
    with lock_preparation(logger.info), transaction.atomic():
        workspace, is_new = Workspace.objects.get_or_create(slug=SLUG, defaults={"name": "Kazoe"})
        if is_new:
            _Demo(workspace, now, password).make()
    if is_new:
        indexing.catch_up()
    return is_new


@dataclass
class _Demo:
    workspace: Workspace
    now: datetime
    password: str | None

    def make(self) -> None:
        self.workspace.change_settings({"time_zone": "Asia/Tokyo"})
        self.load()
        user = self.sign_up()
        for days_ago in range(DAYS, -1, -DAYS_APART):
            self.remember(self.now - timedelta(days=days_ago))
            if days_ago == EDIT_DAYS_AGO:
                self.edit(user)
        self.edit_and_restore(user)
        self.write_notes(user)
        self.remember(self.now)

    def load(self) -> None:
        settings.MEMORYHUB_VAR.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="demo-", dir=settings.MEMORYHUB_VAR) as folder:
            build_export(Path(folder), self.now)
            with Export(Path(folder)) as export:
                import_export(self.workspace, export, self.now, backfill="all")

    def sign_up(self) -> User:
        """The demo's editor, who is one of its people and so in one of its private channels."""
        user = User.objects.filter(username=DEMO_USER).first()
        user = user or User.objects.create_user(DEMO_USER, password=self.password)
        Member.objects.create(workspace=self.workspace, user=user, role=Member.Role.EDITOR)
        person = Person.objects.get(workspace=self.workspace, slack_id=person_id(DEMO_PERSON))
        person.link(user, IN_DEMO)
        return user

    def remember(self, as_of: datetime) -> None:
        """A pass by the offline summariser, also where a model is configured: no cost."""
        run_pass(self.workspace, as_of, OfflineSummariser())

    def edit(self, user: User) -> None:
        """A person strikes the last line of a memory and adds one of their own."""
        memory, current = self._long_term("launch")
        kept = current.content.split("\n")[:-1]
        memory.revise("\n".join([*kept, ADDED_LINE]), by=user, based_on=current.number)

    def edit_and_restore(self, user: User) -> None:
        """A memory is cut down too far, and the version before brought back."""
        memory, before = self._long_term("みなと連携")
        short = memory.revise(TOO_SHORT, by=user, based_on=before.number)
        memory.restore(before, by=user, based_on=short.number)

    def write_notes(self, user: User) -> None:
        for content, kind, tags, channel in NOTES:
            Note.objects.write(
                self.workspace,
                content,
                kind=kind,
                tags=tags,
                channel=self._channel(channel) if channel else None,
                author=user,
                now=self.now,
            )

    def _channel(self, name: str) -> Channel:
        return self.workspace.channels.get(slack_id=channel_id(name))

    def _long_term(self, name: str) -> tuple[Memory, MemoryVersion]:
        memory = Memory.objects.of_channel(self._channel(name), MemoryType.LONG_TERM)
        if memory.current is None:
            raise LookupError(f"#{name} has no long-term memory yet")
        return memory, memory.current
