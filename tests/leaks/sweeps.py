"""What an attacker reads after a post: rows, pages, commands. And the browser that posts.

All pages are read once after many posts, which are made again one after the other. That shows what it
would after each of them, as long as none takes away what another would show: so what removes words or
rights, or answers otherwise than alone, is read after by itself. Of many posts with a leak each half is
asked again, down to the one.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth import SESSION_KEY
from django.db import connection, transaction
from django.test import Client, TestCase
from django.urls import reverse
from django.utils import timezone

from memories.models import (
    Channel,
    Memory,
    MemoryVersion,
    Message,
    Note,
    QuarantinedLine,
    Reader,
    Segment,
    User,
)
from tests.leaks.attacked import PRIVATE, AttackedTeam
from tests.leaks.forms import Post
from tests.leaks.probes import TYPED, check_answer, run_command
from tests.leaks.world import WORD

AT_ONCE = 24  # posts before all is read
# Tables whose rows open nothing to anybody: a post that writes to no others leaves all reads as they were.
HARMLESS = re.compile(
    r'^(INSERT INTO|UPDATE|DELETE FROM) "(django_session|django_admin_log|memories_auditevent|memoryhub_cache)"'
)
WRITES = re.compile(r"^(INSERT|UPDATE|DELETE)")


@dataclass
class Report:
    counts: Counter[str] = field(default_factory=Counter)
    forms: set[str] = field(default_factory=set)
    leaks: list[str] = field(default_factory=list)
    gains: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    refused: list[str] = field(
        default_factory=list
    )  # whole forms that an operator in every channel cannot save

    @property
    def is_clean(self) -> bool:
        return not (self.leaks or self.gains or self.functions or self.refused)

    def __str__(self) -> str:
        lines = [f"{len(self.forms)} forms and actions, {dict(self.counts)}"]
        for kind in ("leaks", "gains", "functions", "refused"):
            entries = getattr(self, kind)
            lines += [f"{len(entries)} {kind}", *(f"  {what}" for what in entries[:20])]
        return "\n".join(lines)


@dataclass(frozen=True)
class Written:
    """A post that wrote something. ``outcome``: its status and statements, alone. ``is_less``: some
    account or row may do less after it."""

    post: Post
    what: str
    outcome: tuple[int, list[str]]
    readers: list[User]
    granted: bool
    is_less: bool


class Browser:
    """Posts as one account, and forgets after each answer what it did to the cookies."""

    def __init__(self, actor: User | None) -> None:
        self.actor = actor
        self.client = Client(SERVER_NAME="localhost", raise_request_exception=False)
        if actor is not None:
            self.client.force_login(actor)
        self.cookies = self.client.cookies.output(header="", sep=";")
        self.owner: str | None = None  # of the session, after a post

    def post(self, post: Post) -> tuple[Any, list[str]]:
        """The answer, and the statements that wrote."""
        with writes() as written, TestCase.captureOnCommitCallbacks(execute=True):
            body = urlencode(post.sent_by(self.actor), doseq=True)  # parsed faster than parts
            response = self.client.post(post.path, body, "application/x-www-form-urlencoded")
        self.owner = self.client.session.get(SESSION_KEY)
        self.client.cookies.clear()
        self.client.cookies.load(self.cookies)
        return response, written


class Sweeper:
    def __init__(self, world: AttackedTeam, report: Report) -> None:
        self.world, self.report = world, report
        self.secret = world.channels[PRIVATE]
        self.kept = self._kept()
        self.client = Client(SERVER_NAME="localhost", raise_request_exception=False)

    # -- after one post

    def look(self, what: str, role: str, user: User, granted: bool) -> list[str]:
        """Return the leaks in the account's view of the channel: rows, and its page."""
        self.report.counts["readers"] += 1
        leaks = [] if granted else self._rows(f"{what}: as {user}", user)
        page = reverse("channels-detail", args=[self.world.team.slug, self.secret.slack_id])
        return [*leaks, *self._read([page], what, role, user, granted)]

    def words(self, what: str, text: str, role: str, granted: bool) -> list[str]:
        entries = []
        for place, word in set(WORD.findall(text)):
            readers = self.world.audiences.get(place.lower(), set())
            if role not in readers and not (granted and place.lower() == PRIVATE):
                entries.append(f"{what}: {place} {word}")
        return entries

    # -- after many

    def sweep(self, role: str, browser: Browser, posts: list[Written]) -> None:
        together = [post for post in posts if not (post.granted or post.is_less)]
        # Neighbours often are posts to the same row, which would refuse the second one.
        batches = -(-len(together) // AT_ONCE)
        for first in range(batches):
            self._sweep(role, browser, together[first::batches])
        for post in posts:
            if post.granted or post.is_less:
                self._sweep(role, browser, [post])

    def _sweep(self, role: str, browser: Browser, posts: list[Written]) -> None:
        apart: list[Written] = []
        with transaction.atomic():
            done = []
            for written in posts:
                before = transaction.savepoint()
                response, statements = browser.post(written.post)
                is_alike = (response.status_code, statements) == written.outcome
                if len(posts) > 1 and not (is_alike and self._kept() >= self.kept):
                    transaction.savepoint_rollback(before)
                    apart.append(written)
                    continue
                transaction.savepoint_commit(before)
                done.append(written)
            leaks = self._read_all(role, done)
            transaction.set_rollback(True)
        if leaks and len(done) > 1:
            apart += done
        else:
            self.report.leaks += leaks
        if len(apart) == 1:
            self._sweep(role, browser, apart)
        elif apart:
            half = len(apart) // 2
            for some in (apart[:half], apart[half:]):
                self._sweep(role, browser, some)

    def _read_all(self, role: str, posts: list[Written]) -> list[str]:
        self.report.counts["sweeps"] += bool(posts)
        leaks: list[str] = []
        readers = {reader.pk: reader for written in posts for reader in written.readers}
        granted = any(written.granted for written in posts)
        what = " + ".join(written.what for written in posts)
        for user in User.objects.filter(pk__in=readers):
            leaks += self._read(self._pages(), what, role, user, granted)
            if user.get_username() == f"as-{role}":
                for words in (
                    ["context", "--workspace", "leaks", "--notes"],
                    ["export", "--workspace", "leaks", "--force"],
                ):
                    text = run_command(words, role)
                    leaks += self.words(f"{what}: {words}", text, role, granted)
        return leaks

    def _read(self, pages: Any, what: str, role: str, user: User, granted: bool) -> list[str]:
        leaks = []
        self.client.cookies.clear()
        self.client.force_login(user)
        for path in pages:
            self.report.counts["reads"] += 1
            text = check_answer(self.client.get(path))
            leaks += self.words(f"{what}: {user} reads {path}", text, role, granted)
        return leaks

    def _pages(self) -> Iterator[str]:
        slug, channel = self.world.team.slug, self.secret.slack_id
        yield reverse("channels-detail", args=[slug, channel])
        yield f"{reverse('search-index', args=[slug])}?q={TYPED}"
        for name in ("messages-index", "threads-index"):
            yield reverse(name, args=[slug, channel])
        for name in (
            "context-index",
            "context-download",
            "jobs-index",
            "people-index",
            "notes-index",
        ):
            yield reverse(name, args=[slug])
        yield f"{reverse('context-index', args=[slug])}?channel={channel}"
        for memory in Memory.objects.filter(channel=self.secret):
            yield reverse("memories-versions", args=[memory.pk])
        for model in (
            "message",
            "memoryversion",
            "note",
            "channel",
            "job",
            "quarantinedline",
        ):
            yield reverse(f"admin:memories_{model}_changelist")

    def _rows(self, what: str, user: User) -> list[str]:
        reader = Reader.of(user, timezone.now())
        by_memory = (MemoryVersion, QuarantinedLine)
        leaks = []
        for model in (Channel, Message, Memory, MemoryVersion, Note, Segment, QuarantinedLine):
            path = "memory__channel" if model in by_memory else "channel"
            rows = model.objects.visible_to(reader).filter(
                **{"pk" if model is Channel else path: self.secret.pk}
            )
            if rows.exists():
                leaks.append(f"{what}: a {model._meta.model_name} is visible")
        return leaks

    def _kept(self) -> set[Any]:
        """The words that stand in the channel now: what is gone could not leak."""
        texts: list[str] = []
        for model, path, columns in (
            (Channel, "pk", ("name", "topic", "purpose")),
            (Message, "channel", ("text",)),
            (MemoryVersion, "memory__channel", ("content",)),
            (Note, "channel", ("title", "content")),
            (QuarantinedLine, "memory__channel", ("text",)),
        ):
            for row in model._base_manager.filter(**{path: self.secret.pk}).values_list(*columns):
                texts += row
        return set(WORD.findall(" ".join(texts)))


@contextmanager
def writes() -> Iterator[list[str]]:
    """The statements that write, but for those of `HARMLESS` tables."""
    statements: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if WRITES.match(sql) and not HARMLESS.match(sql):
            statements.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield statements
