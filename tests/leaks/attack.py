"""Posts every form as every attacker, undoes each post, and counts what it gave them.

A *leak* is a word or row of the private channel that the attacker reads after a post, and did not
before. A *gain* is a change of the tables that say who may what. A *function* is one that is not a task
of the project, and that a post brought into django-q2's tables or that a worker then ran. What an
operator may do is no gain where the record says who did it, and why if it opens a private channel.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test import Client, TestCase
from django.urls import reverse
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import OrmQ, Schedule, Task
from django_q.scheduler import scheduler
from django_q.signing import SignedPackage

from memories.jobs import TASKS
from memories.models import (
    AuditEvent,
    Channel,
    ChannelMember,
    Member,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Opening,
    Person,
    QuarantinedLine,
    Reader,
    Segment,
    SlackConnection,
    User,
    Workspace,
)
from tests.leaks.attacked import PRIVATE, ROOT, AttackedTeam
from tests.leaks.forms import KNOWN_PASSWORD, Learner, Post
from tests.leaks.probes import run_command, told
from tests.leaks.world import WORD

# Whose rows say who may read or do what, and in which columns. A row that only goes gives nobody rights.
RIGHTS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (User, ("username", "email", "is_active", "is_staff", "is_superuser", "password")),
    (User.groups.through, ("user_id", "group_id")),
    (User.user_permissions.through, ("user_id", "permission_id")),
    (Group, ("name",)),
    (Group.permissions.through, ("group_id", "permission_id")),
    (Member, ("user_id", "workspace_id", "role")),
    (Person, ("user_id", "linked_by", "opens_until", "email", "is_guest", "is_external", "is_deleted")),
    (ChannelMember, ("channel_id", "person_id")),
    (Channel, ("workspace_id", "kind", "is_shared", "in_workspace_memory", "slack_id")),
    (EmailAddress, ("user_id", "email", "verified")),
    (Opening, ("user_id", "channel_id", "until")),
    (SocialAccount, ("user_id", "uid")),
    (SocialApp, ("client_id", "secret")),
    (SocialToken, ("account_id", "token")),
    (Authenticator, ("user_id", "type")),
    (Workspace, ("team_id", "connected_at", "listed_at")),
    (SlackConnection, ("workspace_id", "state")),
)  # fmt: skip
QUEUE = (Schedule, OrmQ, Task)
# Tables whose rows open nothing to anybody: a post that writes to no others leaves all reads as they were.
HARMLESS = re.compile(
    r'^(INSERT INTO|UPDATE|DELETE FROM) "(django_session|django_admin_log|memories_auditevent|memoryhub_cache)"'
)
WRITES = re.compile(r"^(INSERT|UPDATE|DELETE)")
Rows = dict[tuple[str, Any], tuple[Any, ...]]


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
        return not (self.leaks or self.gains or self.functions)

    def __str__(self) -> str:
        lines = [f"{len(self.forms)} forms and actions, {dict(self.counts)}"]
        for kind in ("leaks", "gains", "functions", "refused"):
            found = getattr(self, kind)
            lines += [f"{len(found)} {kind}", *(f"  {what}" for what in found[:20])]
        return "\n".join(lines)


class Attack:
    """``is_full``: every page is read after every post; else a few, where a post wrote something."""

    def __init__(self, world: AttackedTeam, *, is_full: bool) -> None:
        self.world, self.is_full, self.report = world, is_full, Report()
        self.secret = world.channels[PRIVATE]
        self.rights, self.queue = rows_of(RIGHTS), self._queue()  # as each post finds them

    def run(self, role: str, posts: Iterable[Post]) -> None:
        """Post all of it as one attacker."""
        client = Client(SERVER_NAME="localhost", raise_request_exception=False)
        actor = self.world.users.get(role)
        if actor is not None:
            client.force_login(actor)
        cookies = client.cookies.output(header="", sep=";")
        for post in posts:
            with transaction.atomic():
                self._post(role, client, actor, post)
                transaction.set_rollback(True)
            client.cookies.clear()
            client.cookies.load(cookies)

    def _post(self, role: str, client: Client, actor: User | None, post: Post) -> None:
        what = f"{role}: {post.form} {post.path}"
        last_event = AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        with ExitStack() as stack:
            written = stack.enter_context(writes())
            stack.enter_context(TestCase.captureOnCommitCallbacks(execute=True))
            response = client.post(post.path, post.sent_by(actor))
            answer = told(response)
        self.report.counts["posts"] += 1
        self.report.counts[f"status {response.status_code}"] += 1
        self.report.forms.add(post.form)
        if response.status_code >= 500:
            self.report.gains.append(f"{what}: status {response.status_code}")
        if post.is_whole and role == ROOT and response.status_code != 302:
            self.report.refused.append(f"{what}: {response.status_code} {errors_in(response)}")
        if role == ROOT:
            return
        events = list(AuditEvent.objects.filter(pk__gt=last_event))
        granted = self._granted(actor, events)
        self._find_words(f"{what}: its answer", answer, role, granted)
        owner = client.session.get("_auth_user_id")
        if owner not in (None, str(actor.pk) if actor else None):
            self.report.gains.append(f"{what}: signed in as account {owner}")
        if not written and not self.is_full:
            return
        self.report.counts["posts that wrote"] += 1
        self._compare(what, actor, events)
        self._run_worker(what)
        for reader in self._accounts(actor):
            self._read(what, role, reader, granted)

    # -- what was gained

    def _compare(self, what: str, actor: User | None, events: list[AuditEvent]) -> None:
        for (label, key), row in rows_of(RIGHTS).items():
            was = self.rights.get((label, key))
            if row != was and not is_allowed(actor, label, key, was, row, events):
                self.report.gains.append(f"{what}: {label} {key}: {was} → {row}")

    def _granted(self, actor: User | None, events: list[AuditEvent]) -> bool:
        """Whether the record says that an operator opened the private channel, and why."""
        if actor is None or not actor.is_operator:
            return False
        of_secret = {f"channel {self.secret.pk}", "UVICTIM", "USTRAY", "as-victim"}
        return any(
            event.action in ("channel_open", "person_link", "password_given")
            and event.actor == actor.get_username()
            and event.subject in of_secret
            and event.details.get("reason")
            for event in events
        )

    def _accounts(self, actor: User | None) -> Iterator[User]:
        """The attacker's own account, and each whose password the attacker knows now."""
        if actor is not None and (own := User.objects.filter(pk=actor.pk).first()):
            yield own
        for user in User.objects.exclude(pk=actor.pk if actor else None):
            was = self.rights.get((User._meta.label, user.pk))
            is_new = was is None or was[-1] != user.password
            if is_new and check_password(KNOWN_PASSWORD, user.password):
                yield user

    # -- functions

    def _queue(self) -> dict[Any, Any]:
        found = {}
        for row in (row for model in QUEUE for row in model._base_manager.all()):
            named = row.payload if isinstance(row, OrmQ) else (row.func, row.hook, row.args)
            due = getattr(row, "lock", None) or getattr(row, "next_run", None)
            found[type(row).__name__, row.pk] = (named, due)
        return found

    def _run_worker(self, what: str) -> None:
        """Look for foreign functions in the tables, and let the scheduler and the broker of a worker
        hand out what is due."""
        after = self._queue()
        if after == self.queue:
            return
        for (label, key), row in after.items():
            if row != self.queue.get((label, key)):
                func = SignedPackage.loads(row[0])["func"] if label == "OrmQ" else row[0][0]
                if func not in TASKS:
                    self.report.functions.append(f"{what}: {label} {key} names {func}")
        broker = get_broker()
        with patch("django_q.scheduler.close_old_django_connections"):  # all of this is undone
            scheduler(broker)
        while packages := broker.dequeue():
            for key, payload in packages:
                func = SignedPackage.loads(payload)["func"]
                if func not in TASKS:
                    self.report.functions.append(f"{what}: a worker runs {func}")
                broker.acknowledge(key)

    # -- reads

    def _read(self, what: str, role: str, user: User, granted: bool) -> None:
        self.report.counts["readers"] += 1
        self.report.counts["opened on the record"] += granted
        if not granted:
            self._find_rows(f"{what}: as {user}", user)
        client = Client(SERVER_NAME="localhost", raise_request_exception=False)
        client.force_login(user)
        for path in self._pages():
            self.report.counts["reads"] += 1
            self._find_words(f"{what}: {user} reads {path}", told(client.get(path)), role, granted)
        if self.is_full and User.objects.filter(pk=user.pk, username=f"as-{role}").exists():
            for words in (
                ["context", "--workspace", "leaks", "--notes"],
                ["export", "--workspace", "leaks", "--force"],
            ):
                self._find_words(f"{what}: {words}", run_command(words, role), role, granted)

    def _pages(self) -> Iterator[str]:
        slug, channel = self.world.team.slug, self.secret.slack_id
        yield reverse("channels-detail", args=[slug, channel])
        if not self.is_full:
            return
        yield f"{reverse('search-index', args=[slug])}?q=zq"
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
            "generation",
            "quarantinedline",
        ):
            yield reverse(f"admin:memories_{model}_changelist")

    def _find_rows(self, what: str, user: User) -> None:
        reader = Reader.of(user, timezone.now())
        for model in (Channel, Message, Memory, MemoryVersion, Note, Segment, QuarantinedLine):
            path = {
                Channel: "pk",
                MemoryVersion: "memory__channel",
                QuarantinedLine: "memory__channel",
            }
            rows = model.objects.visible_to(reader).filter(
                **{path.get(model, "channel"): self.secret.pk}
            )
            if rows.exists():
                self.report.leaks.append(f"{what}: a {model._meta.model_name} is visible")

    def _find_words(self, what: str, text: str, role: str, granted: bool) -> None:
        for place, word in set(WORD.findall(text)):
            readers = self.world.audiences.get(place.lower(), set())
            if role not in readers and not (granted and place.lower() == PRIVATE):
                self.report.leaks.append(f"{what}: {place} {word}")


def rows_of(tables: Iterable[tuple[Any, tuple[str, ...]]]) -> Rows:
    return {
        (model._meta.label, row[0]): row[1:]
        for model, columns in tables
        for row in model._base_manager.values_list("pk", *columns)
    }


def is_allowed(
    actor: User | None, label: str, key: Any, was: Any, row: Any, events: list[AuditEvent]
) -> bool:
    """Whether the attacker may make this change of a row, by the rules of docs/rules.md."""
    if actor is None:
        return False
    mine = [event for event in events if event.actor == actor.get_username()]
    actions = {event.action for event in mine}
    if label == Member._meta.label:
        may_appoint = actor.is_operator or actor.memberships.filter(role="admin").exists()
        return may_appoint and "role" in actions
    if label == Workspace._meta.label and was is None:
        return actor.is_operator or not row[0]  # no team's logins count in it
    if label == SlackConnection._meta.label:
        return bool(actions & {"slack_token_set", "slack_token_removed", "admin_add"})
    if label == Channel._meta.label:
        return was is not None and row[1] != "public" and not row[3]
    if label == EmailAddress._meta.label:
        return not row[2]
    if label == Person._meta.label:
        return is_allowed_link(actor, was, row, mine)
    if not actor.is_operator:
        return False
    if label == Opening._meta.label:
        return any(e.action == "channel_open" and e.details.get("reason") for e in mine)
    if label == User._meta.label and was is not None and was[-1] != row[-1]:
        return "password_given" in actions
    of_accounts = ("memories.User", "auth.Group")
    return label.startswith(of_accounts) and bool(mine)


def is_allowed_link(actor: User, was: Any, row: Any, mine: list[AuditEvent]) -> bool:
    """No link, or an operator's: on the record, with an end, and with a reason if it opens anything."""
    if was is None or was[3:] != row[3:]:
        return was is not None and not row[3] and row[4:] == was[4:]  # forgotten
    if row[0] is None:
        return True
    details = [e.details for e in mine if e.action in ("person_link", "password_given")]
    if not (actor.is_operator and details and row[1] == "" and row[2] is not None):
        return False
    return row[2] <= timezone.now() or any(told.get("reason") for told in details)


@contextmanager
def writes() -> Iterator[list[str]]:
    """The statements that write, but for those of `HARMLESS` tables."""
    found: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if WRITES.match(sql) and not HARMLESS.match(sql):
            found.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield found


def errors_in(response: Any) -> str:
    context = getattr(response, "context_data", None) or {}
    form = getattr(context.get("adminform"), "form", None) or context.get("form")
    return str(dict(form.errors))[:300] if form is not None else ""


def attack(world: AttackedTeam, roles: Iterable[str], *, is_full: bool) -> Report:
    """Post every form of the admin as each of these roles, each on every kind of row and those of the
    pages too if ``is_full``, else once. An operator who is in every channel posts those of browsers
    first: what such an account cannot save was not filled in well."""
    learner = Learner(world, is_full=is_full)
    posts = list(learner.admin_posts())
    running = Attack(world, is_full=is_full)
    running.run(ROOT, [post for post in posts if post.is_whole])
    if is_full:
        posts += learner.page_posts()
    else:  # each of them is sent with more beside it
        posts = [post for post in posts if not post.is_whole]
    logging.disable(logging.CRITICAL)  # a traceback for each refusal
    try:
        for role in roles:
            running.run(role, posts)
    finally:
        logging.disable(logging.NOTSET)
    return running.report
