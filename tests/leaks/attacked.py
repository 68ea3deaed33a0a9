"""A team under attack: a private channel that no attacker is in, and rows of every model of the admin."""

from datetime import UTC, datetime, timedelta

from allauth.account.models import EmailAddress
from allauth.idp.oidc.models import Client, Token
from django.contrib.auth.models import Group, Permission
from django.utils import timezone
from django_q.models import OrmQ, Schedule, Task

from memories.models import (
    AccessGrant,
    ApiKey,
    Budget,
    Endpoint,
    Heartbeat,
    Job,
    Member,
    Person,
    Price,
    SlackConnection,
    SlackEvent,
    User,
)
from memories.pipeline.search import indexing
from tests.factories import make_call
from tests.leaks.world import NOTICE, WORKSPACE, World
from tests.workers import package

PRIVATE, PUBLIC = "secret", "plaza"
# Who attacks. `staff` has every permission and is an admin of the workspace; `clerk` has none.
ATTACKERS = ("outsider", "member", "editor", "staff", "clerk", "operator", "anonymous")
ROOT = "root"  # an operator who is in every channel: what forms hold is learned with this account
FOREIGN = "tests.workers.leave_mark"  # a function that is not one of the project's tasks
NEVER = datetime(2100, 1, 1, tzinfo=UTC)


class AttackedTeam(World):
    def build(self) -> "AttackedTeam":
        self.now = timezone.now()
        self.team = self._workspace("leaks", "T1")
        SlackConnection.objects.create(workspace=self.team)
        for role in (*ATTACKERS[:-1], "victim", ROOT):
            self.users[role] = User.objects.create(
                username=f"as-{role}",
                is_staff=role in ("staff", "clerk", "operator", ROOT),
                is_superuser=role in ("operator", ROOT),
            )
        self.users["staff"].user_permissions.set(Permission.objects.all())
        for role in ("member", "editor", "staff", "victim", "stray", ROOT):
            self.people[role] = Person.objects.create(
                workspace=self.team,
                slack_id=f"U{role.upper()}",
                name=f"{role} person",
                email=f"{role}@example.com",
                user=self.users.get(role),  # `stray` has no account
                linked_by="slack" if role in self.users else "",
            )
        for role, given in (("editor", "editor"), ("staff", "admin"), (ROOT, "admin")):
            Member.objects.create(workspace=self.team, user=self.users[role], role=given)
        insiders = ("victim", "stray", ROOT)
        self._place(self.team, PUBLIC, "public", ("member", "editor", "staff", *insiders))
        self._place(self.team, PRIVATE, "private", insiders)
        everybody = {"member", "editor", "staff", "operator", "victim", ROOT}
        self._workspaces_own(self.team, WORKSPACE, NOTICE)
        self.audiences = {place: set(everybody) for place in (PUBLIC, WORKSPACE, NOTICE)}
        self.audiences[PRIVATE] = {"victim", ROOT}
        self._rows_of_operation()
        indexing.index_pending()  # else the first form of each attacker would read it in
        return self

    def _rows_of_operation(self) -> None:
        """A row of each model that the places have none of."""
        victim = self.users["victim"]
        EmailAddress.objects.create(user=victim, email="victim@example.com", verified=True)
        Group.objects.create(name="all rights").permissions.set(Permission.objects.all())
        AccessGrant.objects.create(
            user=self.users["operator"],
            channel=self.channels[PRIVATE],
            reason="long ago",
            until=self.now - timedelta(days=1),
        )
        for place in (PRIVATE, PUBLIC):
            job = Job.objects.filter(memory__channel=self.channels[place]).first()
            make_call(job=job, model="fake", day=self.now.date(), began_at=self.now, tokens=1)
        Budget.objects.create(workspace=self.team, period="day", tokens=1)
        ApiKey.objects.issue(
            self.team, name="laptop", by=None, user=victim, scopes=[ApiKey.Scope.READ]
        )
        client = Client.objects.create(name="app", redirect_uris="https://claude.ai/callback")
        ApiKey.objects.connect(client, victim, self.team, now=self.now)
        Token.objects.create(type="at", hash="h", client=client, user=victim)
        Endpoint.objects.create(fingerprint="f", name="http://localhost/", needs_person=True)
        Heartbeat.objects.create(name="worker", at=self.now)
        Price.objects.create(model="fake", input_price=1, output_price=1)
        SlackEvent.objects.create(event_id="Ev1", team_id="T1", kind="message", state="failed")
        times = {"started": self.now, "stopped": self.now}
        for name, success in (("success", True), ("failure", False)):
            Task.objects.create(id=name, name=name, func=FOREIGN, success=success, **times)
        # Neither runs unless somebody makes it due.
        Schedule.objects.create(name="canary", func=FOREIGN, next_run=NEVER, schedule_type="O")
        OrmQ.objects.create(key="memoryhub", payload=package(FOREIGN, "canary"), lock=NEVER)
