"""The audit log in the admin."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import reverse

from memories.admin.audit import ACTION_LABELS
from memories.models import AuditEvent

LIST = "admin:memories_auditevent_changelist"


def recorded_actions() -> Iterator[str]:
    """Return the literal action names in the code."""
    for path in (Path(settings.BASE_DIR) / "memories").rglob("*.py"):
        prefix = "backfill_" if path.match("models/generate/backfills.py") else ""
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            if getattr(node.func, "attr", getattr(node.func, "id", "")) in ("record", "_record"):
                argument = node.args[0]
                is_conditional = isinstance(argument, ast.IfExp)
                names = [argument.body, argument.orelse] if is_conditional else [argument]
                for name in names:
                    if isinstance(name, ast.Constant):
                        yield f"{prefix}{name.value}"


@pytest.mark.slow
def test_every_action_has_a_label() -> None:
    actions = set(recorded_actions())
    assert {"login", "channel_opt_out", "backfill_start", "admin_change"} <= actions
    assert actions - ACTION_LABELS.keys() == set()


@pytest.fixture
def operator(operator):
    AuditEvent.objects.record("memory_edit", by=operator, subject="memory 7", version=3)
    return operator


def test_the_list_shows_labels(client, operator) -> None:
    page = client.get(reverse(LIST)).content.decode()
    assert "edited a memory" in page and "version: 3" in page
    assert "memory_edit</td>" not in page
    only = client.get(reverse(LIST), {"action": "memory_edit"})
    assert [event.action for event in only.context["cl"].result_list] == ["memory_edit"]
    event = AuditEvent.objects.get(action="memory_edit")
    shown = client.get(reverse("admin:memories_auditevent_change", args=[event.pk]))
    assert "edited a memory" in shown.content.decode()
    assert shown.context["has_change_permission"] is False


def test_an_action_without_a_label_is_shown_by_its_name(client, operator) -> None:
    AuditEvent.objects.record("of_an_older_time", by=operator)
    assert "of_an_older_time" in client.get(reverse(LIST)).content.decode()
