"""Who may add, change and delete what in the admin, and why nobody gains anything by it.

A model that is new there says so in this table, with its reason.
"""

import pytest
from django.contrib import admin
from django.test import RequestFactory
from django.urls import reverse

from memories.models import User
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
)

pytestmark = pytest.mark.django_db

NOTHING, ALL = "", "add change delete"

# model: (what staff with every right of Django's may do, what an operator may do, why that lets nobody
# run code, become somebody else, or read private text)
TABLE = {
    "account.emailaddress": (NOTHING, NOTHING, "a verified one links a person: a login says so"),
    "auth.group": (NOTHING, ALL, "gives Django's rights to many"),
    "django_q.failure": (NOTHING, NOTHING, "a worker's own; arguments and results are not shown"),
    "django_q.ormq": (NOTHING, NOTHING, "a worker's own; payloads are not read"),
    "django_q.schedule": (NOTHING, NOTHING, "a worker runs what it names, from our tasks alone"),
    "django_q.success": (NOTHING, NOTHING, "a worker's own; arguments and results are not shown"),
    "memories.auditevent": (NOTHING, NOTHING, "the record, append-only"),
    "memories.backfill": (NOTHING, NOTHING, "pause, resume and cancel of what is visible"),
    "memories.modelcall": (NOTHING, NOTHING, "numbers of calls to a model"),
    "memories.budget": (ALL, ALL, "limits of tokens and money"),
    "memories.channel": ("change", "change", "visible ones; only whether bots are summarized"),
    "memories.channelmember": (NOTHING, NOTHING, "who reads a private channel: Slack says so"),
    "memories.endpoint": (NOTHING, NOTHING, "allow calls again"),
    "memories.job": ("change", "change", "retry, cancel; editors decide about visible proposals"),
    "memories.heartbeat": (NOTHING, NOTHING, "heartbeats of workers"),
    "memories.member": (NOTHING, NOTHING, "roles are given on the page of people, by its admins"),
    "memories.memory": ("change", "change", "a new version of a visible one"),
    "memories.memoryversion": (NOTHING, NOTHING, "history; restores a visible one"),
    "memories.message": (NOTHING, NOTHING, "what Slack says; forgets visible ones"),
    "memories.note": (ALL, ALL, "in a visible place"),
    "memories.accessgrant": (NOTHING, "add", "the access grant: a reason, an hour, the record"),
    "memories.person": ("change", "change", "linked by operators: a reason, an hour, the record"),
    "memories.price": (ALL, ALL, "prices of tokens"),
    "memories.apikey": (NOTHING, "add", "reads as its operator or public channels; shown once"),
    "memories.proposal": ("change", "change", "editors decide about visible ones"),
    "memories.quarantinedline": (NOTHING, NOTHING, "rejects visible ones"),
    "memories.segment": (NOTHING, NOTHING, "windows of visible channels"),
    "memories.slackconnection": ("add change", "add change", "a bot token goes in, none comes out"),
    "memories.slackevent": (NOTHING, NOTHING, "retry what failed"),
    "memories.user": ("change delete", ALL, "staff change first and last names alone"),
    "memories.workspace": ("add change", "add change", "names and settings; staff no team id"),
}


@pytest.fixture
def request_of():
    def made(user):
        request = RequestFactory().get("/admin/")
        request.user = User.objects.get(pk=user.pk)
        return request

    return made


def allowed(model, request):
    model_admin = admin.site.get_model_admin(model)
    rights = {
        "add": model_admin.has_add_permission(request),
        "change": model_admin.has_change_permission(request),
        "delete": model_admin.has_delete_permission(request),
    }
    return " ".join(name for name, may in rights.items() if may)


@pytest.fixture
def clerk(clerk):
    MemberFactory(workspace=WorkspaceFactory(slug="team"), user=clerk, role="admin")
    return clerk


def test_every_model_has_the_rights_of_the_table(request_of, clerk):
    boss = request_of(UserFactory(is_staff=True, is_superuser=True))
    staff = request_of(clerk)
    actual = {
        model._meta.label_lower: (allowed(model, staff), allowed(model, boss))
        for model in admin.site._registry
    }
    assert actual == {name: rights[:2] for name, rights in TABLE.items()}


@pytest.mark.parametrize(
    ("name", "key", "fields"),
    [
        ("user", "clerk", {"first_name", "last_name"}),
        ("user", "other", {"first_name", "last_name"}),
        ("person", "person", {"reason"}),
        ("channel", "channel", {"remember_bots"}),
    ],
)
def test_staff_can_change_only_these_fields(client, clerk, name, key, fields):
    workspace = clerk.memberships.get().workspace
    rows = {
        "clerk": clerk,
        "other": UserFactory(),
        "person": PersonFactory(workspace=workspace),
        "channel": ChannelFactory(workspace=workspace),
    }
    client.force_login(clerk)
    page = client.get(reverse(f"admin:memories_{name}_change", args=[rows[key].pk]))
    form = page.context["adminform"].form
    assert {name for name, field in form.fields.items() if not field.disabled} == fields


def test_staff_cannot_change_the_team_of_a_workspace(client, clerk):
    client.force_login(clerk)
    workspace = clerk.memberships.get().workspace
    path = reverse("admin:memories_workspace_change", args=[workspace.pk])
    form = client.get(path).context["adminform"].form
    assert "team_id" not in form.fields and "name" in form.fields
