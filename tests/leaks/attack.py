"""Posts every form as every attacker, undoes each post, and counts what it gave them.

A *leak* is a word or row of the private channel that the attacker reads after a post, and did not
before. A *gain* is a change of the tables that say who may what. A *function* is one that is not a task
of the project, and that a post brought into django-q2's tables or that a worker then ran. What an
operator may do is no gain where the record says who did it, and why if it opens a private channel.
"""

import logging
from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

from allauth.account.models import EmailAddress
from allauth.idp.oidc.models import Client, Token
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import OrmQ, Schedule, Task
from django_q.scheduler import scheduler
from django_q.signing import SignedPackage

from memories.models import (
    AccessGrant,
    ApiKey,
    AuditEvent,
    Channel,
    ChannelMember,
    Member,
    Person,
    SlackConnection,
    User,
    Workspace,
)
from memories.tasks import TASKS
from tests.leaks.attacked import PRIVATE, ROOT, AttackedTeam
from tests.leaks.forms import KNOWN_PASSWORD, Learner, Post
from tests.leaks.probes import check_answer
from tests.leaks.sweeps import Browser, Report, Sweeper, Written

# Whose rows say who may read or do what, and in which columns. A row that only goes gives nobody rights.
RIGHTS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (User, ("username", "email", "is_active", "is_staff", "is_superuser", "password")),
    (User.groups.through, ("user_id", "group_id")),
    (User.user_permissions.through, ("user_id", "permission_id")),
    (Group, ("name",)),
    (Group.permissions.through, ("group_id", "permission_id")),
    (Member, ("user_id", "workspace_id", "role")),
    (Person, ("user_id", "linked_by", "link_valid_until", "email", "is_guest", "is_external", "is_deleted")),
    (ChannelMember, ("channel_id", "person_id")),
    (Channel, ("workspace_id", "kind", "is_shared", "in_workspace_memory", "slack_id")),
    (EmailAddress, ("user_id", "email", "verified")),
    (AccessGrant, ("user_id", "channel_id", "until")),
    (SocialAccount, ("user_id", "uid")),
    (SocialApp, ("client_id", "secret")),
    (SocialToken, ("account_id", "token")),
    (Authenticator, ("user_id", "type")),
    (Workspace, ("team_id", "connected_at", "listed_at")),
    (SlackConnection, ("workspace_id", "state")),
    (ApiKey, ("user_id", "is_narrowed", "scopes", "client_id")),
    (Token, ("user_id", "client_id", "type", "hash", "scopes")),
    (Client, ("redirect_uris", "skip_consent", "secret")),
)  # fmt: skip
QUEUE = (Schedule, OrmQ, Task)
REFUSED = {"memories_slackconnection_add"}  # each workspace has one connection
Rows = dict[tuple[str, Any], tuple[Any, ...]]


class Attack:
    """Each post is undone. Where one wrote something, the attacker's rows and the channel's page are
    read. ``is_full``: all pages are read too, by `tests.leaks.sweeps`."""

    def __init__(self, world: AttackedTeam, *, is_full: bool) -> None:
        self.world, self.is_full, self.report = world, is_full, Report()
        self.secret = world.channels[PRIVATE]
        self.rights, self.queue = rows_of(RIGHTS), self._queue()  # as each post finds them
        self.sweeper = Sweeper(world, self.report)

    def run(self, role: str, posts: Iterable[Post]) -> None:
        """Post all of it as one attacker."""
        actor = self.world.users.get(role)
        browser = Browser(actor)
        written: list[Written] = []
        for post in posts:
            with transaction.atomic():
                if (answer := self._post(role, browser, actor, post)) is not None:
                    written.append(answer)
                transaction.set_rollback(True)
        if self.is_full:
            self.sweeper.sweep(role, browser, written)

    def _post(self, role: str, browser: Browser, actor: User | None, post: Post) -> Written | None:
        """Return what the post wrote, if anything."""
        what = f"{role}: {post.form} {post.path}"
        last_event = AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        response, statements = browser.post(post)
        answer = check_answer(response)
        self.report.counts["posts"] += 1
        self.report.counts[f"status {response.status_code}"] += 1
        self.report.forms.add(post.form)
        if response.status_code >= 500:
            self.report.gains.append(f"{what}: status {response.status_code}")
        is_filled_in = post.is_whole and role == ROOT and post.form not in REFUSED
        if is_filled_in and not is_saved(response):
            self.report.refused.append(f"{what}: {response.status_code} {errors_in(response)}")
        if role == ROOT:
            return None
        events = list(AuditEvent.objects.filter(pk__gt=last_event))
        granted = self._granted(actor, events)
        self.report.leaks += self.sweeper.words(f"{what}: its answer", answer, role, granted)
        owner = browser.owner
        if owner not in (None, str(actor.pk) if actor else None):
            self.report.gains.append(f"{what}: signed in as account {owner}")
        if not statements:
            return None
        self.report.counts["posts that wrote"] += 1
        self.report.counts["opened on the record"] += granted
        rights = rows_of(RIGHTS)
        self._compare(what, actor, events, rights)
        self._run_worker(what)
        readers = self._accounts(actor)
        for reader in readers:
            self.report.leaks += self.sweeper.look(what, role, reader, granted)
        is_less = any(rights.get(key) != row for key, row in self.rights.items())
        return Written(post, what, (response.status_code, statements), readers, granted, is_less)

    # -- gains

    def _compare(
        self, what: str, actor: User | None, events: list[AuditEvent], rights: Rows
    ) -> None:
        for (label, key), row in rights.items():
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

    def _accounts(self, actor: User | None) -> list[User]:
        """The attacker's own account, and each whose password the attacker knows now."""
        accounts = list(User.objects.filter(pk=actor.pk if actor else None))
        for user in User.objects.exclude(pk=actor.pk if actor else None):
            was = self.rights.get((User._meta.label, user.pk))
            is_new = was is None or was[-1] != user.password
            if is_new and check_password(KNOWN_PASSWORD, user.password):
                accounts.append(user)
        return accounts

    # -- functions

    def _queue(self) -> dict[Any, Any]:
        rows = {}
        for row in (row for model in QUEUE for row in model._base_manager.all()):
            named = row.payload if isinstance(row, OrmQ) else (row.func, row.hook, row.args)
            due = getattr(row, "lock", None) or getattr(row, "next_run", None)
            rows[type(row).__name__, row.pk] = (named, due)
        return rows

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
    own = [event for event in events if event.actor == actor.get_username()]
    actions = {event.action for event in own}
    if actor.is_operator and "demo" in actions and was is None:  # the demo's people and account
        return label != Member._meta.label or row[0] != actor.pk
    if label == Member._meta.label:
        may_appoint = actor.is_operator or actor.memberships.filter(role="admin").exists()
        return may_appoint and "role" in actions
    if label == Workspace._meta.label and was is None:
        return actor.is_operator or not row[0]  # no team's logins count in it
    if label == SlackConnection._meta.label:
        return bool(actions & {"slack_token_set", "slack_token_removed", "admin_add"})
    if label == Channel._meta.label:
        return was is not None and row[1] != "public" and not row[3]
    if label == ApiKey._meta.label:
        readers = (actor.pk, None) if actor.is_operator else (actor.pk,)  # None: public channels
        return was is None and row[0] in readers and "api_key_issue" in actions
    if label == EmailAddress._meta.label:
        return not row[2]
    if label == Person._meta.label:
        return is_allowed_link(actor, was, row, own)
    if not actor.is_operator:
        return False
    if label == AccessGrant._meta.label:
        return any(e.action == "channel_open" and e.details.get("reason") for e in own)
    if label == User._meta.label and was is not None and was[-1] != row[-1]:
        return "password_given" in actions
    of_accounts = ("memories.User", "auth.Group")
    return label.startswith(of_accounts) and bool(own)


def is_allowed_link(actor: User, was: Any, row: Any, own: list[AuditEvent]) -> bool:
    """No link, or an operator's: on the record, with an end, and with a reason if it opens anything."""
    if was is None or was[3:] != row[3:]:
        return was is not None and not row[3] and row[4:] == was[4:]  # forgotten
    if row[0] is None:
        return True
    details = [e.details for e in own if e.action in ("person_link", "password_given")]
    if not (actor.is_operator and details and row[1] == "" and row[2] is not None):
        return False
    return row[2] <= timezone.now() or any(detail.get("reason") for detail in details)


def is_saved(response: Any) -> bool:
    """Whether the admin saved a form: it redirects, or shows the token of a new key once."""
    return response.status_code == 302 or b"<code>mh" in response.content


def errors_in(response: Any) -> str:
    context = getattr(response, "context_data", None) or {}
    form = getattr(context.get("adminform"), "form", None) or context.get("form")
    return str(dict(form.errors))[:300] if form is not None else ""


def attack(
    world: AttackedTeam, roles: Iterable[str], *, is_full: bool, share: tuple[int, int] = (0, 1)
) -> Report:
    """Post every form of the admin as each of these roles, each on every kind of row and those of the
    pages too if ``is_full``, else once. An operator who is in every channel posts those of browsers
    first: what such an account cannot save was not filled in well. ``share``: (0, 2) and (1, 2) are
    the two halves of all posts."""
    learner = Learner(world, is_full=is_full)
    posts = list(learner.admin_posts())
    if is_full:
        posts += learner.page_posts()
    posts = posts[share[0] :: share[1]]
    running = Attack(world, is_full=is_full)
    running.run(ROOT, [post for post in posts if post.is_whole])
    if not is_full:  # each of them is sent with more beside it
        posts = [post for post in posts if not post.is_whole]
    logging.disable(logging.CRITICAL)  # a traceback for each refusal
    try:
        for role in roles:
            running.run(role, posts)
    finally:
        logging.disable(logging.NOTSET)
    return running.report
