"""django-q2's tables in the admin, read-only and for operators."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone
from django_q.models import OrmQ, Schedule, Task

from tests.factories import UserFactory
from tests.workers import package

pytestmark = pytest.mark.django_db

CANARY = "canaryyellow"
TABLES = ("schedule", "success", "failure", "ormq")


@pytest.fixture
def rows():
    """Create a row in each table, with private text in its arguments and results."""
    given = {"args": (CANARY,), "kwargs": {"word": CANARY}, "group": CANARY, "hook": CANARY}
    times = {"started": timezone.now() - timedelta(seconds=2), "stopped": timezone.now()}
    keys = {}
    for table, success in (("success", True), ("failure", False)):
        func = "memories.tasks.tick"
        task = Task.objects.create(
            id=table, name="one", func=func, result=CANARY, success=success, **given, **times
        )
        keys[table] = task.pk
    payload = package("memories.tasks.tick", CANARY)
    keys["ormq"] = OrmQ.objects.create(key="memoryhub", payload=payload, lock=timezone.now()).pk
    keys["schedule"] = Schedule.objects.create(
        name="mine", func="memories.tasks.tick", args=repr(CANARY), kwargs=repr({"word": CANARY})
    ).pk
    return keys


def path(table, page, *args):
    return reverse(f"admin:django_q_{table}_{page}", args=args)


@pytest.fixture(params=["operator", "staff"])
def who(request, client):
    user = UserFactory(is_staff=True, is_superuser=request.param == "operator")
    user.user_permissions.set(Permission.objects.all())
    client.force_login(user)
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_the_tables_are_read_only(client, rows, who, table):
    evil = {"func": "subprocess.check_output", "args": "['id']", "schedule_type": "O", "repeats": 1}
    before = list(Schedule.objects.values()), list(Task.objects.values_list("pk", "func"))
    assert client.get(path(table, "add")).status_code == 403
    assert client.post(path(table, "add"), evil).status_code == 403
    assert client.post(path(table, "change", rows[table]), evil).status_code in (302, 403)
    assert client.post(path(table, "delete", rows[table]), {"post": "yes"}).status_code in (
        302,
        403,
    )
    for action in ("resubmit_task", "delete_selected"):
        data = {"action": action, "_selected_action": [rows[table]], "post": "yes"}
        client.post(path(table, "changelist"), data)
    assert before == (list(Schedule.objects.values()), list(Task.objects.values_list("pk", "func")))
    assert OrmQ.objects.count() == 1


@pytest.mark.parametrize("table", TABLES)
def test_operators_see_no_arguments_or_results(client, rows, who, table):
    listed = client.get(path(table, "changelist"))
    assert listed.context["cl"].result_count == (1 if who == "operator" else 0)
    shown = [listed.content.decode()]
    if who == "operator":
        page = client.get(path(table, "change", rows[table]))
        assert page.status_code == 200
        shown.append(page.content.decode())
        shown.append(client.get(f"{path(table, 'changelist')}?q=canary").content.decode())
        assert ("memories.tasks.tick" in shown[1]) is (table != "ormq")
    assert not any(CANARY in text for text in shown)
