"""The record of who did what, in the admin: in words, and as quick with many rows."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memories.admin.audit import ACTION_LABELS
from memories.models import AuditEvent
from tests.factories import UserFactory

LIST = "admin:memories_auditevent_changelist"


def recorded() -> Iterator[str]:
    """The actions that the code names outright where it records them."""
    for path in (Path(settings.BASE_DIR) / "memories").rglob("*.py"):
        verbs = "backfill_" if path.match("models/backfills.py") else ""
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            if getattr(node.func, "attr", getattr(node.func, "id", "")) in ("record", "_record"):
                given = node.args[0]
                named = [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]
                for name in named:
                    if isinstance(name, ast.Constant):
                        yield f"{verbs}{name.value}"


@pytest.mark.slow
def test_every_action_has_its_words() -> None:
    found = set(recorded())
    assert {"login", "channel_opt_out", "backfill_start", "admin_change"} <= found
    assert found - ACTION_LABELS.keys() == set()


@pytest.fixture
def operator(client, db):
    user = UserFactory(username="boss", is_staff=True, is_superuser=True)
    client.force_login(user)
    AuditEvent.objects.record("memory_edit", by=user, subject="memory 7", version=3)
    return user


def test_it_is_told_in_words(client, operator) -> None:
    page = client.get(reverse(LIST)).content.decode()
    assert "edited a memory" in page and "version: 3" in page
    assert "memory_edit</td>" not in page
    only = client.get(reverse(LIST), {"action": "memory_edit"})
    assert [event.action for event in only.context["cl"].result_list] == ["memory_edit"]
    event = AuditEvent.objects.get(action="memory_edit")
    shown = client.get(reverse("admin:memories_auditevent_change", args=[event.pk]))
    assert "edited a memory" in shown.content.decode()
    assert shown.context["has_change_permission"] is False


def test_an_action_without_words_is_told_by_its_name(client, operator) -> None:
    AuditEvent.objects.record("of_an_older_time", by=operator)
    assert "of_an_older_time" in client.get(reverse(LIST)).content.decode()


def test_a_hundred_rows_ask_no_more_than_ten(client, operator) -> None:
    asked = []
    for rows in (10, 100):
        while AuditEvent.objects.count() < rows:
            AuditEvent.objects.record("login", by=operator)
        client.get(reverse(LIST))
        with CaptureQueriesContext(connection) as queries:
            assert client.get(reverse(LIST)).status_code == 200
        asked.append(len(queries))
    assert asked[0] == asked[1]
